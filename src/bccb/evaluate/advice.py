"""Advice: which policy to use, measured for a budget, a number of users and the history at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bccb import checks
from bccb.charge import AT_ONCE, TREATMENT, Payment, payment_of
from bccb.data.simulator import MOST_USERS, Outcome, load_model
from bccb.errors import InputError
from bccb.evaluate.charged import payment_for
from bccb.evaluate.choice import FEWEST_TO_TELL, Choice, Evidence, choose
from bccb.evaluate.naive import Worth, clearly_ahead, worth_of_effects
from bccb.evaluate.overlap import ALONE, no_support_for_amounts
from bccb.evaluate.parallel import OnProgress, fan_out
from bccb.evaluate.replay import Gains
from bccb.evaluate.rivals import RivalRun, measure, rivals_of
from bccb.evaluate.statistics import Limits
from bccb.evaluate.steps import Step, steps
from bccb.evaluate.trials import LoggedTrials, SimulatedTrials, Trial
from bccb.money import budget_in_micros
from bccb.outcome import Kind
from bccb.types import Floats, Log

SEEDS = tuple(range(42, 62))
MOST_JOBS = 1_000
FEWEST_SEEDS = 4  # two choose and two estimate
FEWEST = 20  # conversions of each arm, half of them in a stream and half in history


@dataclass(frozen=True, slots=True)
class Setting:
    """The question, and the sizes at which it was measured."""

    budget: float
    users: int
    history: int  # rows at hand
    measured_budget: float
    measured_users: int
    measured_history: int
    features: int
    treatments: int
    outcome: Outcome | None  # of simulated users; None where a trial stands for the users
    payment: Payment = AT_ONCE
    kind: str = Kind.CONVERSION  # of the outcomes; of amounts all figures are values, in currency

    @property
    def scale(self) -> float:
        """How many users were asked about for each that was measured, with the same money each."""
        return self.users / self.measured_users


@dataclass(frozen=True, slots=True)
class Rival:
    """One policy over the seeds that estimate, at the size that was asked about."""

    policy: str
    incremental: float
    own_interval: Limits  # of the incremental conversions
    deviation: float  # over seeds
    spend: float
    learned: float
    behind: float  # the leading one's incremental conversions, less its own
    interval: Limits  # of that difference
    clearly_behind: tuple[str, ...]  # the naive rivals that clearly cause more
    note: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommended policy beside its rivals."""

    setting: Setting
    choice: Choice
    incremental: Limits  # of the leading policy: the recommended one or, without it, the best
    worth: Worth | None  # of learning effects
    rivals: tuple[Rival, ...]  # the leading one first, then by what they caused
    runs: tuple[RivalRun, ...]

    @property
    def recommended(self) -> str | None:
        """The policy to use; none where the leading one is not expected to cause anything."""
        return self.choice.recommended

    @property
    def is_distinct(self) -> bool:
        """Whether any policy can be distinguished from the best."""
        return len(self.choice.tied) < len(self.rivals)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the runs, in ascending order."""
        return tuple(sorted({run.seed for run in self.runs}))

    @property
    def estimating(self) -> int:
        """How many seeds estimate; on simulated users the others choose."""
        return len(self.seeds) - (0 if self.setting.outcome is None else len(self.seeds) // 2)

    @property
    def seeds_to_tell(self) -> int | None:
        """How many seeds to run to call anything clear; None where there are enough."""
        if self.estimating >= FEWEST_TO_TELL:
            return None
        return FEWEST_TO_TELL if self.setting.outcome is None else 2 * FEWEST_TO_TELL

    def has(self, name: str) -> bool:
        """Whether a policy is among those that were compared."""
        return any(rival.policy == name for rival in self.rivals)

    def rival(self, name: str) -> Rival:
        """The figures of one policy."""
        return next(rival for rival in self.rivals if rival.policy == name)

    def figures(self) -> dict[str, Any]:
        """The advice in plain types."""
        figures = asdict(self)
        figures["setting"] |= figures["setting"].pop("payment")._asdict()
        return figures


def advise(
    budget: float,
    users: int,
    history: int | Log = 0,
    *,
    outcome: Outcome = "conversion",
    charge: str = TREATMENT,
    cost_cap: float | None = None,
    share: float | None = None,
    seeds: Sequence[int] = SEEDS,
    jobs: int = 1,
    progress: OnProgress | None = None,
) -> Advice:
    """Recommend a policy for ``budget`` and ``users``, after a number of rows of history.

    Simulated users, whose ``outcome`` may be a visit, stand for the real ones. Where ``history`` is
    the log of a trial, its users do: a stream is cut from it for each seed, and the other rows are
    history. ``charge``, ``cost_cap`` and ``share`` are those of :func:`bccb.make`; a share needs a
    trial whose outcomes are amounts of money. With a cap, policies that none applies to are left
    out. ``jobs`` processes run the seeds, and ``progress`` is called after each run, with several
    jobs in another thread.

    >>> advise(budget=20, users=400, seeds=range(4)).recommended
    'pooled-trees'
    """
    money = _check(budget, users, seeds, jobs)
    trials: Callable[[int], Trial]
    if isinstance(history, Log):
        trials, setting = _cut(history, money, users)
    else:
        trials, setting = _drawn(money, users, history, outcome)
    if isinstance(history, Log):
        payment = payment_for(history, charge, cost_cap, share)
    elif share is None:
        payment = payment_of(charge, cost_cap)
    else:
        raise InputError("share", share, "given with a trial whose outcomes are amounts of money")
    setting = replace(setting, payment=payment)
    names = rivals_of(setting.measured_history, setting.kind, payment.cost_cap is not None)

    by_seed: dict[int, list[RivalRun]] = {}
    totals = {name: np.zeros(setting.history) for name in names if setting.outcome is None}
    with steps(progress, len(names) * len(seeds), jobs) as step:
        work = partial(_run_seed, trials, names, setting.measured_budget, setting.payment, step)
        for measured in fan_out(work, list(seeds), jobs):
            for run, gains in measured:
                by_seed.setdefault(run.seed, []).append(run)
                if totals:
                    totals[run.policy][gains.rows] += gains.each
    runs = [run for seed in seeds for run in by_seed[seed]]  # whichever was ready first
    return conclude(setting, runs, totals)


def _run_seed(
    trials: Callable[[int], Trial],
    names: Sequence[str],
    budget: float,
    payment: Payment,
    step: Step,
    seed: int,
) -> list[tuple[RivalRun, Gains]]:
    made = []
    for run, gains in measure(trials(seed), names, budget, seed, payment):
        made.append((run, gains))
        step(run.policy)
    return made


def _check(budget: float, users: int, seeds: Sequence[int], jobs: int) -> float:
    checks.whole("users", users, 1, MOST_USERS)
    checks.whole("jobs", jobs, 1, MOST_JOBS)
    money = checks.number("budget", budget)
    budget_in_micros(money)
    checks.seeds(seeds)
    if len(seeds) < FEWEST_SEEDS:
        raise InputError("the number of seeds", len(seeds), f"{FEWEST_SEEDS} or above")
    return money


def _drawn(
    budget: float, users: int, history: int, outcome: Outcome
) -> tuple[SimulatedTrials, Setting]:
    """New simulated users for each seed."""
    checks.whole("history", history, 0, MOST_USERS)
    asked = (budget, users, history)
    features = len(load_model().names)
    setting = Setting(*asked, *asked, features, treatments=1, outcome=outcome)
    return SimulatedTrials(users, history, outcome=outcome), setting


def _cut(log: Log, budget: float, users: int) -> tuple[LoggedTrials, Setting]:
    """Streams of at most half the rows of a trial, with the same money for each user."""
    if log.probabilities is not None:
        allowed = "left out: advice needs a randomised trial; bccb evaluate compares on such logs"
        raise InputError("the probabilities of the log", "given", allowed)
    stream = min(users, log.users // 2)
    for arm in range(log.treatments + 1):
        name = f"The users of {log.treatment_names[arm - 1]}" if arm else ALONE
        outcomes = log.outcomes[log.actions == arm]
        conversions = float(np.count_nonzero(outcomes) if log.amounts else outcomes.sum())
        if conversions < FEWEST:
            allowed = f"at least {FEWEST}: with fewer this trial cannot tell policies apart"
            what = f"the number of conversions of {name[0].lower()}{name[1:]}"
            raise InputError(what, conversions, allowed)
        if log.amounts and (said := no_support_for_amounts(name, np.ones(len(outcomes)), outcomes)):
            allowed = f"spread over enough orders to compare policies. {said[0]}"
            raise InputError("the value of the trial", f"{outcomes.sum():,.2f}", allowed)
    setting = Setting(
        budget=budget,
        users=users,
        history=log.users,
        measured_budget=budget * stream / users,
        measured_users=stream,
        measured_history=log.users - stream,
        features=log.features.shape[1],
        treatments=log.treatments,
        outcome=None,
        kind=log.kind,
    )
    # what a simulation wrote into its file is not known of real users
    return LoggedTrials(replace(log, effects=None), stream, log.users - stream), setting


def conclude(setting: Setting, runs: Sequence[RivalRun], gains: Mapping[str, Floats]) -> Advice:
    """Choose, and estimate how much better the chosen one is.

    ``gains`` are those of each row of a trial, summed over the runs; none of simulated users. Where
    fewer users were measured than asked about, figures are in proportion.
    """
    scale = setting.scale
    by_policy: dict[str, list[RivalRun]] = {}
    for run in runs:
        by_policy.setdefault(run.policy, []).append(run)
    if setting.outcome is None:
        scaled = {name: each * scale for name, each in gains.items()}
        evidence = Evidence(_values(by_policy, scale), scaled, comparisons=len(by_policy) - 1)
        chosen_by = evidence
    else:
        half = len({run.seed for run in runs}) // 2
        chosen_by = Evidence(_values({name: of[:half] for name, of in by_policy.items()}))
        by_policy = {name: of[half:] for name, of in by_policy.items()}
        evidence = Evidence(_values(by_policy))
    choice = choose(chosen_by)
    leading = choice.leading
    if not evidence.values[leading].mean() > 0:
        choice = replace(choice, recommended=None)
    rivals = [_rival(of, evidence, leading, scale) for of in by_policy.values()]
    rivals.sort(key=lambda rival: (rival.policy != leading, -rival.incremental))
    worth = worth_of_effects(choice, chosen_by, evidence)
    return Advice(setting, choice, rivals[0].own_interval, worth, tuple(rivals), tuple(runs))


def _values(by_policy: Mapping[str, Sequence[RivalRun]], scale: float = 1.0) -> dict[str, Floats]:
    return {
        name: np.array([run.incremental for run in of]) * scale for name, of in by_policy.items()
    }


def _rival(runs: Sequence[RivalRun], evidence: Evidence, leading: str, scale: float) -> Rival:
    name = runs[0].policy
    values = evidence.values[name]
    notes = [run.note for run in runs if run.note]
    return Rival(
        policy=name,
        incremental=float(values.mean()),
        own_interval=replace(evidence, comparisons=1).interval(name),
        deviation=float(values.std(ddof=1)),
        spend=float(np.mean([run.spend for run in runs])) * scale,
        learned=float(np.mean([run.learned for run in runs])) * scale,
        behind=float((evidence.values[leading] - values).mean()),
        interval=evidence.interval(leading, name),
        clearly_behind=clearly_ahead(evidence, name),
        note=f"{len(notes)} of {len(runs)} runs: {notes[0]}" if notes else "",
    )
