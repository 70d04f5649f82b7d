"""A campaign: the fold of its journal.

Every change is made by one of the methods here, which returns the event that records it. Recovery
calls the same methods with arguments from the journal, and every event must come out as it was
recorded, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bccb.ageing import NOT_KNOWN
from bccb.fitting import Fitted
from bccb.ledger.event import Event, Kind, Known, fault_of, seal_of, sealed_decisions
from bccb.ledger.port import DamagedError, RefusedError
from bccb.machine import NONE
from bccb.outcome import NOT_REPORTED
from bccb.serve.standing import Standing
from bccb.serve.tally import CausedPoint, Point
from bccb.types import LEAST_PROBABILITY, Floats, Ints

ROUNDING = 1e-6  # the most that a numerical integral may be off
RUNS = {Kind.PAUSED: "paused", Kind.RESUMED: "running", Kind.CLOSED: "closed"}


class Campaign(Standing):
    """A campaign, and the changes that its journal records."""

    def _check_money(self) -> None:
        held = self.reserved if self.machine.charges_on_conversion else 0
        if not (
            0 <= self.remaining == self.machine.remaining_micros
            and held == self.machine.held_micros
        ):
            raise DamagedError(f"the money of campaign {self.id} does not add up")

    def _check_event(self, event: Event) -> None:
        """Refuse an event that is not finite and in range: it must not be committed or answered."""
        fault = fault_of(event, self.terms.outcome)
        if fault is not None:
            raise RefusedError(f"campaign {self.id} made an impossible {event.kind}: {fault}")

    def _event(
        self,
        at: int,
        kind: Kind,
        decision: str | None = None,
        number: int | None = None,
        action: int | None = None,
        money: int = 0,
        value: float | None = None,
        detail: bytes | None = None,
    ) -> Event:
        """The next event, which is no decision. The money must agree with the policy's."""
        self._check_money()
        self.sequence, self.at = self.sequence + 1, self.now(at)
        rest = (decision, number, action, money, value, None, None, self.remaining, detail)
        row = (self.key, self.sequence, self.at, kind.value, *rest)
        self.seal = seal_of(row, self.seal)
        event = Event._make((*row, self.seal))
        self._check_event(event)
        return event

    # Changes

    def opening(self) -> Event:
        """The first event."""
        self.budget = self.terms.budget
        at, terms = self.terms.opened_at, self.terms.to_json()
        return self._event(at, Kind.OPENED, self.id, money=self.budget, detail=terms)

    def learning(self, at: int, memory: bytes, digest: str | None = None) -> Event:
        """Begin with what another campaign, or an uploaded policy with this digest, has learned."""
        self.machine.remember(memory)
        self.needs_history = False
        return self._event(at, Kind.LEARNED, digest, detail=memory)

    def deciding(
        self,
        times: Sequence[int],
        decisions: Sequence[str],
        xs: Floats,
        costs: Ints,
        raw: Sequence[bytes],
    ) -> list[Event]:
        """Decide on users one after the other, and reserve what their treatments cost, in micros.

        One after the other or together, the decisions are the same. ``raw`` is the features as
        they came, where ``xs`` is encoded, and empty bytes otherwise.
        """
        first, horizons = self.machine.decisions + 1, NONE
        if self.terms.ends_at is not None:
            to_come = (self.terms.users_to_come(at, first + i - 1) for i, at in enumerate(times))
            horizons = np.array([first + i - 1 + n for i, n in enumerate(to_come)], np.int64)
        made = self.machine.steps(xs, costs, horizons)
        rounded = _rounded(self.machine.probabilities(made.traces, made.actions))
        sound = _sound(made.prices, rounded, made.paid, self.remaining)
        self.open += len(times)
        self.tally.offers += len(times)
        self.tally.cheapest += int(costs.min(axis=1).sum())
        arms = np.full(len(times), NOT_KNOWN) if self.terms.shadow else made.actions
        self.pending.enter(first, xs, arms, np.array(times, np.float64), self.sequence + 1)
        left, paid = self.remaining, made.paid.tolist()
        remaining = [left := left - each for each in paid]
        columns = (
            *(times, decisions, made.actions.tolist(), paid),
            (made.prices + 0.0).tolist(),  # SQLite keeps no sign of zero: seals would not fit
            *(rounded.tolist(), remaining, _details(costs, made.traces, raw)),
        )
        events = sealed_decisions(self.key, self.sequence + 1, first, columns, self.seal)
        self._count(events, made.actions)
        for event in () if sound else events:
            self._check_event(event)
        self._check_money()
        return events

    def _count(self, events: Sequence[Event], actions: Ints) -> None:
        """Go on to the last of these decisions, with their money and what the page shows."""
        self.sequence, self.at, self.seal = events[-1].sequence, events[-1].at, events[-1].seal
        self.reserved = self.budget - self.spent - events[-1].remaining
        for action, more in enumerate(np.bincount(actions).tolist()):
            self.tally.decisions[action] += more
        first, last = events[0].number or 0, events[-1].number or 0
        number = first - 1
        # the steps from point to point may grow on the way
        while (number := number - number % self.tally.every + self.tally.every) <= last:
            self._note_point(events[number - first])

    def _note_point(self, decision: Event) -> None:
        at, number, out = decision.at, decision.number or 0, self.budget - decision.remaining
        price, held = decision.price or 0.0, out - self.spent
        self.tally.note_point(Point(at, number, out, self.planned(at, number), price, held))

    def observing(self, at: int, known: Known, value: float, action: int) -> Event:
        """Learn an outcome; ``action`` is what was done, which a shadow campaign did not choose.

        Money for a treatment that the other system did not give returns, and where costs are
        charged on conversion, money for one without a conversion.
        """
        back = self._end(known, action, value)
        self.tally.reports = self.tally.reports.with_one(self.now(at), self.machine.decisions)
        self._learn(known.decision, action, value, at)
        return self._event(at, Kind.OUTCOME, *known.names, action, back, value)

    def expiring(self, at: int, known: Known) -> Event:
        """The window has passed: no outcome counts as 0, where it is known what was done."""
        action = self.done(known)
        back = self._end(known, action, NOT_REPORTED)
        if action is not None:
            self._learn(known.decision, action, NOT_REPORTED, at)
        noted = action if self.terms.shadow else None
        return self._event(at, Kind.EXPIRY, *known.names, noted, back, NOT_REPORTED)

    def noting_action(self, at: int, known: Known, action: int) -> Event:
        """What the other system of a shadow campaign did: the user can grow older now."""
        number = known.decision.number or 0
        if self.pending.is_open(number):
            self.pending.ring.arm[self.pending.place(number)] = action
        return self._event(at, Kind.DONE, *known.names, action)

    def counting_late(self, at: int, known: Known, action: int) -> Event:
        """A conversion was reported after the window: it is counted, and not learned."""
        self.pending.note_too_late()
        return self._event(at, Kind.TOO_LATE, *known.names, action)

    def correcting(self, at: int, known: Known, value: float) -> Event:
        """The outcome was another one, such as an order that came back: learned and charged again.

        Where costs are charged on conversion, an order that came back costs nothing; a settled cost
        may fall, and never rises. A treatment that was not the policy's costs nothing.
        """
        end, decision, cost = known.end, known.decision, known.held
        assert end is not None
        number, action, was = decision.number or 0, end.action or 0, end.value or 0.0
        if action == decision.action:
            settled = None if known.settlement is None else known.settlement.money
            cost += self.machine.recharge(decision.money, was, value, settled)
        self.spent += cost - known.held
        trace = self.trace(decision)
        self.machine.amend(trace[: self.terms.columns], number, action, was, value)
        if self.measure is not None:
            alone = 1.0 if action > 0 else self.machine.probability(trace, 0)
            self.measure.correct(number, action > 0, was, value, alone)
        self.tally.correct(action, was, value)
        return self._event(at, Kind.CORRECTION, *known.names, action, cost, value)

    def cancelling(self, at: int, known: Known) -> Event:
        """The treatment was not delivered: its money returns, and nothing is learned."""
        back = self._end(known)
        if self.pending.is_open(known.decision.number or 0):
            self.pending.remove(known.decision.number or 0)
        action = known.decision.action or 0
        self.tally.decisions[action] -= 1
        if action > 0:
            self.machine.withdraw()
        if self.measure is not None:
            self.measure.drop(known.decision.number or 0, action > 0)
        return self._event(at, Kind.CANCELLATION, *known.names, money=back)

    def settling(self, at: int, known: Known, cost: int) -> Event:
        """The treatment cost less than was reserved, or charged on conversion: the rest returns."""
        if known.end is None:
            self.reserved -= known.held
        else:
            self.spent -= known.held
        self.spent += cost
        self.machine.repay(known.held - cost)
        return self._event(at, Kind.SETTLEMENT, *known.names, money=cost)

    def adding(self, at: int, request: str, micros: int) -> Event:
        """More money, to be planned over the users to come."""
        self.machine.add_micros(micros)
        self.budget += micros
        self.planned_at = self.now(at)
        return self._event(at, Kind.BUDGET, request, money=micros)

    def shifting(self, at: int, kind: Kind, move: str, micros: int) -> Event:
        """Money goes to another cell, or comes from one; the plan goes on with what there is."""
        more = micros if kind == Kind.RECEIVED else -micros
        self.machine.shift_micros(more)
        self.budget += more
        return self._event(at, kind, move, money=micros)

    def turning(self, at: int, kind: Kind) -> Event:
        """Pause, resume or close."""
        self.status = kind
        return self._event(at, kind)

    def _end(self, known: Known, action: int | None = None, value: float = NOT_REPORTED) -> int:
        """Move what is held for a decision to what is spent, except what returns; the latter.

        All of it returns unless the action was taken that was decided.
        """
        if action == known.decision.action:
            back = known.held - self.machine.settle(known.held, value)
        else:
            back = known.held
            self.machine.refund(back)
        if known.settlement is None:
            self.reserved -= known.held
            self.spent += known.held - back
        else:
            self.spent -= back
        self.open -= 1
        return back

    def ageing(self, at: int, most: int) -> Event:
        """Let users who wait grow older, by so many ages of theirs at most."""
        self.machine.age(float(self.now(at)), most)
        return self._event(at, Kind.AGED, number=most)

    def fitting(self, at: int, fitted: Fitted) -> Event:
        """Go on with a model that was fitted again, and has learned everything since."""
        self.machine.install_fit(fitted)
        if fitted.estimator is not None:
            self.fitted_at = self.now(at)
        return self._event(at, Kind.FITTED, detail=fitted.to_bytes())

    def _learn(self, decision: Event, action: int, value: float, at: int) -> None:
        """Learn an outcome, except for what was learned of the user's age already."""
        pending, number = self.pending, decision.number or 0
        if pending.is_open(number):
            pending.ring.arm[pending.place(number)] = action
            self.machine.end(number, value, float(self.now(at)))
        elif number <= pending.began:  # an older version decided, and did not let users wait
            self.machine.learn_outcome(self.trace(decision), action, value)
        if self.measure is not None:
            alone = 1.0
            if action == 0 and value != NOT_REPORTED:
                alone = self.machine.probability(self.trace(decision), 0)
            self.measure.end(number, action > 0, value, alone)
        if self.tally.note_outcome(action, value):
            caused = self.caused()
            measured = None if caused.needed or caused.wide else caused.measured
            point = CausedPoint(self.now(at), caused.estimated, measured)
            self.tally.note_caused(point)


def _sound(prices: Floats, probabilities: Floats, paid: Ints, remaining: int) -> bool:
    """Whether :func:`fault_of` finds nothing in any of these decisions, checked in one go."""
    finite = bool(np.isfinite(prices).all()) and bool(
        ((probabilities > 0.0) & (probabilities <= 1.0)).all()
    )
    return finite and bool((paid >= 0).all()) and int(paid.sum()) <= remaining


def _details(costs: Ints, traces: Floats, raw: Sequence[bytes]) -> list[bytes]:
    """What each decision leaves to learn by: costs, trace, and the features as they came."""
    whole = np.concatenate((costs, traces.view(np.int64)), axis=1).tobytes()
    size = len(whole) // len(raw)
    return [whole[i * size : (i + 1) * size] + given for i, given in enumerate(raw)]


def _rounded(probabilities: Floats) -> Floats:
    """Probabilities, clipped to their range where they are outside by rounding alone.

    Others, and NaN, stay as they are and are refused.
    """
    near = (probabilities >= -ROUNDING) & (probabilities <= 1.0 + ROUNDING)
    return np.where(near, np.clip(probabilities, LEAST_PROBABILITY, 1.0), probabilities)
