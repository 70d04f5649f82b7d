"""Planning: what a campaign may be expected to cause, and how well that will be known at its end.

Campaigns of the default policy are simulated, with several shares of decisions made at random
(``reserve``). A larger share costs a part of what is caused, and makes the measured interval
narrower. :mod:`.assumptions` says who the users are.

Its trees are never fitted here: a plan's users differ in ways that the pooled model knows without
them. With fits a plan takes four times as long, for figures that differ by some percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bccb import checks
from bccb.assembly import assemble
from bccb.charge import AT_ONCE, TREATMENT, Payment, payment_of
from bccb.data.world import World
from bccb.errors import InputError
from bccb.evaluate.assumptions import (
    Assumed,
    AssumedAmounts,
    Target,
    of_trial,
    simulated,
    users_of,
    with_largest,
    world_of,
)
from bccb.evaluate.charged import payment_for
from bccb.evaluate.parallel import OnProgress, fan_out
from bccb.intervals import Interval
from bccb.kernels.component import FIRST_FIT
from bccb.money import budget_in_micros
from bccb.outcome import Kind
from bccb.policies import DEFAULT, spec_of
from bccb.policy import Policy
from bccb.types import Log

RESERVES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
SEEDS = tuple(range(42, 50))
OFTEN = 0.8  # of the campaigns: a reserve that shows an effect this often is recommended
MOST_USERS, FEWEST = 2_000_000, 100
SHOWN = 100_000  # simulated users whose rate and effect are shown
NEVER = {FIRST_FIT: 1e9}  # after more outcomes than a plan has users


class Campaign(NamedTuple):
    """One simulated campaign, at its end."""

    reserve: float
    caused: float  # the truth
    spend: float
    treated: int
    estimated: Interval | None  # None where nobody converted, in money
    measured: Interval | None  # None where some amounts are below 0
    needed: int  # users to be treated before anything is measured; 0 once they were
    losses: int  # amounts below 0
    wide: bool  # of amounts: what is measured tells next to nothing


@dataclass(frozen=True, slots=True)
class Outlook:
    """Campaigns with one share of decisions at random: means over the seeds."""

    reserve: float
    caused: float  # conversions, or value
    deviation: float | None  # over seeds; None with a single one
    treated: float
    spend: float
    estimated_reach: float  # half the width of the interval
    measured: Interval | None  # None where amounts are below 0, or it tells next to nothing
    shown: float | None  # the share of campaigns whose measured interval excludes 0, likewise
    needed: int = 0  # users to be treated before anything is measured; 0 once they were
    has_losses: bool = False  # whether some amounts are below 0

    @property
    def return_on_spend(self) -> float | None:
        """What is caused for each unit of money; None where nothing is spent."""
        return self.caused / self.spend if self.spend else None


@dataclass(frozen=True, slots=True)
class Plan:
    """The question and the outlooks, by reserve."""

    budget: float
    users: int
    target: Target
    simulated: bool  # users of the simulator stand for the real ones, not those of a trial
    outlooks: tuple[Outlook, ...]
    payment: Payment = AT_ONCE
    worth: AssumedAmounts | None = None  # where outcomes are amounts of money
    cost: float | None = None  # of treating a simulated user, where it was given

    @property
    def kind(self) -> Kind:
        """The kind of outcomes."""
        return Kind.CONVERSION if self.worth is None else Kind.AMOUNT

    @property
    def has_losses(self) -> bool:
        """Whether some amounts are below 0, so that nothing is measured in some campaigns."""
        return any(each.has_losses for each in self.outlooks)

    @property
    def usual(self) -> Outlook:
        """With the smallest reserve, which is the default one."""
        return self.outlooks[0]

    @property
    def enough(self) -> Outlook | None:
        """The smallest reserve that shows an effect in most campaigns, if there is one."""
        if self.has_losses:
            return None
        return next((each for each in self.outlooks if (each.shown or 0.0) >= OFTEN), None)

    def figures(self) -> dict[str, Any]:
        """The plan in plain types; with amounts, figures are in the currency of the amounts."""
        figures = {**asdict(self), "target": self.target._asdict(), "kind": str(self.kind)}
        figures |= figures.pop("payment")._asdict()
        if self.worth is None:
            return figures
        figures["worth"] = {**figures["worth"]._asdict(), "factor": self.worth.factor}
        for row, outlook in zip(figures["outlooks"], self.outlooks, strict=True):
            row["return_on_spend"] = outlook.return_on_spend
        return figures


def plan(
    budget: float,
    users: int,
    target: Target | None = None,
    trial: Log | None = None,
    *,
    amount: float | None = None,
    cost: float | None = None,
    charge: str = TREATMENT,
    cost_cap: float | None = None,
    share: float | None = None,
    largest: float | None = None,
    seeds: Sequence[int] = SEEDS,
    jobs: int = 1,
    progress: OnProgress | None = None,
) -> Plan:
    """Simulate campaigns of the default policy with this budget and so many users.

    The users are those of ``trial``, drawn with replacement, or the simulator's. Everybody's odds
    of a conversion are shifted alike, so that rate and effect are those of the trial, or those of
    ``target``; without either they are the simulator's. Where the outcomes of the trial are
    amounts, or simulated conversions bring ``amount`` on average, what is caused is a value, in
    their currency. ``cost`` is that of treating a simulated user. ``charge``, ``cost_cap``,
    ``share`` and ``largest`` are those of :func:`bccb.make`; ``largest`` is by default what 99 %
    of conversions stay below.

    >>> outlook = plan(budget=50, users=1_000, target=Target(0.1, 0.05), seeds=[1, 2]).usual
    >>> outlook.reserve, outlook.caused > 0
    (0.01, True)
    """
    budget_in_micros(checks.number("budget", budget))
    checks.whole("users", users, FEWEST, MOST_USERS)
    checks.seeds(seeds)
    payment = _payment(trial, amount, charge, cost_cap, share)
    assumed = with_largest(_assumed(target, trial, amount, cost), largest)
    tasks = [(reserve, seed) for reserve in RESERVES for seed in seeds]
    done: list[Campaign] = []
    for campaign in fan_out(partial(_campaign, budget, users, assumed, payment), tasks, jobs):
        done.append(campaign)
        if progress is not None:
            progress(len(done), len(tasks), f"reserve {campaign.reserve:g}")
    outlooks = tuple(_outlook([c for c in done if c.reserve == each], users) for each in RESERVES)
    used = assumed.target or _usual_target(min(users, SHOWN), seeds[0])
    return Plan(budget, users, used, trial is None, outlooks, payment, assumed.worth, assumed.cost)


def _payment(
    trial: Log | None,
    amount: float | None,
    charge: str,
    cost_cap: float | None,
    share: float | None,
) -> Payment:
    """How treatments are paid for; checked: a share is one of an amount."""
    if trial is not None:
        return payment_for(trial, charge, cost_cap, share)
    payment = payment_of(charge, cost_cap, share)
    if share is not None and amount is None:
        raise InputError("share", share, "left out, or given with an amount: it is a share of that")
    return payment


def _assumed(
    target: Target | None, trial: Log | None, amount: float | None, cost: float | None
) -> Assumed:
    """What is assumed of the users; what a trial says may not be given as well."""
    if trial is None:
        number = None if amount is None else checks.number("amount", amount)
        return simulated(target, number, cost)
    for field, given in (
        ("--rate and --effect", None if target is None else tuple(target)),
        ("amount", amount),
        ("cost", cost),
    ):
        if given is not None:
            raise InputError(field, given, "left out: it is taken from the trial")
    return of_trial(trial)


def _usual_target(users: int, seed: int) -> Target:
    """The rate and the effect of simulated users as they are."""
    rates = world_of(users, seed, Assumed()).rates
    return Target(float(rates[:, 0].mean()), float((rates[:, 1] - rates[:, 0]).mean()))


def _campaign(
    budget: float, users: int, assumed: Assumed, payment: Payment, task: tuple[float, int]
) -> Campaign:
    """One campaign, in which every outcome is known at once."""
    reserve, seed = task
    world, outcomes, values = users_of(users, seed, assumed)
    policy = _policy(budget, world, assumed.worth, payment, reserve, seed)
    actions = np.zeros(users, np.int64)
    for i, (x, costs) in enumerate(zip(world.features, world.costs, strict=True)):
        decision = policy.decide(x, costs)
        actions[i] = decision.action
        policy.observe(decision, float(outcomes[i, decision.action]))
    rows = np.flatnonzero(actions)
    caused = float((values[rows, actions[rows]] - values[rows, 0]).sum())
    found = policy.caused()
    known = found.estimated, found.measured, found.needed, found.losses, found.wide
    return Campaign(reserve, caused, policy.spent, len(rows), *known)


def _policy(
    budget: float,
    world: World,
    worth: AssumedAmounts | None,
    payment: Payment,
    reserve: float,
    seed: int,
) -> Policy:
    """The default policy for the users of a world."""
    return assemble(
        spec_of(DEFAULT).changed(reserve=reserve, **NEVER),
        budget=budget,
        horizon=world.users,
        features=world.features.shape[1],
        treatments=world.micros.shape[1],
        seed=seed,
        outcome=world.kind,
        largest=None if worth is None else worth.largest,
        **payment._asdict(),
    )


def _outlook(campaigns: Sequence[Campaign], users: int) -> Outlook:
    caused = np.array([each.caused for each in campaigns])
    estimated = [each.estimated for each in campaigns if each.estimated is not None]
    if not estimated:
        raise InputError("users", users, "more: nobody converts in any of the simulated campaigns")
    measured = [each.measured for each in campaigns if each.measured is not None]
    ends = np.array([(each.value, each.low, each.high) for each in measured])
    needed = max(each.needed for each in campaigns)
    known = len(measured) == len(campaigns) and not (needed or any(each.wide for each in campaigns))
    return Outlook(
        reserve=campaigns[0].reserve,
        caused=float(caused.mean()),
        deviation=float(caused.std(ddof=1)) if len(caused) > 1 else None,
        treated=float(np.mean([each.treated for each in campaigns])),
        spend=float(np.mean([each.spend for each in campaigns])),
        estimated_reach=float(np.mean([0.5 * (each.high - each.low) for each in estimated])),
        measured=Interval(*ends.mean(axis=0).tolist()) if known else None,
        shown=float(((ends[:, 1] > 0.0) | (ends[:, 2] < 0.0)).mean()) if known else None,
        needed=needed,
        has_losses=any(each.losses for each in campaigns),
    )
