"""Corrections of amounts that were learned: an order that came back, or that was another one.

Of the recent amounts it is known how they were learned, so that just that is taken back. Of older
ones it is not: they may have been cut elsewhere, and features were scaled otherwise.
"""

from __future__ import annotations

import math

from bccb.kernels.amounts import (
    EXACT,
    FEATURES,
    LOG,
    SIZE,
    USER,
    WEIGHT,
    Amounts,
    write_input,
)
from bccb.kernels.jit import jit
from bccb.kernels.linalg import fill
from bccb.kernels.moments import (
    EARLY,
    add,
    add_size,
    cut,
    forget,
    learn_amount,
    log_of,
    note_shape,
    size_of,
    solve_if_due,
    weigh_losses,
)
from bccb.types import Floats

FARTHEST_CORRECTION = 5.0  # how far the logarithm of a corrected amount may be: a factor of 150
NOWHERE = -1


@jit
def place_of(amounts: Amounts, user: int) -> int:
    """The place of a user's amount among the recent ones."""
    for place in range(amounts.recent.shape[0]):
        if amounts.recent[place, USER] == user and user > 0:
            return place
    return NOWHERE


@jit
def learned_as(
    amounts: Amounts, place: int, z: Floats, arm: int, y: float
) -> tuple[float, float, float]:
    """The logarithm, the size and the weight of an amount as it was learned.

    Where that is not known, its weight is taken for the average, so that it is right for all rows
    together: most of the first ones is forgotten. But no arm holds less than nothing.
    """
    if place != NOWHERE:
        row = amounts.recent[place]
        return float(row[LOG]), float(row[SIZE]), float(min(row[WEIGHT], amounts.weight[0]))
    log = cut(amounts, z, arm, y, 0.0)
    weight = min(amounts.weight[0] / amounts.seen[0], weight_of(amounts, arm))
    return log, size_of(amounts, z, arm, log), float(weight)


@jit
def weight_of(amounts: Amounts, arm: int) -> float:
    """The weight of the conversions of an arm in the moments."""
    d, weight = amounts.slopes.shape[0], amounts.weight[0]
    if arm > 0:
        return float(max(amounts.products[d + arm, d + arm], 0.0))
    for k in range(d + 1, amounts.products.shape[0]):
        weight -= amounts.products[k, k]
    return float(max(weight, 0.0))


@jit
def unlearn_amount(amounts: Amounts, user: int, z: Floats, arm: int, y: float) -> None:
    """Take an amount back that was learned. Without any amount nothing is known."""
    if y == 0.0 or amounts.seen[0] < 1.0:
        return
    place = place_of(amounts, user)
    log, size, weight = learned_as(amounts, place, z, arm, y)
    if place != NOWHERE:
        z = amounts.recent[place][FEATURES:]  # as they were scaled then
    add(amounts, z, arm, log, -weight)
    add_size(amounts, arm, y, -weight * size)
    amounts.squares[0] = max(amounts.squares[0], 0.0)
    amounts.weight[0] = max(amounts.weight[0], 0.0)
    amounts.seen[0] -= 1.0
    if amounts.seen[0] == 0.0:
        forget(amounts)  # what rounding has left
        for part in (amounts.noise, amounts.level, amounts.due, amounts.lost, amounts.newest):
            fill(part, 0.0)
        fill(amounts.groups, 0.0)
        for rows in (amounts.recent, amounts.covariance):
            for i in range(rows.shape[0]):
                fill(rows[i], 0.0)
        return
    if place != NOWHERE:
        fill(amounts.recent[place], 0.0)
    amounts.due[0] = max(amounts.due[0] - 2.0, 0.0)  # this counts towards the next solution
    solve_if_due(amounts)
    note_shape(amounts)  # now: a wrong amount may be the largest by far
    weigh_losses(amounts)


@jit
def correct_amount(amounts: Amounts, user: int, z: Floats, arm: int, was: float, y: float) -> None:
    """Learn y in place of an amount that was learned: the row stays, and its logarithm changes.

    What is expected may rest on amounts that are all to be corrected, so y may be far from it.
    """
    if was == 0.0 or y == 0.0 or amounts.seen[0] <= 1.0:
        unlearn_amount(amounts, user, z, arm, was)
        learn_amount(amounts, user, z, arm, y)
        return
    place = place_of(amounts, user)
    before, size_before, weight = learned_as(amounts, place, z, arm, was)
    if place != NOWHERE:
        z = amounts.recent[place][FEATURES:]  # as they were scaled then
    farthest = FARTHEST_CORRECTION if amounts.seen[0] > EARLY[-1] else math.inf
    after = cut(amounts, z, arm, y, farthest)
    size = size_of(amounts, z, arm, after)
    write_input(amounts, z, arm)
    for i in range(amounts.input.shape[0]):
        amounts.sums[i] += weight * amounts.input[i] * (after - before)
    amounts.squares[0] = max(amounts.squares[0] + weight * (after**2 - before**2), 0.0)
    add_size(amounts, arm, was, -weight * size_before)
    add_size(amounts, arm, y, weight * size)
    if place != NOWHERE:
        row = amounts.recent[place]
        row[LOG], row[SIZE] = after, size
        row[EXACT] = log_of(y)
    amounts.due[0] -= 1.0
    solve_if_due(amounts)
    note_shape(amounts)
    weigh_losses(amounts)


KERNELS = {"correct_amount": correct_amount}
