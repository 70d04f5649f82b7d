"""A session: one connection, opened again when it was lost, whose errors are those of the port."""

from __future__ import annotations

import select
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg import errors
from psycopg.pq import ConnStatus, TransactionStatus

from bccb.ledger.place import shown_place
from bccb.ledger.port import ConflictError, LedgerError, RefusedError
from bccb.ledger.postgresql.connection import PATIENCE, SQL, Connection, connect
from bccb.ledger.statements import queries

Statement: TypeAlias = tuple[str, Any]  # the name of a query and its parameters

RACES = (errors.SerializationFailure, errors.DeadlockDetected)
RACED_FOR = ("campaigns", "journal")  # whoever is second finds the key taken
BAD_VALUES = (psycopg.IntegrityError, psycopg.DataError)
# What our own encoders and those of psycopg raise
CANNOT_BE_SENT = (TypeError, ValueError, OverflowError, AttributeError, struct.error)


class BlockedError(ConflictError):
    """Another session holds a row for longer than we wait."""


class Session:
    """One thread uses it at a time."""

    def __init__(self, url: str, read_only: bool) -> None:
        self.url, self.read_only = url, read_only
        self.place = shown_place(url)
        self._queries = queries(SQL)
        self._connection: Connection | None = None

    def close(self) -> None:
        """Close the connection; the next call would open it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def rows(self, query: str, parameters: Any = (), patience: float = PATIENCE) -> list[Any]:
        """The result of a query."""
        with self.speaking("read", patience) as connection:
            return self._run(connection, query, parameters).fetchall()

    def run(self, *statements: Statement) -> list[Any]:
        """Run statements in one transaction and one round trip; the rows of the last one.

        Whoever holds a row and is silent is ended: a process may have been stopped, or cut off, in
        the middle of sending. What it did is not committed, and what it does next must fail anyway.
        """
        try:
            return self._run_all(statements)
        except BlockedError:
            with suppress(LedgerError):
                self.rows("end_silent_writers")
            raise

    def _run_all(self, statements: Sequence[Statement]) -> list[Any]:
        with self.speaking("write to") as connection:
            with connection.pipeline():
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                for query, parameters in statements:
                    last = self._run(connection, query, parameters)
                end = connection.execute("COMMIT")
            if end.statusmessage != "COMMIT":
                raise psycopg.OperationalError(f"COMMIT was answered with {end.statusmessage}")
            return last.fetchall() if last.description else []

    def _run(self, connection: Connection, query: str, parameters: Any) -> psycopg.Cursor[Any]:
        cursor = connection.cursor(binary=True)
        try:
            return cursor.execute(self._queries[query].encode(), parameters)
        except CANNOT_BE_SENT as error:
            raise psycopg.DataError(str(error)) from None

    @contextmanager
    def speaking(self, verb: str, patience: float = PATIENCE) -> Iterator[Connection]:
        """A connection that works; whatever fails leaves none that is in doubt."""
        try:
            connection = self._connected()
        except psycopg.Error as error:
            raise LedgerError(f"cannot open the ledger {self.place}: {said(error)}") from None
        connection.patience = patience
        try:
            yield connection
        except psycopg.Error as error:
            raise self.error(error, verb) from None  # the cause may quote a user's values
        finally:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                self._recover(connection)

    def error(self, error: Exception, verb: str) -> LedgerError:
        """What an error means to those who use the ledger."""
        kind: type[LedgerError] = LedgerError
        if isinstance(error, errors.LockNotAvailable):
            kind = BlockedError
        elif isinstance(error, RACES) or (
            isinstance(error, errors.UniqueViolation) and error.diag.table_name in RACED_FOR
        ):
            kind = ConflictError
        elif isinstance(error, (*BAD_VALUES, *CANNOT_BE_SENT)):
            kind = RefusedError
        return kind(f"cannot {verb} the ledger {self.place}: {said(error)}")

    def _connected(self) -> Connection:
        if self._connection is not None and not _is_lost(self._connection):
            return self._connection
        self.close()
        self._connection = self._connect()
        return self._connection

    def _connect(self) -> Connection:
        return connect(self.url, self.read_only)

    def _recover(self, connection: Connection) -> None:
        """Leave the transaction that has failed, or the connection."""
        failed = (TransactionStatus.INERROR, TransactionStatus.INTRANS)
        if connection.pgconn.transaction_status in failed:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
                return
        self.close()


def _is_lost(connection: Connection) -> bool:
    """Whether the server has closed a connection on which nothing happened for a while."""
    if connection.closed:
        return True
    heard = select.poll()
    heard.register(connection.fileno(), select.POLLIN)
    try:
        while heard.poll(0):  # nobody asked: it may be a farewell
            connection.pgconn.consume_input()
    except psycopg.Error:
        return True
    return connection.pgconn.status != ConnStatus.OK


def said(error: Exception) -> str:
    r"""One line of an error, without the values that it may quote.

    >>> said(psycopg.OperationalError("connection failed:\n  timeout"))
    'connection failed: timeout'
    """
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((primary or str(error) or type(error).__name__).split())
