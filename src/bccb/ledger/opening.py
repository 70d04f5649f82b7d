"""Opening a ledger: the one place that knows which engines there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, overload

from bccb.errors import InputError, MissingExtraError
from bccb.ledger.place import shown_place
from bccb.ledger.port import Ledger, Reader
from bccb.ledger.sqlite.ledger import SqliteLedger


def _postgresql(url: str, read_only: bool) -> Ledger:
    try:
        from bccb.ledger.postgresql.ledger import PostgresqlLedger
    except ImportError:
        raise MissingExtraError("psycopg", "postgresql") from None
    return PostgresqlLedger(url, read_only)


# By the scheme of the URL; a place without one is a file
ENGINES: dict[str, Callable[[str, bool], Ledger]] = {
    "": SqliteLedger,
    "postgresql": _postgresql,
    "postgres": _postgresql,
}


@overload
def open_ledger(place: str | os.PathLike[str], read_only: Literal[False] = False) -> Ledger: ...


@overload
def open_ledger(place: str | os.PathLike[str], read_only: Literal[True]) -> Reader: ...


def open_ledger(place: str | os.PathLike[str], read_only: bool = False) -> Ledger | Reader:
    """The ledger at a path or URL; ``read_only`` opens it beside the process that owns it.

    Where there is none yet, one is made; to read only, it raises ``MissingError`` instead.
    """
    url = os.fspath(place)
    scheme, separator, _ = url.partition("://")
    engine = ENGINES.get(scheme if separator else "")
    if engine is None:
        allowed = "the path of a SQLite file or a URL that begins with postgresql://"
        raise InputError("ledger", shown_place(url), allowed)
    return engine(url, read_only)
