"""The SQLite ledger: what the file itself refuses, its locks and place, and foreign files."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from processes import bccb

from bccb.errors import StateError
from bccb.ledger.event import Event
from bccb.ledger.port import (
    EMPTY,
    Account,
    LedgerError,
    RefusedError,
    Snapshot,
)
from bccb.ledger.sqlite.connection import SQL
from bccb.ledger.sqlite.ledger import SqliteLedger
from bccb.ledger.statements import migrations

BUDGET = 1_000_000
ACCOUNT = Account(1, "c1", "autumn", 3, 99, 0, BUDGET, 200_000, 300_000)
EVENTS = (
    Event(1, 1, 10, "opened", "c1", money=BUDGET, remaining=BUDGET, detail=b"{}"),
    Event(1, 2, 11, "decision", "u1", 1, 1, 500_000, None, 0.0, 1.0, 500_000, b"trace"),
    Event(1, 3, 12, "settlement", "u1", 1, money=200_000, remaining=500_000, seal=99),
)


@contextmanager
def writing(ledger: SqliteLedger) -> Iterator[None]:
    """A transaction, undone if it does not come to its end."""
    ledger.begin()
    try:
        yield
        ledger.commit()
    finally:
        ledger.roll_back()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with a campaign of three events."""
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(path)) as ledger, writing(ledger):
        ledger.add_campaign(1, "c1", "autumn")
        ledger.append(EVENTS)
        ledger.advance(ACCOUNT, EMPTY)
        ledger.keep(1, Snapshot(3, "0", 0, b"state", 7))
    return path


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    opened = SqliteLedger(path)
    yield opened
    opened.close()


