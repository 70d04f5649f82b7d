"""The tables of a ledger in PostgreSQL: made once, upgraded beside others, guarding themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from postgresql import server

from bccb.errors import MissingExtraError
from bccb.ledger import opening
from bccb.ledger.event import Event
from bccb.ledger.port import EMPTY, Account, DamagedError, LedgerError, MissingError
from bccb.ledger.postgresql import tables
from bccb.ledger.postgresql.connection import SQL
from bccb.ledger.postgresql.ledger import PostgresqlLedger
from bccb.ledger.statements import migrations, schema

VERSION = len(migrations(SQL))


@pytest.fixture
def place() -> str:
    return server().new_place()


@pytest.fixture
def ledger(place: str) -> Iterator[PostgresqlLedger]:
    """A ledger with a campaign of one event."""
    with closing(PostgresqlLedger(place)) as opened:
        opened.begin()
        opened.add_campaign(1, "c1", "autumn")
        opened.advance(Account(1, "c1", "autumn", 1, 7, 0, 10, 2, 3), EMPTY)
        opened.append([Event(1, 1, 10, "opened", "c1", money=10, remaining=10, seal=7)])
        opened.commit()
        yield opened


def table_names(place: str) -> set[str]:
    rows = server().run(
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()", place
    )
    return {str(name) for (name,) in rows}


# Made and upgraded


def test_many_who_start_at_once_make_one_ledger(place: str) -> None:
    def start(_: int) -> int:
        with closing(PostgresqlLedger(place)) as ledger:
            ledger.upgrade()
            ledger.probe()
            return len(ledger.accounts())

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(start, range(8))) == [0] * 8
    assert server().run("SELECT count(*) FROM ledger", place) == [(1,)]


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this code had one more migration."""
    step = (
        "ALTER TABLE keys ADD COLUMN note text NOT NULL DEFAULT '';"
        f"UPDATE ledger SET version = {VERSION + 1};"
    )
    steps = (*migrations(SQL), step)
    monkeypatch.setattr(tables, "migrations", lambda folder: steps)


def test_an_upgrade_runs_once_while_old_and_new_replicas_go_on(
    ledger: PostgresqlLedger, place: str, next_version: None
) -> None:
    old = ledger  # opened before
    old.accounts()

    def upgrade(_: int) -> None:
        with closing(PostgresqlLedger(place)) as new:
            new.upgrade()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(upgrade, range(4)))
    assert server().run("SELECT version, readable_by FROM ledger", place) == [(VERSION + 1, 1)]
    assert old.keys() == []
    old.probe()
    assert len(old.accounts()) == 1


def test_opening_alone_upgrades_nothing(
    ledger: PostgresqlLedger, place: str, next_version: None
) -> None:
    with closing(PostgresqlLedger(place)):
        pass
    assert server().run("SELECT version FROM ledger", place) == [(VERSION,)]


