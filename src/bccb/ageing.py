r"""Ageing: what is learned about users while nobody knows whether they will convert.

Conversions are reported late, and nothing else is reported. So a pending user counts as a
non-conversion with weight F(age), the share of conversions that are reported by that age
(:mod:`bccb.kernels.delay`). When weight b was learned already,

    the user grows older:           learn (0, F(age) - b),
    a conversion is reported:       learn (1, 1 - b),
    a zero, or the window ends:     learn (0, 1 - b).

Users wait in a ring, in the order of their decisions. Ages are looked at on the grid of the delays:
for each age of the grid, ``marks`` says which user was the last to pass it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bccb.drivers import learn_evidence, see_space, view
from bccb.kernels.borrow import borrow
from bccb.kernels.counts import SEED, TREATMENTS
from bccb.kernels.delay import AGES, Delay, bin_of, refresh, view_delay, weight_after
from bccb.kernels.jit import jit
from bccb.kernels.scaling import standardise as prepare
from bccb.kernels.slots import gain_of, keep_in_store, note_unknown
from bccb.types import Floats, Ints

BEGAN, LAST, TOO_LATE, PASSED = range(4)  # places in marks; PASSED is the first of AGES
MARKS = PASSED + AGES
OPEN, ENDED = 0, -1  # states of a user; a conversion in bin j is j + 1
NOT_KNOWN = -1  # instead of an arm: what was done to the user is not known yet
LEAST_STEP = 0.1  # of weight: a smaller one waits for the next age


class Ring(NamedTuple):
    """Users who wait, each at the place ``number`` modulo the length."""

    x: Floats  # (C, d)
    at: Floats  # (C,), when they were decided on
    arm: Ints  # (C,)
    weight: Floats  # (C,), that was learned already
    state: Ints  # (C,)
    event: Ints  # (C,), what the caller knows the decision by


@jit
def enter(
    delay: Floats,
    marks: Ints,
    ring: Ring,
    number: int,
    x: Floats,
    arm: int,
    at: float,
    event: int,
) -> None:
    """Let one more user wait. The ring must have room."""
    place = number % ring.at.shape[0]
    for j in range(x.shape[0]):
        ring.x[place, j] = x[j]
    ring.at[place], ring.arm[place] = at, arm
    ring.weight[place], ring.state[place], ring.event[place] = 0.0, OPEN, event
    marks[LAST] = number
    delay[1] = max(delay[1], at)


@jit
def enter_many(
    delay: Floats,
    marks: Ints,
    ring: Ring,
    number: int,
    xs: Floats,
    arms: Ints,
    times: Floats,
    event: int,
) -> None:
    """Let users wait, one after the other; their events follow one another, too."""
    for i in range(times.shape[0]):
        enter(delay, marks, ring, number + i, xs[i], arms[i], times[i], event + i)


@jit
def add_weight(
    parts: Any, known: Delay, ring: Ring, number: int, a: float, b: float, z: Floats
) -> None:
    """Learn evidence (a, b) of a user who waits."""
    place = number % ring.at.shape[0]
    prepare(parts.scaler, ring.x[place], z)
    learn_evidence(parts, number, z, ring.arm[place], a, b)
    ring.weight[place] += b
    known.learned[0] += b


@jit
def unknown_share(known: Delay, marks: Ints) -> float:
    """The share of outcomes that is not known yet."""
    return float(max(1.0 - known.learned[0] / max(marks[LAST] - marks[BEGAN], 1), 0.0))


@jit
def age(
    counts: Ints,
    memory: Floats,
    delay: Floats,
    marks: Ints,
    ring: Ring,
    at: float,
    most: int,
    space: Floats,
) -> int:
    """Let all who wait grow older, up to time ``at``; how many ages were passed, at most ``most``.

    Those who have waited longest come first, and the last age is the window.
    """
    parts, z = view(counts, memory), see_space(counts, space).z
    known = view_delay(borrow(delay), counts[TREATMENTS])
    known.now[0] = max(known.now[0], at)
    size, steps, changed = ring.at.shape[0], 0, False
    for j in range(AGES - 1, -1, -1):
        number = marks[PASSED + j] + 1
        while number <= marks[LAST] and steps < most:
            place = number % size
            if at - ring.at[place] <= known.age[j]:
                break
            arm, state = ring.arm[place], ring.state[place]
            if state == OPEN and arm != NOT_KNOWN:
                step = weight_after(known, arm, j) - ring.weight[place]
                if step >= LEAST_STEP or (j == AGES - 1 and step > 0.0):
                    add_weight(parts, known, ring, number, 0.0, step, z)
                if j == AGES - 1:
                    x = ring.x[place]
                    keep_in_store(parts.store, counts[SEED], number, x, arm, 0.0, 1.0)
            elif 0 < state <= j + 1:
                known.risk[arm, j] += 1.0
                known.events[arm, j] += 1.0 if state == j + 1 else 0.0
                changed = True
            marks[PASSED + j] = number
            number += 1
            steps += 1
    if changed:
        refresh(known)
    if steps > 0:  # otherwise nothing has changed, and it does not matter how often one asks
        note_unknown(parts.pacer, unknown_share(known, marks))
    return steps


@jit
def end(
    counts: Ints,
    memory: Floats,
    delay: Floats,
    marks: Ints,
    ring: Ring,
    number: int,
    outcome: float,
    at: float,
    space: Floats,
) -> None:
    """Learn the outcome of a user who waits and whose arm is known: what is not learned yet."""
    parts, z = view(counts, memory), see_space(counts, space).z
    known = view_delay(borrow(delay), counts[TREATMENTS])
    known.now[0] = max(known.now[0], at)
    place = number % ring.at.shape[0]
    add_weight(parts, known, ring, number, outcome, 1.0 - ring.weight[place], z)
    arm, x = ring.arm[place], ring.x[place]
    keep_in_store(parts.store, counts[SEED], number, x, arm, gain_of(outcome), 1.0)
    ring.state[place] = bin_of(known, at - ring.at[place]) + 1 if outcome != 0.0 else ENDED
    note_unknown(parts.pacer, unknown_share(known, marks))
