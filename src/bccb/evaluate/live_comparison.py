"""Compare policies live: each at each budget with each seed, in the same worlds, with outcomes at
once or late (:mod:`.late`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from bccb import checks
from bccb.assembly import assemble_for
from bccb.charge import TREATMENT, Payment, payment_of
from bccb.data.world import World
from bccb.evaluate.compare import NOBODY, grouped, learn_history
from bccb.evaluate.late import exponential_delays
from bccb.evaluate.live import Live, best, live
from bccb.evaluate.parallel import OnProgress, fan_out
from bccb.evaluate.steps import Step, steps
from bccb.evaluate.trials import SimulatedTrials, Trial, WorldTrials
from bccb.outcome import Kind
from bccb.policies import spec_of
from bccb.policy import Policy
from bccb.spec import Spec


@dataclass(frozen=True, slots=True)
class Lateness:
    """When conversions are reported, in users who have come meanwhile."""

    mean: float  # of exponential delays
    window: float


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One policy at one budget with one seed."""

    policy: str
    budget: float
    seed: int
    incremental: float  # what its treatments caused: the sum of the true effects
    share: float  # of what the oracle causes
    at_once: float  # the same share, where every outcome is known at once
    conversions: float  # of treated users
    spend: float
    treated: int
    note: str = ""
    kind: str = Kind.CONVERSION  # of outcomes: of amounts, figures are value

    def figures(self) -> dict[str, Any]:
        """The row in plain types."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LiveSummary:
    """One policy at one budget over all seeds: means, and standard deviations over the seeds."""

    policy: str
    budget: float
    seeds: int
    incremental: float
    incremental_deviation: float | None  # None with a single seed
    share: float
    at_once: float
    conversions: float
    spend: float
    treated: float
    note: str = ""
    kind: str = Kind.CONVERSION


def compare_live(
    trials: SimulatedTrials | WorldTrials,
    lateness: Lateness | None,
    policies: Sequence[str],
    budgets: Sequence[float],
    seeds: Sequence[int],
    jobs: int = 1,
    *,
    charge: str = TREATMENT,
    cost_cap: float | None = None,
    share: float | None = None,
    progress: OnProgress | None = None,
) -> Iterator[LiveRun]:
    """Yield a row for each policy, budget and seed, a seed at a time as each is ready; ``jobs``
    processes run them. ``charge``, ``cost_cap`` and ``share`` are those of :func:`bccb.make`; the
    oracle's, too. ``progress`` is called after each run.
    """
    checks.seeds(seeds)
    specs = tuple(spec_of(name) for name in policies)
    payment = payment_of(charge, cost_cap, share)
    with steps(progress, len(specs) * len(budgets) * len(seeds), jobs) as step:
        work = partial(_run_seed, trials, lateness, specs, tuple(budgets), payment, step)
        for rows in fan_out(work, list(seeds), jobs):
            yield from rows


def _run_seed(
    trials: SimulatedTrials | WorldTrials,
    lateness: Lateness | None,
    specs: Sequence[Spec],
    budgets: Sequence[float],
    payment: Payment,
    step: Step,
    seed: int,
) -> list[LiveRun]:
    trial, world = trials(seed), trials.world(seed)
    oracles = {budget: best(world, budget, payment).run for budget in budgets}
    rows = list[LiveRun]()
    for spec in specs:
        for row in _run_policy(trial, world, spec, oracles, lateness, payment, seed):
            rows.append(row)
            step(row.policy)
    return rows


def _run_policy(
    trial: Trial,
    world: World,
    spec: Spec,
    oracles: dict[float, Live],
    lateness: Lateness | None,
    payment: Payment,
    seed: int,
) -> Iterator[LiveRun]:
    """One policy at each budget; history is learned once for all of them."""
    learner = _fresh(spec, trial, next(iter(oracles)), seed, payment)
    note = learn_history(learner, trial) if learner.needs_history else ""
    for budget, oracle in oracles.items():
        late = at_once = oracle
        if not spec.needs_effects:
            ready = NOBODY if note else spec
            one, other = (_fresh(ready, trial, budget, seed, payment) for _ in range(2))
            for policy in (one, other):
                if policy.needs_history:
                    policy.adopt(learner)
            at_once = late = live(one, world)
            if lateness is not None:
                delays = exponential_delays(world.users, lateness.mean, seed)
                late = live(other, world, delays, lateness.window)
        most = oracle.value or 1.0  # where nobody can be treated, nobody is
        yield LiveRun(
            *(spec.name, budget, seed, late.value, late.value / most, at_once.value / most),
            *(late.conversions, late.spend, late.treated, note, world.kind),
        )


def _fresh(spec: Spec, trial: Trial, budget: float, seed: int, payment: Payment) -> Policy:
    log, users = trial.log, len(trial.order)
    return assemble_for(spec, log, budget=budget, horizon=users, seed=seed, payment=payment)


def summarise_live(rows: Iterable[LiveRun]) -> list[LiveSummary]:
    """One summary for each policy and budget, in the order in which they first appear."""
    return [_summary(group) for group in grouped(rows)]


def _summary(group: list[LiveRun]) -> LiveSummary:
    def mean(field: str) -> float:
        return statistics.fmean(getattr(row, field) for row in group)

    caused = [row.incremental for row in group]
    notes = [row.note for row in group if row.note]
    return LiveSummary(
        policy=group[0].policy,
        budget=group[0].budget,
        seeds=len(group),
        incremental=mean("incremental"),
        incremental_deviation=statistics.stdev(caused) if len(caused) > 1 else None,
        share=mean("share"),
        at_once=mean("at_once"),
        conversions=mean("conversions"),
        spend=mean("spend"),
        treated=mean("treated"),
        note=f"{len(notes)} of {len(group)} runs: {notes[0]}" if notes else "",
        kind=group[0].kind,
    )
