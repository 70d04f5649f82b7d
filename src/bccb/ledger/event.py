"""An event: one row of the journal, sealed to the row before it."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import repeat
from typing import Any, NamedTuple

from bccb.outcome import STATUS_AFTER, WITH_VALUE, End, is_allowed
from bccb.outcome import Kind as OutcomeKind


class Kind(StrEnum):
    """What happened."""

    OPENED = "opened"  # detail: the campaign's terms as JSON; money: its budget
    LEARNED = "learned"  # detail: the memory of the campaign that it begins with
    DECISION = "decision"  # detail: costs and trace; money: what is held for the treatment
    OUTCOME = End.OUTCOME  # value: as reported; money: what returned
    EXPIRY = End.EXPIRY  # no outcome within the window; money: what returned
    CANCELLATION = End.CANCELLATION  # money: what returned
    SETTLEMENT = "settlement"  # money: what the treatment cost in the end
    DONE = "done"  # action: what the other system of a shadow campaign did
    TOO_LATE = "too_late"  # a conversion was reported after the window: counted, not learned
    CORRECTION = "correction"  # value: what the outcome was in the end; money: the cost with that
    BUDGET = "budget"  # money: what was added
    GIVEN = "given"  # money: what another cell of the campaign got; decision: the id of the move
    RECEIVED = "received"  # money: what came from another cell, under the same id
    AGED = "aged"  # users who wait grew older; number: the most ages that they could pass
    FITTED = "fitted"  # detail: the model that the policy goes on with, which was fitted again
    PAUSED = "paused"
    RESUMED = "resumed"
    CLOSED = "closed"


class Event(NamedTuple):
    """One row of the journal, column by column."""

    campaign: int
    sequence: int  # 1, 2, 3, ... within the campaign
    at: int  # microseconds since 1970, never falling within a campaign
    kind: str
    decision: str | None = None  # the client's id; of a budget the request's, of the opening ours
    number: int | None = None  # of the decision
    action: int | None = None  # 0 leave alone, 1..K; of an outcome the action that was learned
    money: int = 0  # micros
    value: float | None = None  # of the outcome
    price: float | None = None
    probability: float | None = None
    remaining: int = 0  # micros: budget - spent - reserved after this event
    detail: bytes | None = None
    seal: int = 0  # checksum of this row and the seal before it


VALUED = frozenset({*WITH_VALUE, Kind.CORRECTION})  # events with an outcome
# What else follows a decision, each once
BESIDE_END = (Kind.SETTLEMENT, Kind.DONE, Kind.TOO_LATE, Kind.CORRECTION)


class Known(NamedTuple):
    """What the journal has of one decision."""

    decision: Event
    end: Event | None = None
    settlement: Event | None = None
    done: Event | None = None
    too_late: Event | None = None
    correction: Event | None = None

    @classmethod
    def of(cls, events: Sequence[Event]) -> Known | None:
        """From the events that carry its id; None if there was no decision."""
        by_role = {("end" if event.kind in STATUS_AFTER else event.kind): event for event in events}
        decision = by_role.get(Kind.DECISION)
        return decision and cls(decision, by_role.get("end"), *map(by_role.get, BESIDE_END))

    @property
    def names(self) -> tuple[str | None, int | None]:
        """Its id and its number."""
        return self.decision.decision, self.decision.number

    @property
    def value(self) -> float | None:
        """The outcome that counts; None if there is none."""
        if self.correction is not None:
            return self.correction.value
        return None if self.end is None else self.end.value

    @property
    def held(self) -> int:
        """Micros that are held or were charged for the treatment, after all that is known."""
        end, last = self.end, self.decision
        for change in (self.settlement, self.correction):
            if change is not None and change.sequence > last.sequence:
                last = change
        if end is None or end.sequence < last.sequence:
            return last.money
        return last.money - end.money


def fault_of(event: Event, outcomes: str = OutcomeKind.CONVERSION) -> str | None:
    """What is not finite or not in range in an event, which must then not be kept or answered.

    The schema refuses the same, but does not know the kind of a campaign's ``outcomes``.

    >>> fault_of(Event(1, 2, 0, "decision", "a", 1, 0, price=float("inf"), probability=0.5))
    'price is inf'
    """
    kind, value, price, chance = event.kind, event.value, event.price, event.probability
    if event.money < 0 or event.remaining < 0:
        return f"money is {event.money} and {event.remaining} remain"
    if kind == Kind.DECISION:
        if price is None or not math.isfinite(price):
            return f"price is {price}"
        if chance is None or not 0.0 < chance <= 1.0:
            return f"probability is {chance}"
    elif kind in VALUED and (value is None or not is_allowed(value, outcomes)):
        return f"value is {value}"
    return None


FIELDS = Event._fields
_NUMBERS = struct.Struct("<qqqqqqqdddbqq")
_NONE, _NAN = -1, float("nan")  # the first with a bit of its own; SQLite keeps no other NaN


def seal_of(row: Sequence[Any], before: int) -> int:
    """The checksum of a row without its seal, chained to the seal of the row before it."""
    campaign, sequence, at, kind, decision, number, action, money, value, price = row[:10]
    probability, remaining, detail = row[10:13]
    names = f"{kind}\n{decision or ''}".encode()
    missing = (
        (decision is None) | (number is None) << 1 | (action is None) << 2 | (detail is None) << 3
    )
    packed = _NUMBERS.pack(
        campaign,
        sequence,
        at,
        _NONE if number is None else number,
        _NONE if action is None else action,
        money,
        remaining,
        _NAN if value is None else value,
        _NAN if price is None else price,
        _NAN if probability is None else probability,
        missing,
        len(kind),
        len(names),
    )
    return zlib.crc32(detail or b"", zlib.crc32(names, zlib.crc32(packed, before)))


def sealed_decisions(
    campaign: int,
    sequence: int,
    number: int,
    columns: Iterable[Sequence[Any]],
    before: int,
) -> list[Event]:
    """Decisions one after the other as events, the first with this sequence and number.

    ``columns`` are times, ids, actions, money, prices, probabilities, what remains, and details.
    The seals are those of :func:`seal_of`, in half of the time.
    """
    times, ids, actions, money, prices, probabilities, remaining, details = columns
    kind, pack, crc32 = Kind.DECISION.value, _NUMBERS.pack, zlib.crc32
    start, size, n = f"{kind}\n".encode(), len(kind), len(ids)
    seals: list[int] = []
    rows = zip(times, ids, actions, money, prices, probabilities, remaining, details, strict=True)
    for i, (at, id_, action, paid, price, probability, left, detail) in enumerate(rows):
        names = start + id_.encode()
        packed = pack(
            *(campaign, sequence + i, at, number + i, action, paid, left),
            *(_NAN, price, probability, 0, size, len(names)),
        )
        before = crc32(detail, crc32(names, crc32(packed, before)))
        seals.append(before)
    by_field = (
        *(repeat(campaign, n), range(sequence, sequence + n), times, repeat(kind, n), ids),
        *(range(number, number + n), actions, money, repeat(None, n), prices, probabilities),
        *(remaining, details, seals),
    )
    return list(map(Event._make, zip(*by_field, strict=True)))
