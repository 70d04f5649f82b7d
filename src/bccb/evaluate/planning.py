"""Planning: what a campaign may be expected to cause, and how well that will be known at its end.

Campaigns of the default policy are simulated, with several shares of decisions made at random
(``reserve``). A larger share costs a part of what is caused, and makes the measured interval
narrower.

Its trees are never fitted here: a plan's users differ in ways that the pooled model knows without
them. With fits a plan takes four times as long, for figures that differ by some percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bccb import checks
from bccb.assembly import assemble
from bccb.charge import AT_ONCE, TREATMENT, Payment, payment_of
from bccb.data.world import World, simulate_world
from bccb.errors import InputError
from bccb.evaluate.outcome_model import predict
from bccb.evaluate.parallel import OnProgress, fan_out
from bccb.intervals import Interval
from bccb.kernels.component import FIRST_FIT
from bccb.money import budget_in_micros
from bccb.policies import DEFAULT, spec_of
from bccb.types import Floats, Log

RESERVES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
SEEDS = tuple(range(42, 50))
OFTEN = 0.8  # of the campaigns: a reserve that shows an effect this often is recommended
MOST_USERS, FEWEST = 2_000_000, 100
FEWEST_CONVERSIONS = 20  # of each arm of a trial
STREAM = 7  # keeps the draws of rows apart from others
SHOWN = 100_000  # simulated users whose rate and effect are shown
FARTHEST = 30.0  # logits
NEVER = {FIRST_FIT: 1e9}  # after more outcomes than a plan has users


class Target(NamedTuple):
    """What one more conversion rests on: the rate without treatment, and what treating adds."""

    rate: float
    effect: float


class Campaign(NamedTuple):
    """One simulated campaign, at its end."""

    reserve: float
    caused: float  # the truth
    spend: float
    treated: int
    estimated: Interval
    measured: Interval


@dataclass(frozen=True, slots=True)
class Outlook:
    """Campaigns with one share of decisions at random: means over the seeds."""

    reserve: float
    caused: float
    deviation: float | None  # over seeds; None with a single one
    treated: float
    spend: float
    estimated_reach: float  # half the width of the interval
    measured: Interval
    shown: float  # the share of campaigns whose measured interval excludes 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The question and the outlooks, by reserve."""

    budget: float
    users: int
    target: Target
    simulated: bool  # users of the simulator stand for the real ones, not those of a trial
    outlooks: tuple[Outlook, ...]
    payment: Payment = AT_ONCE

    @property
    def usual(self) -> Outlook:
        """With the smallest reserve, which is the default one."""
        return self.outlooks[0]

    @property
    def enough(self) -> Outlook | None:
        """The smallest reserve that shows an effect in most campaigns, if there is one."""
        return next((each for each in self.outlooks if each.shown >= OFTEN), None)

    def figures(self) -> dict[str, Any]:
        """The plan in plain types."""
        figures = {**asdict(self), "target": self.target._asdict()}
        return {**figures, **figures.pop("payment")._asdict()}


def plan(
    budget: float,
    users: int,
    target: Target | None = None,
    trial: Log | None = None,
    *,
    charge: str = TREATMENT,
    cost_cap: float | None = None,
    seeds: Sequence[int] = SEEDS,
    jobs: int = 1,
    progress: OnProgress | None = None,
) -> Plan:
    """Simulate campaigns of the default policy with this budget and so many users.

    The users are those of ``trial``, drawn with replacement, or the simulator's. Everybody's odds
    of a conversion are shifted alike, so that rate and effect are those of the trial, or those of
    ``target``; without either they are the simulator's. ``charge`` and ``cost_cap`` are those of
    :func:`bccb.make`.

    >>> outlook = plan(budget=50, users=1_000, target=Target(0.1, 0.05), seeds=[1, 2]).usual
    >>> outlook.reserve, outlook.caused > 0, outlook.measured.low < outlook.caused
    (0.01, True, True)
    """
    budget_in_micros(checks.number("budget", budget))
    payment = payment_of(charge, cost_cap)
    checks.whole("users", users, FEWEST, MOST_USERS)
    if not seeds:
        raise InputError("seeds", seeds, "at least one")
    if target is not None and trial is not None:
        raise InputError("--rate and --effect", tuple(target), "left out: they are the trial's")
    if target is not None:
        _check_target(target)
    if trial is not None:
        target = _target_of(trial)
    tasks = [(reserve, seed) for reserve in RESERVES for seed in seeds]
    shape = None if trial is None else _shape(trial)
    work = partial(_campaign, budget, users, target, shape, payment)
    done: list[Campaign] = []
    for campaign in fan_out(work, tasks, jobs):
        done.append(campaign)
        if progress is not None:
            progress(len(done), len(tasks), f"reserve {campaign.reserve:g}")
    outlooks = tuple(_outlook([c for c in done if c.reserve == each]) for each in RESERVES)
    if target is None:
        world = simulate_world(min(users, SHOWN), seeds[0])
        target = Target(float(world.rates[:, 0].mean()), float(world.effects.mean()))
    return Plan(budget, users, target, trial is None, outlooks, payment)


