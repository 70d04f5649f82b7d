"""HTTP/1.1 over a kept connection, with as little work for each answer as can be.

Requests are whole bytes, made beforehand. Of an answer only the status and the body's length are
read: a client that parses more would be what a load bench measures.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

HOST = "127.0.0.1"


def request_bytes(method: str, path: str, body: object = None) -> bytes:
    """A whole request; a body that is not None is sent as JSON."""
    head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\n".encode()
    return head + (b"\r\n" if body is None else json_part(json.dumps(body).encode()))


def json_part(body: bytes) -> bytes:
    """What follows on a request's first lines: the headers of a JSON body, and the body."""
    headers = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return headers + body


class Answers(asyncio.Protocol):
    """Tells ``answered`` each whole answer; one request is under way at a time."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = b""
        self._whole = 0  # bytes of the answer under way, once its head is there

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to write to."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Collect until the answer is whole."""
        buffer = self._buffer = self._buffer + data if self._buffer else data
        if not self._whole:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._whole = end + 4 + body_length(buffer[:end])
        if len(buffer) >= self._whole:
            self._buffer, self._whole = b"", 0
            self.answered(int(buffer[9:12]), buffer)

    def answered(self, status: int, whole: bytes) -> None:
        """Take an answer: its status, and all of its bytes."""
        raise NotImplementedError


def body_length(head: bytes) -> int:
    """The Content-Length in the head of an answer."""
    head = head.lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        raise ValueError(f"an answer without Content-Length: {head!r}")
    end = head.find(b"\r\n", at + 2)
    return int(head[at + 17 : end if end > 0 else None])


class Connection(Answers):
    """A connection to wait on, for clients that want to know what was answered."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None
        self.closed = False

    async def send(self, request: bytes) -> tuple[int, Any]:
        """The status and the parsed body; ConnectionError where the answer never came."""
        if self.closed:
            raise ConnectionResetError("the connection is closed")
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        status, body = await self._waiting
        return status, json.loads(body) if body else None

    def answered(self, status: int, whole: bytes) -> None:
        """Hand the answer to who waits."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((status, whole[whole.find(b"\r\n\r\n") + 4 :]))

    def connection_lost(self, error: Exception | None) -> None:
        """Tell who waits."""
        self.closed = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("the server is gone"))

    def close(self) -> None:
        """Close it."""
        self.transport.close()


async def connect(port: int) -> Connection:
    """A new connection to the server."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, HOST, port)
    return connection
