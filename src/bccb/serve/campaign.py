"""A campaign: the fold of its journal.

Every change is made by one of the methods here, which return the event that tells of it. Recovery
calls the same methods with what the journal tells of their arguments, and every event must come
out as it was recorded, to the bit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bccb import drivers
from bccb.errors import StateError
from bccb.ledger.event import ENDS, Event, Kind, seal_of
from bccb.ledger.ledger import Account, DamagedError
from bccb.ledger.money import MICROS
from bccb.serve.meter import Meter
from bccb.serve.tally import Point, Tally
from bccb.serve.terms import Terms
from bccb.types import Floats, Ints

STATUS = {Kind.PAUSED: "paused", Kind.RESUMED: "running", Kind.CLOSED: "closed"}


class Known(NamedTuple):
    """What the journal tells of one decision."""

    decision: Event
    end: Event | None = None
    settlement: Event | None = None

    @classmethod
    def of(cls, events: Sequence[Event]) -> Known | None:
        """From the events that carry its id; None if there was no decision."""
        found = {("end" if event.kind in ENDS else event.kind): event for event in events}
        decision = found.get(Kind.DECISION)
        return decision and cls(decision, found.get("end"), found.get(Kind.SETTLEMENT))

    @property
    def held(self) -> int:
        """Micros that were taken for the treatment."""
        return self.decision.money if self.settlement is None else self.settlement.money


class Campaign:
    """The state of a campaign: terms, money, policy, tally, and where its journal ends."""

    def __init__(self, key: int, id_: str, terms: Terms) -> None:
        self.key, self.id, self.terms = key, id_, terms
        self.machine = terms.machine()
        self.tally = Tally.empty(len(terms.treatments))
        self.status = Kind.RESUMED
        self.budget = self.spent = self.reserved = 0
        self.sequence = self.seal = self.swept = 0
        self.at = self.planned_at = terms.opened_at
        self.open = 0  # decisions without an end
        self.sweep_at = 0  # when to look for the next window that has passed
        self.meter = Meter()

    @property
    def remaining(self) -> int:
        """Micros that can still be reserved."""
        return self.budget - self.spent - self.reserved

    def account(self) -> Account:
        """The row of the ledger."""
        return Account(
            self.key,
            self.id,
            self.terms.name,
            self.sequence,
            self.seal,
            self.swept,
            self.budget,
            self.spent,
            self.reserved,
        )

    def _event(self, event: Event) -> Event:
        """Seal an event and make it the last one; money must agree with the policy's."""
        if not 0 <= self.remaining == self.machine.remaining_micros:
            raise DamagedError(f"the money of campaign {self.id} does not add up")
        event = event._replace(remaining=self.remaining)
        self.seal = seal_of(event, self.seal)
        self.sequence, self.at = event.sequence, event.at
        return event._replace(seal=self.seal)

    def _next(self, at: int, kind: Kind) -> Event:
        """The next event, still empty. Time never runs back, whatever the clock does."""
        return Event(self.key, self.sequence + 1, max(at, self.at), kind.value)

    # Changes

    def opening(self) -> Event:
        """The first event."""
        self.budget = self.terms.budget
        event = self._next(self.terms.opened_at, Kind.OPENED)
        return self._event(event._replace(money=self.budget, detail=self.terms.to_json()))

    def learning(self, at: int, memory: bytes) -> Event:
        """Begin with what another campaign has learned."""
        self.machine.memory[:] = np.frombuffer(memory)
        self.machine.counts[drivers.HISTORY] = 0
        self.machine.needs_history = False
        return self._event(self._next(at, Kind.LEARNED)._replace(detail=memory))

    def deciding(self, at: int, decision: str, x: Floats, costs: Ints) -> Event:
        """Decide on a user and reserve what the treatment costs; ``costs`` are micros."""
        event = self._next(at, Kind.DECISION)
        machine = self.machine
        to_come = self.terms.users_to_come(event.at, machine.decisions)
        if to_come is not None:
            machine.expect(to_come)
        number, action, paid, price, _, trace = machine.step(x, costs / MICROS)
        self.reserved += paid
        self.open += 1
        tally = self.tally
        tally.decisions[action] += 1
        if number % tally.every == 0:
            out = self.spent + self.reserved
            tally.note_point(Point(event.at, number, out, self.planned(event.at), price))
        return self._event(
            event._replace(
                decision=decision,
                number=number,
                action=action,
                money=paid,
                price=price,
                probability=machine.probability(trace, action),
                detail=costs.tobytes() + trace.tobytes(),
            )
        )

    def observing(self, at: int, known: Known, value: float, action: int) -> Event:
        """Learn an outcome; ``action`` is what was done, which a shadow campaign did not choose.

        Money for a treatment that the other system did not give returns.
        """
        back = known.held if action != known.decision.action else 0
        self._end(known, back)
        self._learn(known.decision, action, value)
        event = self._next(at, Kind.OUTCOME)
        return self._event(_about(event, known)._replace(action=action, money=back, value=value))

    def expiring(self, at: int, known: Known) -> Event:
        """The window has passed: no outcome is none. What a shadow's user got is not known."""
        back = known.held if self.terms.shadow else 0
        self._end(known, back)
        if not self.terms.shadow:
            self._learn(known.decision, known.decision.action or 0, 0.0)
        event = self._next(at, Kind.EXPIRY)
        return self._event(_about(event, known)._replace(money=back, value=0.0))

    def cancelling(self, at: int, known: Known) -> Event:
        """The treatment was not delivered: its money returns, and nothing is learned."""
        self._end(known, known.held)
        self.tally.decisions[known.decision.action or 0] -= 1
        event = self._next(at, Kind.CANCELLATION)
        return self._event(_about(event, known)._replace(money=known.held))

    def settling(self, at: int, known: Known, cost: int) -> Event:
        """The treatment cost less than was reserved: the rest returns."""
        back = known.held - cost
        if known.end is None:
            self.reserved -= known.held
        else:
            self.spent -= known.held
        self.spent += cost
        self.machine.refund(back)
        event = self._next(at, Kind.SETTLEMENT)
        return self._event(_about(event, known)._replace(money=cost))

    def adding(self, at: int, request: str, micros: int) -> Event:
        """More money, to be planned over the users to come."""
        event = self._next(at, Kind.BUDGET)
        self.machine.add_micros(micros)
        self.budget += micros
        self.planned_at = event.at
        return self._event(event._replace(decision=request, money=micros))

    def turning(self, at: int, kind: Kind) -> Event:
        """Pause, resume or close."""
        self.status = kind
        return self._event(self._next(at, kind))

    def _end(self, known: Known, back: int) -> None:
        """Move what is held for a decision to what is spent, but for what returns."""
        if known.settlement is None:
            self.reserved -= known.held
            self.spent += known.held - back
        else:
            self.spent -= back
        self.machine.refund(back)
        self.open -= 1

    def _learn(self, decision: Event, action: int, value: float) -> None:
        trace = self.trace(decision)
        self.machine.take(trace, action, value)
        alone = None
        if not self.terms.shadow:
            alone = self.machine.probability(trace, 0)
        self.tally.note_outcome(action, value, alone)

    # Looking

    def trace(self, decision: Event) -> Floats:
        """What a decision left to learn by; its first entries are the user's features."""
        assert decision.detail is not None
        # through a copy that may be written to: kernels are compiled for no other
        return np.frombuffer(bytearray(decision.detail[8 * len(self.terms.treatments) :]))

    def costs(self, decision: Event) -> Ints:
        """What each treatment would have cost, in micros."""
        assert decision.detail is not None
        return np.frombuffer(decision.detail[: 8 * len(self.terms.treatments)], np.int64)

    def planned(self, at: int) -> int:
        """Micros that even spending would have spent: over users, or over time."""
        counts = self.machine.counts
        money = int(counts[drivers.PLANNED])
        if self.terms.ends_at is not None:
            share = self.terms.elapsed(at, self.planned_at)
        else:
            since = counts[drivers.SINCE]
            share = min((counts[drivers.NUMBER] - since) / (counts[drivers.HORIZON] - since), 1.0)
        return self.budget - money + int(money * share)

    # Keeping

    def to_bytes(self) -> bytes:
        """The whole state: what the fold of the journal gives, to the bit."""
        account = self.account()._asdict()
        account.pop("swept")  # tells what was looked at, not what happened
        rest = {
            "account": account,
            "at": self.at,
            "planned_at": self.planned_at,
            "status": self.status.value,
            "open": self.open,
            "tally": self.tally.to_dict(),
        }
        head = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
        machine = self.machine.counts.tobytes() + self.machine.memory.tobytes()
        return len(head).to_bytes(8, "little") + head + machine

    def restore(self, state: bytes) -> None:
        """Continue from what :meth:`to_bytes` gave."""
        size = int.from_bytes(state[:8], "little")
        rest = json.loads(state[8 : 8 + size])
        account = rest["account"]
        self.sequence, self.seal = account["sequence"], account["seal"]
        self.budget, self.spent = account["budget"], account["spent"]
        self.reserved = account["reserved"]
        self.at, self.planned_at = rest["at"], rest["planned_at"]
        self.status, self.open = Kind(rest["status"]), rest["open"]
        self.tally = Tally.from_dict(rest["tally"])
        counts, memory = self.machine.counts, self.machine.memory
        kept = state[8 + size :]
        if len(kept) != counts.nbytes + memory.nbytes:
            raise StateError(f"a snapshot of campaign {self.id} is not of this version")
        counts[:] = np.frombuffer(kept[: counts.nbytes], np.int64)
        memory[:] = np.frombuffer(kept[counts.nbytes :])
        self.machine.needs_history = False


def _about(event: Event, known: Known) -> Event:
    return event._replace(decision=known.decision.decision, number=known.decision.number)
