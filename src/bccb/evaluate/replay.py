r"""Replay: a policy driven over the log of a randomised trial.

Users are streamed in a given order. Where the policy proposes what the trial did, the outcome is
seen, learned and, for a treatment, paid for; other users are skipped, but the clock counts them.
The run ends when what is left buys nothing more in the stream.

Incremental conversions are those that the paid treatments caused. Of the users for whom the policy
proposes treatment k, the trial treated a share e_k and left a share e_0 alone, by chance; so

    incremental = sum_{proposed k} ( Y 1[A = k] - Y 1[A = 0] e_k / e_0 )

is unbiased: the treated conversions, less what the same users would have done anyway. The sum of
Y / e_k - Y / e_0 would count users as treated whom the budget did not pay for.

In a log of decisions with one treatment each user has odds of their own, p / (1 - p). With several
treatments the log does not tell them: use the estimates of ``evaluation``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from bccb.drivers import (
    FEATURES,
    MICROS,
    REMAINING,
    TREATMENTS,
    Composition,
    compose,
    learn,
    micros_of,
    propose,
    space_size,
    trace_size,
    view,
    view_work,
)
from bccb.errors import InputError
from bccb.evaluate.overlap import chance_of
from bccb.kernels.borrow import borrow
from bccb.kernels.jit import bind, jit
from bccb.policy import Policy
from bccb.types import Floats, Ints, Log

BLOCK = 64  # users fetched together, so that their cache misses overlap
POINTS = 200  # of a trajectory


class Tally(NamedTuple):
    """What a replay counts."""

    encountered: int
    proposed: int
    matched: int
    treated: int
    conversions: float
    incremental: float
    incremental_squares: float


class Space(NamedTuple):
    """Work space of a replay, from the caller."""

    trace: Floats
    space: Floats
    cost: Floats  # (K,)
    features: Floats  # (BLOCK, d)
    costs: Floats  # (BLOCK, K)
    actions: Ints  # (BLOCK,)
    outcomes: Floats  # (BLOCK,)


@jit
def fetch(
    rows: Ints, features: Floats, actions: Ints, outcomes: Floats, costs: Floats, near: Space
) -> None:
    """Copy a block of rows from all over the log.

    First one value from each end of each row, so that many cache misses are under way at once.
    """
    d, K = features.shape[1], costs.shape[1]
    for i in range(rows.shape[0]):
        row = rows[i]
        near.actions[i], near.outcomes[i] = actions[row], outcomes[row]
        if d > 0:
            near.features[i, 0], near.features[i, d - 1] = features[row, 0], features[row, d - 1]
        for k in range(K):
            near.costs[i, k] = costs[row, k]
    for i in range(rows.shape[0]):
        for j in range(1, d - 1):
            near.features[i, j] = features[rows[i], j]


@jit
def run(
    counts: Ints,
    memory: Floats,
    order: Ints,
    log_features: Floats,
    log_actions: Ints,
    log_outcomes: Floats,
    log_costs: Floats,
    odds: Floats,
    least: int,
    trajectory: Floats,
    space: Space,
) -> Tally:
    """Stream the rows ``order`` of the log; ``least`` is the lowest cost.

    odds[:, k] = e_k / e_0, one row for each row of the log, or one row for all.
    """
    counts, order = borrow(counts), borrow(order)
    near = Space(
        space.trace,
        space.space,
        borrow(space.cost),
        borrow(space.features),
        borrow(space.costs),
        borrow(space.actions),
        borrow(space.outcomes),
    )
    parts, work = view(counts, memory), view_work(counts, space.trace, space.space)
    d, K, n = counts[FEATURES], counts[TREATMENTS], order.shape[0]
    x, cost = work.x, near.cost
    start, points = counts[REMAINING], trajectory.shape[0]
    t, point, proposed, matched, treated = 0, 0, 0, 0, 0
    conversions, incremental, squares = 0.0, 0.0, 0.0
    while t < n and counts[REMAINING] >= least:
        i = t % BLOCK
        if i == 0:
            rows = order[t : t + BLOCK]
            fetch(rows, log_features, log_actions, log_outcomes, log_costs, near)
        for j in range(d):
            x[j] = near.features[i, j]
        for k in range(K):
            cost[k] = near.costs[i, k]
        action, lam, _ = propose(counts, parts, x, cost, work)
        logged, y = near.actions[i], near.outcomes[i]
        t += 1
        if action > 0:
            proposed += 1
            if y > 0.0:  # so that odds of far rows are seldom fetched
                weight = 0.0
                if logged == action:
                    weight = y
                elif logged == 0:
                    weight = -y * odds[order[t - 1] % odds.shape[0], action]
                incremental += weight
                squares += weight * weight
        if action == logged:
            matched += 1
            if action > 0:
                treated += 1
                conversions += y
                counts[REMAINING] -= micros_of(cost[action - 1])
            learn(parts, work.z, action, y)
        over = t == n or counts[REMAINING] < least
        if over or t * points >= (point + 1) * n:
            trajectory[point, 0] = t
            trajectory[point, 1] = (start - counts[REMAINING]) / MICROS
            trajectory[point, 2] = lam
            trajectory[point, 3] = conversions
            point += 1
    return Tally(t, proposed, matched, treated, conversions, incremental, squares)


@dataclass(frozen=True, slots=True)
class Replay:
    """One run: what was spent, what it brought, and the path there."""

    conversions: float
    incremental: float
    incremental_se: float
    spend: float
    treated: int
    matched: int
    encountered: int
    proposed: float
    realised: float
    seconds: float
    trajectory: Floats = field(repr=False)  # rows of (users, spend, price, conversions)


def stream(log: Log, seed: int, users: int) -> tuple[Ints, Ints]:
    """The rows of a stream of ``users`` drawn without replacement, and the rows outside it."""
    if not 1 <= users <= log.users:
        raise InputError("users", users, f"from 1 to {log.users}, the rows of the log")
    order = np.random.default_rng(seed).permutation(log.users)
    return order[:users], order[users:]


def replay(policy: Policy, log: Log, order: Ints | None = None) -> Replay:
    """Drive ``policy`` over the rows ``order`` of ``log``, by default all of them as they stand.

    >>> import bccb
    >>> from bccb.data import simulate
    >>> policy = bccb.make("thompson", budget=100, horizon=5_000, features=12, seed=1)
    >>> result = replay(policy, simulate(5_000, seed=1))
    >>> result.spend <= 100, result.matched <= result.encountered
    (True, True)
    """
    d, K = policy.features, policy.treatments
    policy.check(log.features.shape[1], log.treatments)
    policy.check_history()
    odds = _odds(log)
    rows = np.arange(log.users) if order is None else np.ascontiguousarray(order)
    if rows.dtype != np.int64 or rows.ndim != 1 or not rows.size:
        raise InputError("order", order, "a list of row numbers")
    if rows.min() < 0 or rows.max() >= log.users:
        raise InputError("order", order, f"row numbers from 0 to {log.users - 1}")
    trajectory = np.zeros((POINTS, 4))
    space = Space(
        np.empty(trace_size(policy.counts)),
        np.empty(space_size(d, K)),
        np.empty(K),
        np.empty((BLOCK, d)),
        np.empty((BLOCK, K)),
        np.empty(BLOCK, np.int64),
        np.empty(BLOCK),
    )
    before = policy.spent
    least = micros_of(float(log.costs[rows].min()))
    kernel = partial(_compiled(policy.composition), policy.counts, policy.memory)
    arrays = (log.features, log.actions, log.outcomes, log.costs, odds)
    kernel(rows[:0], *arrays, least, trajectory, space)  # compiles, so that the clock need not
    began = time.perf_counter()
    tally = kernel(rows, *arrays, least, trajectory, space)
    seconds = time.perf_counter() - began
    n = tally.encountered
    variance = tally.incremental_squares - tally.incremental**2 / max(n, 1)
    return Replay(
        conversions=tally.conversions,
        incremental=tally.incremental,
        incremental_se=math.sqrt(max(variance, 0.0)),
        spend=policy.spent - before,
        treated=tally.treated,
        matched=tally.matched,
        encountered=n,
        proposed=tally.proposed / max(n, 1),
        realised=tally.treated / max(tally.matched, 1),
        seconds=seconds,
        trajectory=trajectory[trajectory[:, 0] > 0],
    )


def _odds(log: Log) -> Floats:
    """How much likelier each action was than being left alone: (1, K+1), or a row for each user."""
    for arm, share in enumerate(log.shares.tolist()):
        if not share or (arm == 0 and not (log.actions == 0).any()):
            raise InputError(f"the share of arm {arm} in the log", 0, "above 0")
    if log.probabilities is None:
        return np.atleast_2d(log.shares / log.shares[0])
    if log.treatments > 1:
        allowed = "1 where the log has probabilities: use bccb evaluate"
        raise InputError("the number of treatments", log.treatments, allowed)
    alone = chance_of(log, 0)
    # where nobody could have been left alone, nobody was: these odds are never asked for
    treated = np.divide(1.0 - alone, alone, out=np.zeros(log.users), where=alone > 0)
    return np.column_stack((np.ones(log.users), treated))


@cache
def _compiled(composition: Composition) -> Callable[..., Tally]:
    return bind(run, composition.name, compose(composition))
