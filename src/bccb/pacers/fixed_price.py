"""Fixed price: lambda is a constant, set before the first user.

>>> float(price(FIXED_PRICE.fresh(threshold=0.01), 0.1, 0.9))
0.01
"""

from __future__ import annotations

from typing import NamedTuple

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout


class State(NamedTuple):
    """The price."""

    threshold: float


LAYOUT = Layout(State)


@jit
def price(pacer: State, budget_left: float, time_left: float) -> float:
    """Lambda"""
    return pacer.threshold


FIXED_PRICE = Component(
    name="fixed-price",
    about="fixed price",
    parameters={
        "threshold": Parameter(
            1e-3,
            0.0,
            1e6,
            "the price, in effect per currency unit: 0.001 asks for one more conversion per "
            "1,000 spent",
        )
    },
    layout=LAYOUT,
    kernels={"price": price},
)
