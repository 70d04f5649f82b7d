"""What a log tells of chances, and when it warns that it cannot say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bccb import Log
from bccb.evaluate.overlap import (
    OutsideOverlap,
    chance_of,
    no_balance,
    overlap_warning,
    thin_warning,
    within_overlap,
)

LOG = Log(
    features=np.zeros((3, 1)),
    actions=np.array([0, 1, 2]),
    outcomes=np.zeros(3),
    micros=np.full((3, 2), 10**6),
    known_shares=np.array([0.5, 0.25, 0.25]),
)


def test_without_probabilities_every_user_has_the_shares_of_the_trial() -> None:
    assert chance_of(LOG, 0).tolist() == [0.5] * 3
    assert chance_of(LOG, np.array([0, 2, 1])).tolist() == [0.5, 0.25, 0.25]


def test_with_several_treatments_only_the_chance_of_the_action_taken_is_known() -> None:
    log = replace(LOG, probabilities=np.array([0.6, 0.3, 0.1]))
    np.testing.assert_array_equal(chance_of(log, 0), [0.6, np.nan, np.nan])
    np.testing.assert_array_equal(chance_of(log, np.array([0, 1, 1])), [0.6, 0.3, np.nan])
    assert within_overlap(chance_of(log, 0)) is None


def test_rows_with_hardly_a_chance_are_outside_the_overlap() -> None:
    result = within_overlap(np.array([0.5, 0.0049, 0.0051, 0.0, 1.0]))
    assert result is not None
    assert result.tolist() == [True, False, True, False, True]


def test_a_hold_out_that_is_small_for_everybody_is_an_overlap() -> None:
    result = within_overlap(np.full(5, 0.002))
    assert result is not None
    assert result.all()


def test_what_is_left_out_is_reported_from_one_part_in_a_hundred_on() -> None:
    assert not overlap_warning(OutsideOverlap(0.009, 0.009), "treated users")
    assert not overlap_warning(None, "treated users")
    (said,) = overlap_warning(OutsideOverlap(0.005, 0.3), "treated users")
    assert said.startswith("0.5% of the treated users, with 30.0% of the spend, had no real chance")


@pytest.mark.parametrize(("users", "warned"), [(100, False), (150, False), (250, True), (0, True)])
def test_weights_that_do_not_add_up_are_reported(users: int, warned: bool) -> None:
    result = no_balance("They", np.ones(100), users, variance=100.0)
    assert bool(result) == warned
    assert all(f"They stand for 100 users by their probabilities, but should for {users}" in said
               for said in result)  # fmt: skip


def test_too_few_conversions_are_reported() -> None:
    outcomes = np.zeros(1_000)
    outcomes[:10] = 1.0
    assert not thin_warning("They", np.ones(1_000), outcomes)
    weights = np.ones(1_000)
    weights[0] = 50.0
    (said,) = thin_warning("They", weights, outcomes)
    assert said.startswith("They have the equivalent of 1.4 conversions (of 10 needed)")
    (said,) = thin_warning("They", np.ones(1_000), np.zeros(1_000))
    assert "the equivalent of 0.0 conversions" in said
