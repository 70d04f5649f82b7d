"""The SQL of the ledger: used, described, and never reading the whole journal."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import bccb
from bccb.ledger.sqlite.connection import SQL
from bccb.ledger.sqlite.ledger import SqliteLedger
from bccb.ledger.statements import migrations, queries, schema

HOT = [
    *("advance", "append", "campaign", "decisions_since", "events", "known", "resolved", "seal_at"),
    *("forget_snapshot", "forget_snapshots", "keep_snapshot", "last_snapshot", "origin_snapshot"),
    "revoke_key",
]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    SqliteLedger(tmp_path / "ledger.sqlite").close()
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as opened:
        yield opened


def test_every_query_is_used() -> None:
    package = Path(bccb.__file__).parent
    source = "".join(path.read_text() for path in package.rglob("*.py"))
    unused = [name for name in queries(SQL) if f'"{name}"' not in source]
    assert unused == []


def test_every_query_is_described_and_is_one_statement() -> None:
    assert queries(SQL)
    for name, text in queries(SQL).items():
        assert re.match(r"-- [A-Z].*\.\n", text), name
        assert text.count(";") == 1, name
        assert text.endswith(";"), name


def test_no_statement_is_written_elsewhere() -> None:
    """Except for those on the connection and its transactions."""
    allowed = {"PRAGMA", "BEGIN", "COMMIT", "ROLLBACK"}
    package = Path(bccb.__file__).parent
    for part in ("ledger", "serve", "cli"):
        for path in (package / part).rglob("*.py"):
            result = re.findall(r'"((?:[A-Z]{4,}) [^"]*)"', path.read_text())
            words = {text.split()[0] for text in result} & {
                *("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "REPLACE"),
                *allowed,
            }
            assert words <= allowed, path


def test_nothing_outside_the_folder_knows_sqlite() -> None:
    package = Path(bccb.__file__).parent
    outside = [path for path in package.rglob("*.py") if path.parent != SQL.parent]
    assert [path for path in outside if re.search(r"\bsqlite3\b", path.read_text())] == []


@pytest.mark.parametrize("name", sorted(queries(SQL)))
def test_a_query_fits_the_schema(file: sqlite3.Connection, name: str) -> None:
    assert _plan(file, name) is not None


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_goes_by_an_index(file: sqlite3.Connection, name: str) -> None:
    for step in _plan(file, name):
        assert not re.match(r"SCAN (?!asked)", step), step
        assert "TEMP B-TREE" not in step, step


@pytest.mark.parametrize("name", sorted(queries(SQL)))
def test_no_query_reads_the_whole_journal(file: sqlite3.Connection, name: str) -> None:
    for step in _plan(file, name):
        assert not re.match(r"SCAN (journal|j|d|e)\b", step), step


def test_decisions_are_looked_up_by_their_ids(file: sqlite3.Connection) -> None:
    for name in ("known", "resolved"):
        results = [step for step in _plan(file, name) if "INDEX once" in step]
        assert results, name
        assert all("(campaign=? AND decision=?" in step for step in results), results


def test_the_schema_is_what_the_migrations_lead_to() -> None:
    with closing(sqlite3.connect(":memory:")) as new, closing(sqlite3.connect(":memory:")) as old:
        new.executescript(schema(SQL))
        for step in migrations(SQL):
            old.executescript(step)
        assert _objects(new) == _objects(old)
        assert len(_objects(new)) >= 7


def test_a_ledger_has_the_version_of_the_last_migration(file: sqlite3.Connection) -> None:
    assert file.execute("PRAGMA user_version").fetchone() == (len(migrations(SQL)),)
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(schema(SQL))
        assert _objects(file) == _objects(new)


def test_migrations_are_numbered_from_one() -> None:
    names = sorted(path.name for path in (SQL / "migrations").iterdir())
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert len(names) == len(migrations(SQL))


def _plan(file: sqlite3.Connection, name: str) -> list[str]:
    text = queries(SQL)[name]
    named = re.findall(r":(\w+)", text.partition("\n")[2])
    parameters = dict.fromkeys(named, 1) if named else [1] * _places(text)
    return [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {text}", parameters)]


def _places(text: str) -> int:
    numbered = [int(number) for number in re.findall(r"\?(\d)", text)]
    return max(numbered, default=text.partition("\n")[2].count("?"))


def _objects(file: sqlite3.Connection) -> dict[tuple[str, str], str | None]:
    """What a database is made of, with comments and white space left out."""
    result = file.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {
        (kind, name): sql and " ".join(re.sub(r"--.*", "", sql).split())
        for kind, name, sql in result
    }
