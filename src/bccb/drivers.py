"""The drivers: how a policy's kernels make a decision and learn from an outcome.

A policy's state is two arrays. ``counts`` (int64) holds its dimensions, its clock and its money in
integer micros; ``memory`` (float64) holds the scaler, the estimator, the explorer, the pacer and
perhaps a sample of treated users and a store of outcomes, one after the other. The library, replay
and the service share the same drivers. They call slots that do nothing; ``compose`` compiles a copy
of them that calls a policy's own kernels.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bccb.kernels import counts as count
from bccb.kernels.borrow import borrow
from bccb.kernels.jit import jit
from bccb.kernels.linalg import copy
from bccb.kernels.rng import key_of, uniform
from bccb.kernels.scaling import see, view_scaler
from bccb.kernels.scaling import standardise as prepare
from bccb.kernels.slots import (
    amount_of,
    chance,
    charged_share,
    correct_amount,
    correct_in_store,
    end_history,
    explore,
    fit_is_due,
    forecast,
    gain_of,
    keep_in_sample,
    keep_in_store,
    learn_amount,
    learn_estimator,
    learn_explorer,
    note_arrival,
    note_in_sample,
    note_learned,
    predict,
    price,
    rate_of,
    reserve,
    unit_of,
    view_amounts,
    view_estimator,
    view_explorer,
    view_pacer,
    view_sample,
    view_store,
)
from bccb.kernels.trace import Space, Trace, view_space, view_trace
from bccb.kernels.users import is_sound
from bccb.money import LEAST_COST, MICROS
from bccb.outcome import KNOWN_WEIGHT
from bccb.types import Floats, Ints

REFUSED = -1  # instead of an action: nothing was changed
RECENT = 2_000  # rows at the end of a history from which the pacer learns
MOST_AT_RANDOM = 0.5  # the largest share treated where the choice is random
EVERY_SECOND = MOST_AT_RANDOM + 1e-9  # the same, with the rounding of a sum of rates
LEAST_SHARE = 1e-9  # of random decisions: rates in units of a smaller one would overflow
STEEP = 6  # the power of a cost at which fewer are tried who cost more
MOST_TRIED = 0.9  # the largest share treated to learn who is worth the cost cap
RESERVED = 1 << 20  # the lane of the draw for a random choice, beyond those of explorers
REHEARSAL = 1 << 60  # number of the draws for those rows: no decision has it

AT_ONCE = 0  # instead of the number of a decision: the user did not wait for the outcome
COST_AWARE, AMOUNTS = True, False


class Parts(NamedTuple):
    """A policy's memory as the named states of its parts."""

    scaler: Any
    estimator: Any
    explorer: Any
    pacer: Any
    amounts: Any
    sample: Any
    store: Any
    explorer_memory: Floats


@jit
def view(counts: Ints, memory: Floats) -> Parts:
    """The memory as the policy's parts."""
    memory = borrow(memory)
    d, K = counts[count.FEATURES], counts[count.TREATMENTS]
    explorer_memory = memory[counts[count.AT_EXPLORER] : counts[count.AT_PACER]]
    return Parts(
        view_scaler(memory[: counts[count.AT_ESTIMATOR]], d),
        view_estimator(memory[counts[count.AT_ESTIMATOR] : counts[count.AT_EXPLORER]], d, K),
        view_explorer(explorer_memory, d, K),
        view_pacer(memory[counts[count.AT_PACER] : counts[count.AT_AMOUNTS]], d, K),
        view_amounts(memory[counts[count.AT_AMOUNTS] : counts[count.END]], d, K),
        view_sample(memory[counts[count.END] :], d),
        view_store(memory, d, K),
        explorer_memory,
    )


@jit
def see_trace(counts: Ints, trace: Floats) -> Trace:
    """A trace as its named fields."""
    return view_trace(
        borrow(trace), counts[count.FEATURES], counts[count.TREATMENTS], count.explorer_size(counts)
    )


@jit
def see_space(counts: Ints, space: Floats) -> Space:
    """Work space as its named fields."""
    K = counts[count.TREATMENTS]
    return view_space(borrow(space), space.shape[0] - 3 * K, K)


