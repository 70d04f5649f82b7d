"""Proposals: what a policy does for each user of a log or of a world, in their order.

It pays for every proposal from its budget, and learns where the outcome of its action is known: of
a log where the log took that action, of a world always.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from bccb.drivers import (
    FEATURES,
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
from bccb.kernels.borrow import borrow
from bccb.kernels.jit import bind, jit
from bccb.policy import Policy
from bccb.types import Floats, Ints, Log


@jit
def run(
    counts: Ints,
    memory: Floats,
    features: Floats,
    costs: Floats,
    outcomes: Floats,
    least: int,
    proposals: Ints,
    trace: Floats,
    space: Floats,
) -> int:
    """Write the proposals, until what is left is below ``least``; how many were learned from."""
    counts = borrow(counts)
    parts, work = view(counts, memory), view_work(counts, trace, space)
    d, K, n = counts[FEATURES], counts[TREATMENTS], proposals.shape[0]
    x, cost = work.x, np.empty(K)
    t, learned = 0, 0
    while t < n and counts[REMAINING] >= least:
        for j in range(d):
            x[j] = features[t, j]
        for k in range(K):
            cost[k] = costs[t, k]
        action, _, _ = propose(counts, parts, x, cost, work)
        proposals[t] = action
        if action > 0:
            counts[REMAINING] -= micros_of(cost[action - 1])
        if not math.isnan(outcomes[t, action]):
            learned += 1
            learn(parts, work.z, action, outcomes[t, action])
        t += 1
    return learned


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a policy proposed, what it paid for that, and how much it could learn."""

    actions: Ints = field(repr=False)  # (n,), 0 once the money is gone
    spend: float
    learned: int  # users


def propose_on(policy: Policy, log: Log) -> Proposals:
    """Drive ``policy`` over all users of ``log``.

    The seed of the policy must not be that of a policy that made the log: their draws would agree,
    and a proposal must not depend on the log's own draw.

    >>> import bccb
    >>> from bccb.data import simulate
    >>> policy = bccb.make("cheapest-first", budget=100, horizon=5_000, features=12, seed=1)
    >>> found = propose_on(policy, simulate(5_000, seed=1))
    >>> found.spend <= 100, found.learned <= 5_000
    (True, True)
    """
    policy.check(log.features.shape[1], log.treatments)
    outcomes = np.full((log.users, log.treatments + 1), np.nan)
    outcomes[np.arange(log.users), log.actions] = log.outcomes
    return drive(policy, log.features, log.costs, outcomes)


def drive(policy: Policy, features: Floats, costs: Floats, outcomes: Floats) -> Proposals:
    """Drive ``policy`` over users whose ``outcomes`` under each action are known, or NaN."""
    policy.check_history()
    before, actions = policy.spent, np.zeros(len(features), np.int64)
    learned = _compiled(policy.composition)(
        *(policy.counts, policy.memory, features, costs, outcomes),
        micros_of(float(costs.min())),
        actions,
        np.empty(trace_size(policy.counts)),
        np.empty(space_size(policy.features, policy.treatments)),
    )
    return Proposals(actions, policy.spent - before, learned)


@cache
def _compiled(composition: Composition) -> Callable[..., int]:
    return bind(run, composition.name, compose(composition))
