"""The drivers: how a policy's kernels make a decision and learn from an outcome.

A policy's state is two arrays. ``counts`` (int64) holds its dimensions, its clock and its money in
integer micros; ``memory`` (float64) holds the scaler, the estimator, the explorer and the pacer,
one after the other. The same drivers serve the library, replay and the service. They are written
against empty slots; ``compose`` compiles a copy of them with a policy's own kernels.

A decision leaves a trace, one row of float64: the user's raw features, then what the probability
of the action is computed from, should anybody ask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from bccb.errors import InputError
from bccb.estimators import ESTIMATORS
from bccb.explorers import EXPLORERS
from bccb.kernels.borrow import borrow
from bccb.kernels.component import Component
from bccb.kernels.jit import bind, jit
from bccb.kernels.linalg import copy
from bccb.kernels.rng import key_of, uniform
from bccb.kernels.scaling import READERS, scaler_size, see, view_scaler
from bccb.kernels.scaling import standardise as prepare
from bccb.kernels.slots import (
    chance,
    explore,
    forecast,
    learn_estimator,
    learn_explorer,
    note_arrival,
    predict,
    price,
    reserve,
    view_estimator,
    view_explorer,
    view_pacer,
)
from bccb.pacers import PACERS
from bccb.types import LEAST_COST, MOST_COST, MOST_FEATURE, Floats, Ints

FEATURES, TREATMENTS, SEED, NUMBER, HORIZON, BUDGET, REMAINING = range(7)
PROPOSED, EXPLORED, HISTORY, PLANNED, SINCE = range(7, 12)
AT_ESTIMATOR, AT_EXPLORER, AT_PACER, END = range(12, 16)
COUNTS = 16

MICROS = 1_000_000
MOST_USERS, MOST_FEATURES, MOST_TREATMENTS = 2**53, 100_000, 1_000
ROUNDING = 1e-15  # what a float of currency units may be off, in parts
NOT_FINITE, NOT_A_COST = -1, -2  # instead of an action: nothing was changed
NOT_LEARNED = -1  # instead of the rows of history: some must be learned before the first decision
RECENT = 2_000  # rows at the end of a history from which the pacer learns
MOST_AT_RANDOM = 0.5  # of the users among whom a random choice is made
RESERVED = 1 << 20  # the lane of the draw for a random choice, beyond those of explorers
REHEARSAL = 1 << 60  # the draws for those rows must not be those of any decision

COST_AWARE = True


@jit
def micros_of(cost: float) -> int:
    """A cost in integer micros, rounded up."""
    return math.ceil(cost * MICROS * (1.0 - ROUNDING))


@jit
def trace_size(counts: Ints) -> int:
    """Raw x; margin, spread and even rate of each treatment; ready; the explorer's memory."""
    explorer = counts[AT_PACER] - counts[AT_EXPLORER]
    return int(counts[FEATURES] + 3 * counts[TREATMENTS] + 1 + explorer)


def trace_size_of(composition: Composition, d: int, K: int) -> int:
    """The same, before there are counts."""
    return d + 3 * K + 1 + composition.components[1].size(d, K)


def space_size(d: int, K: int) -> int:
    """Work space: z with its closing 1, then effect and bonus for each treatment."""
    return d + 1 + 2 * K


@jit
def refuse(x: Floats, costs: Floats) -> int:
    """0, or why this user cannot be decided on."""
    for j in range(x.shape[0]):
        if not abs(x[j]) <= MOST_FEATURE:
            return NOT_FINITE
    for k in range(costs.shape[0]):
        if not LEAST_COST <= costs[k] <= MOST_COST:
            return NOT_A_COST
    return 0


@jit
def first_refused(x: Floats, costs: Floats) -> int:
    """The first row that cannot be decided on, or -1."""
    for i in range(x.shape[0]):
        if refuse(x[i], costs[i]) != 0:
            return i
    return -1


