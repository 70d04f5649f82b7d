"""An event: one row of the journal, sealed to the row before it."""

from __future__ import annotations

import struct
import zlib
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What happened."""

    OPENED = "opened"  # detail: the campaign's terms as JSON; money: its budget
    LEARNED = "learned"  # detail: the memory of the campaign that it begins with
    DECISION = "decision"  # detail: costs and trace; money: what is held for the treatment
    OUTCOME = "outcome"  # value: as reported; money: what returned
    EXPIRY = "expiry"  # no outcome within the window
    CANCELLATION = "cancellation"  # money: what returned
    SETTLEMENT = "settlement"  # money: what the treatment cost in the end
    BUDGET = "budget"  # money: what was added
    PAUSED = "paused"
    RESUMED = "resumed"
    CLOSED = "closed"


ENDS = (Kind.OUTCOME, Kind.EXPIRY, Kind.CANCELLATION)  # of a decision: it has one at most


class Event(NamedTuple):
    """One row of the journal, column by column."""

    campaign: int
    sequence: int  # 1, 2, 3, ... within the campaign
    at: int  # microseconds since 1970, never falling within a campaign
    kind: str
    decision: str | None = None  # the client's id; of a budget event that of the request
    number: int | None = None  # of the decision
    action: int | None = None  # 0 leave alone, 1..K; of an outcome the action that was learned
    money: int = 0  # micros
    value: float | None = None  # of the outcome
    price: float | None = None
    probability: float | None = None
    remaining: int = 0  # micros: budget - spent - reserved after this event
    detail: bytes | None = None
    seal: int = 0  # checksum of this row and the seal before it


FIELDS = Event._fields
_NUMBERS = struct.Struct("<qqqqqqqddd")
_NONE, _NAN = -1, float("nan")


def seal_of(event: Event, before: int) -> int:
    """The checksum of a row, chained to the seal of the row before it."""
    packed = _NUMBERS.pack(
        event.campaign,
        event.sequence,
        event.at,
        _NONE if event.number is None else event.number,
        _NONE if event.action is None else event.action,
        event.money,
        event.remaining,
        _NAN if event.value is None else event.value,
        _NAN if event.price is None else event.price,
        _NAN if event.probability is None else event.probability,
    )
    names = f"{event.kind}\n{event.decision or ''}".encode()
    return zlib.crc32(event.detail or b"", zlib.crc32(names, zlib.crc32(packed, before)))