def _check_target(target: Target) -> None:
    if not 0.0 < target.rate < 1.0:
        raise InputError("rate", target.rate, "above 0 and below 1, such as 0.05")
    if not -target.rate < target.effect < 1.0 - target.rate:
        allowed = f"such that the rate {target.rate:g} with it stays between 0 and 1"
        raise InputError("effect", target.effect, allowed)


def _target_of(trial: Log) -> Target:
    """Rate and effect of a trial, the average over its treatments."""
    if trial.amounts:
        allowed = "conversions: a plan does not say what amounts to expect; name a yes/no outcome"
        raise InputError("the outcome of the trial", "amounts of money", allowed)
    if trial.probabilities is not None:
        allowed = "left out: a plan needs a randomised trial, not a log of a policy's decisions"
        raise InputError("the probabilities of the log", "given", allowed)
    treated = trial.actions > 0
    for who, rows in (("treated", treated), ("untreated", ~treated)):
        conversions = float(trial.outcomes[rows].sum())
        if conversions < FEWEST_CONVERSIONS:
            allowed = f"at least {FEWEST_CONVERSIONS}; or give --rate and --effect"
            raise InputError(f"conversions of {who} users in the trial", conversions, allowed)
    rate = float(trial.outcomes[~treated].mean())
    return Target(rate, float(trial.outcomes[treated].mean()) - rate)


class Shape(NamedTuple):
    """Users of a trial: features, costs, and their rates without treatment."""

    features: Floats
    micros: Any
    rates: Floats


def _shape(trial: Log) -> Shape:
    left = trial.actions == 0
    rates = predict(trial.features[left], trial.outcomes[left], trial.features)
    return Shape(trial.features, trial.micros, np.clip(rates, 1e-9, 1.0 - 1e-9))


def _world(users: int, seed: int, target: Target | None, shape: Shape | None) -> World:
    world = simulate_world(users, seed, "conversion" if target is None else "visit")
    if target is None:
        return world
    base, features, micros = world.rates[:, 0], world.features, world.micros
    if shape is not None:
        rows = np.random.default_rng((seed, STREAM)).integers(0, len(shape.rates), users)
        base, features, micros = shape.rates[rows], shape.features[rows], shape.micros[rows]
    base = _shifted(base, target.rate)
    treated = _shifted(base, target.rate + target.effect)
    rates = np.column_stack((base, *(treated for _ in range(micros.shape[1]))))
    return replace(world, features=features, micros=micros, rates=rates)


def _shifted(rates: Floats, mean: float) -> Floats:
    """The rates with all odds multiplied by one factor, so that their mean is ``mean``."""
    logits = np.log(rates / (1.0 - rates))
    low, high = -FARTHEST, FARTHEST
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = (1.0 / (1.0 + np.exp(-logits - middle))).mean() > mean
        low, high = (low, middle) if above else (middle, high)
    return np.asarray(1.0 / (1.0 + np.exp(-logits - low)))


def _campaign(
    budget: float,
    users: int,
    target: Target | None,
    shape: Shape | None,
    payment: Payment,
    task: tuple[float, int],
) -> Campaign:
    """One campaign, in which every outcome is known at once."""
    reserve, seed = task
    world = _world(users, seed, target, shape)
    spec = spec_of(DEFAULT).changed(reserve=reserve, **NEVER)
    d, K = world.features.shape[1], world.costs.shape[1]
    size = {"budget": budget, "horizon": users, "features": d, "treatments": K, "seed": seed}
    policy = assemble(spec, **size, **payment._asdict())
    outcomes = (world.draws[:, None] < world.rates).astype(np.float64)
    actions = np.zeros(users, np.int64)
    for i, (x, costs) in enumerate(zip(world.features, world.costs, strict=True)):
        decision = policy.decide(x, costs)
        actions[i] = decision.action
        policy.observe(decision, float(outcomes[i, decision.action]))
    rows = np.flatnonzero(actions)
    caused = float((world.rates[rows, actions[rows]] - world.rates[rows, 0]).sum())
    figures = policy.caused()
    assert figures.estimated is not None
    assert figures.measured is not None
    return Campaign(reserve, caused, policy.spent, len(rows), figures.estimated, figures.measured)


def _outlook(campaigns: Sequence[Campaign]) -> Outlook:
    caused = np.array([each.caused for each in campaigns])
    ends = np.array([(c.measured.value, c.measured.low, c.measured.high) for c in campaigns])
    return Outlook(
        reserve=campaigns[0].reserve,
        caused=float(caused.mean()),
        deviation=float(caused.std(ddof=1)) if len(caused) > 1 else None,
        treated=float(np.mean([each.treated for each in campaigns])),
        spend=float(np.mean([each.spend for each in campaigns])),
        estimated_reach=float(
            np.mean([0.5 * (each.estimated.high - each.estimated.low) for each in campaigns])
        ),
        measured=Interval(*ends.mean(axis=0).tolist()),
        shown=float(((ends[:, 1] > 0.0) | (ends[:, 2] < 0.0)).mean()),
    )
