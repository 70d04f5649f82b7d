"""A tracker: a machine that knows its decisions, which of them wait, and what they caused.

A decision waits until its outcome is observed, it is cancelled, or its window ends. With a window,
an outcome can be corrected until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bccb.caused import Caused
from bccb.composition import Composition
from bccb.decision import Decision, Origin
from bccb.errors import InputError
from bccb.kernels import counts as count
from bccb.machine import Machine
from bccb.measured import Measure
from bccb.outcome import NOT_REPORTED
from bccb.pending import Pending
from bccb.receipts import Receipt, Receipts
from bccb.saved import NOTHING_OBSERVED as NOTHING
from bccb.saved import Observed
from bccb.types import Floats, Ints


class Tracker(Machine):
    """A machine with the receipts of its decisions."""

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
        super().__init__(name, composition, counts, memory, pending)
        self._measure = measure
        if measure is None and not self.decisions:
            self._measure = self.new_measure()
        self._origin = Origin(
            name, composition, self.features, self.treatments, int(counts[count.SEED]), id_
        )
        self._waiting = Receipts(self._origin, counts, waiting)
        # until their window ends, outcomes can be corrected
        kept = {number: each[:2] for number, each in observed.items()}
        self._observed = Receipts(self._origin, counts, kept, "cancelled or corrected")
        self._outcomes = {number: each[2] for number, each in observed.items()}
        self.owner = id_
        self.fits_itself = True

    @property
    def waiting(self) -> int:
        """How many decisions have no outcome yet."""
        return len(self._waiting)

    def stop_measuring(self) -> None:
        """Measure no more: decisions were made whose outcomes :meth:`observe` does not see."""
        self._measure = None

    def caused(self) -> Caused:
        """What the treatments so far caused: by the model, and measured without it.

        Measured are the users up to the first decision that was neither observed nor cancelled, and
        whose window, if there is one, has not ended.

        >>> import bccb
        >>> policy = bccb.make(budget=100, horizon=1_000, features=1, seed=1)
        >>> for number in range(1_000):
        ...     decision = policy.decide([number % 2], cost=0.5)
        ...     policy.observe(decision, outcome=float(number % 40 == 0))
        >>> caused = policy.caused()
        >>> caused.low < caused.value < caused.high, caused.measured.value <= 25
        (True, True)
        """
        return Caused.told(self.estimated(), self._measure)

    # Time

    def advance(self, at: float) -> None:
        """Learn what the time that has passed says about users whose outcome may still come.

        For policies with a window. Time is in any unit and never runs back. It is also given to
        :meth:`decide`, :meth:`observe` and :meth:`cancel`, which advance to it by themselves. A
        user without a report counts as a non-conversion, with more and more weight, as the delays
        of earlier reports suggest (:mod:`bccb.ageing`); when the window ends, fully.

        >>> import bccb
        >>> policy = bccb.make(budget=100, horizon=1_000, features=1, window=30.0, seed=1)
        >>> first, second = (policy.decide([0.5], cost=0.5, at=day) for day in (1.0, 2.0))
        >>> policy.observe(first, 1, at=9.0)  # bought on the ninth day
        >>> policy.advance(40.0)  # the other did not: nobody reports that
        >>> policy.waiting
        0
        """
        self._advance(at)

    def _time(self, at: float | None) -> float:
        """The time of a call, checked; 0 for policies without a window."""
        if self.pending is None:
            if at is not None:
                raise InputError("at", at, "absent: the policy was made without a window")
            return 0.0
        if at is None:
            raise InputError("at", at, "the time of this call: the policy has a window")
        return self.pending.check_time(at)

    def _advance(self, at: float | None) -> float:
        """The time of a call, after what it says was learned."""
        time = self._time(at)
        if self.pending is not None:
            first = self.pending.first
            self.age(time)
            for number in range(first, self.pending.first):
                self._forget(number)
                receipt = self._waiting.pop(number, None)
                if receipt is None:
                    continue
                self.settle(receipt[0], NOT_REPORTED)
                if self._measure is not None:
                    arm = self.pending.ring.arm[self.pending.place(number)]
                    self._measure.end(number, bool(arm > 0), NOT_REPORTED, 1.0)
            self._fit_if_due()
        return time

    def _fit_if_due(self) -> None:
        if self.fits_itself and self.fit_due:
            self.fit()

    # Outcomes

    def _note(self, measure: Measure, decision: Decision, y: float) -> None:
        treated = decision.action > 0
        alone = 1.0 if treated or y == 0.0 else self.probability(decision._trace, 0)
        measure.end(decision.number, treated, y, alone)

    @property
    def too_late(self) -> int:
        """Conversions that were reported after their window had ended."""
        return 0 if self.pending is None else self.pending.too_late

    def _check_due(self, decision: Decision, time: float) -> None:
        """Refuse a decision that does not wait, except where its window has ended."""
        if not self._is_late(decision, time):
            self._waiting.paid(decision)

    def _is_late(self, decision: Decision, time: float) -> bool:
        """Whether the window of a decision of this policy has ended by a time."""
        pending = self.pending
        if pending is None or not isinstance(decision, Decision):
            return False
        number: Any = decision.number  # which may have been changed
        if decision._origin != self._origin or not isinstance(number, int):
            return False
        if not 0 < number <= pending.last:
            return False
        return number < pending.first or pending.has_ended(number, time)

    def _learn_late(self, decision: Decision, y: float, time: float) -> None:
        assert self.pending is not None
        if decision.number in self._waiting:
            self.end(decision.number, y, time)
            receipt = self._waiting.pop(decision.number)
            self.settle(receipt[0], y)
            self._observed[decision.number], self._outcomes[decision.number] = receipt, y
            if self._measure is not None:
                self._note(self._measure, decision, y)
            self._fit_if_due()
        elif y != NOT_REPORTED:
            self.pending.note_too_late()

    def _forget(self, number: int) -> None:
        """Let an outcome be final."""
        self._observed.pop(number, None)
        self._outcomes.pop(number, None)
