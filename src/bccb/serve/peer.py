"""A peer: another replica, asked over kept connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import SplitResult, urlsplit

import httptools

from bccb.errors import InputError, is_shortage

CONNECT_SECONDS = 1.0
PATIENCE = 2.0  # seconds without an answer after which it is asked whether it lives
LIVES_SECONDS = 1.0  # for the answer to that
READ_SECONDS = 10.0  # for the next bytes of an answer that is handed on in pieces
MOST_KEPT = 64  # connections that wait for the next request
CHUNK = 1 << 16  # bytes that are read at once
WHOLE = 1 << 20  # bytes of an answer that is handed on in one piece

# Of a connection; a name that cannot be looked up is a UnicodeError. TimeoutError is an OSError
FAILURES = (OSError, httptools.HttpParserError, UnicodeError)

NOWHERE = ("0.0.0.0", "::")  # hosts that stand for any address
PLAIN = (("http", ""), ("http", "/"))  # schemes and paths of addresses

Headers = Sequence[tuple[bytes, bytes]]


def check_address(address: str) -> str:
    """The address, if other replicas can reach it.

    >>> check_address("http://10.0.0.7:8000/")
    'http://10.0.0.7:8000'
    """
    parts = _parts_of(address)
    if parts is None or parts.hostname in NOWHERE or (parts.scheme, parts.path) not in PLAIN:
        allowed = "http://HOST:PORT, where the other replicas reach this machine"
        raise InputError("advertise", address, allowed)
    return address.rstrip("/")


def _parts_of(address: str) -> SplitResult | None:
    """The parts of an address; None if it has no host, or its port is none."""
    try:
        parts = urlsplit(address)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


class UnreachableError(Exception):
    """The peer does not answer."""


@dataclass(slots=True)
class Answer:
    """What a peer answers, as far as it has arrived."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    is_whole: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, from the parser."""
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        """More of the body, from the parser."""
        self.parts.append(body)

    def on_message_complete(self) -> None:
        """The end, from the parser."""
        self.is_whole = True

    @property
    def keeps(self) -> bool:
        """Whether the connection can be used again."""
        return self.is_whole and (b"connection", b"close") not in self.headers

    def take(self) -> bytes:
        """What has arrived of the body and was not taken yet."""
        body = b"".join(self.parts)
        self.parts.clear()
        return body


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.used = False

    async def ask(self, request: bytes) -> tuple[Answer, httptools.HttpResponseParser]:
        """Send a request; the answer, when it is whole or large."""
        if self.writer.is_closing():  # a write would be an error that is no OSError, in uvloop
            raise ConnectionResetError("the peer has closed the connection")
        answer = Answer()
        parser = httptools.HttpResponseParser(answer)
        self.writer.write(request)
        await self.writer.drain()
        size = 0
        while not answer.is_whole and size < WHOLE:
            size += await self.read(answer, parser)
        answer.status = parser.get_status_code()
        return answer, parser

    async def read(self, answer: Answer, parser: httptools.HttpResponseParser) -> int:
        """Read on; how many bytes."""
        data = await self.reader.read(CHUNK)
        if not data:
            raise ConnectionResetError("the peer has closed the connection")
        parser.feed_data(data)
        return len(data)


class Peer:
    """One replica, at an address."""

    def __init__(self, address: str) -> None:
        parts = _parts_of(address)
        if parts is None:
            raise UnreachableError(f"{address} is no address")
        self.address = address
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._kept: list[_Connection] = []
        self._closed = False

    async def ask(
        self, method: str, target: bytes, headers: Headers, body: bytes
    ) -> tuple[Answer, AsyncIterator[bytes]]:
        """Ask, as long as the peer lives; the answer, and its body.

        What is asked must be safe to ask twice, and must not be HEAD: the parser would wait for a
        body. A shortage of this process, such as of descriptors, is no fault of the peer: it is
        raised as it is.
        """
        lines = [b"%s %s HTTP/1.1" % (method.encode(), target)]
        lines += [b"%s: %s" % each for each in headers]
        lines.append(b"content-length: %d" % len(body))
        request = b"\r\n".join(lines) + b"\r\n\r\n" + body
        asking = asyncio.create_task(self._ask(request))
        try:
            while not (await asyncio.wait({asking}, timeout=PATIENCE))[0]:
                if not await self._lives():
                    raise UnreachableError(f"{self.address} does not answer")
            return asking.result()
        except FAILURES as error:
            self._fail(error)
        finally:
            asking.cancel()

    def _fail(self, error: Exception) -> NoReturn:
        """Raise what an error of the connection means."""
        if is_shortage(error):
            raise error
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{self.address}: {reason}") from error

    async def _ask(self, request: bytes) -> tuple[Answer, AsyncIterator[bytes]]:
        while True:
            connection = self._kept.pop() if self._kept else await self._connect()
            try:
                answer, parser = await connection.ask(request)
                break
            except (OSError, asyncio.CancelledError, httptools.HttpParserError) as error:
                connection.writer.close()
                # one that was kept may have been closed in the meantime, by either side
                if not connection.used or not isinstance(error, OSError):
                    raise
        rest = self._rest(connection, answer, parser)
        await anext(rest)  # so that it gives its connection back even if nobody reads it
        return answer, rest

    async def _rest(
        self, connection: _Connection, answer: Answer, parser: httptools.HttpResponseParser
    ) -> AsyncIterator[bytes]:
        """Nothing, and then the body; afterwards the connection is kept."""
        try:
            yield b""
            yield answer.take()
            while not answer.is_whole:
                async with asyncio.timeout(READ_SECONDS):
                    await connection.read(answer, parser)
                yield answer.take()
        except FAILURES as error:
            self._fail(error)
        finally:
            if answer.keeps and len(self._kept) < MOST_KEPT and not self._closed:
                connection.used = True
                self._kept.append(connection)
            else:
                connection.writer.close()

    async def _lives(self) -> bool:
        """Whether its process answers at all."""
        request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        try:
            async with asyncio.timeout(LIVES_SECONDS):
                connection = await self._connect()
                try:
                    answer, _ = await connection.ask(request)
                finally:
                    connection.writer.close()
        except FAILURES as error:
            return is_shortage(error)  # of this process: then nobody can tell
        return answer.status == 200

    async def _connect(self) -> _Connection:
        async with asyncio.timeout(CONNECT_SECONDS):
            return _Connection(*await asyncio.open_connection(self._host, self._port))

    def close(self) -> None:
        """Close the connections that wait, and keep no more."""
        self._closed = True
        for connection in self._kept:
            connection.writer.close()
        self._kept.clear()