class Parts(NamedTuple):
    """A policy's memory, seen as the named states of its parts."""

    scaler: Any
    estimator: Any
    explorer: Any
    pacer: Any
    explorer_memory: Floats


class Work(NamedTuple):
    """Work space and trace of one decision, seen by name."""

    x: Floats  # (d,), trace
    margin: Floats  # (K,), trace
    spread: Floats  # (K,), trace
    even: Floats  # (K,), trace: the rate of each treatment in a random choice
    ready: Floats  # (1,), trace
    explorer: Floats  # trace
    z: Floats  # (d+1,)
    effect: Floats  # (K,)
    bonus: Floats  # (K,)


@jit
def view(counts: Ints, memory: Floats) -> Parts:
    """See the memory as the policy's parts."""
    memory = borrow(memory)
    d, K = counts[FEATURES], counts[TREATMENTS]
    explorer_memory = memory[counts[AT_EXPLORER] : counts[AT_PACER]]
    return Parts(
        view_scaler(memory, d),
        view_estimator(memory[counts[AT_ESTIMATOR] : counts[AT_EXPLORER]], d, K),
        view_explorer(explorer_memory, d, K),
        view_pacer(memory[counts[AT_PACER] : counts[END]], d, K),
        explorer_memory,
    )


@jit
def view_work(counts: Ints, trace: Floats, work: Floats) -> Work:
    """See a trace and work space by name."""
    trace, work = borrow(trace), borrow(work)
    d, K = counts[FEATURES], counts[TREATMENTS]
    m = d + 3 * K
    return Work(
        trace[:d],
        trace[d : d + K],
        trace[d + K : d + 2 * K],
        trace[d + 2 * K : m],
        trace[m : m + 1],
        trace[m + 1 :],
        work[: d + 1],
        work[d + 1 : d + 1 + K],
        work[d + 1 + K : d + 1 + 2 * K],
    )


@jit
def delivery(counts: Ints) -> float:
    """The share of proposed money that was paid, from 1 on: some treatments are not delivered.

    In replay these are the proposals that the trial did not follow. A hundredth of the budget
    counts as proposed and paid before the first user.
    """
    before = 0.01 * counts[BUDGET]
    paid = counts[BUDGET] - counts[REMAINING]
    return float((before + paid) / (before + counts[PROPOSED]))


@jit
def propose(
    counts: Ints, parts: Parts, x: Floats, costs: Floats, work: Work
) -> tuple[int, float, float]:
    """See one more user: the action that is best, the price and the score. Spends nothing.

    The price is known before the user's own draws are, so that their probability is, too. Shares of
    money and time are those of the plan, which begins anew when money is added.
    """
    counts[NUMBER] += 1
    t, T, seed, remaining = counts[NUMBER], counts[HORIZON], counts[SEED], counts[REMAINING]
    to_come = remaining / MICROS / max(T - t + 1, 1) / delivery(counts)
    forecast(parts.pacer, to_come, t == 1)
    time = max(T - counts[SINCE], 1)
    lam = price(parts.pacer, remaining / counts[PLANNED], (T - t) / time)
    see(parts.scaler, x)
    prepare(parts.scaler, x, work.z)
    ready = predict(parts.estimator, work.z, work.effect, work.spread)
    explore(parts.explorer, seed, t, work.spread, ready, work.bonus)

    best, score = 0, -math.inf
    for k in range(costs.shape[0]):
        paid = lam * costs[k] if COST_AWARE else lam
        affordable = micros_of(costs[k]) <= remaining
        work.margin[k] = work.effect[k] - paid if affordable else -math.inf
        s = work.margin[k] + work.bonus[k]
        if s > score:
            best, score = k + 1, s
        # what is forced in warm-up is no effect, and says nothing of the price
        work.effect[k] += work.bonus[k] if ready else 0.0
    note_arrival(parts.pacer, work.effect, costs)
    work.ready[0] = 1.0 if ready else 0.0
    if best == 0:  # nothing can be afforded
        score = 0.0
    action = best if score > 0.0 else 0
    share = reserve(parts.explorer)
    spread_evenly(work, costs, to_come if share > 0.0 else 0.0)
    drawn = uniform(key_of(seed, t, RESERVED), 0) if share > 0.0 else 1.0
    if drawn < share:
        action = named(work.even, drawn / share)
    if action > 0:
        counts[PROPOSED] += micros_of(costs[action - 1])
        counts[EXPLORED] += micros_of(costs[action - 1]) if drawn < share else 0
    return action, lam, score