@jit
def expected_cost(counts: Ints, parts: Parts, z: Floats, k: int, cost: int) -> float:
    """What treatment k + 1 is expected to cost a user with prepared features z, in currency."""
    if counts[count.CHARGE] == count.ON_CONVERSION:
        rate, most = rate_of(parts.estimator, z, k + 1), cost / MICROS
        if counts[count.SHARE] > 0:
            most = charged_share(parts.amounts, z, k + 1, counts[count.SHARE] / MICROS, most)
        return float(max(rate * most, LEAST_COST / MICROS))
    return float(cost / MICROS)


@jit
def value(parts: Parts, z: Floats, effect: Floats, spread: Floats) -> None:
    """Turn effects on conversions into effects on their value, in units.

    P_k m_k - P_0 m_0 = m_k (P_k - P_0) + P_0 (m_k - m_0), with amounts m_k.
    """
    rate_0, amount_0 = rate_of(parts.estimator, z, 0), amount_of(parts.amounts, z, 0)
    for k in range(effect.shape[0]):
        amount = amount_of(parts.amounts, z, k + 1)
        effect[k] = amount * effect[k] + rate_0 * (amount - amount_0)
        spread[k] *= abs(amount)


@jit
def propose(
    counts: Ints, parts: Parts, x: Floats, costs: Ints, trace: Trace, space: Space
) -> tuple[int, float, float]:
    """The action for one more user, the price and the best score. Spends nothing.

    The price is fixed before the user's random draws, so that the probability of each action can be
    computed. Shares of money and time are those of the plan, which restarts when money is added.
    """
    counts[count.NUMBER] += 1
    t, T, seed = counts[count.NUMBER], counts[count.HORIZON], counts[count.SEED]
    remaining = counts[count.REMAINING]
    expected = remaining + count.to_return(counts)
    to_come = expected / MICROS / max(T - t + 1, 1) / count.delivery(counts)
    forecast(parts.pacer, to_come, t == 1)
    time = max(T - counts[count.SINCE], 1)
    lam = price(parts.pacer, expected / counts[count.PLANNED], (T - t) / time)
    least = count.least_price(counts) / unit_of(parts.amounts)
    tries = lam < least and t > 1  # the cap binds; before the first user there is no price to tell
    lam = max(lam, least)
    see(parts.scaler, x)
    prepare(parts.scaler, x, space.z)
    ready = predict(parts.estimator, space.z, space.effect, trace.spread)
    if AMOUNTS:
        value(parts, space.z, space.effect, trace.spread)
    explore(parts.explorer, seed, t, trace.spread, ready, space.bonus)

    best, score = 0, -math.inf
    for k in range(costs.shape[0]):
        space.costs[k] = expected_cost(counts, parts, space.z, k, costs[k])
        paid = lam * space.costs[k] if COST_AWARE else lam
        trace.margin[k] = space.effect[k] - paid if costs[k] <= remaining else -math.inf
        s = trace.margin[k] + space.bonus[k]
        if s > score:
            best, score = k + 1, s
        # a bonus that forces an action in warm-up is no effect, and must not move the price
        space.effect[k] += space.bonus[k] if ready else 0.0
    note_arrival(parts.pacer, space.effect, space.costs)
    trace.ready[0] = 1.0 if ready else 0.0
    if best == 0:  # no treatment is affordable
        score = 0.0
    action = best if score > 0.0 else 0
    share = reserve(parts.explorer)
    if tries and share > LEAST_SHARE:
        try_the_cheapest(trace, space.costs, count.reach(counts), share)
    else:
        spread_evenly(trace, space.costs, to_come if share > 0.0 else 0.0)
    drawn = uniform(key_of(seed, t, RESERVED), 0) if share > 0.0 else 1.0
    at_random = drawn < random_share(share, trace.even)
    if at_random:
        action = named(trace.even, drawn / share)
    if action > 0:
        cost = round(space.costs[action - 1] * MICROS)
        counts[count.PROPOSED] += cost
        counts[count.EXPLORED] += cost if at_random else 0
        if counts[count.CHARGE] == count.ON_CONVERSION:
            counts[count.OFFERED] += costs[action - 1]
    return action, lam, score


@jit
def spread_evenly(trace: Trace, costs: Floats, to_come: float) -> None:
    """Write the rate of each treatment in a random choice.

    At these rates a user costs ``to_come`` on average at most. At least every second user is left
    alone, however much money there is: without a control group no effect could be measured.
    """
    K = costs.shape[0]
    for k in range(K):
        affordable = trace.margin[k] > -math.inf
        trace.even[k] = min(to_come / costs[k], MOST_AT_RANDOM) / K if affordable else 0.0