@pytest.fixture
def file(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        opened.execute("PRAGMA foreign_keys = ON")
        yield opened


@pytest.mark.parametrize(
    "change",
    [
        "spent = 700001",
        "reserved = 800001",
        "budget = 499999",
        "spent = -1",
        "reserved = -1",
        "spent = budget, reserved = 1",
    ],
)
def test_no_hand_can_overspend(file: sqlite3.Connection, change: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="never_overspent"):
        file.execute(f"UPDATE campaigns SET {change}")


def test_spending_all_is_no_overspending(file: sqlite3.Connection) -> None:
    assert file.execute("UPDATE campaigns SET spent = 700000").rowcount == 1


@pytest.mark.parametrize("column", Event._fields)
def test_no_column_of_the_journal_can_be_changed(file: sqlite3.Connection, column: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="the journal is append-only"):
        file.execute(f"UPDATE journal SET {column} = {column} WHERE sequence = 2")


def test_the_journal_cannot_be_cut(file: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="the journal is append-only"):
        file.execute("DELETE FROM journal WHERE sequence = 3")


INFINITE = float("inf")


def test_a_lock_is_the_ledgers_fault_and_no_refusal(ledger: SqliteLedger, path: Path) -> None:
    ledger._file.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked") as refused:
            ledger.begin()
    assert type(refused.value) is LedgerError


def test_a_ledger_of_the_first_version_keeps_what_is_refused_today(tmp_path: Path) -> None:
    """It is upgraded only when asked, so that the version that wrote it can still open it."""
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.executescript(f"{migrations(SQL)[0]} PRAGMA user_version = 1;")
        file.execute("INSERT INTO campaigns VALUES (1, 'c1', 'autumn', 1, 0, 0, 1, 0, 0)")
        row = "1, 1, 13, 'decision', 'u1', 1, 1, 0, NULL, 9e999, NULL, 0, x'00', 0"
        file.execute(f"INSERT INTO journal VALUES ({row})")
    with closing(SqliteLedger(path)) as ledger:
        assert ledger._rows("seal_at", (1, 1)) == [(0,)]
        assert schema_version(path) == 1
        with closing(SqliteLedger(path, read_only=True)) as reader:
            assert next(reader.events(1)).price == INFINITE
        ledger.upgrade()
        assert schema_version(path) == len(migrations(SQL))
        ledger.upgrade()
        event = next(ledger.events(1))
        assert (event.price, event.probability) == (INFINITE, None)
        with pytest.raises(RefusedError, match="not finite or not in range"), writing(ledger):
            ledger.append([event._replace(sequence=2, decision="u2")])


def test_a_ledger_of_conversions_takes_amounts_once_it_is_upgraded(tmp_path: Path) -> None:
    """No row is copied or changed, and a reader beside it sees the new ones."""
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.executescript(f"{' '.join(migrations(SQL)[:3])} PRAGMA user_version = 3;")
        file.execute("INSERT INTO campaigns VALUES (1, 'c1', 'autumn', 1, 0, 0, 1, 0, 0)")
        file.execute(
            "INSERT INTO journal VALUES "
            "(1, 1, 13, 'outcome', 'u1', 1, 1, 0, 0.25, NULL, NULL, 0, NULL, 0)"
        )
    amount = Event(1, 2, 13, "outcome", "u2", 2, 1, value=-19.99)
    with closing(SqliteLedger(path)) as ledger, closing(ledger.reader()) as reader:
        took = ledger.takes_amounts
        with pytest.raises(RefusedError), writing(ledger):
            ledger.append([amount])
        ledger.upgrade()
        assert (took, ledger.takes_amounts) == (False, True)
        with writing(ledger):
            ledger.append([amount])
        assert [event.value for event in reader.events(1)] == [0.25, -19.99]
        for value in (1.0000001e9, -1.0000001e9, INFINITE):
            with pytest.raises(RefusedError), writing(ledger):
                ledger.append([amount._replace(sequence=3, decision="u3", value=value)])
        ledger.check_whole()


def schema_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
    return int(version)


def test_older_snapshots_take_no_room(ledger: SqliteLedger) -> None:
    for sequence, origin in ((4, 1), (5, 0), (6, 0)):
        with writing(ledger):
            ledger.keep(1, Snapshot(sequence, "1", origin, b"", 0))
    with closing(sqlite3.connect(ledger.path)) as file:
        assert file.execute("SELECT count(*) FROM snapshots").fetchone() == (2,)


# Whose file it is


def test_a_newer_schema_is_refused_and_not_touched(path: Path) -> None:
    newer = len(migrations(SQL)) + 1
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {newer}")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(LedgerError, match=f"its schema is version {newer}, and this"):
            SqliteLedger(path, read_only)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(LedgerError, match="its schema is version 0"):
        SqliteLedger(path, read_only=True)
    with closing(SqliteLedger(path)) as ledger:
        assert ledger.accounts() == []


@pytest.mark.parametrize("content", [b"xy", b"name,cost\nann,1\n" * 100, bytes(8192)])
def test_a_file_that_is_no_database_is_refused_and_not_touched(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    for read_only in (False, True):
        with pytest.raises(LedgerError, match="^cannot open the ledger .*notes.txt: "):
            SqliteLedger(path, read_only)
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [0, 1])
def test_the_database_of_another_program_is_refused_and_not_touched(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE bookmarks (address TEXT)")
        file.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="other.sqlite: it is not a ledger of bccb"):
        SqliteLedger(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("keep", [0.8, 0.5, 0.1, 0.02])
def test_a_truncated_ledger_is_refused_and_not_touched(path: Path, keep: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    before = path.read_bytes()
    with pytest.raises(LedgerError), closing(SqliteLedger(path)) as ledger:
        ledger.check_whole()
    assert path.read_bytes() == before


def test_a_folder_and_a_file_in_no_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "ledger.sqlite"):
        with pytest.raises(LedgerError, match="unable to open database file"):
            SqliteLedger(path)
    with pytest.raises(LedgerError, match="there is no ledger"):
        SqliteLedger(tmp_path / "none.sqlite", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_who_only_reads_cannot_write(ledger: SqliteLedger) -> None:
    with closing(SqliteLedger(ledger.path, read_only=True)) as reader:
        assert tuple(reader.events(1)) == EVENTS
        with pytest.raises(LedgerError, match="readonly"), writing(reader):
            reader.append([Event(1, 4, 13, "paused")])


def test_a_ledger_has_one_owner(ledger: SqliteLedger, path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    ledger.own()
    for same in (path, link):
        with closing(SqliteLedger(same)) as other:
            with pytest.raises(StateError, match="another process serves the ledger"):
                other.own()
            assert other.accounts() == [ACCOUNT]  # to read it is free
    ledger.close()
    with closing(SqliteLedger(path)) as other:
        other.own()


def test_a_ledger_has_one_owner_across_processes(ledger: SqliteLedger, path: Path) -> None:
    ledger.own()
    ran = bccb("serve", "--port", 0, "--ledger", path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[-1] == f"error: another process serves the ledger {path}"


def test_a_lock_is_on_the_file_whatever_its_name(ledger: SqliteLedger, path: Path) -> None:
    ledger.own()
    moved = path.with_name("moved.sqlite")
    path.rename(moved)
    with (
        closing(SqliteLedger(moved)) as other,
        pytest.raises(StateError, match="another process serves"),
    ):
        other.own()


def test_a_ledger_with_two_names_has_no_owner(path: Path) -> None:
    link = path.with_name("link.sqlite")
    link.hardlink_to(path)
    for name in (path, link):
        with pytest.raises(LedgerError, match=r"has 2 names \(hard links\): remove all but one"):
            SqliteLedger(name)
    link.unlink()
    with closing(SqliteLedger(path)) as ledger:
        ledger.own()


def test_sqlite_keeps_its_own_locks_beside_ours(ledger: SqliteLedger, path: Path) -> None:
    """To close a descriptor of the file would drop them."""
    ledger.own()
    ledger.begin()
    with closing(SqliteLedger(path, read_only=True)):
        pass
    script = "import sqlite3, sys; sqlite3.connect(sys.argv[1], 0).execute('BEGIN IMMEDIATE')"
    ran = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)
    assert "database is locked" in ran.stderr
    ledger.roll_back()
    ran = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


# Where the file is


def test_nothing_is_written_to_a_ledger_that_got_a_second_name(
    ledger: SqliteLedger, path: Path
) -> None:
    ledger.probe()
    link = path.with_name("link.sqlite")
    link.hardlink_to(path)
    with pytest.raises(LedgerError, match="has 2 names"), writing(ledger):
        ledger.append([Event(1, 4, 13, "paused")])
    link.unlink()
    assert tuple(ledger.events(1)) == EVENTS
    ledger.probe()


def test_nothing_is_written_to_a_ledger_that_was_removed(ledger: SqliteLedger, path: Path) -> None:
    ledger.probe()
    shutil.move(path, path.with_suffix(".away"))
    answer = "the ledger .* is gone: No such file"
    with pytest.raises(LedgerError, match=answer), writing(ledger):
        ledger.append([Event(1, 4, 13, "paused")])
    shutil.move(path.with_suffix(".away"), path)
    assert tuple(ledger.events(1)) == EVENTS
    ledger.probe()


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_nothing_is_written_to_a_ledger_that_was_replaced(
    ledger: SqliteLedger, path: Path, suffix: str
) -> None:
    ledger.probe()
    file = Path(f"{path}{suffix}")
    shutil.copy(file, f"{file}.copy")
    shutil.move(f"{file}.copy", file)
    with pytest.raises(LedgerError, match="was replaced by another file"), writing(ledger):
        ledger.append([Event(1, 4, 13, "paused")])
    assert tuple(ledger.events(1)) == EVENTS


def test_a_probe_changes_nothing_that_is_reported(ledger: SqliteLedger, path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        before = list(file.iterdump())
        ledger.probe()
        assert list(file.iterdump()) == before
        assert file.execute("PRAGMA user_version").fetchone() == (len(migrations(SQL)),)


@pytest.mark.parametrize("before", [None, 0o644])
def test_a_backup_is_its_owners_alone(
    ledger: SqliteLedger, tmp_path: Path, before: int | None
) -> None:
    copy = tmp_path / "backup.sqlite"
    if before is not None:
        copy.touch(before)
    modes: list[str] = []
    backup = ledger._file.backup

    class Watched:
        def backup(self, target: sqlite3.Connection) -> None:
            backup(target)
            modes.extend(oct(each.stat().st_mode & 0o777) for each in tmp_path.glob(".*"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "_file", Watched())
        ledger.back_up(copy)
    assert modes
    assert set(modes) == {"0o600"}  # also while it is written
    assert oct(copy.stat().st_mode & 0o777) == "0o600"
    with closing(SqliteLedger(copy, read_only=True)) as result:
        assert result.accounts() == [ACCOUNT]


def test_a_write_ahead_log_without_its_ledger_is_left_alone(tmp_path: Path) -> None:
    """SQLite would drop it, and with it what a running service has answered."""
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(path)) as ledger:
        ledger.probe()
        log = Path(f"{path}-wal")
        size = log.stat().st_size
        assert size > 0
        path.rename(tmp_path / "moved.sqlite")
        with pytest.raises(LedgerError, match="move the ledger back beside it"):
            SqliteLedger(path)
        assert log.stat().st_size == size
        assert not path.exists()


def test_a_second_name_is_refused_to_readers_too(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    SqliteLedger(path).close()
    (tmp_path / "other.sqlite").hardlink_to(path)
    for name in ("ledger.sqlite", "other.sqlite"):
        with pytest.raises(LedgerError, match="has 2 names"):
            SqliteLedger(tmp_path / name, read_only=True)
