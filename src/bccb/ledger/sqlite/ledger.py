"""The ledger in one SQLite file: every commit is durable, and none can overspend.

One process owns the file, and in it one thread writes; others may read, and the command line may
add and revoke keys beside them.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from bccb.errors import StateError
from bccb.files import written_whole
from bccb.ledger.event import FIELDS, Event
from bccb.ledger.port import (
    Account,
    ConflictError,
    DamagedError,
    Key,
    LedgerError,
    Mark,
    MissingError,
    RefusedError,
    Replicas,
    Resolved,
    Scope,
    Snapshot,
)
from bccb.ledger.sqlite.connection import (
    AMOUNTS,
    FINGERPRINTS,
    SQL,
    connect,
    schema_version,
    upgrade,
)
from bccb.ledger.sqlite.place import Place
from bccb.ledger.statements import queries, with_rows

PAGE = 10_000  # events that are read at once
ROWS = 50  # events in one INSERT, which takes a quarter less time: 700 parameters of SQLite's 999
OWNER_WAIT = 1_000  # milliseconds: writing a key takes less, and the whole service waits
# What SQLite says of a statement or its values, and not of the file, the disk or a lock
BLAMES_THE_VALUES = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)


class SqliteLedger:
    """The SQLite file at a path, as the port wants it."""

    shared = False

    def __init__(self, path: str | os.PathLike[str], read_only: bool = False) -> None:
        self.path = Path(path)
        if read_only and not self.path.is_file():
            raise MissingError(f"there is no ledger {path}: `bccb serve` makes it")
        self._queries = queries(SQL)
        self._append_rows = with_rows(self._queries["append"], ROWS)
        self._place = Place(self.path)
        self._place.check_alone()
        if not read_only:
            self._place.make_private()
        try:
            self._file = connect(self.path, read_only)
        except LedgerError:
            self._place.release()
            raise

    def close(self) -> None:
        """Close the file, and let others own it."""
        self._file.close()
        self._place.release()

    def reader(self) -> SqliteLedger:
        """Another connection, for another thread."""
        return SqliteLedger(self.path, read_only=True)

    def replicas(self) -> Replicas:
        """One process serves a file."""
        raise StateError(f"the ledger {self.path} is a file, which one process serves alone")

    def own(self) -> None:
        """Make this process the one that writes the journal; refused while there is another."""
        self._place.own()
        self._file.execute(f"PRAGMA busy_timeout = {OWNER_WAIT}")

    def upgrade(self) -> None:
        """Bring the schema of an older version up to this one's."""
        try:
            upgrade(self._file)
        except sqlite3.Error as error:
            self.roll_back()
            raise LedgerError(f"cannot upgrade the ledger {self.path}: {error}") from None

    def check_whole(self) -> None:
        """Refuse a file whose pages, tables and indices do not fit together."""
        try:
            ((verdict,), *_) = self._file.execute("PRAGMA integrity_check(1)").fetchall()
        except sqlite3.Error as error:
            raise DamagedError(f"the ledger {self.path} is damaged: {error}") from None
        if verdict != "ok":
            fault = " ".join(verdict.replace("*** in database main ***", "").split())
            raise DamagedError(f"the ledger {self.path} is damaged: {fault}")

    # Reading

    def _rows(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._file.execute(self._queries[query], parameters).fetchall()
        except sqlite3.Error as error:
            raise LedgerError(f"cannot read the ledger {self.path}: {error}") from None

    def accounts(self, ids: Collection[str] | None = None) -> list[Account]:
        """Campaigns, all or some."""
        every = [Account(*row) for row in self._rows("campaigns")]
        if ids is None:
            return every
        wanted = set(ids)
        return [account for account in every if account.id in wanted]

    def account(self, id_: str) -> Account | None:
        """One campaign."""
        rows = self._rows("campaign", (id_,))
        return Account(*rows[0]) if rows else None

    def first(self, campaign: int) -> Event | None:
        """The first event of a campaign."""
        rows = self._rows("events", (campaign, 0, 1))
        return Event(*rows[0]) if rows else None

    def events(self, campaign: int, after: int = 0) -> Iterator[Event]:
        """The events of a campaign in order, read page by page so as never to hold up the writer.

        A gap in the sequence is damage.
        """
        while True:
            page = self._rows("events", (campaign, after, PAGE))
            for row in page:
                event = Event(*row)
                if event.sequence != after + 1:
                    raise DamagedError(f"event {after + 1} is missing")
                after = event.sequence
                yield event
            if len(page) < PAGE:
                return

    def known(self, campaign: int, decisions: Iterable[str]) -> dict[str, list[Event]]:
        """The events of decisions, by their ids."""
        events: dict[str, list[Event]] = {}
        for row in self._rows("known", (campaign, json.dumps(list(decisions)))):
            events.setdefault(row[FIELDS.index("decision")], []).append(Event(*row))
        return events

    def known_in(self, asked: Mapping[int, Iterable[str]]) -> dict[int, dict[str, list[Event]]]:
        """The same for several campaigns; in one query it would not take less time."""
        return {campaign: self.known(campaign, decisions) for campaign, decisions in asked.items()}

    def decisions_since(self, campaign: int, after: int, limit: int) -> list[Event]:
        """The next decisions after an event."""
        return [Event(*row) for row in self._rows("decisions_since", (campaign, after, limit))]

    def resolved(self, campaign: int, after: int, until: int, limit: int) -> list[Resolved]:
        """The next decisions after an event, with their ends, as things stood after ``until``."""
        rows = self._rows("resolved", (campaign, after, until, limit))
        return [Resolved(Event(*row[: len(FIELDS)]), *row[len(FIELDS) :]) for row in rows]

    def snapshot(self, campaign: int) -> Snapshot | None:
        """The newest state of a campaign."""
        rows = self._rows("last_snapshot", (campaign,))
        return Snapshot(*rows[0][1:]) if rows else None

    def origin(self, campaign: int) -> Snapshot | None:
        """The newest state that is kept for good."""
        rows = self._rows("origin_snapshot", (campaign,))
        return Snapshot(*rows[0][1:]) if rows else None

    def seal_at(self, campaign: int, sequence: int) -> int | None:
        """The seal of one event."""
        rows = self._rows("seal_at", (campaign, sequence))
        return int(rows[0][0]) if rows else None

    def keys(self) -> list[Key]:
        """All API keys."""
        return [Key(row[0], row[1], Scope(row[2]), *row[3:]) for row in self._rows("keys")]

    def back_up(self, path: str | os.PathLike[str]) -> None:
        """Write the ledger as it is now to another file, which appears whole or not at all."""
        with written_whole(path, private=True) as draft:
            try:
                with closing(sqlite3.connect(draft)) as copy:
                    self._file.backup(copy)
            except sqlite3.Error as error:
                raise OSError(str(error)) from None

    # Writing

    def _run(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        try:
            return self._file.execute(statement, parameters)
        except sqlite3.Error as error:
            raise self._not_written(error) from error

    def _not_written(self, error: sqlite3.Error) -> LedgerError:
        kind = RefusedError if isinstance(error, BLAMES_THE_VALUES) else LedgerError
        return kind(f"cannot write to the ledger {self.path}: {error}")

    def begin(self) -> None:
        """Begin a transaction: what is written in it becomes durable together, or not at all."""
        self._place.check()
        self._run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make all that was written since :meth:`begin` durable."""
        self._run("COMMIT")
        self._place.check()

    def roll_back(self) -> None:
        """Undo what was written since :meth:`begin`, if anything was."""
        with suppress(sqlite3.Error):
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")

    @property
    def takes_amounts(self) -> bool:
        """Whether its schema takes amounts."""
        return schema_version(self._file) >= AMOUNTS

    def probe(self) -> None:
        """Write what changes nothing, durably; from now on the files must stay where they are."""
        self.begin()
        try:
            self._run(f"PRAGMA user_version = {schema_version(self._file)}")
            self.commit()
        finally:
            self.roll_back()
        self._place.remember()

    def add_campaign(self, key: int, id_: str, name: str) -> None:
        """A campaign without events yet. Within a transaction."""
        self._run(self._queries["add_campaign"], (key, id_, name))

    def append(self, events: Iterable[Event]) -> None:
        """More events. Within a transaction."""
        events = list(events)
        rest = len(events) - len(events) % ROWS
        try:
            for i in range(0, rest, ROWS):
                values = tuple(chain.from_iterable(events[i : i + ROWS]))
                self._file.execute(self._append_rows, values)
            self._file.executemany(self._queries["append"], events[rest:])
        except sqlite3.Error as error:
            raise self._not_written(error) from error

    def advance(self, account: Account, before: Mark) -> None:
        """Move the row of a campaign from one event to a later one. Within a transaction."""
        known = {"before": before.sequence, "sealed": before.seal}
        moved = self._run(self._queries["advance"], account._asdict() | known)
        if moved.rowcount != 1:
            raise ConflictError(f"another writer has moved campaign {account.id} on")

    def keep(self, campaign: int, snapshot: Snapshot) -> None:
        """Keep a state, and forget older ones. Within a transaction."""
        if schema_version(self._file) < FINGERPRINTS:
            self._run(self._queries["keep_snapshot_before_0003"], (campaign, *snapshot[:-1]))
        else:
            self._run(self._queries["keep_snapshot"], (campaign, *snapshot))
        self._run(self._queries["forget_snapshots"], (campaign, snapshot.sequence))

    def forget(self, campaign: int, sequences: Iterable[int]) -> None:
        """Drop the states after these events. Within a transaction."""
        for sequence in sequences:
            self._run(self._queries["forget_snapshot"], (campaign, sequence))

    def add_key(self, key: Key) -> None:
        """A new API key, durably."""
        self._run(self._queries["add_key"], key)

    def revoke_key(self, id_: str, at: int) -> bool:
        """Revoke an API key, durably; whether it was good until now."""
        return self._run(self._queries["revoke_key"], (at, id_)).rowcount == 1
