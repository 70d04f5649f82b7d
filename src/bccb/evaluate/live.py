r"""Live: a policy driven over a world, where it pays for every decision and sees every outcome.

Its value is what its treatments cause in expectation, the sum of the true effects over the users
it treats. The oracle knows the effects and has the best fixed price, the smallest at which its
choices cost no more than the budget B. Regret is its value less the policy's. Whatever the price l,

    value of any policy <= sum_i max(0, max_k tau_ik - l c_ik) + l B,

since what a policy spends is at most B; the oracle stays below that bound by less than one user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bccb.charge import AT_ONCE, Payment
from bccb.data.world import World
from bccb.errors import InputError
from bccb.evaluate.late import drive_late
from bccb.evaluate.proposals import KNOWN, drive
from bccb.kernels.special import normal_cdf
from bccb.pacers.budget_forecast import exhausting_price
from bccb.policies import make
from bccb.policy import Policy
from bccb.types import Floats, Ints

_normal_cdf = np.vectorize(normal_cdf, otypes=[np.float64])


@dataclass(frozen=True, slots=True)
class Live:
    """What one run caused, and what it cost."""

    value: float  # the sum of the true effects over the treated users
    conversions: float  # of the treated users, or the amounts of their conversions
    spend: float
    treated: int


def live(
    policy: Policy, world: World, delays: Floats | None = None, window: float | None = None
) -> Live:
    """Drive ``policy`` over all users of ``world``; it learns the outcome of every decision.

    With ``delays`` conversions alone are reported, and so many users later (:mod:`.late`).

    >>> import bccb
    >>> from bccb.data.world import simulate_world
    >>> policy = bccb.make("cheapest-first", budget=100, horizon=5_000, features=12, seed=1)
    >>> run = live(policy, simulate_world(5_000, seed=1))
    >>> run.spend <= 100, run.value > 0, run.treated > run.conversions
    (True, True, True)
    """
    policy.check(world.features.shape[1], world.costs.shape[1], "the world")
    outcomes, before = outcomes_in(world), policy.spent
    if (delays is None) != (window is None):
        raise InputError("window", window, "given together with delays")
    if delays is None or window is None:
        order = np.arange(world.users)
        actions = drive(policy, order, world.features, world.micros, KNOWN, outcomes).actions
    else:
        actions = drive_late(policy, world.features, world.micros, outcomes, delays, window)
    rows = np.flatnonzero(actions)
    conversions = float(outcomes[rows, actions[rows]].sum())
    return Live(value_of(actions, world), conversions, policy.spent - before, len(rows))


def outcomes_in(world: World) -> Floats:
    """The outcome of every action on every user, of shape (n, K+1)."""
    outcomes = (world.draws[:, None] < world.rates).astype(np.float64)
    return outcomes if world.amounts is None else outcomes * world.amounts.drawn[:, None]


def value_of(actions: Ints, world: World) -> float:
    """What one action for each user of ``world`` causes: the sum of the true effects."""
    rows = np.flatnonzero(actions)
    caused = world.rates[rows, actions[rows]] - world.rates[rows, 0]
    if world.amounts is not None:
        caused = caused * world.amounts.worth[rows]
    # added up one after the other: the same to the last bit as a loop over the users
    return float(np.cumsum(caused)[-1]) if rows.size else 0.0


class Best(NamedTuple):
    """The oracle's run, and the most that any policy can cause with the same money."""

    run: Live
    bound: float


def best(world: World, budget: float, payment: Payment = AT_ONCE) -> Best:
    """What the oracle causes in this world; it knows what a treatment will cost on average.

    With a cost cap it buys nothing that costs more for one more conversion.

    >>> from bccb.data.world import simulate_world
    >>> oracle = best(simulate_world(5_000, seed=1), budget=250)
    >>> 0 < oracle.run.value <= oracle.bound
    True
    """
    effects, costs = world.effects, world.costs
    if payment.on_conversion:
        costs = world.rates[:, 1:] * charged_on_conversion(world, payment.share)
    price = exhausting_price(effects, costs, budget / world.users)
    if payment.cost_cap is not None:
        price = max(price, 1.0 / payment.cost_cap)
    gains = effects - price * costs
    bound = float(np.maximum(gains.max(axis=1), 0.0).sum() + price * budget)
    if payment.on_conversion:
        return Best(_charged(world, gains, costs), bound)
    d, K, n = effects.shape[1], world.costs.shape[1], world.users
    policy = make(
        "oracle",
        budget=budget,
        horizon=n,
        features=d,
        treatments=K,
        seed=0,
        outcome=world.kind,
        threshold=price,
    )
    run = live(policy, replace(world, features=effects))
    return Best(run, bound)


def charged_on_conversion(world: World, share: float | None = None) -> Floats:
    """What the conversion of each user costs on average, of shape (n, K).

    With a ``share`` of the amount, at most the cost c: E min(share Y, c) of a log-normal Y.
    """
    costs, amounts = world.costs, world.amounts
    if share is None or amounts is None:
        return costs
    middle = np.log(amounts.worth)[:, None] - 0.5 * amounts.spread**2
    ends = (np.log(costs / share) - middle) / amounts.spread
    below = share * amounts.worth[:, None] * _normal_cdf(ends - amounts.spread)
    return np.asarray(below + costs * _normal_cdf(-ends), np.float64)


def _charged(world: World, gains: Floats, costs: Floats) -> Live:
    """The run that takes the largest gain above 0, at what it is expected to cost.

    Which of its users convert, and cost something, is luck that must not count for or against it.
    """
    rows = np.flatnonzero(gains.max(axis=1) > 0.0)
    actions = np.zeros(world.users, np.int64)
    actions[rows] = gains[rows].argmax(axis=1) + 1
    expected = world.rates[rows, actions[rows]]
    if world.amounts is not None:
        expected = expected * world.amounts.worth[rows]
    spend = float(costs[rows, actions[rows] - 1].sum())
    return Live(value_of(actions, world), float(expected.sum()), spend, len(rows))
