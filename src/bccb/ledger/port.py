"""The port: what the service needs of a ledger, whichever engine keeps it.

An engine is a folder beside this file. It keeps four nouns: accounts (one per campaign), the
journal of events, snapshots and API keys. Its errors are those of this module.

Safety rests on two things that every engine must do by itself, whatever its callers do:
:meth:`Ledger.advance` moves an account only from the event that the caller believes to be its last,
and no committed account has ``spent + reserved > budget``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

from bccb.errors import BccbError, is_shortage
from bccb.ledger.event import Event


class LedgerError(BccbError):
    """The ledger cannot be read or written now. Nothing was changed."""

    one_campaign = False  # whether one campaign or request is to blame, and others can go on


class MissingError(LedgerError):
    """There is no ledger at this place yet."""


class RefusedError(LedgerError):
    """The ledger's rules refuse the values that it was given; the ledger itself is well."""

    one_campaign = True


class ConflictError(LedgerError):
    """Another writer was faster: read the campaign again, then try again."""

    one_campaign = True


class DamagedError(LedgerError):
    """The ledger does not hold what was written to it; the message says where."""

    one_campaign = True


def concerns_all(error: BaseException) -> bool:
    """Whether the ledger or the machine fails, and no campaign or request is to blame."""
    return is_shortage(error) or (isinstance(error, LedgerError) and not error.one_campaign)


class Mark(NamedTuple):
    """Where a journal ends: its last event, and the seal of that event, by which forks differ."""

    sequence: int
    seal: int


EMPTY = Mark(0, 0)  # a journal without events


class Account(NamedTuple):
    """The row of a campaign: where its journal ends, and its money there, in micros."""

    key: int
    id: str
    name: str
    sequence: int  # of the last event
    seal: int  # of the last event
    swept: int  # the windows of all decisions up to this event have passed
    budget: int
    spent: int
    reserved: int

    @property
    def mark(self) -> Mark:
        """Where its journal ends."""
        return Mark(self.sequence, self.seal)


class Snapshot(NamedTuple):
    """The state of a campaign after an event."""

    sequence: int
    version: str  # of bccb
    origin: int  # 1: the first of its code, which is kept for good
    state: bytes
    seal: int  # of the event and of the state
    fingerprint: str = ""  # of the code that made it; empty where an older version did


class Resolved(NamedTuple):
    """A decision and how it ended, if it did."""

    decision: Event
    kind: str | None
    value: float | None
    action: int | None


class Scope(StrEnum):
    """What a key may do: everything, decide and report, or look."""

    ADMIN = "admin"
    DECIDE = "decide"
    READ = "read"


class Key(NamedTuple):
    """An API key without its secret."""

    id: str
    name: str
    scope: Scope
    digest: bytes
    created_at: int  # microseconds since 1970
    revoked_at: int | None


class Replica(NamedTuple):
    """A process that serves a shared ledger."""

    id: str
    address: str  # where the others reach it, such as http://10.0.0.7:8000
    version: str  # of its code
    leaving: bool  # it hands its campaigns over
    alive: bool  # it was seen lately, by the engine's clock


class Beat(NamedTuple):
    """What a sign of life is answered with."""

    at: int  # microseconds since 1970, by the engine's clock
    replicas: list[Replica]  # all that are alive or were until recently, in any order


class Replicas(Protocol):
    """The processes that serve a shared ledger: where they are, and which of them live.

    Nothing depends on it but speed. One thread uses it at a time, with a connection of its own.
    """

    def beat(self, id_: str, address: str, version: str, leaving: bool) -> Beat:
        """Say that this process lives; who else does, and what time it is."""

    def leave(self, id_: str) -> None:
        """Forget a process that ends."""

    def wait(self, seconds: float) -> None:
        """Wait until replicas, keys or the list of campaigns change, or for so long."""

    def keys(self) -> list[Key]:
        """As :meth:`Reader.keys`."""

    def close(self) -> None:
        """Release what it holds."""


