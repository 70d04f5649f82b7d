"""Upper confidence: b_k = width x spread_k, a multiple of the estimator's standard error.

>>> import numpy as np
>>> bonus = np.zeros(2)
>>> explore(UPPER_CONFIDENCE.fresh(K=2, width=3.0), 0, 1, np.array([0.5, 0.1]), True, bonus)
>>> bonus.round(1).tolist()
[1.5, 0.3]
"""

from __future__ import annotations

from typing import NamedTuple

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.types import Floats


class State(NamedTuple):
    """The number of standard errors."""

    width: float


LAYOUT = Layout(State)


@jit
def explore(
    explorer: State, seed: int, number: int, spread: Floats, ready: bool, bonus: Floats
) -> None:
    """b_k = width spread_k"""
    for k in range(bonus.shape[0]):
        bonus[k] = explorer.width * spread[k]


@jit
def chance(explorer: State, margin: Floats, spread: Floats, ready: bool, action: int) -> float:
    """Nothing is random: 1 for the best action, 0 for the others."""
    best, largest = 0, 0.0
    for k in range(margin.shape[0]):
        score = margin[k] + explorer.width * spread[k]
        if score > largest:
            best, largest = k + 1, score
    return 1.0 if action == best else 0.0


UPPER_CONFIDENCE = Component(
    name="upper-confidence",
    about="upper confidence",
    parameters={
        "width": Parameter(
            1.0, 0.0, 1e6, "standard errors that are added to the effect; lower it to explore less"
        )
    },
    layout=LAYOUT,
    kernels={"explore": explore, "chance": chance},
)
