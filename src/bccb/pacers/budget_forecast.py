r"""Budget forecast: the price at which the recent users would just spend what is left.

Over a window of recent users with their scores s_ik = tau_k(x_i) + b_k at their decision,

    lambda = min { l >= 0 : mean_i c_i,k*(l) <= left per user to come },
    k*(l) = argmax_k s_ik - l c_ik,

where k* = 0, at no cost, if no treatment scores above zero. The cost of a user falls as l rises, so
bisection finds the price; a user who costs the same at both ends of the bracket is not looked at
again. The price is updated before the first decision if there was history, after users 1, 2, 4, ...
and then after every ``every`` users. Until the window is full, only its later half counts, because
the first scores of a policy that learns are not reliable.

A policy that learns should spend faster at first, because what it learns is of use for all later
users: after t users, what is left is multiplied by (t + (2 - u) haste) / (t + haste). u is the
share of their outcomes that is not known yet: where outcomes come late, to spend fast is to spend
blindly.

Where many users have the same score per unit of cost, the spend jumps at one price, from more than
is left to less. Then the pacer chooses between the two prices beside the jump for each user: the
lower one while the share of the budget that is left is larger than that of the time.

Three users with scores 0.3, 0.2 and 0.1, each at cost 1. With money for every third user, the price
lets only the first one through:

>>> state = BUDGET_FORECAST.fresh()
>>> for score in (0.3, 0.2, 0.1):
...     note_arrival(state, np.array([score]), np.ones(1))
>>> forecast(state, 1 / 3, True)
>>> round(price(state, 0.5, 0.5), 3)
0.2
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.soundness import LARGE, counted, within
from bccb.money import LEAST_COST, MICROS, MOST_COST
from bccb.types import Floats

WINDOW = 2_000
NEARBY = 0.1  # relative change of the price that is hardly ever exceeded
CLOSE = 1e-7  # relative distance of the two prices


class State(NamedTuple):
    """The window, as a ring, and the prices from it."""

    every: float
    haste: float
    seen: Annotated[Floats, "1"]
    unknown: Annotated[Floats, "1"]  # the share of outcomes that is not known yet
    prices: Annotated[Floats, "2"]  # the largest that spends too much, the smallest that does not
    score: Annotated[Floats, "WINDOW", "K"]
    costs: Annotated[Floats, "WINDOW", "K"]


LAYOUT = Layout(State)


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether memory holds recent users and prices from them."""
    state = LAYOUT.view(memory, d, K)
    low, high = state.prices.tolist()
    recent = state.costs[: int(min(state.seen[0], WINDOW))]
    return (
        counted(state.seen)
        and within(state.unknown, 0.0, 1.0)
        and 0.0 <= low <= high <= LARGE
        and within(state.score, -LARGE, LARGE)
        and within(recent, LEAST_COST / MICROS, MOST_COST / MICROS)
    )


@jit
def note_arrival(pacer: State, score: Floats, costs: Floats) -> None:
    """Add the user to the ring."""
    i = int(pacer.seen[0]) % WINDOW
    for k in range(costs.shape[0]):
        pacer.score[i, k] = score[k]
        pacer.costs[i, k] = costs[k]
    pacer.seen[0] += 1.0


@jit
def note_unknown(pacer: State, share: float) -> None:
    """Remember how much is not known yet."""
    pacer.unknown[0] = share


@jit
def forecast(pacer: State, left: float, first: bool) -> None:
    """Find the price, if an update is due."""
    seen = int(pacer.seen[0])
    early = seen <= pacer.every and seen & (seen - 1) == 0
    if seen == 0 or not (first or early or seen % int(pacer.every) == 0):
        return
    begin, end = (seen // 2, seen) if seen < WINDOW else (0, WINDOW)
    left *= (seen + (2.0 - pacer.unknown[0]) * pacer.haste) / (seen + pacer.haste)
    pacer.prices[0], pacer.prices[1] = bracket(
        pacer.score[begin:end], pacer.costs[begin:end], left, pacer.prices[1], CLOSE
    )


@jit
def exhausting_price(score: Floats, costs: Floats, left: float) -> float:
    """The smallest price at which the mean spend is at most ``left``."""
    return bracket(score, costs, left, 0.0, 1e-15)[1]


@jit
def bracket(
    score: Floats, costs: Floats, left: float, guess: float, close: float
) -> tuple[float, float]:
    """The two prices, next to each other, between which the mean spend falls to ``left``."""
    low, high = surround(score, costs, left, guess)
    n, settled = score.shape[0], 0.0  # the cost of users who cost the same at low and high
    undecided = np.arange(n)
    middle = 0.5 * (low + high)
    while high - low > close * high and low < middle < high:
        kept, total = 0, 0.0
        for a in range(n):
            i = undecided[a]
            cost = cost_at(score, costs, i, low)
            if cost == cost_at(score, costs, i, high):
                settled += cost
            else:
                undecided[kept] = i
                kept += 1
                total += cost_at(score, costs, i, middle)
        n = kept
        if settled + total <= left * score.shape[0]:
            high = middle
        else:
            low = middle
        middle = 0.5 * (low + high)
    return low, high


@jit
def surround(score: Floats, costs: Floats, left: float, guess: float) -> tuple[float, float]:
    """A price that spends too much and a higher one that does not; both 0 if 0 does not."""
    low = 0.0
    for price in ((1.0 - NEARBY) * guess, (1.0 + NEARBY) * guess):
        if mean_spend(score, costs, price) <= left:
            if low > 0.0 or mean_spend(score, costs, 0.0) > left:
                return low, price
            return 0.0, 0.0
        low = price
    highest = 0.0
    for i in range(score.shape[0]):
        for k in range(score.shape[1]):
            highest = max(highest, score[i, k] / costs[i, k])
    return low, highest * (1.0 + 1e-12)  # here every score is below price times cost


@jit
def cost_at(score: Floats, costs: Floats, i: int, price: float) -> float:
    """The cost of user i at this price."""
    largest, cost = 0.0, 0.0
    for k in range(score.shape[1]):
        value = score[i, k] - price * costs[i, k]
        if value > largest:
            largest, cost = value, costs[i, k]
    return cost


@jit
def mean_spend(score: Floats, costs: Floats, price: float) -> float:
    """The average cost of a user at this price."""
    total = 0.0
    for i in range(score.shape[0]):
        total += cost_at(score, costs, i, price)
    return total / float(score.shape[0])


@jit
def price(pacer: State, budget_left: float, time_left: float) -> float:
    """The last price; of two, the lower one while spending is behind time."""
    return float(pacer.prices[0] if budget_left > time_left else pacer.prices[1])


BUDGET_FORECAST = Component(
    name="budget-forecast",
    about="forecast",
    parameters={
        "every": Parameter(
            250.0,
            1.0,
            1e9,
            "users between two forecasts; lower it where the users who come change within minutes",
        ),
        "haste": Parameter(
            0.0,
            0.0,
            1e9,
            "users over which spending is faster at first, up to twice as fast; for "
            "policies that learn, about 2 % of the users",
        ),
    },
    layout=LAYOUT,
    sound=sound,
    kernels={
        "note_arrival": note_arrival,
        "note_unknown": note_unknown,
        "forecast": forecast,
        "price": price,
    },
)
