"""A campaign: the fold of its journal.

Every change is made by one of the methods here, which returns the event that records it. Recovery
calls the same methods with arguments from the journal, and every event must come out as it was
recorded, to the bit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bccb.ageing import NOT_KNOWN
from bccb.caused import Caused
from bccb.errors import StateError
from bccb.fitting import Fitted
from bccb.ledger.event import Event, Kind, Known, fault_of, seal_of
from bccb.ledger.port import Account, DamagedError, RefusedError
from bccb.machine import NONE
from bccb.measured import Measure
from bccb.outcome import NOT_REPORTED
from bccb.pending import Pending
from bccb.serve.balance import Balance
from bccb.serve.meter import Meter
from bccb.serve.tally import CausedPoint, Point, Tally
from bccb.serve.terms import UPLOAD, Terms
from bccb.types import LEAST_PROBABILITY, Floats, Ints
from bccb.wire import AlertKind

NO_BYTES = np.empty(0, np.uint8)
DECISION = Kind.DECISION.value  # plain text, which SQLite binds faster
ROUNDING = 1e-6  # the most that a numerical integral may be off
RUNS = {Kind.PAUSED: "paused", Kind.RESUMED: "running", Kind.CLOSED: "closed"}


class Alert(NamedTuple):
    """Something about a campaign that somebody should look at."""

    kind: AlertKind
    since: int  # microseconds since 1970
    text: str


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
        self.age_at = 0  # when to look whether users have grown older
        self.sweep_at = 0  # when to look for the next window that has passed
        self.fitted_at: int | None = None  # when the policy was fitted again last
        self.needs_history = terms.learned_from == UPLOAD  # before it can decide
        self.meter = Meter()
        self.balance = Balance()
        self.alerts: tuple[Alert, ...] = ()  # as of the last look
        # where the features as they came begin in the detail of a decision, if they are kept
        self._raw_from: int | None = None
        if terms.encoding is not None:
            self._raw_from = 8 * (len(terms.treatments) + self.machine.trace_size)
        self.measure: Measure | None = None
        if self.machine.reserve > 0.0 and not terms.shadow:
            self.measure = Measure(self.machine.reserve)

    @property
    def pending(self) -> Pending:
        """The users whose outcome may still be reported."""
        assert self.machine.pending is not None
        return self.machine.pending

    @property
    def remaining(self) -> int:
        """Micros that can still be reserved."""
        return self.budget - self.spent - self.reserved

    def over(self, at: int) -> bool:
        """Whether no more decisions are made, for good."""
        return self.status == Kind.CLOSED or self.terms.ended(self.now(at))

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

    def _check_money(self) -> None:
        if not 0 <= self.remaining == self.machine.remaining_micros:
            raise DamagedError(f"the money of campaign {self.id} does not add up")

    def _seal(self, at: int, kind: str, rest: tuple[Any, ...], sound: bool = False) -> Event:
        """The next event; ``rest`` is what an event has from the decision's id on.

        One that is not finite and in range is refused: it must not be committed or answered.
        ``sound`` says that this was checked.
        """
        self.sequence, self.at = self.sequence + 1, at
        row = (self.key, self.sequence, at, kind, *rest)
        self.seal = seal_of(row, self.seal)
        event = Event._make((*row, self.seal))
        fault = None if sound else fault_of(event)
        if fault is not None:
            raise RefusedError(f"campaign {self.id} made an impossible {kind}: {fault}")
        return event

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
        rest = (decision, number, action, money, value, None, None, self.remaining, detail)
        return self._seal(self.now(at), kind.value, rest)

    def now(self, at: int) -> int:
        """The time of the next event: it never runs back, whatever the clock does."""
        return max(at, self.at)

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
        probabilities = rounded.tolist()
        prices = (made.prices + 0.0).tolist()  # SQLite keeps no sign of zero: seals would not fit
        self.open += len(times)
        self.tally.offers += len(times)
        self.tally.cheapest += int(costs.min(axis=1).sum())
        arms = np.full(len(times), NOT_KNOWN) if self.terms.shadow else made.actions
        self.pending.enter(first, xs, arms, np.array(times, np.float64), self.sequence + 1)
        events = []
        left = self.remaining
        rows = zip(
            *(times, decisions, made.actions.tolist(), made.paid.tolist(), prices),
            *(probabilities, costs, made.traces, raw),
            strict=True,
        )
        for number, row in enumerate(rows, first):
            at, decision, action, paid, price, probability, offered, trace, given = row
            left -= paid
            self.reserved += paid
            self.tally.decisions[action] += 1
            if number % self.tally.every == 0:
                self._note_point(at, number, price)
            detail = offered.tobytes() + trace.tobytes() + given
            rest = (decision, number, action, paid, None, price, probability, left, detail)
            events.append(self._seal(at, DECISION, rest, sound))
        self._check_money()
        return events

    def _note_point(self, at: int, number: int, price: float) -> None:
        out = self.spent + self.reserved
        self.tally.note_point(Point(at, number, out, self.planned(at, number), price))

    def observing(self, at: int, known: Known, value: float, action: int) -> Event:
        """Learn an outcome; ``action`` is what was done, which a shadow campaign did not choose.

        Money for a treatment that the other system did not give returns.
        """
        back = known.held if action != known.decision.action else 0
        self._end(known, back)
        self.tally.reports = self.tally.reports.with_one(self.now(at), self.machine.decisions)
        self._learn(known.decision, action, value, at)
        return self._event(at, Kind.OUTCOME, *known.names, action, back, value)

    def expiring(self, at: int, known: Known) -> Event:
        """The window has passed: no outcome counts as 0, where it is known what was done."""
        action = self.done(known)
        back = known.held if action != known.decision.action else 0
        self._end(known, back)
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

    def cancelling(self, at: int, known: Known) -> Event:
        """The treatment was not delivered: its money returns, and nothing is learned."""
        self._end(known, known.held)
        if self.pending.is_open(known.decision.number or 0):
            self.pending.remove(known.decision.number or 0)
        action = known.decision.action or 0
        self.tally.decisions[action] -= 1
        if action > 0:
            self.machine.withdraw()
        if self.measure is not None:
            self.measure.drop(known.decision.number or 0, action > 0)
        return self._event(at, Kind.CANCELLATION, *known.names, money=known.held)

    def settling(self, at: int, known: Known, cost: int) -> Event:
        """The treatment cost less than was reserved: the rest returns."""
        if known.end is None:
            self.reserved -= known.held
        else:
            self.spent -= known.held
        self.spent += cost
        self.machine.refund(known.held - cost)
        return self._event(at, Kind.SETTLEMENT, *known.names, money=cost)

    def adding(self, at: int, request: str, micros: int) -> Event:
        """More money, to be planned over the users to come."""
        self.machine.add_micros(micros)
        self.budget += micros
        self.planned_at = self.now(at)
        return self._event(at, Kind.BUDGET, request, money=micros)

    def turning(self, at: int, kind: Kind) -> Event:
        """Pause, resume or close."""
        self.status = kind
        return self._event(at, kind)

    def _end(self, known: Known, back: int) -> None:
        """Move what is held for a decision to what is spent, except what returns."""
        if known.settlement is None:
            self.reserved -= known.held
            self.spent += known.held - back
        else:
            self.spent -= back
        self.machine.refund(back)
        self.open -= 1

    def ageing(self, at: int, most: int) -> Event:
        """Let users who wait grow older, by so many ages of theirs at most."""
        self.machine.age(float(self.now(at)), most)
        return self._event(at, Kind.AGED, number=most)

    def fitting(self, at: int, fitted: Fitted) -> Event:
        """Go on with a model that was fitted again, and has learned everything since."""
        self.machine.refitting().install(fitted)
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
            point = CausedPoint(self.now(at), caused.estimated, caused.measured)
            self.tally.note_caused(point)

    # Looking

    def caused(self) -> Caused:
        """What the treatments caused; a shadow campaign treats nobody."""
        if self.terms.shadow:
            return Caused(None, None, 0)
        whole = self.machine.treated == sum(self.tally.decisions[1:])  # not of an older version
        estimated = self.machine.estimated() if whole else None
        if self.measure is None:
            return Caused(estimated, None, 0)
        return Caused(estimated, self.measure.interval(), self.measure.users)

    def done(self, known: Known) -> int | None:
        """What was done to a user; None where a shadow campaign does not know it yet."""
        if not self.terms.shadow:
            return known.decision.action or 0
        return None if known.done is None else known.done.action

    def trace(self, decision: Event) -> Floats:
        """What a decision left to learn by; its first entries are what the policy has read."""
        assert decision.detail is not None
        # through a copy that may be written to: kernels are compiled for no other
        begin, end = 8 * len(self.terms.treatments), self._raw_from
        return np.frombuffer(bytearray(decision.detail[begin:end]))

    def raw(self, decision: Event) -> bytes:
        """The features as they came, a JSON list, where they are encoded; otherwise nothing."""
        assert decision.detail is not None
        return b"" if self._raw_from is None else decision.detail[self._raw_from :]

    def costs(self, decision: Event) -> Ints:
        """What each treatment would have cost, in micros."""
        assert decision.detail is not None
        # writable, as those of a request: for others the kernels would be compiled once more
        return np.frombuffer(bytearray(decision.detail[: 8 * len(self.terms.treatments)]), np.int64)

    def planned(self, at: int, decisions: int) -> int:
        """Micros that even spending would have spent: over users, or over time."""
        money, since = self.machine.planned
        if self.terms.users is None:
            share = self.terms.elapsed(at, self.planned_at)
        else:
            share = min((decisions - since) / max(self.terms.users - since, 1), 1.0)
        return self.budget - money + int(money * share)

    # Keeping

    def to_bytes(self) -> bytes:
        """The whole state: what the fold of the journal gives, to the bit."""
        account = self.account()._asdict()
        account.pop("swept")  # how far windows were checked, which no event records
        rest = {
            "account": account,
            "at": self.at,
            "planned_at": self.planned_at,
            "status": self.status.value,
            "open": self.open,
            "tally": self.tally.to_dict(),
            "waiting_from": self.pending.first_event,
        }
        if self.terms.learned_from == UPLOAD:
            rest["needs_history"] = self.needs_history
        sums, states = (np.empty(0), NO_BYTES) if self.measure is None else self.measure.kept()
        rest["measured"] = len(sums), len(states)
        machine = self.machine.snapshot()
        rest["machine"] = len(machine)
        if self.machine.composition.refitted:
            rest["fitted_at"] = self.fitted_at
        head = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
        measured = sums.tobytes() + states.tobytes()
        parts = head, machine, measured, self.pending.learned()
        return len(head).to_bytes(8, "little") + b"".join(parts)

    def restore(self, state: bytes) -> int:
        """Continue from what :meth:`to_bytes` gave; the event of the first user who waits, or 0.

        From that event on the users who wait must be known again, from the journal.
        """
        size = int.from_bytes(state[:8], "little")
        rest = json.loads(state[8 : 8 + size])
        account = rest["account"]
        self.sequence, self.seal = account["sequence"], account["seal"]
        self.budget, self.spent = account["budget"], account["spent"]
        self.reserved = account["reserved"]
        self.at, self.planned_at = rest["at"], rest["planned_at"]
        self.status, self.open = Kind(rest["status"]), rest["open"]
        self.tally = Tally.from_dict(rest["tally"])
        self.needs_history = rest.get("needs_history", False)
        whole, without_sample = self.machine.earlier_sizes
        whole, self.fitted_at = rest.get("machine", whole), rest.get("fitted_at")
        begin = 8 + size + (whole if "measured" in rest else without_sample)
        self.machine.restore(state[8 + size : begin])
        begin = self._restore_measure(state, begin, rest.get("measured"))
        if "waiting_from" not in rest:  # an older version, which did not let users wait
            self.pending.begin_after(self.machine.decisions)
            return 0
        self.pending.restore(state[begin:])
        return int(rest["waiting_from"])

    def _restore_measure(self, state: bytes, begin: int, sizes: list[int] | None) -> int:
        """Continue to measure, as from the first user; the place after what was kept of it."""
        if sizes is None:  # an older version: what it did not measure cannot be known
            self.measure = None if self.machine.decisions else self.measure
            return begin
        sums = np.frombuffer(state, np.float64, sizes[0], begin)
        states = np.frombuffer(state, np.uint8, sizes[1], begin + sums.nbytes)
        if not sizes[0]:
            self.measure = None
        elif self.measure is None or not self.measure.restore(sums, states):
            raise StateError("what was measured is not as it was kept")
        return begin + sums.nbytes + states.nbytes


def _sound(prices: Floats, probabilities: Floats, paid: Ints, remaining: int) -> bool:
    """Whether :func:`fault_of` finds nothing in any of these decisions, checked in one go."""
    finite = bool(np.isfinite(prices).all()) and bool(
        ((probabilities > 0.0) & (probabilities <= 1.0)).all()
    )
    return finite and bool((paid >= 0).all()) and int(paid.sum()) <= remaining


def _rounded(probabilities: Floats) -> Floats:
    """Probabilities, clipped to their range where they are outside by rounding alone.

    Others, and NaN, stay as they are and are refused.
    """
    near = (probabilities >= -ROUNDING) & (probabilities <= 1.0 + ROUNDING)
    return np.where(near, np.clip(probabilities, LEAST_PROBABILITY, 1.0), probabilities)
