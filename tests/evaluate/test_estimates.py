"""The three estimators against naive loops that follow the equations row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from bccb.evaluate.estimates import (
    Estimate,
    Weighted,
    effective_size,
    estimate_proposed,
    estimate_treated,
)
from bccb.types import Floats

Z = 1.959963984540054
GENERATOR = np.random.default_rng(3)
USERS = 200
ALONE = GENERATOR.uniform(0.2, 0.9, USERS)  # p_0
ACTIONS = (GENERATOR.random(USERS) > ALONE).astype(np.int64)
OUTCOMES = (GENERATOR.random(USERS) < 0.3 + 0.2 * ACTIONS).astype(np.float64)
RATES = GENERATOR.uniform(0.2, 0.5, (USERS, 2))


def naive_total(
    arm: int, weights: Floats, guess: Floats, guessed: float
) -> tuple[float, float, float]:
    """A weighted total, its variance and the weight of a row, by loops; the larger variance of
    the one seen and the one that the rates predict, scaled to the mean square of the rows."""
    total, seen, shape, predicted, squares, predictions, sums = (
        guessed,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
    )
    for a, y, w, c, rates in zip(ACTIONS, OUTCOMES, weights, guess, RATES, strict=True):
        if a != arm:
            continue
        m = float(rates[arm])
        total += w * (y - c)
        seen += w**2 * (y - c) ** 2
        predicted += w**2 * (m * (1 - m) + (m - c) ** 2)
        squares += (y - c) ** 2
        predictions += m * (1 - m) + (m - c) ** 2
        shape += w**2
        sums += w
    return total, max(seen, predicted * squares / predictions), shape / sums


def ends(value: float, variance: float) -> tuple[float, float]:
    """The totals T at which (value - T)^2 = z^2 variance T / value, found by bisection."""

    def excess(total: float) -> float:
        return (value - total) ** 2 - Z**2 * variance * total / value

    return float(brentq(excess, 1e-9, value)), float(brentq(excess, value, 100 * value + 100))


def assert_equals(
    result: Estimate, treated: tuple[float, float], control: tuple[float, float]
) -> None:
    assert result.incremental == pytest.approx(treated[0] - control[0])
    assert result.se == pytest.approx(math.sqrt(treated[1] + control[1]))
    (low_1, high_1), (low_0, high_0) = ends(*treated), ends(*control)
    below = math.hypot(treated[0] - low_1, high_0 - control[0])
    above = math.hypot(high_1 - treated[0], control[0] - low_0)
    assert result.low == pytest.approx(result.incremental - below)
    assert result.high == pytest.approx(result.incremental + above)


def test_what_treatments_caused_equals_a_naive_loop() -> None:
    odds, treated = (1 - ALONE) / ALONE, ACTIONS > 0
    T = int(treated.sum())
    anyway = float(np.average(OUTCOMES[~treated], weights=odds[~treated]))
    guesses = {
        "IPW": (odds, np.zeros(USERS)),
        "SNIPS": (odds * T / odds[~treated].sum(), np.full(USERS, anyway)),
        "DR": (odds, RATES[:, 0]),
    }
    control = Weighted(np.where(treated, 0, odds), RATES[:, 0])
    for result in estimate_treated(OUTCOMES, treated, control):
        weights, guess = guesses.pop(result.method)
        value, variance, _ = naive_total(0, weights, guess, float(guess[treated].sum()))
        conversions = float(OUTCOMES[treated].sum())
        effect = (conversions - value) / T
        both = OUTCOMES[treated], guess[treated]
        squares = sum((y - m - effect) ** 2 for y, m in zip(*both, strict=True))
        assert_equals(result, (conversions, squares), (value, variance))
    assert not guesses


def test_what_proposals_would_cause_equals_a_naive_loop() -> None:
    inverse = {0: 1 / ALONE, 1: 1 / (1 - ALONE)}
    arms = {a: Weighted(np.where(a == ACTIONS, inverse[a], 0), RATES[:, a]) for a in (0, 1)}
    for result in estimate_proposed(OUTCOMES, arms[1], arms[0]):
        totals = []
        for a in (1, 0):
            weights, guess = inverse[a], np.zeros(USERS)
            if result.method == "DR":
                guess = RATES[:, a]
            if result.method == "SNIPS":
                rows = a == ACTIONS
                weights = weights * USERS / weights[rows].sum()
                guess = np.full(USERS, np.average(OUTCOMES[rows], weights=weights[rows]))
            totals.append(naive_total(a, weights, guess, float(guess.sum()))[:2])
        assert_equals(result, *totals)


def test_without_a_conversion_left_alone_the_interval_allows_for_some() -> None:
    """A count of 0 is compatible with a mean of up to z^2, each of the weight 4."""
    treated = np.arange(100) < 80
    outcomes = np.where(np.arange(100) < 30, 1.0, 0.0)
    control = Weighted(np.where(treated, 0.0, 4.0), np.zeros(100))
    for result in estimate_treated(outcomes, treated, control):
        assert result.incremental == 30
        assert result.low < 30 - 4 * Z**2
        assert result.low > 30 - 4 * Z**2 - 3 * math.sqrt(30)


def test_with_many_conversions_the_interval_is_the_normal_one() -> None:
    treated = np.arange(200_000) % 2 == 0
    outcomes = np.where(np.arange(200_000) % 5 == 0, 1.0, 0.0)
    control = Weighted(np.where(treated, 0.0, 1.0), np.full(200_000, 0.2))
    for result in estimate_treated(outcomes, treated, control):
        assert result.low == pytest.approx(result.incremental - Z * result.se, rel=0.01)
        assert result.high == pytest.approx(result.incremental + Z * result.se, rel=0.01)


def test_a_constant_added_to_all_outcomes_changes_the_self_normalised_estimate_by_nothing() -> None:
    control = Weighted(np.where(ACTIONS == 0, 1 / ALONE - 1, 0), np.zeros(USERS))
    before = estimate_treated(OUTCOMES / 2, ACTIONS > 0, control)
    after = estimate_treated(OUTCOMES / 2 + 0.5, ACTIONS > 0, control)
    assert after[1].incremental == pytest.approx(before[1].incremental)
    assert after[1].se == pytest.approx(before[1].se)
    assert after[0].incremental != pytest.approx(before[0].incremental)


def test_in_a_trial_with_equal_shares_both_weightings_are_the_difference_of_means() -> None:
    """Whose squared standard error is the sum of the squared ones of both arms, times T^2."""
    actions = np.arange(USERS) % 2
    estimates = estimate_treated(
        OUTCOMES, actions > 0, Weighted(np.where(actions, 0.0, 1.0), np.zeros(USERS))
    )
    one, none = OUTCOMES[actions == 1], OUTCOMES[actions == 0]
    assert estimates[0].incremental == pytest.approx(100 * (one.mean() - none.mean()))
    assert estimates[1].incremental == pytest.approx(100 * (one.mean() - none.mean()))
    assert estimates[1].se == pytest.approx(100 * math.sqrt(one.var() / 100 + none.var() / 100))


def test_the_effective_size_is_the_number_of_equal_weights() -> None:
    assert effective_size(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_size(np.array([100.0, 0.001])) == pytest.approx(1, abs=1e-4)
    assert effective_size(np.zeros(3)) == 0
