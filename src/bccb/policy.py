"""A policy: one object that decides on users under a hard budget and learns from their outcomes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bccb import checks
from bccb.composition import Composition
from bccb.decision import Decision
from bccb.encoding import Encoding
from bccb.errors import InputError, StateError
from bccb.explanation import Explanation, explain
from bccb.files import written_whole
from bccb.measured import Measure
from bccb.money import MICROS, budget_in_micros, cost_in_micros, cost_micros
from bccb.outcome import (
    KNOWN_WEIGHT,
    Kind,
    check_amount,
    check_outcome,
    check_outcomes,
)
from bccb.pending import Pending
from bccb.receipts import Receipt
from bccb.saved import NOTHING_OBSERVED as NOTHING
from bccb.saved import SIGNATURE, Observed, Saved, pack, unpack
from bccb.tracker import Tracker
from bccb.types import Floats, Ints, as_floats

FLOAT = np.dtype(np.float64)


class Policy(Tracker):
    """Decides on one user at a time under a hard budget, and learns from each outcome.

    Made by :func:`make` or :func:`load`. Not safe for use from several threads at once.

    >>> import bccb
    >>> policy = bccb.make("bccb", budget=100, horizon=1_000, features=2, seed=42)
    >>> decision = policy.decide([0.3, 1.2], cost=0.5)
    >>> policy.observe(decision, outcome=0)
    >>> policy.decisions, policy.spent == decision.cost
    (1, True)
    """

    def __init__(
        self,
        name: str,
        composition: Composition,
        counts: Ints,
        memory: Floats,
        id_: str,
        waiting: Mapping[int, Receipt],
        pending: Pending | None = None,
        measure: Measure | None = None,
        observed: Mapping[int, Observed] = NOTHING,
    ) -> None:
        parts = name, composition, counts, memory, id_
        super().__init__(*parts, waiting, pending, measure, observed)
        self._check_outcome = check_amount if composition.amounts else check_outcome
        self._x = np.empty(self.features)
        self._costs = np.empty(self.treatments, np.int64)
        self._shape = (self.features,)

    def __repr__(self) -> str:
        money = f"spent {self.spent:g} of {self.budget:g}"
        return f"<{self.name}: {money}, {self.decisions} decisions, {self.waiting} waiting>"

    def add_budget(self, money: float) -> None:
        """Add to the budget, for the users to come; rounded down to whole micros."""
        self.add_micros(budget_in_micros(checks.number("money", money), "money"))

    def explain(
        self, rows: npt.ArrayLike | None = None, names: Encoding | Sequence[str] | None = None
    ) -> Explanation:
        """What was learned: the effect in each segment of each feature, and who is treated.

        For policies with a pooled model: ``pooled-trees``, ``hybrid`` and ``pooled-bayes``. Effects
        are averaged over ``rows``, the features of some thousand users. By default these are users
        whose outcomes the policy keeps; ``pooled-bayes`` keeps none, and needs rows. ``names`` are
        those of the features, or an :class:`~bccb.encoding.Encoding`, such as ``log.encoding``.

        Intervals hold as far as the model fits (:mod:`bccb.explanation`): better with the trees of
        the default than without, where estimated effects may be twice too high. One feature in
        twenty that has nothing to do with the effect will look clear by chance.

        >>> import bccb
        >>> policy = bccb.make(budget=100, horizon=1_000, features=1, seed=1)
        >>> for number in range(1_000):
        ...     decision = policy.decide([number % 2], cost=0.5)
        ...     policy.observe(decision, outcome=float(decision.action and number % 4 == 1))
        >>> feature = policy.explain(names=["member"]).treatments[0].features[0]
        >>> feature.feature, feature.most, feature.is_clear
        ('member', '1', True)
        """
        return explain(self, rows, names)

    # Deciding and learning

    def fit(self) -> bool:
        """Fit the estimator again on what was learned so far; whether that was possible.

        For policies whose estimator is fitted again while they run, such as ``pooled-trees``. By
        default that happens within :meth:`observe`, :meth:`observe_many` and whatever advances the
        time, when a fit is due: after 2,000 outcomes, then whenever there are twice as many. It
        takes from a tenth of a second to some seconds. To choose the moment, set
        ``policy.fits_itself = False``, again after loading, and look at ``policy.fit_due``. To fit
        elsewhere, see :mod:`bccb.fitting`.

        It is not possible where an arm was never used, or where all outcomes are the same. Nothing
        changes then, except that the next fit is due when twice as much was learned.
        """
        return super().fit()

    def decide(
        self,
        x: npt.ArrayLike,
        cost: float | Sequence[float] | Floats,
        *,
        at: float | None = None,
    ) -> Decision:
        """Decide on a user with features ``x``; ``cost`` is one number, or one per treatment.

        ``at`` is the time, for policies with a window.
        """
        values = x if type(x) is np.ndarray else as_floats("x", x)
        if values.shape != self._shape:
            raise self._misshapen(values)
        if values.dtype is not FLOAT or not values.flags.carray:  # the kernels' only layout
            self._x[:] = as_floats("x", values)
            values = self._x
        if type(cost) is float and self.treatments == 1:
            self._costs[0] = cost_in_micros(cost)
        else:
            self._set_costs(cost)
        if self.needs_history:
            self.check_history()
        late = self.pending is not None or at is not None
        time = self._advance(at) if late else 0.0
        number, action, paid, price, score, trace = self.step(values, self._costs)
        if self.pending is not None:
            arms, times = np.array([action]), np.array([time])
            self.pending.enter(number, values[None, :], arms, times, number)
        self._waiting.add(number, paid, trace, action)
        return Decision(number, action, paid / MICROS, price, score, trace, self._origin)

    def decide_many(
        self, x: npt.ArrayLike, costs: npt.ArrayLike, *, at: float | None = None
    ) -> list[Decision]:
        """Decide on one user per row, as :meth:`decide` would one after the other; all or none."""
        xs = checks.matrix("x", x, self.features)
        offered = as_floats("costs", costs)
        cost_rows = checks.matrix(
            "costs", offered[:, None] if offered.ndim == 1 else offered, self.treatments
        )
        n = len(xs)
        if len(cost_rows) != n:
            raise InputError("the number of costs", len(cost_rows), f"{n}, one row for each user")
        micros = cost_micros(cost_rows)
        self.check_history()
        first, time = self.decisions + 1, self._advance(at)
        actions, paid, prices, scores, traces = self.steps(xs, micros)
        if self.pending is not None:
            self.pending.enter(first, xs, actions, np.full(n, time), first)
        rows = zip(
            *(actions.tolist(), (paid / MICROS).tolist(), prices.tolist(), scores.tolist()),
            strict=True,
        )
        made = [Decision(first + i, *row, traces[i], self._origin) for i, row in enumerate(rows)]
        for each, micros_paid in zip(made, paid.tolist(), strict=True):
            self._waiting.add(each.number, micros_paid, each._trace, each.action)
        return made

    def observe(self, decision: Decision, outcome: float, *, at: float | None = None) -> None:
        """Learn the outcome of a decision: in any order, after any delay, once.

        With a window, a conversion that is reported after it is counted (:attr:`too_late`), and
        not learned.
        """
        y = outcome if type(outcome) is float else checks.number("outcome", outcome)
        self._check_outcome(y)
        if self.pending is None and at is None:
            paid = self._waiting.paid(decision)
            trace, action = decision._trace, decision.action
            state = self.counts, self.memory
            due = self._observe(*state, trace, action, y, KNOWN_WEIGHT, self._space)
            number = decision.number
            del self._waiting[number]
            if paid:
                self.settle(paid, y)
            if self._measure is not None:
                if y == 0.0 or action > 0:
                    self._measure.end(number, action > 0, y, 1.0)
                else:
                    self._note(self._measure, decision, y)
            if due and self.fits_itself:
                self.fit()
        else:
            self._check_due(decision, self._time(at))
            self._learn_late(decision, y, self._advance(at))

    def correct(self, decision: Decision, outcome: float, *, at: float | None = None) -> None:
        """Correct an outcome that was observed, such as an order that came back: once.

        For policies with a window, within the window of the decision. What the outcome cost, where
        costs are charged on conversion, is corrected, too.

        >>> import bccb
        >>> policy = bccb.make(
        ...     budget=100, horizon=1_000, features=1, window=30.0, outcome="amount", seed=1
        ... )
        >>> first = policy.decide([0.5], cost=0.5, at=1.0)
        >>> policy.observe(first, 80.0, at=9.0)
        >>> policy.correct(first, 0.0, at=12.0)  # sent back
        """
        y = checks.number("outcome", outcome)
        self._check_outcome(y)
        if self.pending is None:
            raise StateError("the policy was made without a window, within which to correct")
        time = self._time(at)
        if self._is_late(decision, time):
            raise StateError(f"the window of decision {decision.number} has ended")
        if isinstance(decision, Decision) and decision.number in self._waiting:
            raise StateError(f"decision {decision.number} has no outcome yet: observe it")
        held = self._observed.paid(decision)
        self._advance(at)
        was = self._outcomes[decision.number]
        self.recharge(held, was, y)
        self._forget(decision.number)
        self.amend(decision.features, decision.number, decision.action, was, y)
        if self._measure is not None:
            alone = 1.0 if decision.action > 0 else self.probability(decision._trace, 0)
            self._measure.correct(decision.number, decision.action > 0, was, y, alone)
        self._fit_if_due()

    def cancel(self, decision: Decision, *, at: float | None = None) -> None:
        """Undo a decision that was not carried out: its money returns and nothing is learned.

        With a window, what its age has shown by then stays learned.
        """
        time = self._time(at)
        paid = self._waiting.paid(decision)
        if self._is_late(decision, time):
            raise StateError(f"the window of decision {decision.number} has ended")
        self._advance(at)
        self.refund(paid)
        if decision.action > 0:
            self.withdraw()
        if self.pending is not None:
            self.pending.remove(decision.number)
        if self._measure is not None:
            self._measure.drop(decision.number, decision.action > 0)
        del self._waiting[decision.number]

    def observe_many(
        self, decisions: Sequence[Decision], outcomes: npt.ArrayLike, *, at: float | None = None
    ) -> None:
        """Learn the outcomes of several decisions, in their order; all or none."""
        try:
            decisions = list(decisions)
        except TypeError:
            raise InputError("decisions", decisions, "a list of decisions") from None
        ys = as_floats("outcomes", outcomes)
        if ys.shape != (len(decisions),):
            raise InputError("the shape of outcomes", ys.shape, f"({len(decisions)},)")
        check_outcomes(ys, Kind.AMOUNT if self.composition.amounts else Kind.CONVERSION)
        time = self._time(at)
        for decision in decisions:
            self._check_due(decision, time)
        numbers = {decision.number for decision in decisions}
        if len(numbers) < len(decisions):
            raise StateError("a decision is in this list twice, but can be observed only once")
        if not decisions:
            return
        if self.fits_itself:  # a fit that fails halfway would lose the rest of the list
            self.composition.components[0].check_installed()
        if self.pending is not None:
            self._advance(at)
            for decision, y in zip(decisions, ys.tolist(), strict=True):
                self._learn_late(decision, y, time)
            return
        for decision, y in zip(decisions, ys.tolist(), strict=True):
            self.settle(self._waiting.pop(decision.number)[0], y)
        traces = np.array([decision._trace for decision in decisions])
        actions = np.array([decision.action for decision in decisions], np.int64)
        if self._measure is not None:
            for decision, y in zip(decisions, ys.tolist(), strict=True):
                self._note(self._measure, decision, y)
        learned, state = 0, (self.counts, self.memory)
        while learned < len(ys):
            rest = traces[learned:], actions[learned:], ys[learned:]
            learned += self.kernels["observe_many"](*state, *rest, self.fits_itself, self._space)
            self._fit_if_due()

    # Saving

    def to_bytes(self) -> bytes:
        """The whole state; :func:`from_bytes` continues from it bit for bit."""
        return pack(
            Saved(
                *(self.name, self._origin.policy, self.composition, self.counts),
                *(self.used_memory(), self._waiting.rows(), self.pending, self._measure),
                {number: (*self._observed[number], y) for number, y in self._outcomes.items()},
            )
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to a file, which appears whole or not at all."""
        with written_whole(checks.path("path", path)) as draft:
            draft.write_bytes(self.to_bytes())

    def _set_costs(self, cost: float | Sequence[float] | Floats) -> None:
        values = as_floats("cost", cost).reshape(-1)
        if values.shape != (self.treatments,):
            raise InputError("the number of costs", len(values), f"{self.treatments}")
        for k, value in enumerate(values.tolist()):
            self._costs[k] = cost_in_micros(value)

    def _misshapen(self, x: Floats) -> InputError:
        if x.ndim == 1:
            return InputError("the number of features in x", len(x), f"{self.features}")
        return InputError("the shape of x", x.shape, f"{self._shape}")


def load(path: str | os.PathLike[str]) -> Policy:
    """The policy that :meth:`Policy.save` wrote."""
    try:
        kept = checks.path("path", path).read_bytes()
    except OSError as error:
        raise InputError("path", str(path), f"a file that can be read ({error})") from None
    if not kept.startswith(SIGNATURE):
        raise InputError("path", str(path), "a file that Policy.save wrote, which this is not")
    try:
        return from_bytes(kept)
    except InputError as error:
        raise InputError("path", str(path), f"a saved policy without damage; {error}") from None


def from_bytes(kept: bytes) -> Policy:
    """The policy that :meth:`Policy.to_bytes` saved; checked."""
    saved = unpack(kept)
    waiting = {number: (paid, checksum) for number, paid, checksum in saved.waiting.tolist()}
    parts = saved.name, saved.composition, saved.counts, saved.memory, saved.id
    return Policy(*parts, waiting, saved.pending, saved.measure, saved.observed)
