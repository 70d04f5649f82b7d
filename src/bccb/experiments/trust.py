"""The experiments of ``bccb trust`` as data: which pieces of work it needs, and what each makes.

A piece holds everything that its figures depend on, and makes rows of plain types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, Protocol

from bccb.assembly import assemble
from bccb.data import simulate
from bccb.data.simulator import load_model
from bccb.data.world import simulate_world
from bccb.errors import FitError, InputError
from bccb.evaluate.coverage import Finding, try_once
from bccb.evaluate.live import Live, best, live
from bccb.evaluate.parallel import fan_out
from bccb.evaluate.replay import Replay, replay
from bccb.evaluate.statistics import paired_bootstrap, paired_t
from bccb.evaluate.trials import PAST
from bccb.experiments.experiment import Record
from bccb.experiments.plan import source_of
from bccb.experiments.store import Store
from bccb.policies import DEFAULT, POLICIES, spec_of
from bccb.policy import Policy
from bccb.types import Log

MONEY = 0.05  # for each user: 5,000 at 100,000 users
HISTORY = 50_000
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
MIDDLE = 100_000  # the size of the table of values
ORACLE = "oracle"
UNRESERVED = "pooled-no-reserve"  # draws no decision at random
TWINS = ("bccb", DEFAULT)  # the policies that are compared with themselves
TWIN_FIGURES = ("conversions", "incremental")
APART = 10_000  # how far apart the seeds of one size are from those of the next

NOBODY = Live(0.0, 0.0, 0.0, 0)


class Entrant(NamedTuple):
    """A policy of the table, perhaps with a parameter changed."""

    name: str
    policy: str
    parameters: tuple[tuple[str, float], ...] = ()

    def fresh(self, users: int, seed: int) -> Policy:
        """A new policy with its share of money for so many simulated users."""
        return assemble(
            spec_of(self.policy).changed(**dict(self.parameters)),
            budget=MONEY * users,
            horizon=users,
            features=len(load_model().modes),
            treatments=1,
            seed=seed,
        )


ENTRANTS = (
    *(Entrant(name, name) for name, spec in POLICIES.items() if not spec.needs_effects),
    Entrant(UNRESERVED, DEFAULT, (("reserve", 0.0),)),
)


@dataclass(frozen=True, slots=True)
class Setup:
    """How much is run."""

    sizes: tuple[int, ...] = SIZES
    seeds: int = 100  # at up to ``EVEN`` users; fewer beyond
    history: int = HISTORY
    repetitions: int = 1_000
    comparisons: int = 1_000

    def __post_init__(self) -> None:
        for name, least, most in (
            ("seeds", 2, APART),
            ("history", 1_000, 10_000_000),
            ("repetitions", 2, 100_000),
            ("comparisons", 2, 100_000),
        ):
            if not least <= getattr(self, name) <= most:
                raise InputError(name, getattr(self, name), f"from {least} to {most:,}")
        if not self.sizes or min(self.sizes) < LEAST_USERS or max(self.sizes) > MOST_USERS:
            allowed = f"from {LEAST_USERS} to {MOST_USERS:,}"
            raise InputError("users", list(self.sizes), allowed)

    def seeds_at(self, users: int) -> int:
        """Regret varies less with more users, which also take longer: fewer seeds for them."""
        return min(self.seeds, max(LEAST_SEEDS, round(self.seeds * EVEN / users)))

    @property
    def middle(self) -> int:
        """The size of the table of values."""
        return max((size for size in self.sizes if size <= MIDDLE), default=min(self.sizes))


LEAST_USERS, MOST_USERS = 100, 10_000_000
EVEN = 20_000
LEAST_SEEDS = 5
QUICK = Setup(SIZES[:5], seeds=10, history=20_000, repetitions=100, comparisons=50)


class Piece(Protocol):
    """Work that one process does at once."""

    @property
    def kind(self) -> str:
        """What its rows are about."""

    def make(self) -> list[Record]:
        """The rows."""


@dataclass(frozen=True, slots=True)
class Lives:
    """Every policy decides live on the users of every size, with one seed and one history."""

    seed: int
    sizes: tuple[tuple[int, int], ...]  # users, and the seed of their world
    history: int
    kind: str = "lives"

    def make(self) -> list[Record]:
        """A row for each size and policy; the oracle's has the bound that none can pass."""
        past = simulate(self.history, seed=PAST + self.seed)
        rows: list[Record] = []
        learners: dict[str, Policy] = {}
        for users, world_seed in self.sizes:
            world, budget = simulate_world(users, world_seed), MONEY * users
            oracle = best(world, budget)
            stream = {"users": users, "seed": self.seed}
            rows.append({**stream, "policy": ORACLE, **asdict(oracle.run), "bound": oracle.bound})
            for entrant in ENTRANTS:
                policy = self._ready(entrant, users, past, learners)
                run = NOBODY if policy is None else live(policy, world)
                rows.append({**stream, "policy": entrant.name, **asdict(run)})
        return rows

    def _ready(
        self, entrant: Entrant, users: int, past: Log, learners: dict[str, Policy]
    ) -> Policy | None:
        """A policy ready to decide, its history learned once for all sizes; None without a fit."""
        policy = entrant.fresh(users, self.seed)
        if policy.needs_history:
            try:
                if policy.name not in learners:
                    learner = entrant.fresh(users, self.seed)
                    learner.learn(past)
                    learners[policy.name] = learner
            except FitError:  # too few conversions to fit on
                return None
            policy.adopt(learners[policy.name])
        return policy


