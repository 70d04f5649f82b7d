r"""The store: learned outcomes as rows, within bounds, on which an estimator is fitted again.

Strata are arm x converted. When the store is full, the stratum with the most rows is halved: each
of its rows stays with probability 1/2, and so do its rows to come. A stratum that was halved j
times keeps a share 2^-j of its rows, each of which counts 2^j times. So converters, who are few,
stay as long as possible, sums over the rows stay unbiased, and a store never grows. Whether a row
stays is a function of the seed and its running number: it stays if its draw is below 2^-j.

>>> memory = np.zeros(STORE.size(0, 1))
>>> store, nothing = view_store(memory, 0, 1), np.empty(0)
>>> for i in range(100_000):
...     keep_in_store(store, 42, 0, nothing, i % 2, float(i % 100 == 0), 1.0)
>>> rows = rows_of(memory, 0, 1)
>>> int((rows.a > 0).sum()), bool(abs(rows.b.sum() - 100_000) < 1_500), len(rows.b) <= ROWS
(1000, True, True)
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.rng import key_of, uniform
from bccb.kernels.soundness import MOST_SEEN, counted, within
from bccb.types import MOST_FEATURE, Flags, Floats, Ints

ROWS, FEWEST_ROWS, MOST_NUMBERS = 65_536, 4_096, 1 << 20  # fewer rows with very many features
MORE = 2.0  # times as many outcomes before the next fit
CORRECTED = 0.1  # share of conversions: after as many corrections the next fit is due, too
STORED = (1 << 20) + 2  # the lane of the draws, beyond that of the sample
NUMBER, USER, ARM, GAIN, WEIGHT, FEATURES = range(6)  # columns of a row


class Store(NamedTuple):
    """Rows of outcomes, in the order in which they became final."""

    first: Annotated[Floats, "1"]  # outcomes before the first fit
    learned: Annotated[Floats, "1"]  # outcomes: the sum of all weights b
    tried: Annotated[Floats, "1"]  # how many they were at the last fit, less what corrections take
    fits: Annotated[Floats, "1"]  # that were made
    last: Annotated[Floats, "1"]  # the running number of the newest row, kept or not
    rows: Annotated[Floats, "1"]  # that are kept
    halved: Annotated[Floats, "K + 1", "2"]  # how often each stratum was halved
    kept: Annotated[Floats, "K + 1", "2"]  # rows of each stratum
    row: Annotated[Floats, "m", "w"]  # running number, user, arm, a, b, then features as given


STORE = Layout(Store, w="d + FEATURES", m="min(ROWS, max(FEWEST_ROWS, MOST_NUMBERS // max(d, 1)))")
size_of, view_block = jit(STORE.size), STORE.view


class Rows(NamedTuple):
    """Rows as columns; a and b count for the rows that were not kept, too."""

    number: Ints  # (n,), in which fold a row is follows from it
    user: Ints  # (n,), the number of the decision, where users wait for outcomes; otherwise 0
    x: Floats  # (n, d)
    arm: Ints  # (n,)
    a: Floats  # (n,)
    b: Floats  # (n,)


@jit
def view_store(memory: Floats, d: int, K: int) -> Store:
    """The store, which is the end of a policy's memory."""
    return view_block(memory[memory.shape[0] - size_of(d, K) :], d, K)


@jit
def note_learned(store: Store, b: float) -> None:
    """Count what was learned."""
    store.learned[0] += b


def is_due(store: Store) -> bool:
    """Whether twice as many outcomes were learned as at the last fit, or many were corrected."""
    return bool(store.learned[0] >= max(store.first[0], MORE * store.tried[0]))


fit_is_due = jit(is_due)  # from Python a call of it takes ten times as long as the plain form


@jit
def stays(seed: int, number: int, halved: float) -> bool:
    """Whether a row belongs to what is kept of a stratum."""
    return bool(uniform(key_of(seed, number, STORED), 0) < 0.5**halved)


@jit
def stays_on(seed: int, number: int, halved: float) -> bool:
    """Whether a row that was kept so far stays in halving number ``halved``.

    It does if that binary digit of its draw is 0. The digits before it are not asked again: where
    the rows are those of a policy with another seed, they were drawn otherwise.
    """
    return bool(uniform(key_of(seed, number, STORED), 0) * 2.0**halved % 2.0 < 1.0)


@jit
def keep_in_store(
    store: Store, seed: int, user: int, x: Floats, arm: int, a: float, b: float
) -> None:
    """Note the evidence (a, b) of a user whose outcome is final."""
    store.last[0] += 1.0
    number, converted = int(store.last[0]), 1 if a > 0.0 else 0
    while stays(seed, number, store.halved[arm, converted]):
        place = int(store.rows[0])
        if place == store.row.shape[0]:
            halve(store, seed)
            continue
        row = store.row[place]
        row[NUMBER], row[USER], row[ARM], row[GAIN], row[WEIGHT] = number, user, arm, a, b
        for j in range(x.shape[0]):
            row[FEATURES + j] = x[j]
        store.rows[0] += 1.0
        store.kept[arm, converted] += 1.0
        break


