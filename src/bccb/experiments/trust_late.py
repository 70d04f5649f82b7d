"""Late outcomes in ``bccb trust``: only conversions are reported, and they are reported late.

Three ways to learn are compared in the same worlds: every outcome at once, which is the limit; the
earlier rule of the service, which learned conversions when they were reported and zeros when the
window ended; and evidence that ages (:mod:`bccb.ageing`). Times are shares of the campaign.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np

from bccb.data import simulate
from bccb.data.simulator import Outcome
from bccb.data.world import World, simulate_world
from bccb.evaluate.late import STREAM
from bccb.evaluate.live import best, live, outcomes_in, value_of
from bccb.evaluate.trials import PAST
from bccb.experiments.experiment import Record
from bccb.experiments.trust import MONEY, Entrant, Piece, Setup
from bccb.policies import DEFAULT, POLICIES
from bccb.policy import Policy
from bccb.spec import Spec
from bccb.types import Floats, Ints, Log

FIRST_WORLD = 700  # seeds that nothing was chosen on
MOST_WORLDS, SEEDS_PER_WORLD, LEAST_WORLDS = 12, 8, 2
MEAN, WINDOW = 0.1, 0.5
SHORTER: dict[Outcome, int] = {
    "conversion": 1,
    "visit": 5,
}  # visits are frequent: a fifth of the users is enough


class Case(NamedTuple):
    """Delays with a mean of 1, a row for each user and a column for each action; and a window."""

    name: str
    draw: Callable[[np.random.Generator, int], Floats]
    window: float = WINDOW


def _exponential(generator: np.random.Generator, users: int) -> Floats:
    return np.tile(generator.exponential(size=users)[:, None], 2)


def _weibull(generator: np.random.Generator, users: int) -> Floats:
    return np.tile(generator.weibull(0.5, users)[:, None] / 2.0, 2)


def _log_normal(generator: np.random.Generator, users: int) -> Floats:
    return np.tile(generator.lognormal(-0.5 * 1.5**2, 1.5, users)[:, None], 2)


def _treated_faster(generator: np.random.Generator, users: int) -> Floats:
    return _exponential(generator, users) * [1.0, 0.5]


def _treated_slower(generator: np.random.Generator, users: int) -> Floats:
    return _exponential(generator, users) * [1.0, 2.0]


USUAL = "exponential"
CASES = {
    case.name: case
    for case in (
        Case(USUAL, _exponential),
        Case("window of two campaigns", _exponential, 2.0),
        Case("Weibull, shape 0.5", _weibull),
        Case("log-normal, spread 1.5", _log_normal),
        Case("treated twice as fast", _treated_faster),
        Case("treated half as fast", _treated_slower),
    )
}


def learns(spec: Spec) -> bool:
    """Whether a policy learns from the outcomes of its own decisions.

    >>> learns(POLICIES["thompson"]), learns(POLICIES["offline-uplift"])
    (True, False)
    """
    estimator, explorer, _ = spec.composition.components
    return "learn_estimator" in estimator.kernels or "learn_explorer" in explorer.kernels


LEARNERS = tuple(name for name, spec in POLICIES.items() if learns(spec) and not spec.needs_effects)


@dataclass(frozen=True, slots=True)
class Late:
    """Some learners in one world with one kind of delays, in each of the three ways."""

    world: int
    users: int
    outcome: Outcome
    case: str
    policies: tuple[str, ...]
    history: int
    kind: str = "late"

    def make(self) -> list[Record]:
        """A row for each policy: what it causes in each way, as a share of the oracle's value."""
        world, case = simulate_world(self.users, self.world, self.outcome), CASES[self.case]
        generator = np.random.default_rng((self.world, STREAM))
        delays = MEAN * self.users * case.draw(generator, self.users)
        window = case.window * self.users
        most = best(world, MONEY * self.users).run.value
        rows: list[Record] = []
        for name in self.policies:
            past = self._past() if POLICIES[name].needs_history else None
            at_once, earlier, ageing = (self._ready(name, past) for _ in range(3))
            actions = drive_by_the_earlier_rule(earlier, world, delays, window)
            row: Record = {"outcome": self.outcome, "delays": self.case, "world": self.world}
            row |= {"policy": name, "at_once": live(at_once, world).value / most}
            row |= {"earlier": value_of(actions, world) / most}
            row |= {"ageing": live(ageing, world, delays, window).value / most}
            rows.append(row)
        return rows

    def _past(self) -> Log:
        return simulate(self.history, PAST + self.world, self.outcome)

    def _ready(self, name: str, past: Log | None) -> Policy:
        policy = Entrant(name, name).fresh(self.users, self.world)
        if past is not None:
            policy.learn(past)
        return policy


def drive_by_the_earlier_rule(policy: Policy, world: World, delays: Floats, window: float) -> Ints:
    """The actions where conversions are learned when reported, and zeros when the window ends.

    User i comes at time i, and conversions come as in :mod:`bccb.evaluate.late`.
    """
    users, outcomes, least = world.users, outcomes_in(world), int(world.micros.min())
    actions, oldest = np.zeros(users, np.int64), 0
    waiting: dict[int, Floats] = {}  # the traces of users without a report
    due: dict[int, list[int]] = defaultdict(list)
    for t in range(users):
        while t - oldest > window:
            if oldest in waiting:
                policy.learn_outcome(waiting.pop(oldest), int(actions[oldest]), 0.0)
            oldest += 1
        for user in due.pop(t, ()):
            policy.learn_outcome(waiting.pop(user), int(actions[user]), 1.0)
        if policy.remaining_micros < least:
            break
        _, action, _, _, _, waiting[t] = policy.step(world.features[t], world.micros[t])
        actions[t] = action
        if outcomes[t, action] > 0.0:
            reported = max(ceil(t + delays[t, action]), t + 1)
            if reported - t <= window:
                due[reported].append(t)
    return actions


def worlds(setup: Setup) -> range:
    """The seeds of the worlds: fewer where there are few seeds."""
    count = min(MOST_WORLDS, max(LEAST_WORLDS, setup.seeds // SEEDS_PER_WORLD))
    return range(FIRST_WORLD, FIRST_WORLD + count)


def every_learner(setup: Setup) -> list[Piece]:
    """All learners with the usual delays."""
    return _pieces(setup, (USUAL,), LEARNERS)


def every_case(setup: Setup) -> list[Piece]:
    """The default policy with each other kind of delays."""
    return _pieces(setup, [name for name in CASES if name != USUAL], (DEFAULT,))


def _pieces(setup: Setup, cases: Sequence[str], policies: tuple[str, ...]) -> list[Piece]:
    """A piece for each world, outcome and kind of delays."""
    return [
        Late(world, max(setup.middle // shorter, 1), outcome, case, policies, setup.history)
        for world in worlds(setup)
        for outcome, shorter in SHORTER.items()
        for case in cases
    ]