@dataclass(frozen=True, slots=True)
class Estimates:
    """Some repetitions of the estimates from simulated logs of decisions."""

    first: int
    count: int
    users: int = 10_000
    kind: str = "estimates"

    def make(self) -> list[Record]:
        """A row for each repetition, policy and method."""
        seeds = range(self.first, self.first + self.count)
        return [_finding(one) for seed in seeds for one in try_once(self.users, seed)]


@dataclass(frozen=True, slots=True)
class Copies:
    """Some comparisons of two copies of one policy, which differ in their own draws alone.

    A comparison is made of ``pairs`` streams. The outcome is the visit, which is frequent enough
    for small streams: with a handful of conversions most pairs would be ties.
    """

    first: int
    count: int
    pairs: int = 20
    users: int = 2_000
    kind: str = "twins"

    def make(self) -> list[Record]:
        """A row for each comparison, policy and figure: is the difference significant?"""
        numbers = range(self.first, self.first + self.count)
        return [row for number in numbers for row in self._compare(number)]

    def _compare(self, number: int) -> Iterator[Record]:
        streams = range(number * self.pairs, (number + 1) * self.pairs)
        logs = {seed: simulate(self.users, seed=seed, outcome="visit") for seed in streams}
        for name in TWINS:
            pairs = [
                [self._replay(name, log, 2 * s + i) for i in (0, 1)] for s, log in logs.items()
            ]
            for figure in TWIN_FIGURES:
                ones, others = ([getattr(pair[i], figure) for pair in pairs] for i in (0, 1))
                low, high = paired_bootstrap(ones, others)
                compared = {"comparison": number, "policy": name, "figure": figure}
                apart = bool(low > 0 or high < 0)
                yield {**compared, "p": paired_t(ones, others), "bootstrap": apart}

    def _replay(self, name: str, log: Log, seed: int) -> Replay:
        return replay(Entrant(name, name).fresh(self.users, seed), log)


def _finding(one: Finding) -> Record:
    return {"policy": one.policy, "truth": one.truth, "estimate": asdict(one.estimate)}


CHUNK = 25  # repetitions or comparisons of one piece


def lives(setup: Setup) -> list[Piece]:
    """Every seed with the sizes that it is run at, the longest work of all."""
    pieces: list[Piece] = []
    for seed in range(setup.seeds):
        sizes = tuple(
            (users, place * APART + seed)
            for place, users in enumerate(setup.sizes)
            if seed < setup.seeds_at(users)
        )
        if sizes:
            pieces.append(Lives(seed, sizes, setup.history))
    return pieces


def estimates(setup: Setup) -> list[Piece]:
    """All repetitions of the estimates."""
    return [Estimates(*chunk) for chunk in _chunks(setup.repetitions)]


def copies(setup: Setup) -> list[Piece]:
    """All comparisons of a policy with its copy."""
    return [Copies(*chunk) for chunk in _chunks(setup.comparisons)]


def _chunks(total: int) -> list[tuple[int, int]]:
    """The first number and the count of each piece."""
    return [(first, min(CHUNK, total - first)) for first in range(0, total, CHUNK)]


def execute(pieces: Sequence[Piece], store: Store, jobs: int = 1) -> Iterator[Piece]:
    """Make the pieces that are missing in the store; yield each as it is done."""
    missing = [piece for piece in pieces if store.get(source_of(piece)) is None]
    for piece, rows in fan_out(_made, missing, jobs):
        store.add([(source_of(piece), {"rows": rows})])
        yield piece


def _made(piece: Piece) -> tuple[Piece, list[Record]]:
    return piece, piece.make()


def begins_cold(name: str) -> bool:
    """Whether an entrant begins without history and is not a variant of another."""
    return name in POLICIES and not spec_of(name).needs_history
