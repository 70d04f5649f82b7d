"""Money in ``bccb trust``: costs that are charged on conversion, and a cost cap.

Charged on conversion, two rules are compared in the same worlds: the earlier one, which compares
the effect with the whole cost and has it returned without a conversion; and the present one, which
compares it with the expected cost. The cap is half of what the oracle pays for the last conversion
that its budget buys, so that it binds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bccb.assembly import assemble
from bccb.charge import CONVERSION, TREATMENT, Payment
from bccb.data.world import World
from bccb.data.worlds import ABOUT, CRITEO, make_world
from bccb.evaluate.live import best, live, outcomes_in, value_of
from bccb.experiments.experiment import Claim, Record, Verdict
from bccb.experiments.trust import MIDDLE, MONEY, Piece, Setup
from bccb.experiments.trust_claims import percent
from bccb.pacers.budget_forecast import exhausting_price
from bccb.policies import DEFAULT, spec_of
from bccb.policy import Policy
from bccb.report.rows import Row
from bccb.types import Floats, Ints

FIRST_SEED = 9_500  # of seeds that nothing was chosen on
MOST_SEEDS, LEAST_SEEDS, SEEDS_PER_WORLD = 8, 2, 12
BUDGETS = {CRITEO: 60.0, "linear": 1_000.0, "against": 1_000.0}  # for 100,000 users
LIMITS = {CRITEO: 0.88, "linear": 0.87, "against": 0.80}  # of what the oracle causes
CHARGED = (DEFAULT, "pooled-bayes")
CAPPED = (*tuple(ABOUT)[:9], CRITEO)
HALF = 0.5
OVER = 1.1  # times the cap: a cost up to here keeps it


@dataclass(frozen=True, slots=True)
class Charged:
    """Some policies in one world where costs are charged on conversion, by either rule."""

    world: str
    seed: int
    users: int
    budget: float
    policies: tuple[str, ...] = CHARGED
    kind: str = "charged"

    def make(self) -> list[Record]:
        """A row for each policy: what it causes by each rule, as a share of the oracle's value."""
        world = make_world(self.world, self.users, self.seed)
        most = best(world, self.budget, Payment(CONVERSION)).run.value
        rows: list[Record] = []
        for name in self.policies:
            ours = live(_fresh(name, world, self.budget, self.seed, CONVERSION), world)
            earlier = _fresh(name, world, self.budget, self.seed, TREATMENT)
            before = value_of(drive_at_whole_cost(earlier, world), world)
            row: Record = {"world": self.world, "seed": self.seed, "policy": name}
            row |= {"whole_cost": before / most, "expected_cost": ours.value / most}
            rows.append({**row, "spend": ours.spend / self.budget})
        return rows


@dataclass(frozen=True, slots=True)
class Capped:
    """The default policy in one world with a cost cap that binds."""

    world: str
    seed: int
    users: int
    budget: float
    kind: str = "capped"

    def make(self) -> list[Record]:
        """One row: what a caused conversion really cost beside the cap, and what is left."""
        world = make_world(self.world, self.users, self.seed)
        price = exhausting_price(world.effects, world.costs, self.budget / self.users)
        cap = math.floor(1e6 * HALF / price) / 1e6
        policy = _fresh(DEFAULT, world, self.budget, self.seed, TREATMENT, cap)
        run, most = live(policy, world), best(world, self.budget, Payment(cost_cap=cap)).run
        row: Record = {"world": self.world, "seed": self.seed, "cap": cap}
        row |= {"value": run.value, "spend": run.spend, "left": 1.0 - run.spend / self.budget}
        return [{**row, "share": run.value / most.value}]


def _fresh(
    name: str, world: World, budget: float, seed: int, charge: str, cap: float | None = None
) -> Policy:
    d, K = world.features.shape[1], world.micros.shape[1]
    return assemble(
        spec_of(name),
        budget=budget,
        horizon=world.users,
        features=d,
        treatments=K,
        seed=seed,
        charge=charge,
        cost_cap=cap,
    )


def drive_at_whole_cost(policy: Policy, world: World) -> Ints:
    """The actions of a policy that compares effects with the whole cost, and has the cost returned
    of each user who does not convert.
    """
    outcomes, least = outcomes_in(world), int(world.micros.min())
    actions = np.zeros(world.users, np.int64)
    for i in range(world.users):
        if policy.remaining_micros < least:
            break
        _, action, paid, _, _, trace = policy.step(world.features[i], world.micros[i])
        y = float(outcomes[i, action])
        policy.learn_outcome(trace, action, y)
        if not y:
            policy.refund(paid)
        if policy.fit_due:
            policy.fit()
        actions[i] = action
    return actions


