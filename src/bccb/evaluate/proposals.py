"""Proposals: what a policy does for each user of a log or of a world, in their order.

It learns where the outcome of its action is known: of a log where the log took that action, of a
world always. It pays for every proposal from its budget, or in replay only for those that the trial
followed. The run ends when what is left buys nothing more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

from bccb.composition import Composition, compose
from bccb.drivers import learn, pay, propose, see_space, see_trace, view
from bccb.errors import StateError
from bccb.evaluate.charged import expected_charges
from bccb.kernels.borrow import borrow
from bccb.kernels.counts import CHARGE, ON_CONVERSION, REMAINING, SEED, SHARE, charge_of, settle
from bccb.kernels.jit import bind, jit
from bccb.kernels.slots import fit_is_due
from bccb.money import MICROS
from bccb.outcome import KNOWN_WEIGHT
from bccb.policy import Policy
from bccb.types import Flags, Floats, Ints, Log

BLOCK = 64  # users fetched together, so that their cache misses overlap
KNOWN = np.full(1, -1)  # instead of the actions of a log: the outcome of every action is known


class Near(NamedTuple):
    """The users of a block, and what a decision is made in."""

    trace: Floats
    space: Floats
    features: Floats  # (BLOCK, d)
    micros: Ints  # (BLOCK, K)
    logged: Ints  # (BLOCK,)
    outcomes: Floats  # (BLOCK, 1) of a log, (BLOCK, K+1) of a world


@jit
def fetch(
    rows: Ints, features: Floats, logged: Ints, outcomes: Floats, micros: Ints, near: Near
) -> None:
    """Copy a block of rows from all over the log.

    First one value from each end of each row, so that many cache misses are under way at once.
    """
    d, K, A = features.shape[1], micros.shape[1], outcomes.shape[1]
    for i in range(rows.shape[0]):
        row = rows[i]
        near.logged[i] = logged[min(row, logged.shape[0] - 1)]  # KNOWN has only one
        for a in range(A):
            near.outcomes[i, a] = outcomes[row, a]
        if d > 0:
            near.features[i, 0], near.features[i, d - 1] = features[row, 0], features[row, d - 1]
        for k in range(K):
            near.micros[i, k] = micros[row, k]
    for i in range(rows.shape[0]):
        for j in range(1, d - 1):
            near.features[i, j] = features[rows[i], j]


@jit
def run(
    counts: Ints,
    memory: Floats,
    order: Ints,
    features: Floats,
    logged: Ints,
    outcomes: Floats,
    micros: Ints,
    elsewhere: Ints,
    pays_all: bool,
    least: int,
    ends: Ints,
    actions: Ints,
    matched: Flags,
    path: Floats,
    space: Near,
    t: int,
    start: int,
) -> int:
    """Write what is done for each user, until what is left is below ``least``; how many came.

    After ``ends`` users, the last of which is all of them, and where the run ends, write a row of
    the path: users, spend, price. ``elsewhere`` is what is charged on conversion for proposals that
    a log did not follow. ``t`` users came before, with ``start`` left before the first:
    where a fit is due it stops, to be called again.
    """
    counts, order = borrow(counts), borrow(order)
    near = Near(
        space.trace,
        space.space,
        borrow(space.features),
        borrow(space.micros),
        borrow(space.logged),
        borrow(space.outcomes),
    )
    parts = view(counts, memory)
    trace, work = see_trace(counts, space.trace), see_space(counts, space.space)
    n, first, row = order.shape[0], t, 0
    while row < ends.shape[0] and ends[row] <= t:
        row += 1
    while t < n and counts[REMAINING] >= least:
        i = (t - first) % BLOCK
        if i == 0:
            fetch(order[t : t + BLOCK], features, logged, outcomes, micros, near)
        x, cost = near.features[i], near.micros[i]
        action, lam, _ = propose(counts, parts, x, cost, trace, work)
        known = near.logged[i] < 0 or near.logged[i] == action
        actions[t], matched[t] = action, known
        if pays_all or known:
            pay(counts, parts, x, cost, action)
        y = near.outcomes[i, action if near.logged[i] < 0 else 0]
        if (pays_all or known) and action > 0 and counts[CHARGE] == ON_CONVERSION:
            held = cost[action - 1]
            charged = charge_of(counts, held, y) if known else elsewhere[order[t], action - 1]
            settle(counts, held, charged)
        if known:
            learn(parts, counts[SEED], x, work.z, action, y, KNOWN_WEIGHT)
        t += 1
        if t == ends[row] or counts[REMAINING] < least:
            path[row, 0], path[row, 1], path[row, 2] = t, start - counts[REMAINING], lam
            row += 1
        if known and fit_is_due(parts.store):
            break
    return t


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a policy proposed, what it paid for that, and how much it could learn."""

    actions: Ints = field(repr=False)  # (n,), 0 once the money is gone
    spend: float
    learned: int  # users


