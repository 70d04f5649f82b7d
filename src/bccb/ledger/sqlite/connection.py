"""A connection to a ledger's file: its settings, its schema and the steps to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from bccb.ledger.port import LedgerError
from bccb.ledger.statements import migrations, queries, schema

SQL = Path(__file__).parent / "sql"
WAIT = 10.0  # seconds, for another process that writes
CACHE = -64_000  # KiB of pages in memory
READER_CACHE = -2_000
CHECKPOINT = 8_000  # pages of the write-ahead log, 32 MB, that are copied to the file at once
OLDEST_READ = 1  # the first schema whose tables can be read as they are
FINGERPRINTS = 3  # the first schema that keeps the fingerprint of a snapshot
AMOUNTS = 4  # the first that takes amounts of money as outcomes


def connect(path: Path, read_only: bool) -> sqlite3.Connection:
    """Open a file; a new or empty one becomes a ledger, and one of another program is refused."""
    mode = "ro" if read_only else "rwc"
    try:
        uri = f"{path.resolve().as_uri()}?mode={mode}"
        file = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=WAIT
        )
    except sqlite3.Error as error:
        raise LedgerError(f"cannot open the ledger {path}: {error}") from None
    try:
        file.execute("PRAGMA foreign_keys = ON")
        file.execute(f"PRAGMA cache_size = {READER_CACHE if read_only else CACHE}")
        steps = _first_steps(file, read_only)  # before anything is written to a foreign file
        if not read_only:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("PRAGMA synchronous = FULL")
            file.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
        if steps:
            _migrate(file, steps)
    except (sqlite3.Error, LedgerError) as error:
        file.close()
        raise LedgerError(f"cannot open the ledger {path}: {error}") from None
    return file


def schema_version(file: sqlite3.Connection) -> int:
    """How many migrations the file has seen."""
    (version,) = file.execute("PRAGMA user_version").fetchone()
    return int(version)


def upgrade(file: sqlite3.Connection) -> None:
    """Run the migrations that the file has not seen."""
    steps, version = migrations(SQL), schema_version(file)
    if version < len(steps):
        _migrate(file, " ".join(steps[version:]))


def _migrate(file: sqlite3.Connection, steps: str) -> None:
    """Change the schema to the newest version, in one transaction."""
    version = f"PRAGMA user_version = {len(migrations(SQL))};"
    file.executescript(f"BEGIN IMMEDIATE; {steps} {version} COMMIT;")


def _first_steps(file: sqlite3.Connection, read_only: bool) -> str:
    """The SQL that makes the schema in a new file; refuses any file that is not a ledger."""
    steps, version = migrations(SQL), schema_version(file)
    if version > len(steps) or (read_only and version < OLDEST_READ):
        versions = f"version {version}, and this bccb needs {len(steps)}"
        raise LedgerError(f"its schema is {versions}")
    tables = {name for (name,) in file.execute(queries(SQL)["tables"])}
    if "journal" not in tables if version else tables:
        raise LedgerError("it is not a ledger of bccb")
    return "" if version else schema(SQL)
