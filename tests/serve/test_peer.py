"""Asking another replica over kept connections, which may be cut, slow or stopped."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import uvloop

from bccb.errors import InputError
from bccb.serve import peer as module
from bccb.serve.peer import Peer, UnreachableError, check_address

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    monkeypatch.setattr(module, "LIVES_SECONDS", 0.2)


async def asked(handler: Handler, times: int = 1, pause: float = 0.0) -> list[tuple[int, bytes]]:
    """What a peer with this handler answers, asked several times."""
    tasks: list[asyncio.Task[None] | None] = []

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        try:
            await handler(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(closing, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    peer = Peer(f"http://127.0.0.1:{port}")
    answers = []
    try:
        for _ in range(times):
            answer, rest = await peer.ask("POST", b"/x?y=1", [(b"host", b"h")], b"body")
            answers.append((answer.status, b"".join([part async for part in rest])))
            await asyncio.sleep(pause)
    finally:
        peer.close()
        server.close()
        for task in filter(None, tasks):
            task.cancel()
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)
    return answers


async def request(reader: asyncio.StreamReader) -> bytes:
    """One request, as it came."""
    head = await reader.readuntil(b"\r\n\r\n")
    return head + (await reader.readexactly(4) if b"content-length: 4" in head else b"")


def test_a_connection_is_kept() -> None:
    seen: list[bytes] = []
    connections = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while True:
            seen.append(await request(reader))
            writer.write(OK)

    assert asyncio.run(asked(handler, 3)) == [(200, b"ok")] * 3
    assert seen == [b"POST /x?y=1 HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\r\nbody"] * 3
    assert len(connections) == 1


def test_a_kept_connection_that_was_closed_is_replaced() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK)
        await writer.drain()
        writer.close()

    assert asyncio.run(asked(handler, 3)) == [(200, b"ok")] * 3


def test_a_kept_connection_that_was_cut_is_replaced() -> None:
    """In uvloop, as the service runs: there a write to it is no error of the system."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK)
        await writer.drain()
        linger = struct.pack("ii", 1, 0)  # reset, rather than a farewell
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asked(handler, 3, pause=0.1)) == [(200, b"ok")] * 3


def test_a_large_answer_comes_in_pieces() -> None:
    size = 3 * module.WHOLE

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)

    assert asyncio.run(asked(handler, 2)) == [(200, b"x" * size)] * 2


def test_one_that_lives_may_take_long() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not (await request(reader)).startswith(b"GET /healthz"):
            await asyncio.sleep(0.5)
        writer.write(OK)

    assert asyncio.run(asked(handler)) == [(200, b"ok")]


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(5.0)


async def cutting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request(reader)
    writer.write(OK[:20])
    writer.close()


async def babbling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01 this is no HTTP\r\n\r\n")


@pytest.mark.parametrize("handler", [silent, cutting, babbling])
def test_one_that_does_not_answer_is_unreachable(handler: Handler) -> None:
    with pytest.raises(UnreachableError):
        asyncio.run(asked(handler))


def test_one_that_stalls_within_a_large_answer_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 0.1)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (3 * module.WHOLE))
        writer.write(b"x" * (2 * module.WHOLE))
        await asyncio.sleep(60.0)

    with pytest.raises(UnreachableError, match="TimeoutError"):
        asyncio.run(asyncio.wait_for(asked(handler), 5.0))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_shortage_of_descriptors_here_is_no_fault_of_the_peer(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async def none_left(*given: object) -> None:
        raise OSError(number, "Too many open files")

    monkeypatch.setattr(asyncio, "open_connection", none_left)
    with pytest.raises(OSError, match="Too many open files"):
        asyncio.run(Peer("http://127.0.0.1:8000").ask("GET", b"/", [], b""))


def test_whether_one_lives_cannot_be_told_without_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = asyncio.open_connection
    connected = 0

    async def one_left(host: str, port: int) -> object:
        nonlocal connected
        connected += 1
        if connected > 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return await connect(host, port)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        await asyncio.sleep(0.3)
        writer.write(OK)

    monkeypatch.setattr(asyncio, "open_connection", one_left)
    assert asyncio.run(asked(handler)) == [(200, b"ok")]
    assert connected > 1


@pytest.mark.parametrize("address", ["http://10.0.0.7:80x", "http://[::1", "http://", "nonsense"])
def test_an_address_that_cannot_be_read_is_unreachable(address: str) -> None:
    with pytest.raises(UnreachableError):
        Peer(address)


def test_a_name_that_cannot_be_looked_up_is_unreachable() -> None:
    with pytest.raises(UnreachableError):
        asyncio.run(Peer(f"http://{'a' * 70}:8000").ask("GET", b"/", [], b""))


def test_one_that_is_closed_keeps_no_connection() -> None:
    async def ask() -> None:
        ended = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            writer.write(OK)
            assert await reader.read() == b""
            writer.close()
            ended.set()

        async with await asyncio.start_server(handler, "127.0.0.1") as server:
            peer = Peer(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            _, rest = await peer.ask("GET", b"/", [], b"")
            peer.close()
            assert [part async for part in rest] == [b"ok"]
            await asyncio.wait_for(ended.wait(), 5.0)

    asyncio.run(ask())


def test_an_answer_that_nobody_reads_leaves_no_connection_open() -> None:
    async def ask() -> None:
        ended = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n" + b"x" * module.WHOLE
            )
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
            ended.set()

        async with await asyncio.start_server(handler, "127.0.0.1") as server:
            peer = Peer(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            answer, rest = await peer.ask("GET", b"/", [], b"")
            assert not answer.is_whole
            del rest
            await asyncio.wait_for(ended.wait(), 5.0)

    asyncio.run(ask())


def test_one_that_is_not_there_is_unreachable() -> None:
    async def ask() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        await Peer(f"http://127.0.0.1:{port}").ask("GET", b"/", [], b"")

    with pytest.raises(UnreachableError):
        asyncio.run(ask())


@pytest.mark.parametrize(
    "address",
    [
        *("http://0.0.0.0:8000", "https://10.0.0.7", "10.0.0.7:8000", "http://a/b", "", "http://"),
        *("http://10.0.0.7:80x", "http://10.0.0.7:0", "http://10.0.0.7:70000", "http://[::1"),
    ],
)
def test_an_address_must_be_one_that_others_reach(address: str) -> None:
    with pytest.raises(InputError, match="advertise"):
        check_address(address)
