"""Compare policies: each one replayed at each budget with each seed, on the same streams."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from bccb import checks
from bccb.assembly import assemble_for
from bccb.charge import AT_ONCE, TREATMENT, Payment, payment_of
from bccb.errors import FitError, InputError
from bccb.evaluate.charged import payment_for
from bccb.evaluate.choice import Evidence
from bccb.evaluate.overlap import ALONE, TREATED, no_support_for_amounts
from bccb.evaluate.parallel import OnProgress, fan_out
from bccb.evaluate.replay import Replay, replay
from bccb.evaluate.statistics import Limits
from bccb.evaluate.steps import Step, steps
from bccb.evaluate.trials import Trial
from bccb.intervals import QUANTILE, Total, difference
from bccb.outcome import Kind, typical_size
from bccb.pacers.budget_forecast import exhausting_price
from bccb.policies import spec_of
from bccb.policy import Policy
from bccb.spec import Spec
from bccb.types import Floats, Log


@dataclass(frozen=True, slots=True)
class PolicyReplay:
    """One replay of one policy at one budget with one seed."""

    policy: str
    budget: float
    seed: int
    result: Replay
    note: str = ""

    def figures(self) -> dict[str, Any]:
        """The row in plain types, without the trajectory and the rows."""
        figures = asdict(self.result)
        del figures["trajectory"], figures["gains"]
        names = {"policy": self.policy, "budget": self.budget, "seed": self.seed}
        return {**names, **figures, "note": self.note}


@dataclass(frozen=True, slots=True)
class Summary:
    """One policy at one budget over all seeds: means, and standard deviations over the seeds.

    Where all seeds replay the rows of one log, their deviation says nothing about the users that it
    was drawn from; ``interval`` does, the 95 % interval of ``incremental``.

    Where outcomes are amounts, "conversions" and "incremental" are values, in currency.
    """

    policy: str
    budget: float
    seeds: int
    conversions: float
    conversions_deviation: float | None  # None with a single seed
    incremental: float
    incremental_deviation: float | None
    spend: float
    matched: float
    proposed: float
    seconds: float
    note: str = ""
    interval: Limits | None = None  # None where every seed has users of its own
    withheld: str = ""  # why so few amounts do not tell what was caused
    kind: str = Kind.CONVERSION  # of the outcomes

    @property
    def return_on_spend(self) -> Limits | None:
        """The ends of the value that was caused for each unit of money."""
        if self.interval is None or not self.spend:
            return None
        return Limits(self.interval.low / self.spend, self.interval.high / self.spend)


def compare(
    trials: Callable[[int], Trial],
    policies: Sequence[str],
    budgets: Sequence[float],
    seeds: Sequence[int],
    jobs: int = 1,
    *,
    charge: str = TREATMENT,
    cost_cap: float | None = None,
    share: float | None = None,
    progress: OnProgress | None = None,
) -> Iterator[PolicyReplay]:
    """Yield a row for each policy, budget and seed, a seed at a time as each is ready; ``jobs``
    processes run them. ``charge``, ``cost_cap`` and ``share`` are those of :func:`bccb.make`.
    ``progress`` is called after each run, long before its seed is ready (:mod:`.steps`).
    """
    checks.seeds(seeds)
    specs = tuple(spec_of(name) for name in policies)
    payment = payment_of(charge, cost_cap, share)
    with steps(progress, len(specs) * len(budgets) * len(seeds), jobs) as step:
        work = partial(_run_seed, trials, specs, tuple(budgets), payment, step)
        for rows in fan_out(work, list(seeds), jobs):
            yield from rows


def _run_seed(
    trials: Callable[[int], Trial],
    specs: Sequence[Spec],
    budgets: Sequence[float],
    payment: Payment,
    step: Step,
    seed: int,
) -> list[PolicyReplay]:
    trial, rows = trials(seed), list[PolicyReplay]()
    payment = payment_for(trial.log, *payment)
    for spec in specs:
        for row in run(trial, spec, budgets, seed, payment):
            rows.append(row)
            step(row.policy)
    return rows


def run(
    trial: Trial,
    spec: Spec,
    budgets: Sequence[float],
    seed: int,
    payment: Payment = AT_ONCE,
) -> Iterator[PolicyReplay]:
    """Replay one policy at each budget; history is learned once for all of them.

    A policy that cannot be fitted on its history treats nobody, and its note says why.
    """
    log = trial.log
    if spec.needs_effects:
        if log.effects is None:
            raise InputError(
                "policy", spec.name, "used on simulated users, whose effects are known"
            )
        if payment.on_conversion:
            raise InputError("policy", spec.name, NO_RATES)
        log = replace(log, features=log.effects, feature_names=(), encoding=None)
    learner = _fresh(spec, trial, log, budgets[0], seed, payment)
    note = learn_history(learner, trial) if learner.needs_history else ""
    for budget in budgets:
        # nobody is worth treating where the effect is below zero
        policy = _fresh(NOBODY if note else spec, trial, log, budget, seed, payment)
        if policy.needs_history:
            policy.adopt(learner)
        yield PolicyReplay(spec.name, budget, seed, replay(policy, log, trial.order), note)


NOBODY = Spec("nobody", "treats nobody", spec_of("treat-all").composition, {"effect": -1.0})


NO_RATES = (
    "left out where costs are charged on conversion: a log does not hold the true rates; worlds "
    "(--world) do"
)


def _fresh(
    spec: Spec, trial: Trial, log: Log, budget: float, seed: int, payment: Payment
) -> Policy:
    if spec.needs_effects:
        # a proposal is paid for only where the trial gave that treatment too
        left = budget / len(trial.order) / float(log.shares[1:].max())
        rows = trial.order
        price = exhausting_price(log.features[rows], log.costs[rows], left)
        spec = spec.changed(threshold=price)
    users = len(trial.order)
    return assemble_for(spec, log, budget=budget, horizon=users, seed=seed, payment=payment)


def learn_history(policy: Policy, trial: Trial) -> str:
    """Learn the history; where that cannot be done, say why."""
    if not len(trial.history):
        return "treats nobody: no rows are left for history; keep some back with a lower --users N"
    try:
        policy.learn(trial.past.take(trial.history))
    except FitError as error:
        return f"treats nobody: {error}"
    return ""


def summarise(rows: Iterable[PolicyReplay], shared: Log | None = None) -> list[Summary]:
    """One summary for each policy and budget, in the order in which they first appear.

    ``shared`` is the log whose rows all seeds replay, if they do.
    """
    return [_summary(group, shared) for group in grouped(rows)]


def _summary(group: list[PolicyReplay], shared: Log | None) -> Summary:
    def mean(field: str) -> float:
        return statistics.fmean(getattr(row.result, field) for row in group)

    def deviation(field: str) -> float | None:
        values = [getattr(row.result, field) for row in group]
        return statistics.stdev(values) if len(values) > 1 else None

    notes = [row.note for row in group if row.note]
    each = None if shared is None else _each(group, shared)
    return Summary(
        policy=group[0].policy,
        budget=group[0].budget,
        seeds=len(group),
        conversions=mean("conversions"),
        conversions_deviation=deviation("conversions"),
        incremental=mean("incremental"),
        incremental_deviation=deviation("incremental"),
        spend=mean("spend"),
        matched=mean("matched"),
        proposed=mean("proposed"),
        seconds=mean("seconds"),
        note=f"{len(notes)} of {len(group)} runs: {notes[0]}" if notes else "",
        interval=None if shared is None or each is None else _interval(group, shared, each),
        withheld="" if shared is None or each is None else _withheld(shared, each),
        kind=Kind.CONVERSION if shared is None else shared.kind,
    )


def _each(group: list[PolicyReplay], log: Log) -> Floats:
    """What each row of the log adds to the incremental conversions, summed over the seeds."""
    gains = np.zeros(log.users)
    for row in group:
        np.add.at(gains, row.result.gains.rows, row.result.gains.each)
    return gains


def _withheld(log: Log, gains: Floats) -> str:
    """Why the amounts that a policy met do not tell what it caused; empty where they do."""
    if not log.amounts or not gains.any():
        return ""
    weights = np.divide(gains, log.outcomes, out=np.zeros(log.users), where=log.outcomes != 0.0)
    arms = ((TREATED, log.actions > 0), (ALONE, log.actions == 0))
    found = (no_support_for_amounts(who, weights * rows, log.outcomes) for who, rows in arms)
    return " ".join(text for texts in found for text in texts)


def _interval(group: list[PolicyReplay], log: Log, gains: Floats) -> Limits:
    """Of the incremental conversions, for new users like those of the log.

    What the rows add up to has Newcombe's interval, as in :mod:`.estimates`: one of the same reach
    to both sides is too short where few users who were left alone converted. The chance in the runs
    widens it by what it adds to the reach of :class:`.choice.Evidence`.
    """
    if not any(row.result.treated or row.result.proposed for row in group):
        return Limits(0.0, 0.0)  # who treats nobody causes nothing, whatever the rows are
    name = group[0].policy
    values = np.array([row.result.incremental for row in group])
    even = Evidence({name: values}, {name: gains}).interval(name)
    each, odds = gains / len(group), float((log.shares[1:] / log.shares[0]).max())
    treated, alone = np.where(log.actions > 0, each, 0.0), np.where(log.actions == 0, -each, 0.0)
    one, signed = typical_size(log.outcomes, log.kind), bool((log.outcomes < 0.0).any())
    totals = (
        Total(float(w.sum()), float(w @ w), of, signed)
        for w, of in ((treated, one), (alone, odds * one))
    )
    by_rows, squared = difference(*totals), QUANTILE**2 * float(gains.var() * log.users)
    reach = (even.high - even.low) / 2
    extra = max(reach**2 - squared / len(group) ** 2, 0.0) ** 0.5
    return Limits(
        by_rows.value - math.hypot(by_rows.value - by_rows.low, extra),
        by_rows.value + math.hypot(by_rows.high - by_rows.value, extra),
    )


def paid_share(rows: Iterable[PolicyReplay]) -> float | None:
    """The share of proposals that were paid for, because the trial did the same; None without any.

    Money and effects in replay are this share of what all proposals would cost and cause. So the
    users of a replay stand for this share of them live, with the same money.
    """
    results = [row.result for row in rows]
    proposed = sum(result.proposed * result.encountered for result in results)
    return sum(result.treated for result in results) / proposed if proposed else None


class Run(Protocol):
    """A run of any comparison."""

    @property
    def policy(self) -> str:
        """The name of the policy."""

    @property
    def budget(self) -> float:
        """What it may spend."""

    @property
    def seed(self) -> int:
        """Of the users, and of its own draws."""

    def figures(self) -> dict[str, Any]:
        """The row in plain types."""


AnyRun = TypeVar("AnyRun", bound=Run)


def grouped(rows: Iterable[AnyRun]) -> list[list[AnyRun]]:
    """The runs of each policy at each budget by seed, in the order in which they first appear."""
    groups: dict[tuple[float, str], list[AnyRun]] = {}
    for row in sorted(rows, key=lambda row: row.seed):
        groups.setdefault((row.budget, row.policy), []).append(row)
    return list(groups.values())


def to_json(rows: Sequence[Run], summary: Sequence[Any]) -> dict[str, Any]:
    """Plain types: every run, and every summary."""
    return {"rows": [row.figures() for row in rows], "summary": [asdict(line) for line in summary]}