@jit
def correct_in_store(
    store: Store, seed: int, user: int, x: Floats, arm: int, was: float, a: float
) -> None:
    """Correct the gain of a user: the row may then belong to another stratum.

    It is kept with the share of that one. Where the user has no row, because a share alone of the
    first stratum is kept, a new row stands for such users: its draw is beyond that share.
    """
    before, after = 1 if was > 0.0 else 0, 1 if a > 0.0 else 0
    hasten(store)
    for i in range(int(store.rows[0])):
        row = store.row[i]
        if row[USER] == user:
            row[GAIN] = a
            store.kept[arm, before] -= 1.0
            store.kept[arm, after] += 1.0
            if before != after and not stays(seed, int(row[NUMBER]), store.halved[arm, after]):
                remove(store, i)
                store.kept[arm, after] -= 1.0
            return
    if before != after and store.halved[arm, before] > 0.0:
        while stays(seed, int(store.last[0]) + 1, store.halved[arm, before]):
            store.last[0] += 1.0  # the draw of one whose row would have been kept
        keep_in_store(store, seed, user, x, arm, a, 1.0)


@jit
def hasten(store: Store) -> None:
    """Let a correction bring the next fit nearer, which learns rows as they are now."""
    conversions = 0.0
    for k in range(store.kept.shape[0]):
        conversions += store.kept[k, 1] * 2.0 ** store.halved[k, 1]
    nearer = (1.0 - 1.0 / MORE) * store.learned[0] / (CORRECTED * max(conversions, 1.0))
    store.tried[0] = max(store.tried[0] - nearer, 0.0)


@jit
def remove(store: Store, place: int) -> None:
    """Close the gap that a row leaves."""
    store.rows[0] -= 1.0
    for i in range(place, int(store.rows[0])):
        for j in range(store.row.shape[1]):
            store.row[i, j] = store.row[i + 1, j]


@jit
def halve(store: Store, seed: int) -> None:
    """Keep every second row, by its draw, of the stratum that has the most."""
    arm, converted = 0, 0
    for k in range(store.kept.shape[0]):
        for c in range(2):
            if store.kept[k, c] > store.kept[arm, converted]:
                arm, converted = k, c
    store.halved[arm, converted] += 1.0
    n = 0
    for i in range(int(store.rows[0])):
        row = store.row[i]
        own = int(row[ARM]) == arm and (row[GAIN] > 0.0) == (converted == 1)
        if own and not stays_on(seed, int(row[NUMBER]), store.halved[arm, converted]):
            store.kept[arm, converted] -= 1.0
            continue
        if n < i:
            for j in range(row.shape[0]):
                store.row[n, j] = row[j]
        n += 1
    store.rows[0] = n


@jit
def staying(seed: int, numbers: Ints, halved: float) -> Flags:
    """Whether each of these numbers stays."""
    kept = np.empty(numbers.shape[0], np.bool_)
    for i in range(numbers.shape[0]):
        kept[i] = stays(seed, numbers[i], halved)
    return kept


def rows_of(memory: Floats, d: int, K: int, after: float = 0.0) -> Rows:
    """Copies of the rows that came after the one with this running number."""
    store = view_store(memory, d, K)
    row = store.row[: int(store.rows[0])]
    row = row[np.searchsorted(row[:, NUMBER], after, side="right") :]
    number, user, arm = (row[:, i].astype(np.int64) for i in (NUMBER, USER, ARM))
    times = 2.0 ** store.halved[arm, (row[:, GAIN] > 0.0).astype(np.int64)]
    x = np.ascontiguousarray(row[:, FEATURES:])
    return Rows(number, user, x, arm, row[:, GAIN] * times, row[:, WEIGHT] * times)


def unused(memory: Floats, d: int, K: int) -> int:
    """How many numbers at the end of the memory are rows that are not used."""
    store = view_store(memory, d, K)
    return int((store.row.shape[0] - store.rows[0]) * store.row.shape[1])


def whole_memory(used: Floats, size: int, d: int, K: int) -> Floats | None:
    """A memory of this size, from what is used of it; None where that cannot be."""
    if not size - STORE.size(d, K) <= len(used) <= size:
        return None
    memory = np.append(used, np.zeros(size - len(used)))
    rows = view_store(memory, d, K).rows
    return memory if counted(rows) and unused(memory, d, K) == size - len(used) else None


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether this can be a memory that ends with a store."""
    store = view_store(memory, d, K)
    if not (counted(store.rows) and store.rows[0] <= len(store.row)):
        return False
    row = store.row[: int(store.rows[0])]
    number, arm, a, b = (row[:, i] for i in (NUMBER, ARM, GAIN, WEIGHT))
    if not (counted(arm) and within(arm, 0.0, K)):
        return False
    strata = np.zeros(store.kept.shape)
    np.add.at(strata, (arm.astype(np.int64), (a > 0.0).astype(np.int64)), 1.0)
    return (
        within(store.first, 1.0, MOST_SEEN)
        and within(store.learned, 0.0, MOST_SEEN)
        and within(store.tried, 0.0, store.learned[0])
        and counted(store.fits)
        and counted(store.last)
        and counted(store.halved.ravel())
        and within(store.halved, 0.0, 64.0)
        and counted(number)
        and counted(row[:, USER])
        and bool((np.diff(number) > 0.0).all())
        and within(number, 1.0, store.last[0])
        and within(b, 0.0, 1.0)
        and bool(((a >= 0.0) & (a <= b)).all())
        and within(row[:, FEATURES:], -MOST_FEATURE, MOST_FEATURE)
        and bool((strata == store.kept).all())
    )