@jit
def try_the_cheapest(trace: Trace, costs: Floats, reach: float, share: float) -> None:
    """Write rates for a random choice while the cost cap binds: most who cost below ``reach``.

    Who is cheap tells as much about effects as anybody, for the least money, and is worth the cap
    at the smallest effect. Rates are in units of the ``share``, since more are tried than it holds.
    """
    K, most = costs.shape[0], min(MOST_TRIED, 1.0 - MOST_AT_RANDOM * share)
    for k in range(K):
        near = (reach / costs[k]) ** STEEP
        affordable = trace.margin[k] > -math.inf
        trace.even[k] = min(near, most) / K / share if affordable else 0.0


@jit
def random_share(share: float, even: Floats) -> float:
    """The share of users like this one who are decided on at random, at these rates.

    It is ``share``, or what the rates need so that share / 2 is still left alone.
    """
    total = 0.0
    for k in range(even.shape[0]):
        total += even[k]
    return share if total <= EVERY_SECOND else share * (MOST_AT_RANDOM + total)


@jit
def named(even: Floats, drawn: float) -> int:
    """The action that a number drawn from [0, 1) names: treatment k at its rate, otherwise 0.

    Where the rates need a larger share of decisions, the number may be above 1.
    """
    for k in range(even.shape[0]):
        drawn -= even[k]
        if drawn < 0.0:
            return k + 1
    return 0


@jit
def learn_evidence(parts: Parts, user: int, z: Floats, action: int, a: float, b: float) -> None:
    """Learn evidence (a, b) of an action on a user with prepared features z.

    ``user`` is the number of the decision, or AT_ONCE.
    """
    gain = gain_of(a)
    learn_estimator(parts.estimator, z, action, gain, b)
    learn_explorer(parts.explorer, action, gain, b)
    learn_amount(parts.amounts, user, z, action, a)
    note_in_sample(parts.sample, action, gain, b)
    note_learned(parts.store, b)


@jit
def learn(parts: Parts, seed: int, x: Floats, z: Floats, action: int, a: float, b: float) -> None:
    """Learn the final evidence (a, b) of an action on a user with features x, prepared as z."""
    learn_evidence(parts, AT_ONCE, z, action, a, b)
    keep_in_store(parts.store, seed, AT_ONCE, x, action, gain_of(a), b)


@jit
def pay(counts: Ints, parts: Parts, x: Floats, costs: Ints, action: int) -> int:
    """Pay for what was proposed for the user of the last decision; the micros paid."""
    keep_in_sample(parts.sample, counts[count.SEED], counts[count.NUMBER], x, action)
    if action == 0:
        return 0
    paid = int(costs[action - 1])
    counts[count.REMAINING] -= paid
    if counts[count.CHARGE] == count.ON_CONVERSION:
        counts[count.HELD] += paid
    return paid


@jit
def decide(
    counts: Ints, memory: Floats, x: Floats, costs: Ints, trace: Floats, space: Floats
) -> tuple[int, int, int, float, float]:
    """Propose an action and pay for it: number, action, the micros paid, price, score.

    The action is REFUSED, and nothing is changed, where the user cannot be decided on.
    """
    if not is_sound(x, costs):
        return 0, REFUSED, 0, 0.0, 0.0
    parts, left, work = view(counts, memory), see_trace(counts, trace), see_space(counts, space)
    copy(left.x, x)
    copy(left.explorer, parts.explorer_memory)
    action, lam, score = propose(counts, parts, x, costs, left, work)
    paid, unit = pay(counts, parts, x, costs, action), unit_of(parts.amounts)
    return int(counts[count.NUMBER]), action, paid, unit * lam, unit * score


@jit
def decide_many(
    counts: Ints,
    memory: Floats,
    x: Floats,
    costs: Ints,
    traces: Floats,
    space: Floats,
    actions: Ints,
    paid: Ints,
    prices: Floats,
    scores: Floats,
    horizons: Ints,
) -> None:
    """Decide on one user after the other; each must be sound.

    ``horizons`` holds the horizon for each row; if it is empty, the horizon does not change.
    """
    for i in range(x.shape[0]):
        if horizons.shape[0] > 0:
            counts[count.HORIZON] = horizons[i]
        _, actions[i], paid[i], prices[i], scores[i] = decide(
            counts, memory, x[i], costs[i], traces[i], space
        )


