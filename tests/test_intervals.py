"""Intervals agree with published figures and other people's code, and hold what they are of."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bccb.intervals import Interval, Total, difference, mean_amount, newcombe, reach, wilson


@given(data=st.data(), users=st.integers(1, 100_000))
def test_the_interval_of_a_rate_is_wilsons(data: st.DataObject, users: int) -> None:
    successes = data.draw(st.integers(0, users))
    interval = stats.binomtest(successes, users).proportion_ci(method="wilson")
    estimate = wilson(successes / users, users)
    assert (estimate.low, estimate.high) == pytest.approx(interval, abs=1e-12)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


@given(st.tuples(st.floats(0, 1), st.floats(0, 1)), st.tuples(*[st.integers(1, 10_000)] * 2))
def test_the_interval_of_an_effect_holds_it_and_turns_with_it(
    rates: tuple[float, float], users: tuple[int, int]
) -> None:
    one, other = wilson(rates[0], users[0]), wilson(rates[1], users[1])
    effect, reverse = newcombe(one, other), newcombe(other, one)
    assert effect.low <= effect.value <= effect.high
    turned = Interval(-reverse.value, -reverse.high, -reverse.low)
    assert asdict(effect) == pytest.approx(asdict(turned), abs=1e-12)


def test_the_interval_of_an_effect_is_newcombes() -> None:
    """Newcombe 1998, table II, method 10, on 56/70 against 48/80."""
    effect = newcombe(wilson(56 / 70, 70), wilson(48 / 80, 80))
    assert effect.value == pytest.approx(0.2)
    assert (effect.low, effect.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


@given(value=st.floats(0.1, 1e6), spread=st.floats(1e-3, 10.0))
def test_the_ends_of_a_total_are_where_its_bound_is_met(value: float, spread: float) -> None:
    """They solve (S - T)^2 = z^2 V T / S."""
    variance = spread * value
    below, above = reach(Total(value, variance, 1.0))
    for end, distance in ((value - below, below), (value + above, above)):
        bound = stats.norm.ppf(0.975) ** 2 * variance * end / value
        assert distance**2 == pytest.approx(bound, rel=1e-6, abs=1e-9)


def test_without_conversions_a_total_may_be_a_few_that_were_not_seen() -> None:
    below, above = reach(Total(0.0, 0.0, 2.0))
    assert (below, above) == pytest.approx((0.0, 2.0 * stats.norm.ppf(0.975) ** 2))


def test_a_difference_of_totals_is_as_wide_as_both_together() -> None:
    treated, control = Total(30.0, 40.0, 1.0), Total(20.0, 25.0, 1.0)
    result, turned = difference(treated, control), difference(control, treated)
    assert asdict(result) == pytest.approx(asdict(Interval(10.0, -turned.high, -turned.low)))
    (below, _), (_, above) = reach(treated), reach(control)
    assert (10.0 - result.low) ** 2 == pytest.approx(below**2 + above**2)


def test_where_some_outcomes_are_negative_a_small_total_has_the_interval_of_its_variance() -> None:
    """Sums of +10 and -10 may be near 0 by chance: the bound in proportion to them would not be."""
    amounts = np.array([0.0] * 980 + [10.0] * 10 + [-10.0] * 9 + [-9.99])
    result, n = mean_amount(amounts), len(amounts)
    half = stats.norm.ppf(0.975) * amounts.std() / n**0.5
    assert (result.low, result.high) == pytest.approx((1e-5 - half, 1e-5 + half))
    covered = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        drawn = 10.0 * rng.choice([-1.0, 0.0, 1.0], 2_000, p=[0.1, 0.8, 0.1])
        interval = mean_amount(drawn)
        covered += interval.low <= 0.0 <= interval.high
    assert covered >= 275
