r"""Live: a policy driven over a world, where it pays for every decision and sees every outcome.

Its value is what its treatments cause in expectation, the sum of the true effects over the users
it treats. The oracle knows the effects and has the best fixed price, the smallest at which its
choices cost no more than the budget B. Regret is its value less the policy's. Whatever the price l,

    value of any policy <= sum_i max(0, max_k tau_ik - l c_ik) + l B,

since what a policy spends is at most B; the oracle stays below that bound by less than one user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from bccb.data.world import World
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
from bccb.errors import InputError, StateError
from bccb.kernels.borrow import borrow
from bccb.kernels.jit import bind, jit
from bccb.pacers.budget_forecast import exhausting_price
from bccb.policies import make
from bccb.policy import Policy
from bccb.types import Floats, Ints


class Tally(NamedTuple):
    """What a live run counts."""

    treated: int
    conversions: float
    value: float


@jit
def run(
    counts: Ints,
    memory: Floats,
    features: Floats,
    costs: Floats,
    rates: Floats,
    draws: Floats,
    least: int,
    trace: Floats,
    space: Floats,
) -> Tally:
    """Decide on the users one after the other, until what is left is below ``least``."""
    counts = borrow(counts)
    parts, work = view(counts, memory), view_work(counts, trace, space)
    d, K, n = counts[FEATURES], counts[TREATMENTS], draws.shape[0]
    x, cost = work.x, np.empty(K)
    t, treated, conversions, value = 0, 0, 0.0, 0.0
    while t < n and counts[REMAINING] >= least:
        for j in range(d):
            x[j] = features[t, j]
        for k in range(K):
            cost[k] = costs[t, k]
        action, _, _ = propose(counts, parts, x, cost, work)
        y = 1.0 if draws[t] < rates[t, action] else 0.0
        if action > 0:
            counts[REMAINING] -= micros_of(cost[action - 1])
            treated += 1
            conversions += y
            value += rates[t, action] - rates[t, 0]
        learn(parts, work.z, action, y)
        t += 1
    return Tally(treated, conversions, value)


@dataclass(frozen=True, slots=True)
class Live:
    """One run: what it caused, and what for."""

    value: float  # the sum of the true effects over the treated users
    conversions: float  # of the treated users
    spend: float
    treated: int


def live(policy: Policy, world: World) -> Live:
    """Drive ``policy`` over all users of ``world``; it learns the outcome of every decision.

    >>> import bccb
    >>> from bccb.data.world import simulate_world
    >>> policy = bccb.make("cheapest-first", budget=100, horizon=5_000, features=12, seed=1)
    >>> found = live(policy, simulate_world(5_000, seed=1))
    >>> found.spend <= 100, found.value > 0, found.treated > found.conversions
    (True, True, True)
    """
    for what, got, want in (
        ("features", world.features.shape[1], policy.features),
        ("treatments", world.costs.shape[1], policy.treatments),
    ):
        if got != want:
            raise InputError(f"the number of {what} in the world", got, f"{want}, as the policy")
    if policy.needs_history:
        raise StateError(f"{policy.name} has learned nothing: call learn(log) with history first")
    before = policy.spent
    tally = _compiled(policy.composition)(
        *(policy.counts, policy.memory),
        *(world.features, world.costs, world.rates, world.draws),
        micros_of(float(world.costs.min())),
        np.empty(trace_size(policy.counts)),
        np.empty(space_size(policy.features, policy.treatments)),
    )
    return Live(float(tally.value), tally.conversions, policy.spent - before, tally.treated)


class Best(NamedTuple):
    """The oracle's run, and the most that any policy can cause with the same money."""

    run: Live
    bound: float


def best(world: World, budget: float) -> Best:
    """What the oracle causes in this world.

    >>> from bccb.data.world import simulate_world
    >>> oracle = best(simulate_world(5_000, seed=1), budget=250)
    >>> 0 < oracle.run.value <= oracle.bound
    True
    """
    effects = world.effects
    price = exhausting_price(effects, world.costs, budget / world.users)
    d, K, n = effects.shape[1], world.costs.shape[1], world.users
    policy = make(
        "oracle", budget=budget, horizon=n, features=d, treatments=K, seed=0, threshold=price
    )
    found = live(policy, replace(world, features=effects))
    gains = np.maximum((effects - price * world.costs).max(axis=1), 0.0)
    return Best(found, float(gains.sum() + price * budget))


@cache
def _compiled(composition: Composition) -> Callable[..., Tally]:
    return bind(run, composition.name, compose(composition))
