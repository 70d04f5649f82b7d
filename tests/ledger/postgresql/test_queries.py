"""The SQL of the PostgreSQL ledger: used, described, and never reading the whole journal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from postgresql import server

import bccb
from bccb.ledger.event import Event
from bccb.ledger.postgresql.connection import SQL
from bccb.ledger.postgresql.ledger import PostgresqlLedger
from bccb.ledger.statements import queries

HOT = [
    *("advance", "campaigns_of", "decisions_since", "events", "known", "known_in", "resolved"),
    "seal_at",
    *("forget_snapshot", "forget_snapshots", "keep_snapshot", "last_snapshot", "origin_snapshot"),
    "revoke_key",
]
# The queries that cannot be planned, and those whose parameters must be typed to be
UNPLANNED = {"listen"}
TYPES = {"missing_guards": ["text[]"], "append": ["bigint[]"] * 3 + ["text[]"] * 2}
TYPES["known_in"] = ["bigint[]", "text[]"]
TYPES["append"] += ["bigint[]"] * 3 + ["float8[]"] * 3 + ["bigint[]", "bytea[]", "bigint[]"]


@pytest.fixture(scope="module")
def filled() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A ledger with enough rows that plans matter."""
    place = server().new_place()
    with closing(PostgresqlLedger(place)) as ledger:
        ledger.begin()
        for key in range(1, 301):
            ledger.add_campaign(key, f"c{key}", f"name {key}")
        for key in (1, 2, 3):
            ledger.append(
                Event(key, i, i, "decision", f"u{i}", i, 1, 1, None, 0.5, 0.5, 9, b"", 0)
                for i in range(1, 3_001)
            )
        ledger.commit()
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("ANALYZE")
        yield connection


def test_every_query_is_used() -> None:
    package = Path(bccb.__file__).parent
    source = "".join(path.read_text() for path in package.rglob("*.py"))
    assert [name for name in queries(SQL) if f'"{name}"' not in source] == []


def test_every_query_is_described_and_is_one_statement() -> None:
    assert queries(SQL)
    for name, text in queries(SQL).items():
        assert re.match(r"-- [A-Z].*\.\n", text), name
        assert text.count(";") == 1, name
        assert text.endswith(";"), name


def test_nothing_outside_the_folder_knows_postgresql() -> None:
    package = Path(bccb.__file__).parent
    outside = [path for path in package.rglob("*.py") if path.parent != SQL.parent]
    found = [path for path in outside if re.search(r"import psycopg|psycopg\.", path.read_text())]
    assert found == []


@pytest.mark.parametrize("name", sorted(set(queries(SQL)) - UNPLANNED))
def test_a_query_fits_the_schema(filled: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    assert plan(filled, name)


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_goes_by_an_index(
    filled: psycopg.Connection[tuple[object, ...]], name: str
) -> None:
    steps = plan(filled, name)
    assert not re.search(r"Seq Scan on (journal|campaigns)", steps), steps


@pytest.mark.parametrize("name", sorted(set(queries(SQL)) - UNPLANNED))
def test_no_query_reads_the_whole_journal(
    filled: psycopg.Connection[tuple[object, ...]], name: str
) -> None:
    steps = plan(filled, name)
    assert not re.search(r"Seq Scan on journal", steps), steps


@pytest.mark.parametrize("name", ["events", "decisions_since"])
def test_a_page_is_not_sorted(filled: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    assert "Sort" not in plan(filled, name)


@pytest.mark.parametrize("name", ["known", "known_in", "resolved"])
def test_decisions_are_looked_up_by_their_ids(
    filled: psycopg.Connection[tuple[object, ...]], name: str
) -> None:
    assert re.search(r"using once|on once", plan(filled, name)), plan(filled, name)


def plan(connection: psycopg.Connection[tuple[object, ...]], name: str) -> str:
    """How a query is run whatever its parameters are, as prepared statements are."""
    types, seen = TYPES.get(name), dict[str, int]()

    def place(match: re.Match[str]) -> str:
        number = seen.setdefault(match[1] or str(len(seen)), len(seen) + 1)
        return f"${number}" + (f"::{types[number - 1]}" if types else "")

    text = re.sub(r"%(?:\((\w+)\))?s", place, queries(SQL)[name])
    rows = connection.execute(f"EXPLAIN (GENERIC_PLAN) {text}".encode()).fetchall()
    return "\n".join(str(line) for (line,) in rows)
