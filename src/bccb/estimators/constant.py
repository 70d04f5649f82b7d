"""A constant: every treatment has the same effect on every user, tau_k(x) = effect.

>>> import numpy as np
>>> effect = np.zeros(2)
>>> predict(CONSTANT.fresh(K=2, effect=0.5), np.ones(1), effect, np.zeros(2)), effect.tolist()
(True, [0.5, 0.5])
"""

from __future__ import annotations

from typing import NamedTuple

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import fill
from bccb.types import Floats


class State(NamedTuple):
    """The effect."""

    effect: float


LAYOUT = Layout(State)


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k = effect"""
    fill(effect, estimator.effect)
    fill(spread, 0.0)
    return True


CONSTANT = Component(
    name="constant",
    about="constant",
    parameters={
        "effect": Parameter(
            1.0,
            -1e6,
            1e6,
            "the effect of every treatment on everybody; only its sign and its ratio to the "
            "price matter",
        )
    },
    layout=LAYOUT,
    kernels={"predict": predict},
)
