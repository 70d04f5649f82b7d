"""The server: one process that owns a ledger and answers over HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bccb.errors import InputError
from bccb.ledger.ledger import Ledger
from bccb.policies import make
from bccb.serve.access import Access
from bccb.serve.app import create_app
from bccb.serve.books import Books
from bccb.serve.engine import Engine
from bccb.serve.metrics import Metrics

REQUEST_SECONDS = 10.0  # for a request to arrive whole
STALL_SECONDS = 20.0  # for a client to read on
IDLE_SECONDS = 30  # for the next request on the same connection
MOST_CONNECTIONS = 4_096
MOST_HEAD = 65_536  # bytes of a request before its body
COLLECT = (50_000, 50, 100)  # objects, young and middle-aged collections between collections
SHUTDOWN_SECONDS = 10  # for requests under way

logger = logging.getLogger("bccb.serve")


class PatientProtocol(HttpToolsProtocol):
    """HTTP whose patience ends: a client that does not send its request whole is let go.

    And one whose head has no end, before it fills the memory.
    """

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _head: int | None = 0  # bytes of it so far; None when it is whole

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """More of a request, or of several."""
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > MOST_HEAD:
                self._let_go()

    def on_message_begin(self) -> None:
        """A request has begun."""
        super().on_message_begin()
        self._head = 0
        self._wait()

    def on_headers_complete(self) -> None:
        """The head of a request is whole."""
        self._head = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._stop_waiting()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._stop_waiting()
        self._stop_stalling()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read what it asked for."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        self._stop_stalling()

    def _stop_stalling(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._let_go)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _let_go(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(
            "address", f"{host}:{port}", f"free: choose another port ({error})"
        ) from None
    return listener


@contextmanager
def opened(path: Path, told: Callable[[str], None] = lambda _: None) -> Iterator[Books]:
    """The books of a ledger, owned by this process and brought up."""
    ledger = Ledger(path)
    try:
        ledger.own()
        ledger.check_whole()
        books = Books(ledger)
        told("compiling")
        make(budget=1, horizon=1, features=1).warm()
        for campaign in books.open():
            told(campaign.terms.name)
        ledger.probe()
        yield books
    finally:
        ledger.close()


def serve(books: Books, access: Access, listener: socket.socket) -> None:
    """Answer until a signal ends it."""
    config = uvicorn.Config(
        create_app(Engine(books, Metrics()), access),
        http=PatientProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        limit_concurrency=MOST_CONNECTIONS,
        server_header=False,
        proxy_headers=False,
    )
    # What is there now stays, and what comes is seldom a cycle: to look through all of it again and
    # again would hold up everybody
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    uvicorn.Server(config).run(sockets=[listener])
