"""The state machine of a policy: its state, its money and its clock, and the kernels on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bccb import checks
from bccb.composition import Composition, compose
from bccb.errors import InputError, StateError
from bccb.estimated import interval_of
from bccb.fitting import FitJob, Fitted, Refitting
from bccb.intervals import Interval
from bccb.kernels import counts as count
from bccb.kernels.counts import MOST_USERS
from bccb.kernels.sample import Sample, view_sample
from bccb.kernels.store import Store, is_due, unused, view_store, whole_memory
from bccb.kernels.users import first_refused, refusal
from bccb.money import MICROS, MOST_MONEY
from bccb.outcome import KNOWN_WEIGHT
from bccb.pending import ALL, Pending
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
    """The effects of a treatment on n users, by a model with D weights."""

    effects: Floats  # (n,)
    slopes: Floats  # (n,), of the rate without treatment in its logit
    gradients: Floats  # (n, D), of the effects in the weights
    covariance: Floats  # (D, D), of the weights


class Machine:
    """Decides and learns. Its caller keeps track of the decisions that wait for outcomes.

    It is deterministic: the same calls give the same state, bit for bit. Money is integer micros.
    Not safe for use from several threads at once.
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
        self.name = name
        self.composition = composition
        self.counts = counts
        self.memory = memory
        self.pending = pending  # where outcomes come late
        self.features = int(counts[count.FEATURES])
        self.treatments = int(counts[count.TREATMENTS])
        self.kernels = compose(composition)
        self.trace_size = composition.trace_size(self.features, self.treatments)
        self.needs_history = bool(counts[count.HISTORY] == count.NOT_LEARNED)
        self._decide = self.kernels["decide"]
        self._observe = self.kernels["observe"]
        self._probability = self.kernels["probability"]
        self._store: Store | None = None  # of outcomes, where the estimator is fitted again
        if composition.refitted:
            self._store = view_store(memory, self.features, self.treatments)
        self._space = np.empty(composition.space_size(self.features, self.treatments))

    # Money and clock

    @property
    def budget(self) -> float:
        """The whole budget."""
        return float(self.counts[count.BUDGET]) / MICROS

    @property
    def remaining(self) -> float:
        """The part of the budget that is left."""
        return float(self.counts[count.REMAINING]) / MICROS

    @property
    def remaining_micros(self) -> int:
        """The part of the budget that is left, in micros."""
        return int(self.counts[count.REMAINING])

    @property
    def spent(self) -> float:
        """The part of the budget that was spent."""
        unspent = self.counts[count.REMAINING] + self.counts[count.HELD]
        return float(self.counts[count.BUDGET] - unspent) / MICROS

    @property
    def held(self) -> float:
        """The part of the budget that is held until outcomes are known: charged on conversion."""
        return float(self.counts[count.HELD]) / MICROS

    @property
    def charges_on_conversion(self) -> bool:
        """Whether a cost is due only if the user converts."""
        return bool(self.counts[count.CHARGE] == count.ON_CONVERSION)

    @property
    def cost_cap(self) -> float | None:
        """The most that one more conversion may cost."""
        cap = int(self.counts[count.CAP])
        return None if cap == count.NO_CAP else cap / MICROS

    def settle(self, held: int, outcome: float) -> None:
        """Charge what an outcome costs, where costs are charged on conversion."""
        if self.charges_on_conversion:
            count.settle(self.counts, held, count.charge_of(held, outcome))

    @property
    def explored(self) -> float:
        """The cost of the treatments that were proposed at random, to keep overlap in the log."""
        return float(self.counts[count.EXPLORED]) / MICROS

    @property
    def decisions(self) -> int:
        """The number of decisions so far."""
        return int(self.counts[count.NUMBER])

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of all components."""
        parameters: dict[str, float] = {}
        for part, at in zip(
            self.composition.components, self.counts[count.AT_ESTIMATOR :], strict=False
        ):
            values = self.memory[at : at + len(part.parameters)].tolist()
            parameters.update(zip(part.parameters, values, strict=True))
        return parameters

    @property
    def reserve(self) -> float:
        """The share of decisions made at random: everybody is left alone with half of it."""
        return self.parameters.get("reserve", 0.0)

    @property
    def treated(self) -> int | None:
        """How many users were treated, where the estimator has a posterior."""
        if not self.composition.has_posterior:
            return None
        sample = view_sample(self.memory[self.counts[count.END] :], self.features)
        return int(sample.treated[0] - sample.cancelled[0])

    def withdraw(self) -> None:
        """Count one treated user less, because the treatment was not delivered."""
        if self.composition.has_posterior:
            view_sample(self.memory[self.counts[count.END] :], self.features).cancelled[0] += 1.0

    def lose_sample(self) -> None:
        """Give up the sample of treated users, because another action was taken than proposed."""
        if self.composition.has_posterior:
            sample = view_sample(self.memory[self.counts[count.END] :], self.features)
            sample.cancelled[0] = MOST_USERS  # more than are ever treated: no count agrees

    def sample(self) -> Sample | None:
        """The sample of treated users, without free places; None where there is none, or nobody."""
        if not (self.treated or 0) > 0:
            return None
        sample = view_sample(self.memory[self.counts[count.END] :], self.features)
        m = min(int(sample.treated[0]), len(sample.arm))
        return sample._replace(arm=sample.arm[:m], x=sample.x[:m])

    def estimated(self) -> Interval | None:
        """What the treatments caused, by the posterior; None where the estimator has none."""
        if not self.composition.has_posterior:
            return None
        sample = self.sample()
        if sample is None:
            return Interval(0.0, 0.0, 0.0)
        return self.estimate(sample.x, sample.arm, self.treated or 0)

    def estimate(self, xs: Floats, arms: Floats, users: int) -> Interval:
        """The effects of treatments ``arms`` on ``users`` users, for whom a sample ``xs`` stands.

        The estimator must have a posterior.
        """
        # of a copy: kernels use parts of the memory as work space
        memory = self.memory[: self.counts[count.AT_EXPLORER]].copy()
        sums = self.kernels["sum_over"](self.counts, memory, xs, arms)
        return interval_of(users, len(xs), *sums)

    def effects(self, xs: Floats, k: int) -> Effects:
        """The effects of treatment k + 1 on users with features ``xs``, and what they depend on.

        The estimator must have a posterior of its weights.
        """
        # of a copy: kernels use parts of the memory as work space
        memory = self.memory[: self.counts[count.AT_EXPLORER]].copy()
        estimator = memory[self.counts[count.AT_ESTIMATOR] :]
        layout = self.composition.components[0].layout
        covariance = layout.view(estimator, self.features, self.treatments).covariance
        effects, slopes = np.empty((2, len(xs)))
        gradients = np.empty((len(xs), len(covariance)))
        self.kernels["write_effects"](self.counts, memory, xs, k, effects, slopes, gradients)
        return Effects(effects, slopes, gradients, covariance)

    def expect(self, users: float) -> None:
        """Expect this many more users from now on; replaces the expectation so far.

        The money that is left is paced over them. For campaigns that end at a given time, or with
        more or less traffic than planned.
        """
        expected = checks.number("users", users)
        if not 0 <= expected <= MOST_USERS:
            raise InputError("users", users, f"from 0 to {MOST_USERS}")
        self.counts[count.HORIZON] = self.counts[count.NUMBER] + max(round(expected), 1)

    def begin_with(self, micros: int) -> None:
        """Set the budget, exact to the micro, before the first user."""
        for place in (count.BUDGET, count.REMAINING, count.PLANNED):
            self.counts[place] = micros

    @property
    def planned(self) -> tuple[int, int]:
        """The budget of the current plan in micros, and the number of decisions before it."""
        return int(self.counts[count.PLANNED]), int(self.counts[count.SINCE])

    def add_micros(self, micros: int) -> None:
        """Add to the budget and start a new plan: all that is left is for the users to come."""
        checks.instance("what is added to the budget", micros, int | np.integer, "whole micros")
        whole = int(self.counts[count.BUDGET]) + micros
        if micros < 1 or whole > MOST_MONEY:
            allowed = f"above 0, with the budget at most {MOST_MONEY // MICROS:,}"
            raise InputError("what is added to the budget", micros / MICROS, allowed)
        self.counts[count.BUDGET] = whole
        self.counts[count.REMAINING] += micros
        self.counts[count.PLANNED] = self.counts[count.REMAINING]
        self.counts[count.SINCE] = self.counts[count.NUMBER]

    def refund(self, micros: int) -> None:
        """Return what a decision paid, or a part of it, because its treatment was not delivered."""
        checks.instance("a refund", micros, int | np.integer, "whole micros")
        if self.charges_on_conversion and micros <= self.counts[count.HELD]:
            count.settle(self.counts, micros, 0)
            return
        if not 0 <= micros <= self.counts[count.BUDGET] - self.counts[count.REMAINING]:
            raise InputError("a refund", micros / MICROS, f"from 0 to the {self.spent} spent")
        self.counts[count.REMAINING] += micros

    def have_paid(self, micros: int, instead_of: int) -> None:
        """Correct what the last decision paid to the amount that a journal says."""
        self.counts[count.REMAINING] += instead_of - micros
        self.counts[count.PROPOSED] += micros - instead_of

    def warm(self) -> None:
        """Compile the kernels before they are needed; the state does not change."""
        late = self.pending and Pending(self.pending.window, self.features, self.treatments)
        copy = Machine(self.name, self.composition, self.counts.copy(), self.memory.copy(), late)
        made = copy.steps(np.zeros((1, self.features)), np.full((1, self.treatments), MICROS))
        copy.probabilities(made.traces, made.actions)
        copy.probability(made.traces[0], 1)
        copy.estimated()
        if self.composition.explains:
            copy.effects(np.zeros((1, self.features)), 0)
        copy.learn_outcome(made.traces[0], 1, 0.0)
        if self.composition.refitted:
            copy.refitting().catch_up_once()
        if late is not None:
            late.begin_after(self.decisions)
            late.enter(self.decisions + 1, np.zeros((1, self.features)), made.actions, ZERO, 1)
            copy.age(late.window / 2.0)
            copy.end(self.decisions + 1, 1.0, late.window)

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

    # Fitting again

    def refitting(self) -> Refitting:
        """The part of the state that fits work on."""
        return Refitting(self.composition, self.counts, self.memory, self.pending, self.owner)

    @property
    def fit_due(self) -> bool:
        """Whether the estimator is to be fitted again, because it has learned twice as much."""
        return self._store is not None and is_due(self._store)

    @property
    def fits(self) -> int:
        """How often the estimator was fitted again."""
        return 0 if self._store is None else int(self._store.fits[0])

    @property
    def rows(self) -> int:
        """How many outcomes are kept for fits."""
        return 0 if self._store is None else int(self._store.rows[0])

    @property
    def model_size(self) -> int:
        """The numbers of the memory without the outcomes that are kept for fits."""
        return self.memory.size - self.composition.store_size(self.features, self.treatments)

    def fit_job(self) -> FitJob:
        """What :func:`bccb.fitting.run` needs to fit the estimator again, perhaps elsewhere."""
        return self.refitting().job()

    def apply_fit(self, fitted: Fitted) -> None:
        """Go on with what was fitted, after it has learned what came since its job."""
        checks.instance("what was fitted", fitted, Fitted, "what bccb.fitting.run returned")
        self.refitting().apply(fitted)

    def fit(self) -> bool:
        """Make a job, run it and apply the result; whether the rows allowed a fit."""
        return self.refitting().fit()

    def adopt(self, other: Machine) -> None:
        """Copy what another policy with the same components and parameters has learned."""
        checks.instance("the other policy", other, Machine, "a policy")
        same = self.composition == other.composition and self.parameters == other.parameters
        if not same or self.memory.shape != other.memory.shape or self.decisions:
            raise StateError(f"{self.name} cannot adopt what {other.name} has learned")
        self.remember(other.used_memory().tobytes())
        self.counts[count.HISTORY] = other.counts[count.HISTORY] + other.decisions
        self.needs_history = other.needs_history

    def remember(self, memory: bytes) -> None:
        """Start with the memory of a policy that has the same components and parameters."""
        given, end = np.frombuffer(memory), self.counts[count.END]
        self.memory[:end] = given[:end]
        self.memory[end:] = 0.0  # others were treated by the other policy
        if self.composition.refitted:
            store = end + self.composition.sample_size(self.features)
            self.memory[store : len(given)] = given[store:]
            view_store(self.memory, self.features, self.treatments).fits[0] = 0.0  # of its own
        self.counts[count.HISTORY] = 0
        self.needs_history = False

    # Saving

    def used_memory(self) -> Floats:
        """The memory without its end, where rows of the store are not used."""
        if not self.composition.refitted:
            return self.memory
        return self.memory[: len(self.memory) - unused(self.memory, self.features, self.treatments)]

    @property
    def earlier_sizes(self) -> tuple[int, int]:
        """The bytes of snapshots that older versions made, with a sample and without."""
        size = 8 * count.EARLIER
        return size + self.used_memory().nbytes, size + 8 * int(self.counts[count.END])

    def snapshot(self) -> bytes:
        """The state, without name and composition."""
        return self.counts.tobytes() + self.used_memory().tobytes()

    def restore(self, state: bytes) -> None:
        """Continue from what :meth:`snapshot` returned."""
        checks.instance("a state", state, bytes, "what snapshot returned")
        parts, memory = np.frombuffer(state[: len(state) // 8 * 8], np.int64), None
        for size in (count.COUNTS, count.EARLIER):  # the offsets say which version made it
            offsets = parts[:size][-4:]
            if len(state) % 8 == 0 and np.array_equal(offsets, self.counts[count.AT_ESTIMATOR :]):
                memory = self._whole(np.frombuffer(state[8 * size :]))
                break
        if memory is None:
            raise StateError(f"a state of {len(state)} bytes is not one of this {self.name}")
        self.counts[:] = count.current(parts[:size])
        self.memory[:] = memory
        self.needs_history = bool(self.counts[count.HISTORY] == count.NOT_LEARNED)

    def _whole(self, used: Floats) -> Floats | None:
        """A memory from what :meth:`used_memory` returned, or an older version without a sample."""
        size = len(self.memory)
        if self.composition.refitted:
            return whole_memory(used, size, self.features, self.treatments)
        if len(used) not in (size, self.counts[count.END]):
            return None
        return np.append(used, np.zeros(size - len(used)))

    def check(self, features: int, treatments: int, where: str = "the log") -> None:
        """Refuse users whose numbers of features or treatments are not the policy's."""
        for what, got, want in (
            ("features", features, self.features),
            ("treatments", treatments, self.treatments),
        ):
            if got != want:
                raise InputError(f"the number of {what} in {where}", got, f"{want}, as the policy")

    def check_history(self) -> None:
        """Refuse to decide while history must be learned first."""
        if self.needs_history:
            raise StateError(f"{self.name} has learned nothing: call learn(log) with history first")