@jit
def spread_evenly(work: Work, costs: Floats, to_come: float) -> None:
    """Write the rate of each treatment at which all treatments cost what is to come at most.

    Together they leave at least every other user alone, however much money there is: without
    anybody to compare with, nobody could tell what a treatment causes.
    """
    K = costs.shape[0]
    for k in range(K):
        affordable = work.margin[k] > -math.inf
        work.even[k] = min(to_come / costs[k], MOST_AT_RANDOM) / K if affordable else 0.0


@jit
def named(even: Floats, drawn: float) -> int:
    """The action that a number drawn from [0, 1) names: treatment k at its rate, else 0."""
    for k in range(even.shape[0]):
        drawn -= even[k]
        if drawn < 0.0:
            return k + 1
    return 0


@jit
def learn(parts: Parts, z: Floats, action: int, outcome: float) -> None:
    """Learn the outcome of an action on a user with prepared features z."""
    learn_estimator(parts.estimator, z, action, outcome)
    learn_explorer(parts.explorer, action, outcome)


@jit
def decide(
    counts: Ints, memory: Floats, x: Floats, costs: Floats, trace: Floats, space: Floats
) -> tuple[int, int, int, float, float]:
    """Propose an action and pay for it: number, action, the micros paid, price, score.

    A negative action says why nothing was done.
    """
    reason = refuse(x, costs)
    if reason != 0:
        return 0, reason, 0, 0.0, 0.0
    parts, work = view(counts, memory), view_work(counts, trace, space)
    copy(work.x, x)
    copy(work.explorer, parts.explorer_memory)
    action, lam, score = propose(counts, parts, x, costs, work)
    paid = micros_of(costs[action - 1]) if action > 0 else 0
    counts[REMAINING] -= paid
    return int(counts[NUMBER]), action, paid, lam, score


@jit
def decide_many(
    counts: Ints,
    memory: Floats,
    x: Floats,
    costs: Floats,
    traces: Floats,
    space: Floats,
    actions: Ints,
    paid: Ints,
    prices: Floats,
    scores: Floats,
    horizons: Ints,
) -> None:
    """Decide on one user after the other; all must have passed ``refuse``.

    ``horizons`` are those that hold for each of them, or none where the horizon stays as it is.
    """
    for i in range(x.shape[0]):
        if horizons.shape[0] > 0:
            counts[HORIZON] = horizons[i]
        _, actions[i], paid[i], prices[i], scores[i] = decide(
            counts, memory, x[i], costs[i], traces[i], space
        )


@jit
def observe(
    counts: Ints, memory: Floats, trace: Floats, action: int, outcome: float, space: Floats
) -> None:
    """Learn the outcome of an action from the trace that its decision left."""
    d = counts[FEATURES]
    parts, x, z = view(counts, memory), borrow(trace)[:d], borrow(space)[: d + 1]
    prepare(parts.scaler, x, z)
    learn(parts, z, action, outcome)


@jit
def observe_many(
    counts: Ints, memory: Floats, traces: Floats, actions: Ints, outcomes: Floats, space: Floats
) -> None:
    """Learn one outcome after the other."""
    for i in range(traces.shape[0]):
        observe(counts, memory, traces[i], actions[i], outcomes[i], space)


