"""Links that can be cut: one listener for each, in front of a database or a replica.

All of them run in a thread of their own, so that a harness that waits holds nothing up.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from enum import Enum
from typing import Any, TypeVar

HOST = "127.0.0.1"
CHUNK = 1 << 16
BACKLOG = 100
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a closed connection is reset
WAIT_SECONDS = 10.0

T = TypeVar("T")


class State(Enum):
    """What a link does with connections and bytes."""

    OPEN = "open"
    CUT = "cut"  # connections are reset, and new ones refused
    BLACK_HOLE = "black hole"  # connections are accepted, and all bytes swallowed
    STALLED = "stalled"  # bytes wait, and arrive late once it is open again


class Proxy:
    """The thread and the event loop of all links."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._links: list[Link] = []

    def link(self, target: int) -> Link:
        """A new link to a port of this machine, which is open."""
        link = Link(self, target)
        self._links.append(link)
        link.set(State.OPEN)
        return link

    def run(self, task: Coroutine[Any, Any, T]) -> T:
        """Run something in the thread of the links, and wait for it."""
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(WAIT_SECONDS)

    def close(self) -> None:
        """Cut all links, and end the thread."""
        for link in self._links:
            link.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()


class Link:
    """One listener, and the connections that it passes on to its target."""

    def __init__(self, proxy: Proxy, target: int) -> None:
        self.target = target
        self.state = State.CUT
        self._proxy = proxy
        self._place = _bound(0)  # never listens: it keeps the port while the link is cut
        self.port: int = self._place.getsockname()[1]
        self._listener: socket.socket | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._accepted: dict[asyncio.Task[None], socket.socket] = {}
        self._flowing = asyncio.Event()

    def set(self, state: State) -> None:
        """From now on, do this."""
        self._proxy.run(self._set(state))

    def close(self) -> None:
        """Cut it for good, and give the port back."""
        self.set(State.CUT)
        self._place.close()

    async def _set(self, state: State) -> None:
        if state is State.CUT:
            self._deafen()  # first, so that nobody connects after the reset
        # Bytes that were swallowed are missing: such a connection must not go on.
        if state is State.CUT or self.state is State.BLACK_HOLE:
            await self._reset()
        self.state = state
        if state is not State.CUT:
            self._listen()
        if state is State.STALLED:
            self._flowing.clear()
        else:
            self._flowing.set()

    # Not asyncio.start_server: its connections are nobody's for two rounds of the loop, and one
    # that is accepted just before the server is closed is never closed.
    def _listen(self) -> None:
        if self._listener is None:
            self._listener = _bound(self.port)
            self._listener.setblocking(False)
            self._listener.listen(BACKLOG)
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _deafen(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def _reset(self) -> None:
        accepted = dict(self._accepted)
        there = [writer.get_extra_info("socket") for writer in self._writers]
        for connection in (*accepted.values(), *there):
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        for writer in self._writers:
            writer.transport.abort()
        for task in accepted:
            task.cancel()
        await asyncio.gather(*accepted, return_exceptions=True)
        await asyncio.sleep(0.01)  # transports let go of their sockets a little later
        for connection in accepted.values():
            connection.close()  # also where its task had not begun

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # whoever connected may be gone
            connection, _ = listener.accept()
            connection.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._serve(connection))
            self._accepted[task] = connection
            task.add_done_callback(self._accepted.pop)

    async def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, asyncio.CancelledError):
            reader, writer = await asyncio.open_connection(sock=connection)
            self._writers.add(writer)
            try:
                await self._carry(reader, writer)
            finally:
                writer.close()
                self._writers.discard(writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        if self.state is State.BLACK_HOLE:
            while await reader.read(CHUNK):
                pass
            return
        there, back = await asyncio.open_connection(HOST, self.target)
        self._writers.add(back)
        ways = [
            asyncio.create_task(self._pump(reader, back)),
            asyncio.create_task(self._pump(there, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            back.close()
            self._writers.discard(back)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes on until one side ends; what is swallowed does not end anything."""
        while data := await reader.read(CHUNK):
            await self._flowing.wait()
            if self.state is not State.BLACK_HOLE:
                writer.write(data)
                await writer.drain()
        if self.state is State.BLACK_HOLE:
            await asyncio.Event().wait()  # the end of a connection is swallowed, too


def _bound(port: int) -> socket.socket:
    """A socket on the port, which others of these may share."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind((HOST, port))
    return found
