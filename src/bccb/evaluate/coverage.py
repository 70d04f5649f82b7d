"""Coverage: whether the estimates are right and their intervals honest, where the truth is known.

Simulated users are treated with a probability that depends on their features, as are the outcomes:
without the weights every estimate would be wrong. Others are treated by our default policy, which
learns as it goes and leaves few of those it treats to chance. The true value is the sum of the
true effects over the users who were treated in that log or, for the target policy, over the users
it would treat. It differs from log to log, so the error is measured in each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from bccb.data import simulate
from bccb.data.simulator import Outcome, load_model, outcome_rates
from bccb.data.world import simulate_world
from bccb.evaluate import outcome_model
from bccb.evaluate.estimates import Estimate
from bccb.evaluate.evaluation import evaluate_log, evaluate_proposals
from bccb.evaluate.proposals import Proposals
from bccb.policies import DEFAULT, make
from bccb.types import Floats, Log

STREAM = 2  # keeps these draws apart from those of the simulator
LEAST, SLOPE = 0.2, 0.6  # the probability of treating: with no active feature, and its rise
MONEY_PER_USER = 0.05  # for the default policy's own log
CHEAP = 0.77  # the mean cost: the target policy treats below it, and all active users


@dataclass(frozen=True, slots=True)
class Finding:
    """One estimate in one simulated log, and the true value."""

    policy: str
    truth: float
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Coverage:
    """How one method did over all logs; a bias within two of its standard errors may be chance."""

    policy: str
    method: str
    repetitions: int
    truth: float  # on average
    bias: float  # the mean error
    bias_se: float
    covered: float  # the share of logs whose 95 % interval holds the truth
    width: float  # of the intervals, on average


def try_once(users: int, seed: int) -> list[Finding]:
    """Make two logs of decisions, and estimate what they caused and what a target policy would.

    >>> [f"{one.policy}: {one.estimate.method}" for one in try_once(1_000, seed=1)]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['this log: IPW', 'this log: SNIPS', 'this log: DR',
     'a fixed target: IPW', 'a fixed target: SNIPS', 'a fixed target: DR',
     'log of pooled-trees: IPW', 'log of pooled-trees: SNIPS', 'log of pooled-trees: DR']
    """
    log = simulate_decisions(users, seed)
    own = decide_live(users, seed)
    assert log.effects is not None
    assert own.effects is not None
    rates = outcome_model.outcome_rates(log)
    active = _activity(log.features) > 0.5
    wanted = (active | (log.costs[:, 0] < CHEAP)).astype(np.int64)
    target = Proposals(wanted, float(log.costs[wanted > 0].sum()), 0)
    caused = float(own.effects[own.actions > 0].sum())
    others = evaluate_log(own, outcome_model.outcome_rates(own)).estimates
    return [
        Finding(evaluation.policy, float(log.effects[actions > 0].sum()), estimate)
        for evaluation, actions in (
            (evaluate_log(log, rates), log.actions),
            (evaluate_proposals("a fixed target", log, rates, target), wanted),
        )
        for estimate in evaluation.estimates
    ] + [Finding(f"log of {DEFAULT}", caused, estimate) for estimate in others]


def decide_live(users: int, seed: int, outcome: Outcome = "visit") -> Log:
    """The log that the default policy leaves when it decides on users of the simulator.

    >>> log = decide_live(300, seed=1)
    >>> log.probabilities is not None and bool(log.probabilities.min() > 0)
    True
    """
    world = simulate_world(users, seed=seed, outcome=outcome)
    policy = make(
        budget=MONEY_PER_USER * users, horizon=users, features=world.features.shape[1], seed=seed
    )
    actions, outcomes, chances = np.empty(users, np.int64), np.empty(users), np.empty(users)
    for i, cost in enumerate(world.costs[:, 0].tolist()):
        decision = policy.decide(world.features[i], cost)
        actions[i], chances[i] = decision.action, decision.probability
        outcomes[i] = world.draws[i] < world.rates[i, decision.action]
        policy.observe(decision, float(outcomes[i]))
    return Log(
        features=world.features,
        actions=actions,
        outcomes=outcomes,
        micros=world.micros,
        probabilities=chances,
        effects=world.effects,
    )


def simulate_decisions(users: int, seed: int, outcome: Outcome = "visit") -> Log:
    """Users of the simulator, treated with probabilities from 0.2 to 0.8 by their features.

    >>> log = simulate_decisions(1_000, seed=1)
    >>> log.probabilities is not None and bool(log.probabilities.min() >= 0.2)
    True
    """
    trial = simulate(users, seed=seed, outcome=outcome)
    rates = outcome_rates(load_model(), trial.features, outcome)
    generator = np.random.default_rng((seed, STREAM))
    chance = LEAST + SLOPE * _activity(trial.features)
    actions = (generator.random(users) < chance).astype(np.int64)
    outcomes = (generator.random(users) < rates[actions, np.arange(users)]).astype(np.float64)
    probabilities = np.where(actions == 1, chance, 1.0 - chance)
    return replace(
        trial, actions=actions, outcomes=outcomes, probabilities=probabilities, known_shares=None
    )


def _activity(features: Floats) -> Floats:
    """The share of features that are away from their mode, which says most about a user."""
    return np.asarray((features != load_model().modes).mean(axis=1))


def summarise(findings: Iterable[Finding]) -> list[Coverage]:
    """One line for each policy and method, in the order in which they first appear."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.policy, finding.estimate.method), []).append(finding)
    return [_summary(policy, method, group) for (policy, method), group in groups.items()]


def _summary(policy: str, method: str, group: list[Finding]) -> Coverage:
    truth = np.array([one.truth for one in group])
    low = np.array([one.estimate.low for one in group])
    high = np.array([one.estimate.high for one in group])
    errors = np.array([one.estimate.incremental for one in group]) - truth
    return Coverage(
        policy=policy,
        method=method,
        repetitions=len(group),
        truth=float(truth.mean()),
        bias=float(errors.mean()),
        bias_se=float(errors.std() / np.sqrt(len(group))),
        covered=float(((low <= truth) & (truth <= high)).mean()),
        width=float((high - low).mean()),
    )
