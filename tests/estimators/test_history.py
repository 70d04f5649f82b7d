"""History by arm: whole, or refused by the arm's name."""

from __future__ import annotations

import numpy as np
import pytest

from bccb.errors import FitError
from bccb.estimators.history import by_arm
from bccb.types import Floats, Log


def history(n: int = 300, d: int = 3, K: int = 2) -> Log:
    rng = np.random.default_rng(0)
    outcomes = (rng.random(n) < 0.3).astype(float)
    return Log(rng.normal(size=(n, d)), np.arange(n) % (K + 1), outcomes, np.full((n, K), 500_000))


def with_outcomes(log: Log, arm: int, outcomes: float | Floats) -> Log:
    changed = log.outcomes.copy()
    changed[log.actions == arm] = outcomes
    return Log(log.features, log.actions, changed, log.micros)


def test_every_row_stands_in_its_arm() -> None:
    log = history()
    arms = by_arm(log)
    assert len(arms) == 3
    for arm, (features, outcomes) in enumerate(arms):
        np.testing.assert_array_equal(features, log.features[arm::3])
        np.testing.assert_array_equal(outcomes, log.outcomes[arm::3])


@pytest.mark.parametrize(
    ("arm", "outcome", "message"),
    [
        (0, 0.0, r"^history of \d+ rows in the control has only outcome 0: nothing to fit$"),
        (1, 1.0, r"^history of \d+ rows in treatment 1 has only outcome 1: nothing to fit$"),
        (2, 0.0, r"^history of \d+ rows in treatment 2 has only outcome 0: nothing to fit$"),
        (2, 0.5, r"^history of \d+ rows in treatment 2 has only outcome 0.5: nothing to fit$"),
    ],
)
def test_one_class_in_an_arm_is_refused_by_the_arms_name(
    arm: int, outcome: float, message: str
) -> None:
    with pytest.raises(FitError, match=message):
        by_arm(with_outcomes(history(), arm, outcome))


def test_no_rows_in_an_arm_are_refused() -> None:
    log = history()
    with pytest.raises(FitError, match="0 rows in treatment 2 has no rows: nothing to fit"):
        by_arm(log.take(np.flatnonzero(log.actions < 2)))


def test_fractional_outcomes_are_refused() -> None:
    log = history()
    rates = np.random.default_rng(1).random(int((log.actions == 1).sum()))
    with pytest.raises(FitError, match="treatment 1 has outcomes other than 0 and 1"):
        by_arm(with_outcomes(log, 1, rates))


def test_no_features_are_refused() -> None:
    with pytest.raises(FitError, match="no features"):
        by_arm(history(d=0))
