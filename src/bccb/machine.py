"""The state machine of a policy: its state, and the kernels that decide and learn on it."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np

from bccb import checks
from bccb.after_history import Group, Values, corrected
from bccb.composition import Composition, compose
from bccb.errors import InputError, StateError
from bccb.estimated import Sums, interval_of
from bccb.fitting import MOST_CORRECTIONS, Correction, FitJob, Fitted, Refitting
from bccb.intervals import Interval
from bccb.kernels import counts as count
from bccb.kernels.amount_errors import joint_covariance
from bccb.kernels.amounts import AMOUNTS
from bccb.kernels.sample import Sample
from bccb.kernels.store import NUMBER, USER
from bccb.kernels.users import first_refused, refusal
from bccb.money import MICROS
from bccb.outcome import KNOWN_WEIGHT, Kind
from bccb.pending import ALL, Pending
from bccb.state import State
from bccb.types import Floats, Ints, Log

NONE = np.empty(0, np.int64)
ZERO = np.zeros(1)


class Steps(NamedTuple):
    """Several decisions, one entry each."""

    actions: Ints
    paid: Ints  # micros
    prices: Floats
    scores: Floats
    traces: Floats  # to learn by


class Effects(NamedTuple):
    """The effects of a treatment on n users, by a model with D parameters.

    They are the weights; in money also those of
    :func:`~bccb.kernels.amount_errors.joint_covariance`.
    """

    effects: Floats  # (n,)
    slopes: Floats  # (n,), of the rate without treatment in its logit
    gradients: Floats  # (n, D), of the effects in the parameters
    covariance: Floats  # (D, D), of the parameters


class Machine(State):
    """Decides and learns. Its caller keeps track of the decisions that wait for outcomes.

    It is deterministic: the same calls give the same state, bit for bit. Not safe for
    use from several threads at once.
    """

    owner = ""  # the id of a policy, which its fits carry

    def __init__(
        self,
        name: str,
        composition: Composition,
        counts: Ints,
        memory: Floats,
        pending: Pending | None = None,
    ) -> None:
        super().__init__(name, composition, counts, memory)
        self.pending = pending  # where outcomes come late
        self.kernels = compose(composition)
        self.trace_size = composition.trace_size(self.features, self.treatments)
        self._decide = self.kernels["decide"]
        self._observe = self.kernels["observe"]
        self._probability = self.kernels["probability"]
        self._corrections: list[Correction] | None = None  # while a fit is under way
        self._newest_job = 0
        self._space = np.empty(composition.space_size(self.features, self.treatments))

    # Deciding and learning

    def step(self, x: Floats, costs: Ints) -> tuple[int, int, int, float, float, Floats]:
        """Decide on one user: number, action, micros paid, price, score, and the trace to learn by.

        ``x`` and ``costs``, in micros, are contiguous, of the right lengths.
        """
        trace = np.empty(self.trace_size)
        number, action, paid, price, score = self._decide(
            self.counts, self.memory, x, costs, trace, self._space
        )
        if action < 0:
            raise refusal(x, costs)
        return number, action, paid, price, score, trace

    def steps(self, xs: Floats, costs: Ints, horizons: Ints = NONE) -> Steps:
        """Decide on one user per row, as :meth:`step` would one after the other; all or none.

        ``horizons`` holds the horizon for each row; if it is empty, the horizon does not change.
        """
        n, bad = len(xs), first_refused(xs, costs)
        if bad >= 0:
            raise refusal(xs[bad], costs[bad], f" of row {bad}")
        traces = np.empty((n, self.trace_size))
        (actions, paid), (prices, scores) = np.empty((2, n), np.int64), np.empty((2, n))
        self.kernels["decide_many"](
            *(self.counts, self.memory, xs, costs, traces, self._space),
            *(actions, paid, prices, scores, horizons),
        )
        return Steps(actions, paid, prices, scores, traces)

    def probabilities(self, traces: Floats, actions: Ints) -> Floats:
        """The probability of each of these actions in the decision that left its trace."""
        results = np.empty(len(traces))
        self.kernels["probabilities"](self.features, self.treatments, traces, actions, results)
        return results

    def learn_outcome(self, trace: Floats, action: int, outcome: float) -> None:
        """Learn the known outcome of an action on the user of a trace."""
        self._observe(self.counts, self.memory, trace, action, outcome, KNOWN_WEIGHT, self._space)

    def amend(self, x: Floats, number: int, action: int, was: float, outcome: float) -> None:
        """Learn that the outcome of decision ``number`` on a user was another one.

        What comes late must have ended: the outcome ``was`` was learned in full.
        """
        state = self.counts, self.memory, x, number, action
        row = self._row_of(number)
        self.kernels["amend"](*state, was, outcome, self._space)
        gain = self._gain(outcome) - self._gain(was)
        # a user without a row may have one now: a fit under way learns it as corrected
        if self._corrections is not None and gain and (row or not self._row_of(number)):
            self._corrections.append(Correction(row, x.copy(), action, gain))
            if len(self._corrections) > MOST_CORRECTIONS:  # perhaps its result never comes
                self._begin_fit(None)

    def _row_of(self, number: int) -> int:
        """The number of a user's row in the store while a fit is under way; 0 without one."""
        if self._corrections is None:
            return 0
        store = self.refitting().store
        rows = store.row[: int(store.rows[0])]
        return int(rows[rows[:, USER] == number, NUMBER].sum())

    def _gain(self, outcome: float) -> float:
        """What the estimator learns of an outcome."""
        return float(outcome != 0.0) if self.composition.amounts else outcome

    def age(self, at: float, most: int = ALL) -> int:
        """Let the users who wait grow older, up to time ``at``; how many ages they passed."""
        assert self.pending is not None
        delay, marks, ring = self.pending.arrays
        state = self.counts, self.memory, delay, marks, ring
        return int(self.kernels["age"](*state, at, most, self._space))

    def end(self, number: int, outcome: float, at: float) -> None:
        """Learn the outcome of a user who waits, as far as it is not learned yet."""
        assert self.pending is not None
        delay, marks, ring = self.pending.arrays
        state = self.counts, self.memory, delay, marks, ring
        self.kernels["end"](*state, number, outcome, at, self._space)

    def probability(self, trace: Floats, action: int) -> float:
        """The probability of ``action`` in the decision that left this trace."""
        return float(self._probability(self.features, self.treatments, trace, action))

    def learn(self, log: Log) -> None:
        """Learn from history, before the first user. If that fails, nothing was learned.

        More history can be added later, except for models that are fitted on all rows at once.
        """
        if self.decisions:
            raise StateError(f"{self.decisions} users were decided on: history is learned first")
        if self.composition.fitted and not self.needs_history:
            rows = self.counts[count.HISTORY]
            raise StateError(f"{self.name} was fitted on {rows} rows: it takes history once")
        checks.instance("log", log, Log, "a Log, such as read_log gives")
        self.check(log.features.shape[1], log.treatments)
        self.check_kind(log)
        estimator = self.composition.components[0]
        estimator.check_installed()
        if estimator.fit is not None:
            at, end = self.counts[count.AT_ESTIMATOR], self.counts[count.AT_EXPLORER]
            estimator.fit(self.memory[at:end], log)
        state = self.counts, self.memory, log.features
        self.kernels["absorb"](*state, log.actions, log.outcomes, self._space)
        if self.fit_due:
            self.fit()
        self.kernels["rehearse"](*state, log.micros, self._space)
        self.needs_history = False

    # What was caused

    def estimated(self, cells: int = 1) -> Interval | None:
        """What the treatments caused, by the posterior; None where it is not known.

        Without a posterior it never is; in money not before the first amount. ``cells`` is how many
        parts of one campaign have begun with the same history.
        """
        if not self.composition.has_posterior:
            return None
        sample = self.sample()
        if sample is None:
            return Interval(0.0, 0.0, 0.0) if self.treated == 0 else None
        if not self.knows_amounts:
            return None
        sums = self._sums(sample.x, sample.arm)
        if sample.history[0] > 0.0 and self.composition.explains:
            sums = self._corrected(sums, sample, cells)
        return interval_of(self.treated or 0, len(sample.x), *sums)

    @property
    def knows_amounts(self) -> bool:
        """Whether it is known what a conversion brings; without amounts, one conversion."""
        if not self.composition.amounts:
            return True
        amounts = self.memory[self.counts[count.AT_AMOUNTS] : self.counts[count.END]]
        return bool(AMOUNTS.view(amounts, self.features, self.treatments).noise[0] > 0.0)

    def estimate(self, xs: Floats, arms: Floats, users: int) -> Interval:
        """The effects of treatments ``arms`` on ``users`` users, for whom a sample ``xs`` stands.

        The estimator must have a posterior.
        """
        return interval_of(users, len(xs), *self._sums(xs, arms))

    def effects(self, xs: Floats, k: int) -> Effects:
        """The effects of treatment k + 1 on users with features ``xs``, and what they depend on.

        The estimator must have a posterior of its weights.
        """
        memory, size = self._copy(), (self.features, self.treatments)
        estimator = memory[self.counts[count.AT_ESTIMATOR] :]
        covariance = self.composition.components[0].layout.view(estimator, *size).covariance
        if self.composition.amounts:
            amounts = memory[self.counts[count.AT_AMOUNTS] :]
            covariance = joint_covariance(covariance, amounts, *size)
        effects, slopes = np.empty((2, len(xs)))
        gradients = np.empty((len(xs), len(covariance)))
        self.kernels["write_effects"](self.counts, memory, xs, k, effects, slopes, gradients)
        return Effects(effects, slopes, gradients, covariance)

    def _sums(self, xs: Floats, arms: Floats) -> Sums:
        kernel = self.kernels["sum_values" if self.composition.amounts else "sum_over"]
        return Sums(*kernel(self.counts, self._copy(), xs, arms))

    def _corrected(self, sums: Sums, sample: Sample, cells: int) -> Sums:
        """The sums after history."""
        rates, worths = self._rates(sample.x, sample.arm.astype(np.int64))
        untreated = np.zeros(len(sample.x), np.int64)
        values = Values(worths, *self._rates(sample.x, untreated))
        rates_alone, _ = self._rates(sample.alone_x, np.zeros(len(sample.alone_x), np.int64))
        evidence_alone, evidence = sample.learned.tolist()
        return corrected(
            sums,
            Group(rates, self._weights(sample.number), *evidence),
            Group(rates_alone, self._weights(sample.alone_number), *evidence_alone),
            values,
            float(sample.history[0] / (sample.history[0] + sample.learned[1, 1])),
            cells,
        )

    def _rates(self, xs: Floats, arms: Ints) -> Floats:
        """Of users in arms: the rates, and what a conversion of each is worth there."""
        found = np.empty((2, len(xs)))
        self.kernels["write_rates"](self.counts, self._copy(), xs, arms, *found)
        return found

    def _weights(self, numbers: Floats) -> Floats:
        """How much was learned of users so far: all, unless their outcome may still come."""
        weights = np.ones(len(numbers))
        if self.pending is not None:
            waiting = numbers >= self.pending.first
            places = numbers[waiting].astype(np.int64) % len(self.pending.ring.at)
            weights[waiting] = self.pending.ring.weight[places]
        return weights

    def _copy(self) -> Floats:
        """The memory without sample and store, copied: kernels use parts of it as work space."""
        return self.memory[: self.counts[count.END]].copy()

    # Fitting again

    def refitting(self) -> Refitting:
        """The part of the state that fits work on."""
        state = self.composition, self.counts, self.memory, self.pending
        return Refitting(*state, self.owner, self._corrections or (), self._newest_job)

    def fit_job(self) -> FitJob:
        """What :func:`bccb.fitting.run` needs to fit the estimator again, perhaps elsewhere."""
        self._begin_fit([])
        return self.refitting().job()

    def apply_fit(self, fitted: Fitted) -> None:
        """Go on with what was fitted, after it has learned what came since its job."""
        checks.instance("what was fitted", fitted, Fitted, "what bccb.fitting.run returned")
        self.refitting().apply(fitted)
        self._begin_fit(None)

    def install_fit(self, fitted: Fitted) -> None:
        """Go on with what was fitted and has learned everything."""
        self.refitting().install(fitted)
        self._begin_fit(None)

    def fit(self) -> bool:
        """Make a job, run it and apply the result; whether the rows allowed a fit."""
        self._begin_fit(None)
        return self.refitting().fit()

    def _begin_fit(self, corrections: list[Correction] | None) -> None:
        """End older fits, since corrections are kept for the newest alone."""
        # not counted: a policy that is loaded would use the numbers of earlier jobs again
        self._newest_job = secrets.randbits(62)
        self._corrections = corrections

    # Before the first decision

    def check(self, features: int, treatments: int, where: str = "the log") -> None:
        """Refuse users whose numbers of features or treatments are not the policy's."""
        for what, got, want in (
            ("features", features, self.features),
            ("treatments", treatments, self.treatments),
        ):
            if got != want:
                raise InputError(f"the number of {what} in {where}", got, f"{want}, as the policy")

    def check_kind(self, log: Log) -> None:
        """Refuse a log whose outcomes are not of the kind that the policy was made for."""
        if log.amounts != self.composition.amounts:
            own = Kind.AMOUNT if self.composition.amounts else Kind.CONVERSION
            allowed = (
                f'"{own}", as the policy; for the other kind make it with outcome="{log.kind}"'
            )
            raise InputError("the kind of outcomes in the log", str(log.kind), allowed)

    def check_history(self) -> None:
        """Refuse to decide while history must be learned first."""
        if self.needs_history:
            raise StateError(f"{self.name} has learned nothing: call learn(log) with history first")

    def warm(self) -> None:
        """Compile the kernels before they are needed; the state does not change."""
        late = self.pending and Pending(self.pending.window, self.features, self.treatments)
        copy = Machine(self.name, self.composition, self.counts.copy(), self.memory.copy(), late)
        made = copy.steps(np.zeros((1, self.features)), np.full((1, self.treatments), MICROS))
        copy.probabilities(made.traces, made.actions)
        copy.probability(made.traces[0], 1)
        if self.composition.has_posterior:
            copy.estimate(np.zeros((1, self.features)), np.ones(1), 1)
        if self.composition.explains:
            copy.effects(np.zeros((1, self.features)), 0)
            copy._rates(np.zeros((1, self.features)), np.zeros(1, np.int64))
        copy.learn_outcome(made.traces[0], 1, 0.0)
        copy.settle(int(made.paid[0]), 0.0)
        if self.composition.refitted:
            copy.refitting().catch_up_once()
        if late is not None:
            late.begin_after(self.decisions)
            late.enter(self.decisions + 1, np.zeros((1, self.features)), made.actions, ZERO, 1)
            copy.age(late.window / 2.0)
            copy.end(self.decisions + 1, 1.0, late.window)
            copy.recharge(0, 1.0, 0.0)
            copy.amend(np.zeros(self.features), self.decisions + 1, 1, 1.0, 0.0)
