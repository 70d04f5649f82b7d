"""A connection to a ledger in PostgreSQL: its settings, and a limit to silence on it."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.abc import PQGen
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8BinaryDumper

from bccb.errors import InputError
from bccb.ledger.place import shown_place
from bccb.ledger.postgresql import arrays
from bccb.ledger.statements import queries

T = TypeVar("T")

SQL = Path(__file__).parent / "sql"
PATIENCE = 6.0  # seconds without a byte from the server after which a call gives up
LONG_PATIENCE = 60.0  # for pages of the journal, which may have to come from a slow disk
# What a URL leaves open. TCP itself would take minutes to notice that nobody answers.
DEFAULTS: dict[str, str | int] = {
    "application_name": "bccb",
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 6_000,
}


class Connection(psycopg.Connection[TupleRow]):
    """A connection on which every call ends, also where a network swallows all packets."""

    patience = PATIENCE

    def wait(self, gen: PQGen[T], *how: Any, **more: Any) -> T:
        """Every call waits here for its answer."""
        return super().wait(self._impatiently(gen), *how, **more)

    def _impatiently(self, steps: PQGen[T]) -> Generator[Any, Any, T]:
        """The same steps, until nothing has come or gone for too long."""
        heard = time.monotonic()
        try:
            waiting_for = next(steps)
            while True:
                ready = yield waiting_for
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.patience:
                    self._give_up(steps)
                waiting_for = steps.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result

    def _give_up(self, steps: PQGen[T]) -> None:
        """Close the connection, so that nothing waits for it any more."""
        error = psycopg.OperationalError(f"no answer within {self.patience:.0f} seconds")
        self.pgconn.finish()
        with suppress(psycopg.Error, StopIteration):
            steps.throw(error)
        raise error


def parameters_of(url: str) -> dict[str, Any]:
    """What a URL says of the server, the database and the user, completed."""
    try:
        return {**DEFAULTS, **conninfo.conninfo_to_dict(url)}
    except psycopg.ProgrammingError:  # its message may quote a part of the password
        allowed = "postgresql://USER@HOST:PORT/DATABASE"
        raise InputError("ledger", shown_place(url), allowed) from None


def connect(url: str, read_only: bool) -> Connection:
    """A connection with our settings; it raises errors of ``psycopg``."""
    role = "any" if read_only else "read-write"  # of several hosts, the one that can be written
    parameters = {"target_session_attrs": role, **parameters_of(url)}
    connection = Connection.connect(**parameters, autocommit=True, prepare_threshold=0)
    try:
        connection.adapters.register_dumper(int, Int8BinaryDumper)  # one type, one plan
        arrays.register(connection.adapters)
        connection.execute(queries(SQL)["settings"], ["on" if read_only else "off"])
    except BaseException:
        connection.close()
        raise
    return connection
