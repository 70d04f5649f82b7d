"""The log of a trial refuses what is not one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bccb import InputError, Log


def log_of(**fields: Any) -> Log:
    plain = {
        "features": np.zeros((3, 2)),
        "actions": [0, 1, 1],
        "outcomes": [0, 0, 1],
        "micros": [[1], [1], [1]],
    }
    return Log(**{**plain, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"features": [[0, 0], [0, math.nan], [0, 0]]}, "feature x1 of row 1 is nan, but must be"),
        (
            {"features": [[0, 0], [0, math.inf], [0, 0]], "feature_names": ("age", "size")},
            "feature size of row 1 is inf, but must be a finite number",
        ),
        (
            {"micros": [[1], [0], [1]]},
            "the cost in micros of row 1 is 0, but must be from 1 to 1000000000000",
        ),
        ({"micros": [[1], [1], [0.5]]}, "micros is .*, but must be whole numbers"),
        ({"micros": [[1], [1], [math.nan]]}, "micros is .*, but must be whole numbers"),
        ({"outcomes": [0, 2, 0]}, "outcome of row 1 is 2.0, but must be from 0 to 1"),
        ({"outcomes": [0, math.nan, 0]}, "outcome of row 1 is nan"),
        ({"actions": [0, 1, 2]}, "action of row 2 is 2, but must be from 0 to 1"),
        ({"actions": [0, 1]}, r"the shape of actions is \(2,\), but must be \(3,\)"),
        ({"features": np.zeros(3)}, "the shape of features and of micros"),
        ({"micros": np.zeros((3, 0))}, "with at least 1 user, 1 treatment"),
        ({"actions": [0.5, 1, 0]}, "actions is .*, but must be whole numbers"),
        ({"actions": ["a", "b", "c"]}, "actions is .*, but must be whole numbers"),
        ({"outcomes": ["a", "b", "c"]}, "outcomes is .*, but must be numbers"),
        ({"effects": [[0], [math.nan], [0]]}, "effect of row 1 is nan, but must be from -1 to 1"),
        ({"feature_names": ("age",)}, "the number of feature_names is 1, but must be 2"),
        ({"treatment_names": ("a", "b")}, "the number of treatment_names is 2, but must be 1"),
        ({"known_shares": [0.5, 0.6]}, "the sum of known_shares is 1.1, but must be 1"),
        ({"known_shares": [0.0, 1.0]}, "known_share of row 0 is 0.0, but must be above 0"),
        ({"features": np.zeros((2, 2))}, "the shape of features"),
        ({"probabilities": [0.5, 0, 1]}, "probability of row 1 is 0.0, but must be above 0"),
        ({"probabilities": [0.5, 1.5, 1]}, "probability of row 1 is 1.5, but must be .* at most 1"),
        ({"probabilities": [0.5, 1, math.nan]}, "probability of row 2 is nan, but must be above"),
        ({"probabilities": [0.5]}, r"the shape of probabilities is \(1,\), but must be \(3,\)"),
        ({"effects": np.zeros((3, 2))}, r"the shape of effects is \(3, 2\), but must be \(3, 1\)"),
        ({"known_shares": np.ones(3)}, "the shape of known_shares"),
    ],
)
def test_a_log_refuses_in_one_sentence(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        log_of(**fields)


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(InputError, match="with at least 1 user, 1 treatment"):
        Log(np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 1), np.int64))


def test_rows_can_be_taken_and_keep_the_shares_of_the_trial() -> None:
    log = log_of(effects=np.array([[0.1], [0.2], [0.3]]), probabilities=[0.5, 0.6, 0.7])
    part = log.take(np.array([2, 1]))
    assert part.users == 2
    assert part.effects is not None
    assert part.effects.tolist() == [[0.3], [0.2]]
    assert part.probabilities is not None
    assert part.probabilities.tolist() == [0.7, 0.6]
    assert part.shares.tolist() == log.shares.tolist()


def test_arrays_that_are_read_only_are_copied() -> None:
    outcomes = np.array([0.0, 0.0, 1.0])
    assert log_of(outcomes=outcomes).outcomes is outcomes
    outcomes.flags.writeable = False
    log = log_of(outcomes=outcomes)
    assert log.outcomes.flags.writeable
    assert log.outcomes.tolist() == outcomes.tolist()
