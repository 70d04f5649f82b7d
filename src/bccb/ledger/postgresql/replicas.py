"""The processes that serve a ledger in PostgreSQL."""

from __future__ import annotations

import math
from typing import Any

from bccb.ledger.port import Beat, Key, Replica
from bccb.ledger.postgresql.connection import Connection
from bccb.ledger.postgresql.reader import keys_of
from bccb.ledger.postgresql.session import Session


class _Listening(Session):
    """A session that is told of changes."""

    missed = False  # whether a change may have been missed, because the connection was lost

    def _connect(self) -> Connection:
        connection = super()._connect()
        connection.execute(self._queries["listen"].encode())
        return connection

    def close(self) -> None:
        self.missed = self.missed or self._connection is not None
        super().close()


def replicas_of(rows: list[Any]) -> list[Replica]:
    """The rows of the query ``replicas``, without the time at their end."""
    return [Replica(*row[:-1]) for row in rows]


class PostgresqlReplicas:
    """Their table, over a connection of its own."""

    def __init__(self, url: str) -> None:
        self._session = _Listening(url, read_only=False)

    def beat(self, id_: str, address: str, version: str, leaving: bool) -> Beat:
        """Say that this process lives; who else does, and what time it is."""
        rows = self._session.run(
            ("beat", (id_, address, version, leaving)), ("forget_replicas", ()), ("replicas", ())
        )
        return Beat(rows[0][-1], replicas_of(rows))

    def leave(self, id_: str) -> None:
        """Forget a process that ends."""
        self._session.run(("leave", (id_,)))

    def wait(self, seconds: float) -> None:
        """Wait until replicas, keys or the list of campaigns change, or for so long.

        Ends at once where a change may have been missed.
        """
        with self._session.speaking("read", math.inf) as connection:
            if self._session.missed:
                self._session.missed = False
                return
            for _ in connection.notifies(timeout=seconds, stop_after=1):
                pass

    def keys(self) -> list[Key]:
        """All API keys."""
        return keys_of(self._session)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
