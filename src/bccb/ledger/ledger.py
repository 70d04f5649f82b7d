"""The ledger in one SQLite file: every commit is durable, and none can overspend.

One process owns the file, and in it one thread writes; others may read, and the command line may
add and revoke keys beside them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from bccb.errors import BccbError, StateError, is_shortage
from bccb.files import written_whole
from bccb.ledger.event import FIELDS, Event
from bccb.ledger.statements import migrations, queries, schema

PAGE = 10_000  # events that are read at once
WAIT = 10.0  # seconds, for another process that writes
OWNER_WAIT = 1_000  # milliseconds: a key is written sooner, and the whole service waits with it
CACHE = -64_000  # KiB of pages in memory
READER_CACHE = -2_000
CHECKPOINT = 8_000  # pages of the write-ahead log, 32 MB, that are copied to the file at once


class LedgerError(BccbError):
    """The ledger cannot keep or give what was asked: nothing was changed."""

    one_campaign = False  # whether one campaign or request is to blame, and others can go on


class RefusedError(LedgerError):
    """The ledger's own rules refuse what was given: it is to blame, and not the ledger."""

    one_campaign = True


class DamagedError(LedgerError):
    """The ledger does not hold what it was given; the message says where."""

    one_campaign = True


def concerns_all(error: BaseException) -> bool:
    """Whether the ledger or the machine fails, and no campaign or request is to blame."""
    return is_shortage(error) or (isinstance(error, LedgerError) and not error.one_campaign)


class Account(NamedTuple):
    """The row of a campaign: where its journal ends, and its money there, in micros."""

    key: int
    id: str
    name: str
    sequence: int
    seal: int
    swept: int
    budget: int
    spent: int
    reserved: int


class Snapshot(NamedTuple):
    """The state of a campaign after an event."""

    sequence: int
    version: str
    origin: int
    state: bytes
    seal: int


class Resolved(NamedTuple):
    """A decision and how it ended, if it did."""

    decision: Event
    kind: str | None
    value: float | None
    action: int | None


Place: TypeAlias = tuple[tuple[int, int], ...]  # device and inode of the files

OLDEST_READ = 1  # the first schema whose tables are read as those of today
# What SQLite says of a statement or its values, and not of the file, the disk or a lock
BLAMES_THE_VALUES = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)


