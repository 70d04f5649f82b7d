from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bccb.pacers.pace_ratio import LAYOUT, PACE_RATIO, State, price

PAPER = LAYOUT.view(
    np.array([parameter.default for parameter in PACE_RATIO.parameters.values()]), 3, 1
)
SHARES = st.floats(0.0, 1.0)


@pytest.mark.parametrize(
    ("budget_left", "time_left", "expected"),
    [
        (1.0, 1.0, 1e-3),  # on pace: the base threshold
        (0.5, 0.25, 5e-4),  # money is left over: half the price
        (0.25, 0.5, 2e-3),  # money runs out: twice the price
        (0.0, 0.5, 1e-2),  # the pace is taken as at least 0.1
        (0.04, 0.5, 1e-2),
        (0.5, 0.0, 1e-3 / 50.0),  # the time left is taken as at least 0.01
        (0.5, 0.004, 1e-3 / 50.0),
        (0.0, 0.0, 1e-2),
    ],
)
def test_price_is_the_papers_with_both_guards(
    budget_left: float, time_left: float, expected: float
) -> None:
    assert price(PAPER, budget_left, time_left) == pytest.approx(expected, rel=1e-12)


def test_defaults_are_the_papers() -> None:
    assert State(threshold=1e-3, least_pace=0.1, least_time=0.01) == PAPER


@given(SHARES, SHARES, st.floats(1e-6, 1.0), st.floats(1e-3, 1.0), st.floats(1e-3, 1.0))
def test_price_is_the_formula(
    budget_left: float, time_left: float, threshold: float, least_pace: float, least_time: float
) -> None:
    pace = budget_left / max(time_left, least_time)
    expected = threshold / max(pace, least_pace)
    state = State(threshold, least_pace, least_time)
    assert price(state, budget_left, time_left) == pytest.approx(expected, rel=1e-14)


@given(SHARES, SHARES, SHARES)
def test_price_falls_with_money_and_rises_with_time(one: float, two: float, other: float) -> None:
    less, more = sorted((one, two))
    assert price(PAPER, more, other) <= price(PAPER, less, other)
    assert price(PAPER, other, more) >= price(PAPER, other, less)
