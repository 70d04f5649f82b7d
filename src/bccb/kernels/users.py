"""Which users can be decided on: those with finite features and costs in range."""

from __future__ import annotations

from bccb.errors import InputError
from bccb.kernels.jit import jit
from bccb.money import COST_RANGE, LEAST_COST, MICROS, MOST_COST
from bccb.types import FEATURE_RANGE, MOST_FEATURE, Floats, Ints


@jit
def is_sound(x: Floats, costs: Ints) -> bool:
    """Whether a user with these features and costs, in micros, can be decided on."""
    sound = True
    for j in range(x.shape[0]):
        sound = sound and abs(x[j]) <= MOST_FEATURE
    for k in range(costs.shape[0]):
        sound = sound and LEAST_COST <= costs[k] <= MOST_COST
    return sound


@jit
def first_refused(x: Floats, costs: Ints) -> int:
    """The first row that cannot be decided on, or -1."""
    for i in range(x.shape[0]):
        if not is_sound(x[i], costs[i]):
            return i
    return -1


def refusal(x: Floats, costs: Ints, where: str = "") -> InputError:
    """Why a user cannot be decided on."""
    for j, value in enumerate(x.tolist()):
        if not abs(value) <= MOST_FEATURE:
            return InputError(f"feature {j}{where}", value, FEATURE_RANGE)
    bad = next(c for c in costs.tolist() if not LEAST_COST <= c <= MOST_COST)
    return InputError(f"cost{where}", bad / MICROS, COST_RANGE)
