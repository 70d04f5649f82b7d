r"""Pace ratio (section 4.3): the price rises when money runs out faster than time.

pace_t = (B_t / B_0) / max((T - t) / T, least_time),
lambda_t = threshold / max(pace_t, least_pace).

>>> state = PACE_RATIO.fresh(threshold=0.01)
>>> float(price(state, 0.5, 0.5)), float(price(state, 0.25, 0.5))  # half the pace doubles the price
(0.01, 0.02)
"""

from __future__ import annotations

from typing import NamedTuple

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout


class State(NamedTuple):
    """The base threshold lambda and the two lower limits."""

    threshold: float
    least_pace: float
    least_time: float


LAYOUT = Layout(State)


@jit
def price(pacer: State, budget_left: float, time_left: float) -> float:
    """lambda_t"""
    pace = budget_left / max(time_left, pacer.least_time)
    return pacer.threshold / max(pace, pacer.least_pace)


PACE_RATIO = Component(
    name="pace-ratio",
    about="pace ratio",
    parameters={
        "threshold": Parameter(
            1e-3,
            0.0,
            1e6,
            "the price while money and time run out together, in effect per currency unit; "
            "raise it to be choosier",
        ),
        "least_pace": Parameter(
            0.1,
            1e-9,
            1e6,
            "the smallest pace that counts, which caps the price at threshold / least_pace; "
            "seldom changed",
        ),
        "least_time": Parameter(
            0.01,
            1e-9,
            1.0,
            "the smallest share of time left that counts; keeps the last users from a price "
            "of 0; seldom changed",
        ),
    },
    layout=LAYOUT,
    kernels={"price": price},
)
