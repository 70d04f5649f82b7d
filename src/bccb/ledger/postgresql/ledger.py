"""The ledger in PostgreSQL: any number of processes write it, and none can overspend.

A transaction is collected here and sent when it is committed: all of it in one round trip, with no
lock held while a campaign computes. The first statement that fails ends it, and the COMMIT with it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from bccb.errors import StateError
from bccb.ledger.event import Event
from bccb.ledger.port import Account, Key, Mark, Snapshot
from bccb.ledger.postgresql import arrays, tables
from bccb.ledger.postgresql.reader import PostgresqlReader
from bccb.ledger.postgresql.replicas import PostgresqlReplicas, replicas_of
from bccb.ledger.postgresql.session import CANNOT_BE_SENT, Session, Statement

SPARE = 4  # connections of readers that are kept for the next ones


class PostgresqlLedger(PostgresqlReader):
    """The tables at a URL, as the port wants them."""

    def __init__(self, url: str, read_only: bool = False) -> None:
        super().__init__(Session(url, read_only))
        self._spares = _Spares(url)
        self._writes: list[Statement] | None = None
        try:
            tables.check(self._session)
        except BaseException:
            self._session.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        super().close()
        self._spares.close()

    def reader(self) -> PostgresqlReader:
        """A reader with a connection of its own, for another thread."""
        return _PooledReader(self._spares)

    def replicas(self) -> PostgresqlReplicas:
        """The processes that serve it."""
        return PostgresqlReplicas(self._session.url)

    def own(self) -> None:
        """Nobody owns what is shared; refused while replicas serve it."""
        for replica in replicas_of(self._session.rows("replicas")):
            if replica.alive:
                place = self._session.place
                raise StateError(f"{replica.address} serves the ledger {place}: stop it first")

    def upgrade(self) -> None:
        """Bring the tables of an older version up to this one's."""
        tables.upgrade(self._session)

    @property
    def takes_amounts(self) -> bool:
        """Every version does."""
        return True

    def probe(self) -> None:
        """Make a durable write that changes nothing."""
        self._session.run(("probe", ()))

    # Transactions

    def begin(self) -> None:
        """Begin to collect a transaction."""
        self._writes = []

    def commit(self) -> None:
        """Send it, and wait until it is durable."""
        writes, self._writes = self._collected, None
        if writes:
            self._session.run(*writes)

    def roll_back(self) -> None:
        """Forget it."""
        self._writes = None

    @property
    def _collected(self) -> list[Statement]:
        if self._writes is None:
            raise StateError("there is no transaction: call begin() first")
        return self._writes

    def add_campaign(self, key: int, id_: str, name: str) -> None:
        """A campaign without events yet. Within a transaction."""
        self._collected.append(("add_campaign", (key, id_, name)))

    def append(self, events: Iterable[Event]) -> None:
        """More events. Within a transaction."""
        events = list(events)
        if not events:
            return
        try:
            self._collected.append(("append", arrays.columns(events)))
        except CANNOT_BE_SENT as error:
            raise self._session.error(error, "write to") from error

    def advance(self, account: Account, before: Mark) -> None:
        """Move the row of a campaign from one event to a later one. Within a transaction.

        If another writer has moved it, :meth:`commit` raises ``ConflictError``.
        """
        known = {"before": before.sequence, "sealed": before.seal}
        self._collected.append(("advance", account._asdict() | known))

    def keep(self, campaign: int, snapshot: Snapshot) -> None:
        """Keep a state, and forget older ones. Within a transaction."""
        self._collected.append(("keep_snapshot", (campaign, *snapshot)))
        self._collected.append(("forget_snapshots", (campaign, snapshot.sequence)))

    def forget(self, campaign: int, sequences: Iterable[int]) -> None:
        """Drop the states after these events. Within a transaction."""
        for sequence in sequences:
            self._collected.append(("forget_snapshot", (campaign, sequence)))

    # Keys

    def add_key(self, key: Key) -> None:
        """A new API key, durably."""
        self._session.run(("add_key", (key.id, key.name, str(key.scope), *key[3:])))

    def revoke_key(self, id_: str, at: int) -> bool:
        """Revoke an API key, durably; whether it was good until now."""
        return len(self._session.run(("revoke_key", (at, id_)))) == 1


class _Spares:
    """Sessions that readers have used and others may use again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sessions: list[Session] = []
        self._lock = threading.Lock()
        self._closed = False

    def take(self) -> Session:
        with self._lock:
            return self._sessions.pop() if self._sessions else Session(self._url, read_only=True)

    def give(self, session: Session) -> None:
        with self._lock:
            keep = not self._closed and len(self._sessions) < SPARE
            if keep:
                self._sessions.append(session)
        if not keep:
            session.close()

    def close(self) -> None:
        with self._lock:
            self._closed, sessions, self._sessions = True, self._sessions, []
        for session in sessions:
            session.close()


class _PooledReader(PostgresqlReader):
    """A reader that gives its session back."""

    def __init__(self, spares: _Spares) -> None:
        super().__init__(spares.take())
        self._spares: _Spares | None = spares

    def close(self) -> None:
        """Let another reader have the connection."""
        spares, self._spares = self._spares, None
        if spares is not None:
            spares.give(self._session)