class Ledger:
    """A SQLite file. ``read_only`` opens it beside the process that owns it."""

    def __init__(self, path: str | os.PathLike[str], read_only: bool = False) -> None:
        self.path = Path(path)
        self._descriptor: int | None = None  # of the file itself
        self._lock: int | None = None  # of the lock beside it
        self._place: Place | None = None
        if read_only and not self.path.is_file():
            raise LedgerError(f"there is no ledger {path}: `bccb serve` makes it")
        self._queries = queries()
        self._beside = f"{self.path.resolve()}-wal"
        self._check_alone()
        if not read_only:
            self._make_private()
        try:
            self._file = self._connect(read_only)
        except LedgerError:
            self._let_go()
            raise

    def _check_alone(self) -> None:
        """Refuse a file with several names, and one whose write-ahead log it cannot be.

        SQLite drops a log that it finds beside an empty file, and the ledger may have been moved.
        """
        if self.path.is_file():
            self._check_one_name(os.stat(self.path))
        elif os.path.exists(self._beside):
            reason = f"there is a write-ahead log {self._beside}, but no ledger {self.path}"
            raise LedgerError(f"{reason}: move the ledger back beside it")

    def _make_private(self) -> None:
        """Begin the file for its owner alone: users' features are in it.

        The descriptor stays open until SQLite has closed its own: to close any descriptor of a file
        drops all POSIX locks that the process has on it, SQLite's among them.
        """
        with suppress(OSError):  # what cannot be made is told when it is opened
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)

    def _let_go(self) -> None:
        """Close our own descriptors, which ends their locks."""
        for descriptor in (self._descriptor, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor = self._lock = None

    def _connect(self, read_only: bool) -> sqlite3.Connection:
        mode = "ro" if read_only else "rwc"
        try:
            uri = f"{self.path.resolve().as_uri()}?mode={mode}"
            file = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=WAIT
            )
        except sqlite3.Error as error:
            raise LedgerError(f"cannot open the ledger {self.path}: {error}") from None
        try:
            file.execute("PRAGMA foreign_keys = ON")
            file.execute(f"PRAGMA cache_size = {READER_CACHE if read_only else CACHE}")
            steps = _first_steps(file, read_only)  # before anything is written to a foreign file
            if not read_only:
                file.execute("PRAGMA journal_mode = WAL")
                file.execute("PRAGMA synchronous = FULL")
                file.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
            if steps:
                _migrate(file, steps)
        except (sqlite3.Error, LedgerError) as error:
            file.close()
            raise LedgerError(f"cannot open the ledger {self.path}: {error}") from None
        return file

    def close(self) -> None:
        """Close the file, and let others own it."""
        self._file.close()
        self._let_go()

    def own(self) -> None:
        """Make this process the one that writes the journal; refused while there is another.

        Two locks: one on the file itself, whatever its name, and one beside it. The second holds
        off older versions, and is the only one where a lock on the file would keep SQLite out.
        """
        import fcntl  # there is none on Windows, where the rest of the package still works

        try:
            # beside the file itself, not beside a link to it
            lock = f"{self.path.resolve()}.lock"
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LedgerError(f"cannot lock the ledger {self.path}: {error.strerror}") from None
        if self._descriptor is None:
            raise LedgerError(f"cannot lock the ledger {self.path}: it cannot be opened")
        # elsewhere than on Linux, flock and SQLite's own locks get in each other's way
        both = (self._lock, self._descriptor) if sys.platform == "linux" else (self._lock,)
        for descriptor in both:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StateError(f"another process serves the ledger {self.path}") from None
        self._check_one_name(os.fstat(self._descriptor))
        self._file.execute(f"PRAGMA busy_timeout = {OWNER_WAIT}")

    def upgrade(self) -> None:
        """Bring the schema of an older version up to this one's.

        Not at the opening: until its journals can be folded, the version that wrote them must still
        be able to open it.
        """
        steps = migrations()
        try:
            (version,) = self._file.execute("PRAGMA user_version").fetchone()
            if version < len(steps):
                _migrate(self._file, " ".join(steps[version:]))
        except sqlite3.Error as error:
            self.roll_back()
            raise LedgerError(f"cannot upgrade the ledger {self.path}: {error}") from None

    def check_whole(self) -> None:
        """Refuse a file whose pages, tables and indices do not fit together."""
        try:
            ((found,), *_) = self._file.execute("PRAGMA integrity_check(1)").fetchall()
        except sqlite3.Error as error:
            raise DamagedError(f"the ledger {self.path} is damaged: {error}") from None
        if found != "ok":
            told = " ".join(found.replace("*** in database main ***", "").split())
            raise DamagedError(f"the ledger {self.path} is damaged: {told}")

    # Reading

    def _rows(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._file.execute(self._queries[query], parameters).fetchall()
        except sqlite3.Error as error:
            raise LedgerError(f"cannot read the ledger {self.path}: {error}") from None

    def accounts(self) -> list[Account]:
        """All campaigns."""
        return [Account(*row) for row in self._rows("campaigns")]

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
        found: dict[str, list[Event]] = {}
        for row in self._rows("known", (campaign, json.dumps(list(decisions)))):
            found.setdefault(row[FIELDS.index("decision")], []).append(Event(*row))
        return found

    def decisions_since(self, campaign: int, after: int, limit: int) -> list[Event]:
        """The next decisions after an event."""
        return [Event(*row) for row in self._rows("decisions_since", (campaign, after, limit))]

    def resolved(self, campaign: int, after: int, until: int, limit: int) -> list[Resolved]:
        """The next decisions after an event, with their ends, as things stood after ``until``."""
        found = self._rows("resolved", (until, campaign, after, until, limit))
        return [Resolved(Event(*row[: len(FIELDS)]), *row[len(FIELDS) :]) for row in found]

    def snapshot(self, campaign: int) -> Snapshot | None:
        """The newest state of a campaign."""
        rows = self._rows("last_snapshot", (campaign,))
        return Snapshot(*rows[0]) if rows else None

    def origin(self, campaign: int) -> Snapshot | None:
        """The first state that the newest version of bccb has made of it."""
        rows = self._rows("origin_snapshot", (campaign,))
        return Snapshot(*rows[0]) if rows else None

    def seal_at(self, campaign: int, sequence: int) -> int | None:
        """The seal of one event."""
        rows = self._rows("seal_at", (campaign, sequence))
        return int(rows[0][0]) if rows else None

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
        self._check_in_place()
        self._run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make all that was written since :meth:`begin` durable."""
        self._run("COMMIT")
        self._check_in_place()

    def roll_back(self) -> None:
        """Undo what was written since :meth:`begin`, if anything was."""
        with suppress(sqlite3.Error):
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")

    def _check_in_place(self) -> None:
        """Refuse to write to files that were removed or replaced: it would be lost with them."""
        if self._place is None:
            return
        try:
            found = self._find()
        except OSError as error:
            raise LedgerError(f"the ledger {self.path} is gone: {error.strerror}") from None
        if found != self._place:
            raise LedgerError(f"the ledger {self.path} was replaced by another file")

    def _find(self) -> Place:
        files = (os.stat(self.path), os.stat(self._beside))
        self._check_one_name(files[0])
        return tuple((found.st_dev, found.st_ino) for found in files)

    def _check_one_name(self, found: os.stat_result) -> None:
        """Refuse a file with hard links: under each name it would have a write-ahead log apart."""
        if found.st_nlink > 1:
            told = f"the ledger {self.path} has {found.st_nlink} names (hard links)"
            raise LedgerError(f"{told}: remove all but one")

    def probe(self) -> None:
        """Write what changes nothing, durably; from now on the files must stay where they are."""
        self.begin()
        try:
            (version,) = self._run("PRAGMA user_version").fetchone()
            self._run(f"PRAGMA user_version = {version}")
            self.commit()
        finally:
            self.roll_back()
        self._place = self._place or self._find()

    def add_campaign(self, key: int, id_: str, name: str) -> None:
        """A campaign without events yet. Within a transaction."""
        self._run(self._queries["add_campaign"], (key, id_, name))

    def append(self, events: Iterable[Event]) -> None:
        """More events. Within a transaction."""
        try:
            self._file.executemany(self._queries["append"], events)
        except sqlite3.Error as error:
            raise self._not_written(error) from error

    def advance(self, account: Account, before: int) -> None:
        """Bring the row of a campaign from one event to a later one. Within a transaction."""
        moved = self._run(self._queries["advance"], {**account._asdict(), "before": before})
        if moved.rowcount != 1:
            raise DamagedError(f"somebody else has written to campaign {account.id}")

    def keep(self, campaign: int, snapshot: Snapshot) -> None:
        """Keep a state, and forget older ones. Within a transaction."""
        self._run(self._queries["keep_snapshot"], (campaign, *snapshot))
        self._run(self._queries["forget_snapshots"], (campaign, snapshot.sequence))

    def write_key(self, query: str, parameters: Sequence[Any]) -> int:
        """Run one of the statements on keys, durably; how many rows it changed."""
        return self._run(self._queries[query], parameters).rowcount

    def key_rows(self) -> list[Any]:
        """All API keys."""
        return self._rows("keys")


def _migrate(file: sqlite3.Connection, steps: str) -> None:
    """Change the schema to the newest version, in one transaction."""
    version = f"PRAGMA user_version = {len(migrations())};"
    file.executescript(f"BEGIN IMMEDIATE; {steps} {version} COMMIT;")


def _first_steps(file: sqlite3.Connection, read_only: bool) -> str:
    """The SQL that makes the schema in a new file; refuses any file that is not a ledger."""
    steps = migrations()
    (version,) = file.execute("PRAGMA user_version").fetchone()
    if version > len(steps) or (read_only and version < OLDEST_READ):
        told = f"version {version}, and this bccb needs {len(steps)}"
        raise LedgerError(f"its schema is {told}")
    tables = {name for (name,) in file.execute(queries()["tables"])}
    if "journal" not in tables if version else tables:
        raise LedgerError("it is not a ledger of bccb")
    return "" if version else schema()
