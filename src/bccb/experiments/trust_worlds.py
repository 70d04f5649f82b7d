"""Worlds in ``bccb trust``: every policy in every world, live, beside the oracle.

Seeds of their own, on which nothing was chosen. What a policy causes is a share of what the oracle
does on the same users with the same money; one that cannot be fitted treats nobody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bccb.assembly import assemble
from bccb.data.world import World
from bccb.data.worlds import ABOUT, make_world, trial_in
from bccb.errors import FitError
from bccb.evaluate.live import Live, best, live
from bccb.evaluate.trials import PAST
from bccb.experiments.experiment import Record
from bccb.experiments.trust import MONEY, NOBODY, ORACLE, Piece, Setup
from bccb.policies import DEFAULT, NAIVE, POLICIES, spec_of
from bccb.policy import Policy
from bccb.report.rows import Row
from bccb.types import Floats, Log

FIRST_SEED = 9_000  # of seeds that nothing was chosen on
MOST_SEEDS, SEEDS_PER_WORLD = 4, 25
SHORTER = 5  # the short campaigns have a fifth of the users
NAMES = tuple(name for name, spec in POLICIES.items() if not spec.needs_effects)
PRINTED = (*NAIVE, DEFAULT, "hybrid")  # in the terminal, which is narrow


@dataclass(frozen=True, slots=True)
class InWorld:
    """Every policy in one world with one seed, in campaigns of each size, after one history."""

    world: str
    seed: int
    sizes: tuple[int, ...]
    history: int
    policies: tuple[str, ...] = NAMES
    kind: str = "worlds"

    def make(self) -> list[Record]:
        """A row for each size and policy, the oracle first."""
        past = trial_in(make_world(self.world, self.history, PAST + self.seed), PAST + self.seed)
        learners: dict[str, Policy | None] = {}
        rows: list[Record] = []
        for users in self.sizes:
            world = make_world(self.world, users, self.seed)
            runs = {ORACLE: best(world, MONEY * users).run}
            runs |= {name: self._run(name, world, past, learners) for name in self.policies}
            stream = {"world": self.world, "users": users, "seed": self.seed}
            rows += [{**stream, "policy": name, **asdict(run)} for name, run in runs.items()]
        return rows

    def _run(self, name: str, world: World, past: Log, learners: dict[str, Policy | None]) -> Live:
        policy = self._fresh(name, world)
        if policy.needs_history:
            if name not in learners:
                learners[name] = _learned(self._fresh(name, world), past)
            learner = learners[name]
            if learner is None:
                return NOBODY
            policy.adopt(learner)
        return live(policy, world)

    def _fresh(self, name: str, world: World) -> Policy:
        users, (d, K) = world.users, (world.features.shape[1], world.micros.shape[1])
        size = {"budget": MONEY * users, "horizon": users, "features": d, "treatments": K}
        return assemble(spec_of(name), seed=self.seed, **size)


def _learned(policy: Policy, past: Log) -> Policy | None:
    """The policy after its history; None without a fit."""
    try:
        policy.learn(past)
    except FitError:  # too few conversions to fit on
        return None
    return policy


def seeds(setup: Setup) -> range:
    """The seeds of each world: fewer where there are few seeds."""
    count = min(MOST_SEEDS, max(1, setup.seeds // SEEDS_PER_WORLD))
    return range(FIRST_SEED, FIRST_SEED + count)


def every_world(setup: Setup) -> list[Piece]:
    """A piece for each seed and world."""
    sizes = (setup.middle, max(setup.middle // SHORTER, 1))
    return [InWorld(world, seed, sizes, setup.history) for seed in seeds(setup) for world in ABOUT]


def cells_of(rows: Sequence[Row]) -> list[tuple[int, str]]:
    """Every size and world, in the order in which they first appear."""
    return list(dict.fromkeys((row["users"], row["world"]) for row in rows))


def shares(rows: Sequence[Row], users: int, world: str, policy: str) -> Floats:
    """What a policy causes in a world, as a share of what the oracle does, for each seed."""
    own = [row for row in rows if (row["users"], row["world"]) == (users, world)]
    values = {
        name: np.array(
            [row["value"] for row in sorted(own, key=_seed) if row["policy"] == name], np.float64
        )
        for name in (policy, ORACLE)
    }
    return values[policy] / values[ORACLE]


def table(rows: Sequence[Row]) -> list[Record]:
    """A row for each size and world: the mean share of every policy, and their largest error."""
    made = []
    names = list(dict.fromkeys(row["policy"] for row in rows if row["policy"] != ORACLE))
    for users, world in cells_of(rows):
        by_policy = {name: shares(rows, users, world, name) for name in names}
        means = {name: _rounded(float(each.mean())) for name, each in by_policy.items()}
        errors = [_error(each) for each in by_policy.values() if len(each) > 1]
        error = _rounded(max(errors)) if errors else None
        made.append({"users": users, "world": world, **means, "error": error})
    return sorted(made, key=lambda row: -row["users"])


def _seed(row: Row) -> int:
    return int(row["seed"])


def _rounded(share: float) -> float:
    return round(share, 3) + 0.0  # -0.0 becomes 0.0


def _error(numbers: Floats) -> float:
    """The standard error of the mean."""
    return float(numbers.std(ddof=1) / math.sqrt(len(numbers)))
