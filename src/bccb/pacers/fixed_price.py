"""Fixed price: lambda is a constant, set before the first user."""

from __future__ import annotations

from typing import NamedTuple

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.types import Floats


class State(NamedTuple):
    """The price."""

    threshold: float


@jit
def view_pacer(memory: Floats, d: int, K: int) -> State:
    """See the memory as State."""
    return State(memory[0])


@jit
def price(pacer: State, budget_left: float, time_left: float) -> float:
    """Lambda"""
    return pacer.threshold


FIXED_PRICE = Component(
    name="fixed-price",
    about="fixed price",
    parameters={"threshold": Parameter(1e-3, 0.0, 1e6)},
    size=lambda d, K: 1,
    kernels={"view_pacer": view_pacer, "price": price},
)
