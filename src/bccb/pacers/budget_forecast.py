r"""Budget forecast: the price at which the recent users would just spend what is left.

Over a window of recent users with today's scores s_ik = tau_k(x_i) + b_k,

    lambda = min { l >= 0 : mean_i c_i,k*(l) <= left per user to come },
    k*(l) = argmax_k s_ik - l c_ik,

where k* = 0, at no cost, if no treatment scores above zero. The spend falls as l rises, so that
bisection finds it. Looked up at users 1, 2, 4, ... and then every ``every`` users.

Where many users have the same score per unit of cost, the spend jumps there, from more than is left
to less. Between the two prices beside the jump the pacer then chooses user by user: the lower one
while a larger share of the budget than of the time is left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.linalg import copy
from bccb.kernels.scaling import Scaler
from bccb.kernels.scaling import standardise as prepare
from bccb.kernels.slots import explore, predict  # bind puts a policy's own in their place
from bccb.types import Floats

WINDOW = 2_000
HALVINGS = 50
ROUNDING = 1e-12
REHEARSAL = 1 << 60  # draws for the window must not be those of any decision


class State(NamedTuple):
    """The window, as a ring, and the price that it gave."""

    every: float
    seen: Floats  # (1,)
    prices: Floats  # (2,), the largest that spends too much, the smallest that does not
    x: Floats  # (WINDOW, d)
    costs: Floats  # (WINDOW, K)
    score: Floats  # (WINDOW, K), work space


def size(d: int, K: int) -> int:
    """The number of slots."""
    return 4 + WINDOW * (d + 2 * K)


@jit
def view_pacer(memory: Floats, d: int, K: int) -> State:
    """See the memory as State."""
    first, second = 4 + WINDOW * d, 4 + WINDOW * (d + K)
    return State(
        memory[0],
        memory[1:2],
        memory[2:4],
        memory[4:first].reshape(WINDOW, d),
        memory[first:second].reshape(WINDOW, K),
        memory[second : second + WINDOW * K].reshape(WINDOW, K),
    )


@jit
def note_arrival(pacer: State, x: Floats, costs: Floats) -> None:
    """Put the user into the ring."""
    i = int(pacer.seen[0]) % WINDOW
    copy(pacer.x[i], x)
    copy(pacer.costs[i], costs)
    pacer.seen[0] += 1.0


@jit
def forecast(
    pacer: State,
    estimator: Any,
    explorer: Any,
    scaler: Scaler,
    number: int,
    left: float,
) -> None:
    """Score the window with today's model and find the price, where that is due."""
    seen = int(pacer.seen[0])
    if seen % int(pacer.every) != 0 and (seen & (seen - 1) != 0 or seen > pacer.every):
        return
    n = min(seen, WINDOW)
    d, K = pacer.x.shape[1], pacer.costs.shape[1]
    z, effect, spread, bonus = np.empty(d + 1), np.empty(K), np.empty(K), np.empty(K)
    for i in range(n):
        prepare(scaler, pacer.x[i], z)
        predict(estimator, z, effect, spread)
        # As after warm-up: a coin's forced bonus would be mistaken for an effect. Whatever the
        # policy's seed: the price must be known when the probability of an action is computed.
        explore(explorer, 0, REHEARSAL + number * WINDOW + i, spread, True, bonus)
        for k in range(K):
            pacer.score[i, k] = effect[k] + bonus[k]
    pacer.prices[0], pacer.prices[1] = bracket(pacer.score[:n], pacer.costs[:n], left)


@jit
def exhausting_price(score: Floats, costs: Floats, left: float) -> float:
    """The smallest price at which the mean spend is at most ``left``."""
    return bracket(score, costs, left)[1]


@jit
def bracket(score: Floats, costs: Floats, left: float) -> tuple[float, float]:
    """The two prices, next to each other, between which the mean spend falls to ``left``."""
    highest = 0.0
    for i in range(score.shape[0]):
        for k in range(score.shape[1]):
            highest = max(highest, score[i, k] / costs[i, k])
    low, high = 0.0, highest * (1.0 + ROUNDING)  # where every score is surely below its cost
    if mean_spend(score, costs, low) <= left:
        return low, low
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if mean_spend(score, costs, middle) <= left:
            high = middle
        else:
            low = middle
    return low, high


@jit
def mean_spend(score: Floats, costs: Floats, price: float) -> float:
    """What a user costs on average at this price."""
    total = 0.0
    for i in range(score.shape[0]):
        largest, cost = 0.0, 0.0
        for k in range(score.shape[1]):
            value = score[i, k] - price * costs[i, k]
            if value > largest:
                largest, cost = value, costs[i, k]
        total += cost
    return total / float(score.shape[0])


@jit
def price(pacer: State, budget_left: float, time_left: float) -> float:
    """The price found last: the lower one while spending is behind time."""
    return float(pacer.prices[0] if budget_left > time_left else pacer.prices[1])


BUDGET_FORECAST = Component(
    name="budget-forecast",
    about="budget forecast",
    parameters={"every": Parameter(250.0, 1.0)},
    size=size,
    kernels={
        "view_pacer": view_pacer,
        "note_arrival": note_arrival,
        "forecast": forecast,
        "price": price,
    },
)
