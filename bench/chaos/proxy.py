"""Links that can be cut: one listener for each, in front of a database or a replica.

All of them run in a thread of their own, so that a harness that waits holds nothing up.
"""

from __future__ import annotations

import asyncio
import itertools
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
        self._serving: dict[asyncio.Task[None], list[socket.socket]] = {}  # both ends of each
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

    # Sockets, and neither asyncio.start_server nor streams: their connections are nobody's for some
    # rounds of the loop, and one that is reset meanwhile may never be closed.
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
        serving = dict(self._serving)
        for end in itertools.chain(*serving.values()):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        for end in itertools.chain(*serving.values()):
            end.close()  # also where its task had not begun

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # whoever connected may be gone
            ends = [_quick(listener.accept()[0])]
            task = asyncio.get_running_loop().create_task(self._serve(ends))
            self._serving[task] = ends
            task.add_done_callback(self._serving.pop)

    async def _serve(self, ends: list[socket.socket]) -> None:
        """Carry bytes between who has connected and the target, to which a second end is added."""
        loop, (connection,) = asyncio.get_running_loop(), ends
        with suppress(OSError, asyncio.CancelledError), connection:
            await self._flowing.wait()
            if self.state is State.BLACK_HOLE:
                while await loop.sock_recv(connection, CHUNK):
                    pass
                return
            with _quick(socket.socket()) as back:
                ends.append(back)
                await loop.sock_connect(back, (HOST, self.target))
                await _first_of(self._pump(connection, back), self._pump(back, connection))

    async def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Pass bytes on until one side ends; what is swallowed does not end anything."""
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(source, CHUNK):
            await self._flowing.wait()
            if self.state is not State.BLACK_HOLE:
                await loop.sock_sendall(sink, data)
        if self.state is State.BLACK_HOLE:
            await asyncio.Event().wait()  # the end of a connection is swallowed, too


async def _first_of(*ways: Coroutine[Any, Any, None]) -> None:
    """Run all of them until one ends, and then cancel the others."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _quick(end: socket.socket) -> socket.socket:
    """An end of a connection that sends at once, and waits in the loop alone."""
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


def _bound(port: int) -> socket.socket:
    """A socket on the port, which others of these may share."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind((HOST, port))
    return found
