"""Faults of the world around a service: none of its code is touched."""

from __future__ import annotations

import os
import resource
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from bccb import __version__
from bench.service.process import Server, ServerError, hooked

VERSIONS = (__version__, f"{__version__}+next")
BUSY = 0.3  # seconds
REFUSALS = ("another process serves", "names (hard links)")


def program(version: str) -> tuple[str, ...]:
    """The command line of bccb, as if it were another version; it ends when the harness does."""
    tied = "import ctypes; ctypes.CDLL(None).prctl(1, 9); " if sys.platform == "linux" else ""
    return hooked(
        f"{tied}import bccb; bccb.__version__ = {version!r}; "
        "from bccb import fingerprint as module; real = module.fingerprint; "
        f"module.fingerprint = lambda part: real(part) + {version!r}"
    )


@contextmanager
def no_space(server: Server) -> Iterator[None]:
    """No file of the server can grow beyond what its write-ahead log has now."""
    size = Path(f"{server.ledger}-wal").stat().st_size
    with _limited(server, resource.RLIMIT_FSIZE, size):
        yield


@contextmanager
def no_files(server: Server) -> Iterator[None]:
    """The server cannot open one more file."""
    opened = [int(each) for each in os.listdir(f"/proc/{server.process.pid}/fd")]
    with _limited(server, resource.RLIMIT_NOFILE, max(opened) + 1):
        yield


@contextmanager
def _limited(server: Server, what: int, limit: int) -> Iterator[None]:
    pid = server.process.pid
    soft, hard = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (limit, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it has ended
            resource.prlimit(pid, what, (soft, hard))


@contextmanager
def folder_away(server: Server) -> Iterator[None]:
    """The folder is not where it was, as when a volume is gone."""
    away = server.ledger.parent.with_name("away")
    server.ledger.parent.rename(away)
    try:
        yield
    finally:
        away.rename(server.ledger.parent)


@contextmanager
def busy(server: Server) -> Iterator[None]:
    """Another process writes to the file, and is done soon."""
    file = sqlite3.connect(server.ledger, isolation_level=None, check_same_thread=False)
    with closing(file):
        file.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(BUSY, lambda: file.execute("ROLLBACK"))
        timer.start()
        try:
            yield
        finally:
            timer.join()


Fault = Callable[[Server], AbstractContextManager[None]]
FAULTS: tuple[Fault, ...] = (folder_away, busy)
if hasattr(resource, "prlimit"):  # Linux
    FAULTS += (no_space, no_space, no_space, no_files)


def second_server(ledger: Path, version: str) -> str | None:
    """Start another server on a ledger that is served; what is wrong, if it was not refused."""
    server = Server(ledger, program(version), log=ledger.with_name("second.log"))
    try:
        server.wait_for_address()
    except ServerError:
        if any(reason in " ".join(server.stderr().split()) for reason in REFUSALS):
            return None
    finally:
        server.kill()
    return f"a second server on {ledger.name} was not refused: {server.stderr()}"
