"""The SQL of an engine, by name: its folder's ``queries.sql``, the schema and the steps to it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


@cache
def queries(folder: Path) -> dict[str, str]:
    """Every statement of ``queries.sql`` under the name in the line before it."""
    parts = re.split(r"^-- name: (\w+)\n", (folder / "queries.sql").read_text(), flags=re.M)
    return dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))


@cache
def with_rows(insert: str, rows: int) -> str:
    """An INSERT of one row as one of several.

    >>> with_rows("... VALUES (?, ?);", 2)
    '... VALUES (?, ?), (?, ?)'
    """
    into, values, row = insert.removesuffix(";").rpartition("VALUES ")
    return into + values + ", ".join([row] * rows)


@cache
def schema(folder: Path) -> str:
    """The schema as it is now."""
    return (folder / "schema.sql").read_text()


@cache
def migrations(folder: Path) -> tuple[str, ...]:
    """The steps to it: the first makes version 1 from nothing, the next version 2 from it, ..."""
    return tuple(path.read_text() for path in sorted((folder / "migrations").glob("*.sql")))