def seeds(setup: Setup) -> range:
    """The seeds of each world: fewer where there are few seeds."""
    count = min(MOST_SEEDS, max(LEAST_SEEDS, setup.seeds // SEEDS_PER_WORLD))
    return range(FIRST_SEED, FIRST_SEED + count)


def every_charge(setup: Setup) -> list[Piece]:
    """A piece for each seed and world that is charged on conversion."""
    users = setup.middle
    return [
        Charged(world, seed, users, budget * users / MIDDLE)
        for seed in seeds(setup)
        for world, budget in BUDGETS.items()
    ]


def every_cap(setup: Setup) -> list[Piece]:
    """A piece for each seed and world with a cost cap."""
    users = setup.middle
    return [Capped(world, seed, users, MONEY * users) for seed in seeds(setup) for world in CAPPED]


def charged_table(rows: Sequence[Row]) -> list[Record]:
    """A row for each world and policy: the mean share of the oracle's value by each rule."""
    made = []
    for world, policy in dict.fromkeys((row["world"], row["policy"]) for row in rows):
        own = [row for row in rows if (row["world"], row["policy"]) == (world, policy)]
        line: Record = {"world": world, "policy": policy}
        for rule in ("whole_cost", "expected_cost"):
            shares = _over(own, rule)
            line |= {rule: float(shares.mean()), f"{rule}_se": _error(shares)}
        made.append({**line, "spent": float(_over(own, "spend").mean()), "seeds": len(own)})
    return made


def capped_table(rows: Sequence[Row]) -> list[Record]:
    """A row for each world: what a caused conversion cost, as a share of the cap, and the rest."""
    made = []
    for world in dict.fromkeys(row["world"] for row in rows):
        own = [row for row in rows if row["world"] == world]
        cap, value, spend = (_over(own, name) for name in ("cap", "value", "spend"))
        line: Record = {"world": world, "cap": float(cap.mean())}
        # of all seeds together: in one alone hardly anything may be worth its price
        worth = float((cap * value).sum())
        relative = float(spend.sum()) / worth if worth > 0 else None
        line |= {"relative_cost": relative, "left": float(_over(own, "left").mean())}
        made.append({**line, "share": float(_over(own, "share").mean()), "seeds": len(own)})
    return made


def reaches_the_oracle(charged: Sequence[Row], worlds: int) -> Claim:
    """Our default is near the oracle where costs are charged on conversion."""
    limits = ", ".join(f"{percent(limit)} ({world})" for world, limit in LIMITS.items())
    text = f"charged on conversion, {DEFAULT} causes this much of what the oracle does: {limits}"
    own = [row for row in charged if row["policy"] == DEFAULT]
    short = [row["world"] for row in own if row["expected_cost"] < LIMITS[row["world"]]]
    figure = ", ".join(f"{percent(row['expected_cost'], 1)} ({row['world']})" for row in own)
    return Claim(text, _verdict(short, worlds), f"{figure}, {worlds} worlds of each kind")


def keeps_the_cap(capped: Sequence[Row], worlds: int) -> Claim:
    """A caused conversion costs no more than the cap allows."""
    text = f"with a cost cap {DEFAULT} pays at most 10 % more than it for a caused conversion"
    costs = {row["world"]: row["relative_cost"] for row in capped}
    relative = {world: math.inf if cost is None else cost for world, cost in costs.items()}
    dearest = max(relative, key=lambda world: float(relative[world]))
    dear = [world for world, cost in relative.items() if cost > OVER]
    figure = f"dearest: {relative[dearest]:.2f} of the cap ({dearest})"
    return Claim(text, _verdict(dear, worlds), f"{figure}, {worlds} worlds of each kind")


def _verdict(failed: Sequence[str], worlds: int) -> Verdict:
    if worlds < 5:
        return "cannot tell"
    return "does not hold" if failed else "holds"


def _over(rows: Sequence[Row], name: str) -> Floats:
    return np.array([row[name] for row in rows], np.float64)


def _error(numbers: Floats) -> float:
    """The standard error of the mean."""
    return float(numbers.std(ddof=1) / math.sqrt(len(numbers)))