def test_an_upgrade_that_fails_leaves_everything_as_it_was(
    ledger: PostgresqlLedger, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = (*migrations(SQL), "ALTER TABLE keys ADD COLUMN note text; SELECT 1 / 0;")
    monkeypatch.setattr(tables, "migrations", lambda folder: steps)
    with pytest.raises(LedgerError, match="cannot upgrade the ledger .*division by zero"):
        ledger.upgrade()
    columns = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'note'"
    assert server().run(f"{columns} AND table_schema = current_schema()", place) == [(0,)]
    ledger.probe()


def test_a_newer_schema_is_used_as_long_as_it_allows_it(
    ledger: PostgresqlLedger, place: str
) -> None:
    server().run(f"UPDATE ledger SET version = {VERSION + 5}", place)
    for read_only in (False, True):
        with closing(PostgresqlLedger(place, read_only)) as opened:
            assert len(opened.accounts()) == 1
    ledger.upgrade()
    server().run(f"UPDATE ledger SET readable_by = {VERSION + 1}", place)
    needs = f"its schema is version {VERSION + 5}, and this bccb knows {VERSION}"
    for read_only in (False, True):
        with pytest.raises(LedgerError, match=f"{needs}: install a newer bccb"):
            PostgresqlLedger(place, read_only)


def test_the_schema_is_what_the_migrations_lead_to() -> None:
    new, old = server().new_place(), server().new_place()
    server().run(schema(SQL), new)
    for step in migrations(SQL):
        server().run(step, old)
    assert objects(new) == objects(old)
    assert len(objects(new)) > 40
    rows = "SELECT version, readable_by FROM ledger"
    assert server().run(rows, new) == server().run(rows, old)
    assert server().run(rows, new)[0][0] == VERSION


def test_migrations_are_numbered_from_one() -> None:
    names = sorted(path.name for path in (SQL / "migrations").iterdir())
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


def test_migrations_only_add() -> None:
    """Replicas of the version before go on beside them."""
    for step in migrations(SQL):
        assert not re.search(r"\b(DROP|RENAME|TRUNCATE|ALTER COLUMN)\b(?! ON)", without(step)), step


def without(step: str) -> str:
    """SQL without comments and the events of triggers."""
    return re.sub(r"--.*|(UPDATE|DELETE|INSERT|BEFORE|AFTER) (OR (DELETE|TRUNCATE) )*ON", "", step)


def objects(place: str) -> list[tuple[object, ...]]:
    """Columns, constraints, indices, triggers and functions of a schema."""
    parts = (
        "SELECT table_name || '.' || column_name, data_type || is_nullable || "
        "coalesce(column_default, '') || coalesce(collation_name, '') "
        "FROM information_schema.columns WHERE table_schema = current_schema()",
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = current_schema()::regnamespace",
        "SELECT indexname, replace(indexdef, current_schema(), '') FROM pg_indexes "
        "WHERE schemaname = current_schema()",
        "SELECT tgname, replace(pg_get_triggerdef(t.oid), current_schema(), '') FROM pg_trigger t "
        "JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = current_schema()::regnamespace "
        "AND NOT tgisinternal",
        "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = current_schema()::regnamespace",
        "SELECT relname, reloptions::text FROM pg_class "
        "WHERE relnamespace = current_schema()::regnamespace",
    )
    return sorted((row for part in parts for row in server().run(part, place)), key=str)


# Whose database it is


def test_tables_of_others_are_refused_and_not_touched(place: str) -> None:
    server().run("CREATE TABLE keys (door text)", place)
    for read_only in (False, True):
        with pytest.raises(LedgerError, match="it is not a ledger of bccb, but has a table keys"):
            PostgresqlLedger(place, read_only)
    assert table_names(place) == {"keys"}


def test_a_ledger_lives_beside_other_tables(place: str) -> None:
    server().run("CREATE TABLE doors (key text)", place)
    with pytest.raises(MissingError):
        PostgresqlLedger(place, read_only=True)
    PostgresqlLedger(place).close()
    assert table_names(place) == {*tables.TABLES, "doors"}


def test_ledgers_in_two_schemas_know_nothing_of_each_other(ledger: PostgresqlLedger) -> None:
    with closing(PostgresqlLedger(server().new_place())) as other:
        assert other.accounts() == []


def test_a_schema_that_is_not_there_is_refused() -> None:
    with pytest.raises(LedgerError, match="no schema has been selected to create in"):
        PostgresqlLedger(server().url(schema="nowhere"))


def test_a_database_that_is_not_there_is_refused() -> None:
    with pytest.raises(LedgerError, match='database "nowhere" does not exist'):
        PostgresqlLedger(server().url("nowhere"))


def test_without_its_driver_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("psycopg", "bccb.ledger.postgresql.ledger"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(
        MissingExtraError, match=r"psycopg is not installed: pip install 'bccb\[postgr"
    ):
        opening.open_ledger("postgresql://host/db")


# What no hand can do


@pytest.mark.parametrize(
    "change",
    [
        *("spent = 8", "reserved = 9", "budget = 4", "spent = -1", "reserved = -1"),
        *("spent = budget, reserved = 1", "spent = 9223372036854775807"),
    ],
)
def test_no_hand_can_overspend(ledger: PostgresqlLedger, place: str, change: str) -> None:
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.DataError)):
        server().run(f"UPDATE campaigns SET {change}", place)
    server().run("UPDATE campaigns SET spent = 7", place)  # to spend all is no overspending


@pytest.mark.parametrize("column", Event._fields)
def test_no_column_of_the_journal_can_be_changed(
    ledger: PostgresqlLedger, place: str, column: str
) -> None:
    with pytest.raises(psycopg.IntegrityError, match="the journal is append-only"):
        server().run(f"UPDATE journal SET {column} = {column}", place)


@pytest.mark.parametrize(
    "statement",
    [
        *("DELETE FROM journal", "TRUNCATE journal", "DELETE FROM campaigns"),
        *("TRUNCATE campaigns CASCADE", "DELETE FROM journal WHERE false"),
    ],
)
def test_nothing_is_ever_cut(ledger: PostgresqlLedger, place: str, statement: str) -> None:
    with pytest.raises(psycopg.IntegrityError, match="append-only|never removed"):
        server().run(statement, place)
    assert len(list(ledger.events(1))) == 1


@pytest.mark.parametrize("guard", tables.GUARDS)
def test_a_guard_that_was_taken_away_is_damage(
    ledger: PostgresqlLedger, place: str, guard: str
) -> None:
    ledger.check_whole()
    table = "campaigns" if guard in ("never_overspent", "campaigns_are_kept") else "journal"
    is_trigger = "_is_" in guard or "_are_" in guard or "_knows_" in guard
    away = f"ALTER TABLE {table} DROP CONSTRAINT {guard}"
    if guard == "once":
        away = "DROP INDEX once"
    elif is_trigger:
        away = f"ALTER TABLE {table} DISABLE TRIGGER {guard}"
    server().run(away, place)
    with pytest.raises(DamagedError, match=f"{guard} of its schema is missing or not at work"):
        ledger.check_whole()


def test_commits_are_durable_also_where_the_database_is_lax(place: str) -> None:
    lax = place.replace("options=", "options=-csynchronous_commit%3Doff%20")
    with (
        closing(PostgresqlLedger(lax)) as ledger,
        ledger._session.speaking("read") as connection,
    ):
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
