"""What the money caused, in ``bccb trust``: what the policy says of it, set against the truth.

The default policy decides and observes as in a loop of one's own, and is asked 60 times. What is
*estimated* at the end should hold the sum of the true effects over the treated users. What is
*measured* should hold at every look what really happened: the outcomes of the treated users who
count by then, less the outcomes of the same users left alone.

Some campaigns learn first from a trial of another time, in which more users converted, and
treatments did twice as much.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from bccb.caused import Caused
from bccb.data.simulator import Outcome
from bccb.data.world import World, simulate_world
from bccb.data.worlds import trial_in
from bccb.decision import Decision
from bccb.evaluate.late import exponential_delays
from bccb.evaluate.live import outcomes_in, value_of
from bccb.evaluate.trials import PAST
from bccb.experiments.experiment import Record
from bccb.experiments.trust import MONEY, Piece, Setup
from bccb.experiments.trust_late import MEAN, SHORTER, WINDOW
from bccb.policies import DEFAULT, make
from bccb.policy import Policy
from bccb.types import Floats, Ints, Log

Reports: TypeAlias = Literal["at once", "late", "after history"]

FIRST_WORLD = 5_000  # seeds that nothing was chosen on
MOST_WORLDS, LEAST_WORLDS, WORLDS_PER_SEED = 75, 2, 0.75
AFTER_HISTORY: Reports = "after history"
HISTORY, ODDS, TIMES = 20_000, 1.3, 2.0  # rows; times as high odds, and effects, as now
LOOKS = 60
ROUNDING = 1e-9  # of the ends of intervals


class Cell(NamedTuple):
    """A kind of campaign."""

    outcome: Outcome
    treatments: int
    reports: Reports


CELLS = (
    Cell("conversion", 1, "at once"),
    Cell("conversion", 2, "at once"),
    Cell("visit", 1, "at once"),
    Cell("visit", 2, "at once"),
    Cell("visit", 1, "late"),
    Cell("visit", 1, AFTER_HISTORY),
)


@dataclass(frozen=True, slots=True)
class Told:
    """What the default policy says that it caused, in one world."""

    world: int
    users: int
    cell: Cell
    kind: str = "caused"

    def make(self) -> list[Record]:
        """One row: the truth, both intervals at the end, and whether one held at all looks."""
        outcome, treatments, reports = self.cell
        world = simulate_world(self.users, self.world, outcome, treatments)
        window = WINDOW * self.users if reports == "late" else None
        policy = make(
            DEFAULT,
            budget=MONEY * self.users,
            horizon=self.users,
            features=world.features.shape[1],
            treatments=treatments,
            seed=self.world,
            window=window,
        )
        if reports == AFTER_HISTORY:
            policy.learn(past_of(self.world, outcome, treatments))
        outcomes, actions = outcomes_in(world), np.zeros(self.users, np.int64)
        if window is None:
            steps, length = drive_at_once(policy, world, outcomes, actions), self.users
        else:
            delays = exponential_delays(self.users, MEAN * self.users, self.world)
            delays = np.maximum(np.ceil(delays), 1.0)  # the first whole time after it happens
            outcomes *= (delays <= window)[:, None]  # later ones count nowhere
            steps = drive_late(policy, world, outcomes, delays, window, actions)
            length = steps_until_all_is_known(self.users, window)
        looks, held = set(looks_over(length)), True
        for step, _ in enumerate(steps, 1):
            if step in looks:
                held = held and holds(policy.caused(), outcomes, actions)
        figures = policy.caused()
        assert figures.estimated is not None
        assert figures.measured is not None
        row: Record = {**self.cell._asdict(), "world": self.world}
        row |= {"truth": value_of(actions, world), "held": held}
        return [
            row | {"estimated": asdict(figures.estimated), "measured": asdict(figures.measured)}
        ]


def past_of(seed: int, outcome: Outcome, treatments: int) -> Log:
    """A trial on other users, of whom more converted, and whom treatments moved more."""
    world = simulate_world(HISTORY, PAST + seed, outcome, treatments)
    alone = ODDS * world.rates[:, :1] / (1.0 + (ODDS - 1.0) * world.rates[:, :1])
    rates = np.hstack((alone, np.clip(alone + TIMES * world.effects, 0.0, 1.0)))
    return trial_in(replace(world, rates=rates), PAST + seed)


def drive_at_once(policy: Policy, world: World, outcomes: Floats, actions: Ints) -> Iterator[None]:
    """Decide on one user at a step, and observe the outcome at once; write the action."""
    for i, (x, costs) in enumerate(zip(world.features, world.costs, strict=True)):
        decision = policy.decide(x, costs)
        actions[i] = decision.action
        policy.observe(decision, float(outcomes[i, decision.action]))
        yield


def drive_late(
    policy: Policy, world: World, outcomes: Floats, delays: Floats, window: float, actions: Ints
) -> Iterator[None]:
    """The same where conversions alone are reported, until the last window has ended.

    User i comes at time i; before that, those who convert are reported, ``delays`` after they came.
    """
    due: dict[int, list[Decision]] = defaultdict(list)
    costs = world.costs
    for t in range(steps_until_all_is_known(world.users, window)):
        for decision in due.pop(t, ()):
            policy.observe(decision, 1.0, at=t)
        if t < world.users:
            decision = policy.decide(world.features[t], costs[t], at=t)
            actions[t] = decision.action
            if outcomes[t, decision.action] > 0.0:
                due[t + int(delays[t])].append(decision)
        else:
            policy.advance(t)
        yield


def steps_until_all_is_known(users: int, window: float) -> int:
    """How many times there are until the last user's window has ended.

    >>> steps_until_all_is_known(10, window=5.0)  # from 0 to 15: the last user came at 9
    16
    """
    return users + int(window) + 1


def looks_over(length: int) -> list[int]:
    """After which steps to look: evenly spaced, the last at the end.

    >>> looks_over(120)[:3], looks_over(120)[-1], len(looks_over(120))
    ([2, 4, 6], 120, 60)
    """
    return [ceil(length * look / LOOKS) for look in range(1, LOOKS + 1)]


def holds(figures: Caused, outcomes: Floats, actions: Ints) -> bool:
    """Whether the measured interval, where there is one yet, holds what really was caused."""
    if figures.measured is None:
        return True
    users = np.arange(figures.measured_users)  # who count: the first ones
    caused = float((outcomes[users, actions[users]] - outcomes[users, 0]).sum())
    return figures.measured.low - ROUNDING <= caused <= figures.measured.high + ROUNDING


def worlds_of_each(setup: Setup) -> int:
    """How many worlds each kind of campaign has: fewer where there are few seeds."""
    return min(MOST_WORLDS, max(LEAST_WORLDS, int(WORLDS_PER_SEED * setup.seeds)))


def every_cell(setup: Setup) -> list[Piece]:
    """A piece for each world; no two share a seed."""
    return [
        Told(
            FIRST_WORLD + place * MOST_WORLDS + number, setup.middle // SHORTER[cell.outcome], cell
        )
        for place, cell in enumerate(CELLS)
        for number in range(worlds_of_each(setup))
    ]