@jit
def observe(
    counts: Ints,
    memory: Floats,
    trace: Floats,
    action: int,
    a: float,
    b: float,
    space: Floats,
) -> bool:
    """Learn evidence (a, b) of an action from the trace of its decision; whether to fit again."""
    parts, x, z = view(counts, memory), see_trace(counts, trace).x, see_space(counts, space).z
    prepare(parts.scaler, x, z)
    learn(parts, counts[count.SEED], x, z, action, a, b)
    return fit_is_due(parts.store)


@jit
def amend(
    counts: Ints,
    memory: Floats,
    x: Floats,
    user: int,
    action: int,
    was: float,
    y: float,
    space: Floats,
) -> None:
    """Learn that the outcome of an action was y, after ``was`` had been learned.

    Evidence is additive: the gain changes, and the weight does not.
    """
    parts, z = view(counts, memory), see_space(counts, space).z
    prepare(parts.scaler, x, z)
    before, after = gain_of(was), gain_of(y)
    if after != before:
        learn_estimator(parts.estimator, z, action, after - before, 0.0)
        learn_explorer(parts.explorer, action, after - before, 0.0)
        note_in_sample(parts.sample, action, after - before, 0.0)
        correct_in_store(parts.store, counts[count.SEED], user, x, action, before, after)
    correct_amount(parts.amounts, user, z, action, was, y)


@jit
def observe_many(
    counts: Ints,
    memory: Floats,
    traces: Floats,
    actions: Ints,
    outcomes: Floats,
    stops: bool,
    space: Floats,
) -> int:
    """Learn one outcome after the other; how many. It may stop where a fit is due."""
    for i in range(traces.shape[0]):
        due = observe(counts, memory, traces[i], actions[i], outcomes[i], KNOWN_WEIGHT, space)
        if due and stops:
            return i + 1
    return int(traces.shape[0])


@jit
def absorb(
    counts: Ints, memory: Floats, x: Floats, actions: Ints, outcomes: Floats, space: Floats
) -> None:
    """Learn a history, its users and their outcomes, before the first decision."""
    parts, z = view(counts, memory), see_space(counts, space).z
    for i in range(x.shape[0]):
        see(parts.scaler, x[i])
        prepare(parts.scaler, x[i], z)
        learn(parts, counts[count.SEED], x[i], z, actions[i], outcomes[i], KNOWN_WEIGHT)
    end_history(parts.sample)


@jit
def rehearse(counts: Ints, memory: Floats, x: Floats, costs: Ints, space: Floats) -> None:
    """Let the pacer note the last rows of a history that was learned, to start with a price."""
    K = counts[count.TREATMENTS]
    parts, work, spread = view(counts, memory), see_space(counts, space), np.empty(K)
    n, z, before = x.shape[0], work.z, max(counts[count.HISTORY], 0)
    for i in range(max(n - RECENT, 0), n):
        prepare(parts.scaler, x[i], z)
        if predict(parts.estimator, z, work.effect, spread):
            if AMOUNTS:
                value(parts, z, work.effect, spread)
            number = REHEARSAL + before + i
            explore(parts.explorer, counts[count.SEED], number, spread, True, work.bonus)
            for k in range(K):
                work.effect[k] += work.bonus[k]
                work.costs[k] = expected_cost(counts, parts, z, k, costs[i, k])
            note_arrival(parts.pacer, work.effect, work.costs)
    counts[count.HISTORY] = before + n


@jit
def probability(d: int, K: int, trace: Floats, action: int) -> float:
    """The probability of ``action`` in the decision that left this trace."""
    left = view_trace(trace, d, K, trace.shape[0] - d - 3 * K - 1)
    explorer = view_explorer(left.explorer, d, K)
    best = chance(explorer, left.margin, left.spread, left.ready[0] > 0.0, action)
    share = reserve(explorer)
    at_random = random_share(share, left.even)
    even = at_random / share if share > 0.0 else 0.0
    for k in range(K):
        even -= left.even[k]
    if action > 0:
        even = left.even[action - 1]
    return (1.0 - at_random) * best + share * even


@jit
def probabilities(d: int, K: int, traces: Floats, actions: Ints, results: Floats) -> None:
    """The probability of each of these actions in the decision that left its trace."""
    for i in range(traces.shape[0]):
        results[i] = probability(d, K, traces[i], actions[i])