@jit
def absorb(
    counts: Ints,
    memory: Floats,
    x: Floats,
    actions: Ints,
    outcomes: Floats,
    costs: Floats,
    space: Floats,
) -> None:
    """Learn a history: users who are seen, and their outcomes, before the first decision.

    Then the pacer notes the last of them with today's effects, to know a price from the start.
    """
    K = counts[TREATMENTS]
    trace = np.empty(trace_size(counts))
    parts, work = view(counts, memory), view_work(counts, trace, space)
    n, z, before = x.shape[0], work.z, max(counts[HISTORY], 0)
    for i in range(n):
        see(parts.scaler, x[i])
        prepare(parts.scaler, x[i], z)
        learn(parts, z, actions[i], outcomes[i])
    for i in range(max(n - RECENT, 0), n):
        prepare(parts.scaler, x[i], z)
        if predict(parts.estimator, z, work.effect, work.spread):
            number = REHEARSAL + before + i
            explore(parts.explorer, counts[SEED], number, work.spread, True, work.bonus)
            for k in range(K):
                work.effect[k] += work.bonus[k]
            note_arrival(parts.pacer, work.effect, costs[i])
    counts[HISTORY] = before + n


@jit
def probability(d: int, K: int, trace: Floats, action: int) -> float:
    """The probability of ``action`` in the decision that left this trace."""
    m = d + 3 * K
    explorer = view_explorer(trace[m + 1 :], d, K)
    ready = trace[m] > 0.0
    best = chance(explorer, trace[d : d + K], trace[d + K : d + 2 * K], ready, action)
    share = reserve(explorer)
    even = 1.0
    for k in range(K):
        even -= trace[d + 2 * K + k]
    if action > 0:
        even = trace[d + 2 * K + action - 1]
    return (1.0 - share) * best + share * even


@jit
def probabilities(d: int, K: int, traces: Floats, actions: Ints, found: Floats) -> None:
    """The probability of each of these actions in the decision that left its trace."""
    for i in range(traces.shape[0]):
        found[i] = probability(d, K, traces[i], actions[i])


@dataclass(frozen=True, slots=True)
class Composition:
    """Estimator x explorer x pacer, by name, and whether the rule looks at the cost."""

    estimator: str
    explorer: str
    pacer: str
    cost_aware: bool = True

    @property
    def components(self) -> tuple[Component, Component, Component]:
        """The three components."""
        return ESTIMATORS[self.estimator], EXPLORERS[self.explorer], PACERS[self.pacer]

    @property
    def fitted(self) -> bool:
        """Whether the estimator is fitted on history at once, and not row by row."""
        return self.components[0].fit is not None

    def to_dict(self) -> dict[str, Any]:
        """The composition in plain types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Any) -> Composition:
        """The composition that :meth:`to_dict` told."""
        try:
            made = cls(**kept)
            known = len(made.components) == 3 and isinstance(made.cost_aware, bool)
        except (TypeError, KeyError):
            known = False
        if not known:
            raise InputError("composition", kept, "components of this version")
        return made

    @property
    def name(self) -> str:
        """A name unlike that of any other composition."""
        cost = "cost-aware" if self.cost_aware else "cost-blind"
        return f"{self.estimator}__{self.explorer}__{self.pacer}__{cost}"

    def offsets(self, d: int, K: int) -> list[int]:
        """Where the estimator, the explorer and the pacer begin in the memory, and its end."""
        sizes = [scaler_size(d), *(part.size(d, K) for part in self.components)]
        return [int(at) for at in np.cumsum(sizes)]


@cache
def compose(composition: Composition) -> dict[str, Callable[..., Any]]:
    """The drivers of a composition, and the kernels that further drivers can be bound to."""
    estimator, explorer, pacer = composition.components
    kernels: dict[str, Any] = {
        "COST_AWARE": composition.cost_aware,
        **READERS[estimator.reads],
        **estimator.kernels,
        **explorer.kernels,
        **pacer.kernels,
    }
    templates: tuple[Callable[..., Any], ...] = (
        *(view, propose, learn, decide, decide_many),
        *(observe, observe_many, absorb, probability, probabilities),
    )
    for template in templates:
        kernels[template.__name__] = bind(template, composition.name, kernels)
    return kernels