class Reader(Protocol):
    """Reads a ledger, also beside the process that writes it. One thread uses it at a time."""

    shared: bool  # whether several processes may write it; each call then goes over a network

    def close(self) -> None:
        """Release what it holds."""

    def check_whole(self) -> None:
        """Raise :class:`DamagedError` if the engine finds its storage inconsistent."""

    def accounts(self, ids: Collection[str] | None = None) -> list[Account]:
        """Campaigns in the order in which they were opened: all, or those with these ids."""

    def account(self, id_: str) -> Account | None:
        """One campaign."""

    def first(self, campaign: int) -> Event | None:
        """The first event of a campaign."""

    def events(self, campaign: int, after: int = 0) -> Iterator[Event]:
        """The events of a campaign in order, page by page. A gap raises :class:`DamagedError`."""

    def known(self, campaign: int, decisions: Iterable[str]) -> dict[str, list[Event]]:
        """The events of decisions, by decision id."""

    def known_in(self, asked: Mapping[int, Iterable[str]]) -> dict[int, dict[str, list[Event]]]:
        """The same for several campaigns, read together."""

    def decisions_since(self, campaign: int, after: int, limit: int) -> list[Event]:
        """The next decisions after an event."""

    def resolved(self, campaign: int, after: int, until: int, limit: int) -> list[Resolved]:
        """The next decisions after an event, with their ends, as of event ``until``."""

    def seal_at(self, campaign: int, sequence: int) -> int | None:
        """The seal of one event."""

    def snapshot(self, campaign: int) -> Snapshot | None:
        """The newest snapshot of a campaign."""

    def origin(self, campaign: int) -> Snapshot | None:
        """The newest snapshot that is kept for good."""

    def keys(self) -> list[Key]:
        """All API keys in the order in which they were made, also revoked ones."""

    def back_up(self, path: str | os.PathLike[str]) -> None:
        """Write the ledger as it is now to a file, which appears whole or not at all."""


class Ledger(Reader, Protocol):
    """Reads and writes a ledger. One thread uses it at a time."""

    def replicas(self) -> Replicas:
        """The processes that serve it; of a shared ledger alone."""

    def reader(self) -> Reader:
        """A reader of the same ledger for another thread."""

    def own(self) -> None:
        """Become the process that writes the journal; raises ``StateError`` if there is another."""

    def upgrade(self) -> None:
        """Bring the tables of an older version up to this one's.

        Opening does not do this: until all campaigns are folded, the version that wrote them must
        still be able to open the ledger.
        """

    @property
    def takes_amounts(self) -> bool:
        """Whether outcomes may be amounts of money: not before the ledger is upgraded."""

    def probe(self) -> None:
        """Make a durable write that changes nothing, to see that the ledger can be written."""

    def begin(self) -> None:
        """Begin a transaction: what is written in it becomes durable together, or not at all."""

    def commit(self) -> None:
        """Make everything since :meth:`begin` durable."""

    def roll_back(self) -> None:
        """Undo everything since :meth:`begin`; does nothing outside a transaction."""

    def add_campaign(self, key: int, id_: str, name: str) -> None:
        """Add an account without events. Within a transaction."""

    def append(self, events: Iterable[Event]) -> None:
        """Append events. Within a transaction."""

    def advance(self, account: Account, before: Mark) -> None:
        """Move an account on, from the end of its journal ``before``; within a transaction.

        Raises :class:`ConflictError` if its journal does not end there.
        """

    def keep(self, campaign: int, snapshot: Snapshot) -> None:
        """Keep a snapshot and drop older ones, except origins. Within a transaction."""

    def forget(self, campaign: int, sequences: Iterable[int]) -> None:
        """Drop the snapshots after these events, origins too. Within a transaction."""

    def add_key(self, key: Key) -> None:
        """Add an API key, durably."""

    def revoke_key(self, id_: str, at: int) -> bool:
        """Revoke an API key, durably; False if there is no such key or it was revoked before."""
