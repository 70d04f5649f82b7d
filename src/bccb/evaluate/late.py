"""Late: a policy driven over users whose conversions are reported later, or never.

Time is counted in users: user i comes at time i. Before each of them those who wait grow older,
then the conversions that are due are reported, and nothing else ever is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from bccb.ageing import OPEN, PASSED, Ring, age, end, enter
from bccb.composition import Composition, compose
from bccb.drivers import pay, propose, see_space, see_trace, view
from bccb.errors import InputError
from bccb.evaluate.proposals import check_driven
from bccb.fitting import Refitting
from bccb.kernels.borrow import borrow
from bccb.kernels.counts import (
    CHARGE,
    FEATURES,
    HELD,
    NUMBER,
    ON_CONVERSION,
    REMAINING,
    TREATMENTS,
    charge_of,
    settle,
)
from bccb.kernels.delay import AGES
from bccb.kernels.jit import bind, jit
from bccb.kernels.slots import fit_is_due
from bccb.pending import ALL, Pending
from bccb.policy import Policy
from bccb.types import Floats, Ints, as_floats

NOBODY = -1
LAST_AGE = PASSED + AGES - 1  # the mark of the last user whose window has ended
STREAM = 4  # keeps draws of delays apart from those of the users


class Calendar(NamedTuple):
    """Who is reported when: for each time the first and the last user, and who comes after whom."""

    first: Ints
    last: Ints
    after: Ints


@jit
def note(calendar: Calendar, time: int, user: int) -> None:
    """Have a user's conversion reported at a time."""
    if calendar.first[time] == NOBODY:
        calendar.first[time] = user
    else:
        calendar.after[calendar.last[time]] = user
    calendar.last[time] = user


@jit
def run_late(
    counts: Ints,
    memory: Floats,
    delay: Floats,
    marks: Ints,
    ring: Ring,
    features: Floats,
    micros: Ints,
    outcomes: Floats,
    delays: Floats,
    window: float,
    least: int,
    calendar: Calendar,
    actions: Ints,
    trace: Floats,
    space: Floats,
    first: int,
) -> int:
    """Write the action of each user, until what is left is below ``least``; how many came.

    What is held counts as left: it may return.

    ``first`` users came before: where a fit is due it stops, to be called again.
    """
    features, micros = borrow(features), borrow(micros)
    parts, left, work = view(counts, memory), see_trace(counts, trace), see_space(counts, space)
    d, K, n = counts[FEATURES], counts[TREATMENTS], features.shape[0]
    before = counts[NUMBER] - first
    cost = np.empty(K, np.int64)
    most: Any = np.int64(ALL)  # for a constant the kernel would be compiled once more
    for t in range(first, n):
        passed = marks[LAST_AGE]
        age(counts, memory, delay, marks, ring, float(t), most, space)
        if counts[CHARGE] == ON_CONVERSION:
            for number in range(passed + 1, marks[LAST_AGE] + 1):
                gone = number - before - 1
                if actions[gone] > 0 and ring.state[number % ring.at.shape[0]] == OPEN:
                    settle(counts, micros[gone, actions[gone] - 1], 0)
        while calendar.first[t] != NOBODY and not fit_is_due(parts.store):
            user = calendar.first[t]
            calendar.first[t] = calendar.after[user]
            y = outcomes[user, actions[user]]
            end(counts, memory, delay, marks, ring, before + user + 1, y, float(t), space)
            if actions[user] > 0 and counts[CHARGE] == ON_CONVERSION:
                held = micros[user, actions[user] - 1]
                settle(counts, held, charge_of(counts, held, y))
        if fit_is_due(parts.store):
            return t
        if counts[REMAINING] + counts[HELD] < least:
            return t
        for j in range(d):
            left.x[j] = features[t, j]
        for k in range(K):
            cost[k] = micros[t, k]
        action, _, _ = propose(counts, parts, left.x, cost, left, work)
        pay(counts, parts, left.x, cost, action)
        actions[t] = action
        enter(delay, marks, ring, counts[NUMBER], left.x, action, float(t), counts[NUMBER])
        if outcomes[t, action] != 0.0 and t + delays[t, action] < n:
            reported = t + int(reported_after(delays[t, action]))
            if reported < n and reported - t <= window:
                note(calendar, reported, t)
    return int(n)


@jit
def reported_after(delay: float) -> float:
    """How many users later a conversion is reported: a whole number of them."""
    return float(max(np.ceil(delay), 1.0))


@jit
def settle_open(
    counts: Ints,
    marks: Ints,
    ring: Ring,
    micros: Ints,
    outcomes: Floats,
    delays: Floats,
    window: float,
    actions: Ints,
    came: int,
) -> None:
    """Charge those who wait at the end and will be reported within their window; return the rest.

    Nobody comes after them, but what they cause counts, and so does what it costs.
    """
    before = counts[NUMBER] - came
    for number in range(marks[LAST_AGE] + 1, counts[NUMBER] + 1):
        user = number - before - 1
        action = actions[user]
        if action > 0 and ring.state[number % ring.at.shape[0]] == OPEN:
            late = reported_after(delays[user, action]) > window
            y = 0.0 if late else outcomes[user, action]
            held = micros[user, action - 1]
            settle(counts, held, charge_of(counts, held, y))


def drive_late(
    policy: Policy, features: Floats, micros: Ints, outcomes: Floats, delays: Floats, window: float
) -> Ints:
    """The actions of a policy for users who come one at a time, 0 once the money is gone.

    ``outcomes``, of shape (n, K+1), are those of every action, and ``delays`` how many users later
    a conversion is reported: infinity is never. The shape is (n,), or (n, K+1) if actions differ.
    """
    check_driven(policy)
    n, d, K = len(features), policy.features, policy.treatments
    pending = Pending(window, d, K)
    pending.begin_after(policy.decisions)
    pending.make_room(n)
    waits = _checked(delays, n, K)
    calendar = Calendar(*(np.full(n, NOBODY) for _ in range(3)))
    actions = np.zeros(n, np.int64)
    space = np.empty(policy.trace_size), np.empty(policy.composition.space_size(d, K))
    run = (
        *(policy.counts, policy.memory, pending.delay, pending.marks, pending.ring),
        *(features, micros, outcomes, waits, pending.window, int(micros.min()), calendar),
        *(actions, *space),
    )
    came = 0
    while True:
        came = _compiled(policy.composition)(*run, came)
        if not policy.fit_due:
            break
        Refitting(policy.composition, policy.counts, policy.memory, pending).fit()
    if policy.counts[CHARGE] == ON_CONVERSION:
        open_ones = policy.counts, pending.marks, pending.ring, micros, outcomes, waits
        settle_open(*open_ones, pending.window, actions, came)
    return actions


def exponential_delays(users: int, mean: float, seed: int) -> Floats:
    """How many users later the conversion of each user is reported.

    >>> exponential_delays(4, mean=10.0, seed=1).shape
    (4,)
    """
    return np.random.default_rng((seed, STREAM)).exponential(mean, users)


def _checked(delays: Floats, n: int, K: int) -> Floats:
    waits = as_floats("delays", delays)
    if waits.shape not in ((n,), (n, K + 1)):
        raise InputError("the shape of delays", waits.shape, f"({n},) or ({n}, {K + 1})")
    if not (waits >= 0.0).all():
        raise InputError("delays", float(waits[~(waits >= 0.0)][0]), "0 or more; infinity is never")
    return np.array(np.broadcast_to(waits.reshape(n, -1), (n, K + 1)), order="C")  # writable


@cache
def _compiled(composition: Composition) -> Callable[..., int]:
    return bind(run_late, composition.name, compose(composition))
