"""The job of a replay, written as a Python loop round somebody else's learner.

The rule is that of the policy ``bccb``: the two models' effect plus eta times a difference of Beta
draws, against price times cost, with the pace ratio and the warm-up. Users are read from lists,
which are made before the clock starts, because a list is what a Python loop reads fastest.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import bccb


class Learner(Protocol):
    """Two response models, one an arm, that see one user after the other."""

    def see(self, row: int) -> None:
        """Take the next user, the one in this row of the log."""

    def effect(self) -> float:
        """The difference between the two models' predictions for this user."""

    def learn(self, arm: int, outcome: float) -> None:
        """Learn the outcome of this user, who was in this arm."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The users of a log, as lists."""

    actions: list[int]
    outcomes: list[float]
    costs: list[float]


class LoopResult(NamedTuple):
    """What a replay counts."""

    encountered: int
    matched: int
    treated: int
    conversions: float
    spend: float


def stream_of(log: bccb.Log) -> Stream:
    """The log as lists."""
    return Stream(log.actions.tolist(), log.outcomes.tolist(), log.costs[:, 0].tolist())


def replay_in_python(
    learner: Learner, stream: Stream, budget: float, parameters: dict[str, float], seed: int
) -> LoopResult:
    """Stream the users through ``learner``; ``parameters`` are those of the policy ``bccb``."""
    threshold, eta, warm_up = (parameters[key] for key in ("threshold", "eta", "warm_up"))
    least_pace, least_time = parameters["least_pace"], parameters["least_time"]
    draw = random.Random(seed).betavariate
    users, least, remaining = len(stream.costs), min(stream.costs), budget
    seen, alpha, beta = [0, 0], [1.0, 1.0], [1.0, 1.0]
    ready, encountered, conversions = False, 0, 0.0
    for row, cost in enumerate(stream.costs):
        if remaining < least:
            break
        encountered += 1
        learner.see(row)
        pace = remaining / budget / max((users - row - 1) / users, least_time)
        price = threshold / max(pace, least_pace)
        effect = learner.effect() if ready else parameters["prior_effect"]
        bonus = eta * (draw(alpha[1], beta[1]) - draw(alpha[0], beta[0]))
        action = int(cost <= remaining and effect + bonus > price * cost)
        if action != stream.actions[row]:
            continue
        outcome = stream.outcomes[row]
        learner.learn(action, outcome)
        seen[action] += 1
        alpha[action] += outcome
        beta[action] += 1.0 - outcome
        ready = ready or min(seen) >= warm_up
        if action:
            remaining -= cost
            conversions += outcome
    return LoopResult(encountered, sum(seen), seen[1], conversions, budget - remaining)