@dataclass(frozen=True, slots=True)
class Course:
    """What a policy did for one user after the other."""

    actions: Ints = field(repr=False)  # (n,), 0 once the money is gone
    matched: Flags = field(repr=False)  # (n,), whether the outcome was known
    path: Floats = field(repr=False)  # rows of (users, spend, price)
    users: int  # who came before the money was gone
    spend: float
    seconds: float


def propose_on(policy: Policy, log: Log, rates: Floats | None = None) -> Proposals:
    """Drive ``policy`` over all users of ``log``; it pays for every proposal.

    Where costs are charged on conversion and the log did otherwise, it pays what a model expects
    whose ``rates`` (of what is due) are given, or else the rate of the users before.

    The seed of the policy must not be that of a policy that made the log: their draws would agree,
    and a proposal must not depend on the log's own draw.

    >>> import bccb
    >>> from bccb.data import simulate
    >>> policy = bccb.make("cheapest-first", budget=100, horizon=5_000, features=12, seed=1)
    >>> result = propose_on(policy, simulate(5_000, seed=1))
    >>> result.spend <= 100, result.learned <= 5_000
    (True, True)
    """
    policy.check(log.features.shape[1], log.treatments)
    policy.check_kind(log)
    order, outcomes = np.arange(log.users), log.outcomes[:, None]
    share = int(policy.counts[SHARE]) / MICROS or None
    elsewhere = expected_charges(log, rates, share) if policy.charges_on_conversion else None
    logged = log.features, log.micros, log.actions, outcomes
    course = drive(policy, order, *logged, elsewhere=elsewhere)
    return Proposals(course.actions, course.spend, int(course.matched.sum()))


def drive(
    policy: Policy,
    order: Ints,
    features: Floats,
    micros: Ints,
    logged: Ints,
    outcomes: Floats,
    pays_all: bool = True,
    points: int = 1,
    elsewhere: Ints | None = None,
) -> Course:
    """Drive ``policy`` over the users ``order``.

    Either ``logged`` are the actions of a log and ``outcomes``, of shape (n, 1), theirs. Or
    ``logged`` is ``KNOWN`` and ``outcomes``, of shape (n, K+1), are those of every action.
    ``elsewhere``, of shape (n, K), is charged on conversion where the log did otherwise.
    The path has up to ``points`` rows, the last for the end of the run.
    """
    check_driven(policy)
    d, K, n = policy.features, policy.treatments, len(order)
    rows = min(points, n)
    ends = -(-np.arange(1, rows + 1) * n // rows)
    actions, matched, path = np.zeros(n, np.int64), np.zeros(n, np.bool_), np.empty((rows, 3))
    near = Near(
        np.empty(policy.trace_size),
        np.empty(policy.composition.space_size(d, K)),
        np.empty((BLOCK, d)),
        np.empty((BLOCK, K), np.int64),
        np.empty(BLOCK, np.int64),
        np.empty((BLOCK, outcomes.shape[1])),
    )
    least = int(micros.take(order, axis=0).min())
    paid = micros, micros if elsewhere is None else elsewhere, pays_all, least
    users = features, logged, outcomes, *paid, ends, actions, matched, path, near
    kernel = _compiled(policy.composition)
    start = policy.remaining_micros
    kernel(policy.counts, policy.memory, order[:0], *users, 0, start)  # compiles before the clock
    before, began, came = policy.spent, time.perf_counter(), 0
    while True:
        came = kernel(policy.counts, policy.memory, order, *users, came, start)
        if not policy.fit_due:
            break
        policy.fit()
    seconds = time.perf_counter() - began
    path = path[: np.searchsorted(ends, came) + 1] if came else path[:0]
    path[:, 1] /= MICROS
    return Course(actions, matched, path, came, policy.spent - before, seconds)


def check_driven(policy: Policy) -> None:
    """Refuse a policy that cannot be driven; what others measure of it ends."""
    policy.check_history()
    if policy.pending is not None:
        raise StateError("the policy has a window: a driver needs one made without window=")
    policy.stop_measuring()


@cache
def _compiled(composition: Composition) -> Callable[..., int]:
    return bind(run, composition.name, compose(composition))
