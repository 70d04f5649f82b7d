"""The paper's experiments as data: which runs each of its tables needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bccb.composition import Composition
from bccb.errors import InputError
from bccb.experiments.plan import Run
from bccb.pacers import PACERS
from bccb.policies import DEFAULT, POLICIES, spec_of
from bccb.report.looks import OFFLINE, OURS
from bccb.spec import Spec

USERS = 100_000
BUDGETS = (1_000.0, 2_000.0, 3_000.0, 5_000.0, 8_000.0)
MIDDLE = 5_000.0  # the budget of every experiment except the first
SIZES = (500, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 25_000, 50_000)
STABILITY_SIZES = (2_000, 5_000, 7_500, 10_000, 50_000)
SEEDS = tuple(range(42, 62))
SENSITIVITY_SEEDS = 10
# Ours: what history is worth. Names that are not in the table of policies are left out.
WITH_HISTORY = ("offline-uplift", "offline-forecast", "offline-boosted", "hybrid")
COLD = (OURS, DEFAULT)
ADVANTAGES = (  # the first is tested against the second
    *(("hybrid", other) for other in (*WITH_HISTORY, *COLD) if other != "hybrid"),
    (DEFAULT, OFFLINE),
)
SWEEPS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {  # our parameter's name: the paper's five values
        "eta": (0.001, 0.005, 0.01, 0.05, 0.1),
        "threshold": (1e-4, 5e-4, 1e-3, 5e-3, 1e-2),
        "least_pace": (0.01, 0.05, 0.1, 0.2, 0.5),
        "prior_effect": (0.0, 0.001, 0.002, 0.005, 0.01),
        "warm_up": (10.0, 25.0, 50.0, 100.0, 200.0),
    }
)


@dataclass(frozen=True, slots=True)
class Setup:
    """The size of the experiments: the paper's, or one scaled to another trial."""

    users: int = USERS
    budgets: tuple[float, ...] = BUDGETS
    middle: float = MIDDLE
    sizes: tuple[int, ...] = SIZES
    seeds: tuple[int, ...] = SEEDS
    policies: tuple[str, ...] = field(
        default_factory=lambda: tuple(
            name for name, spec in POLICIES.items() if not spec.needs_effects
        )
    )

    @classmethod
    def scaled(cls, rows: int, seeds: tuple[int, ...]) -> Setup:
        """Two thirds of another trial as the stream, budgets in proportion, history of the rest."""
        users = min(USERS, 2 * rows // 3)
        sizes = tuple(n for n in SIZES if n <= rows - users)
        if len(sizes) < 2:
            raise InputError("the number of rows of the log", rows, f"at least {3 * SIZES[1]:,}")
        share = users / USERS
        budgets = tuple(budget * share for budget in BUDGETS)
        return cls(users=users, budgets=budgets, middle=MIDDLE * share, sizes=sizes, seeds=seeds)

    @property
    def few_seeds(self) -> tuple[int, ...]:
        """The seeds of the sensitivity sweeps."""
        return self.seeds[:SENSITIVITY_SEEDS]

    @property
    def rows(self) -> int:
        """The rows that a log must have: the stream and the largest history."""
        return self.users + max(self.sizes)

    def check(self, rows: int) -> None:
        """Refuse a log that is too small, before anything runs."""
        if rows < self.rows:
            parts = f"{self.users:,} in the stream, {max(self.sizes):,} before"
            allowed = f"at least {self.rows:,}: {parts}"
            raise InputError("the number of rows of the log", rows, allowed)


def online(setup: Setup) -> list[Run]:
    """Section 5.1: every policy at every budget."""
    return [
        at(setup, name, budget, seed)
        for name in setup.policies
        for budget in setup.budgets
        for seed in setup.seeds
    ]


def crossover(setup: Setup) -> list[Run]:
    """Section 5.2: the offline pipeline after n rows of history, and ours after none."""
    offline = [after(setup, OFFLINE, n, seed) for n in setup.sizes for seed in setup.seeds]
    return [*offline, *(at(setup, OURS, setup.middle, seed) for seed in setup.seeds)]


def history(setup: Setup) -> list[Run]:
    """Ours: every method that learns from history after n rows of it, and others after none."""
    runs = (
        after(setup, name, n, seed)
        for name in known((*WITH_HISTORY, *COLD))
        for n in setup.sizes
        for seed in setup.seeds
    )
    return list(dict.fromkeys(runs))  # a cold one is the same run whatever n is


def sensitivity(setup: Setup) -> list[Run]:
    """Section 5.3: one parameter of ours at a time."""
    return [
        swept(setup, parameter, value, seed)
        for parameter, values in SWEEPS.items()
        for value in values
        for seed in setup.few_seeds
    ]


def diagnostics(setup: Setup) -> list[Run]:
    """Section 5.4: every policy at the middle budget."""
    return [at(setup, name, setup.middle, seed) for name in setup.policies for seed in setup.seeds]


# Ours: what each component is worth. A constant effect needs the price that suits its scale.
EXPLORED: Mapping[str, tuple[tuple[str, float | None], ...]] = MappingProxyType(
    {  # estimator: explorers, and the weight of those that have one
        "none": (("beta-difference", 0.1), ("beta-difference", 1.0)),
        "constant": (("none", None),),
        "two-model": (("coin", None), ("beta-difference", 0.1)),
        "two-model-standardised": (("coin", None), ("beta-difference", 0.1)),
        "ridge-pair": (("none", None), ("beta-difference", 0.1), ("upper-confidence", None)),
        "frozen": (("none", None), ("beta-difference", 0.1)),
    }
)
SCALE_FREE = ("none", "budget-forecast")


def combinations() -> list[Spec]:
    """Every sensible estimator x explorer x pacer, as policies that look at the cost."""
    specs = []
    for estimator, explorers in EXPLORED.items():
        for explorer, weight in explorers:
            for pacer in SCALE_FREE if estimator == "constant" else PACERS:
                shown = explorer if weight is None else f"{explorer} {weight:g}"
                parameters = {} if weight is None else {"eta": weight}
                composition = Composition(estimator, explorer, pacer)
                name = f"{estimator} x {shown} x {pacer}"
                specs.append(Spec(name, "", composition, parameters))
    return specs


def ablation(setup: Setup) -> list[Run]:
    """Ours: every combination at the middle budget."""
    largest = max(setup.sizes)
    return [
        Run.of(spec, setup.middle, seed, largest) for spec in combinations() for seed in setup.seeds
    ]


def at(setup: Setup, name: str, budget: float, seed: int) -> Run:
    """The run of a policy as it stands in the table, after the largest history."""
    return Run.of(spec_of(name), budget, seed, max(setup.sizes))


def after(setup: Setup, name: str, n: int, seed: int) -> Run:
    """The run of a policy at the middle budget after n rows, if it learns from them."""
    return Run.of(spec_of(name), setup.middle, seed, n)


def known(names: Iterable[str]) -> list[str]:
    """Those of the names that are policies."""
    return [name for name in names if name in POLICIES]


def swept(setup: Setup, parameter: str, value: float, seed: int) -> Run:
    """The run of ours with one parameter changed."""
    return Run.of(spec_of(OURS), setup.middle, seed, max(setup.sizes), **{parameter: value})
