"""One connection of a client: how long it may take, and how many there may be."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, cast

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bccb.serve.answers import problem_response
from bccb.serve.body import MORE_TIME
from bccb.serve.problem import ProblemError

REQUEST_SECONDS = 10.0  # for a request to arrive whole
FILE_SECONDS = 120.0  # for one that brings a file, from whom may send it
STALL_SECONDS = 20.0  # for a client to read on
IDLE_SECONDS = 30.0  # for the next request on the same connection
MOST_HEAD = 65_536  # bytes of a request before its body
MOST_AROUND = 8  # bytes around each byte of a body: the smallest chunks have six
MOST_CONNECTIONS = 4_096
RESERVED = 64  # descriptors for the ledger, its readers, logs and keys
WAITING_ROOM = 16  # of these, for connections beyond the most: each is answered 503
MOST_PIPELINED = 32  # requests that wait for the answer before theirs: each takes memory
FULL = ProblemError(503, "overloaded", "there are too many connections: try again later")


def connections_within(descriptors: int, each: int = 1) -> int:
    """How many connections there may be where so many files can be open, and each takes some.

    >>> connections_within(1_024), connections_within(64), connections_within(1_000_000)
    (960, 16, 4096)
    >>> connections_within(1_024, each=2), connections_within(64, each=2)
    (480, 16)
    """
    return min(max((descriptors - RESERVED) // each, descriptors // 4), MOST_CONNECTIONS)


class Connection(HttpToolsProtocol):
    """HTTP with a deadline whenever the server waits for the client.

    A deadline is set when a client connects, when a request begins and when the last answer is
    given; nothing but the end of the request lifts it. So bytes that begin no request, such as
    blank lines, gain no time. Where there are too many connections, a new one takes the place of
    the one that has been silent longest.
    """

    most: ClassVar[int] = MOST_CONNECTIONS  # set when the process begins to serve
    silent: ClassVar[dict[Connection, None]] = {}  # no request has begun; the longest first
    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _arriving = False  # a request has begun and is not whole
    _head: int | None = 0  # bytes before the next body; None while a body arrives
    _request = 0  # how many have begun
    _body = 0  # bytes of the body so far
    _around = 0  # bytes that came with the body and are none of it

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request; where there is no room, to refuse it."""
        super().connection_made(transport)
        beyond = len(self.connections) - self.most
        if beyond > 0 and self.silent:
            next(iter(self.silent))._cut_off()
        elif beyond > WAITING_ROOM:
            transport.abort()
            return
        elif beyond > 0:
            self.app = _refuse
        self.silent[self] = None
        self._wait(REQUEST_SECONDS)

    def data_received(self, data: bytes) -> None:
        """More of a request, or of several."""
        in_body, request, before = self._head is None, self._request, self._body
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        if self._head is not None:
            if self._head > MOST_HEAD:
                self._let_go()
        elif in_body and request == self._request:
            # what is no body within a body: the sizes of chunks, their extensions, trailers
            self._around += len(data) - (self._body - before)
            if self._around > MOST_HEAD + MOST_AROUND * self._body:
                self._cut_off()

    def on_message_begin(self) -> None:
        """A request has begun."""
        super().on_message_begin()
        self.silent.pop(self, None)
        self._arriving, self._head = True, 0
        self._request += 1
        self._body = self._around = 0
        self._wait(REQUEST_SECONDS)

    def on_headers_complete(self) -> None:
        """The head of a request is whole."""
        self._head = None
        if len(self.pipeline) >= MOST_PIPELINED:
            self.transport.abort()
            raise ValueError("too many requests at once")  # it ends the parsing
        super().on_headers_complete()
        cast("dict[str, Any]", self.scope)[MORE_TIME] = self._give_more_time

    def _give_more_time(self) -> None:
        """Let a file arrive: asked for by an operation, after it was checked who sends it."""
        if self._arriving:
            self._wait(FILE_SECONDS)

    def on_body(self, body: bytes) -> None:
        """More of a body."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        super().on_message_complete()
        self._arriving, self._head = False, 0
        self._wait_for_next()

    def on_response_complete(self) -> None:
        """A request is answered, perhaps before it has arrived whole."""
        super().on_response_complete()
        self._unset_keepalive_if_required()  # it would be lifted by any byte
        if not self._arriving:
            self._wait_for_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self.silent.pop(self, None)
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

    def _wait_for_next(self) -> None:
        """Wait for the next request, once all that came are answered."""
        if self.cycle.response_complete:  # the last one's: answers are given in order
            self.silent[self] = None
            self._wait(IDLE_SECONDS)
        else:
            self._stop_waiting()

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(seconds, self._let_go)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_stalling(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _let_go(self) -> None:
        """Close the connection, and cut it off where the client does not read the rest."""
        if self.transport.is_closing():
            self._cut_off()
        else:
            self.transport.close()
            self._wait(STALL_SECONDS)

    def _cut_off(self) -> None:
        self.silent.pop(self, None)
        self.connections.discard(self)  # it makes room at once
        self.transport.abort()


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    response = problem_response(FULL)
    response.headers["Connection"] = "close"
    await response(scope, receive, send)
