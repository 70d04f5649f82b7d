"""Three replicas on one PostgreSQL, with links between them that can be cut.

A replica reaches the database by a link of its own. The others reach it by the address that it
advertises, which is that of a link before it: there nobody can see who asks, so a replica is
cut off from all others at once.
"""

from __future__ import annotations

import asyncio
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench.chaos.proxy import HOST, Link, Proxy, State
from bench.service.database import Database, free_port
from bench.service.process import STOP_SECONDS, Server, ServerError

REPLICAS = 3
UP_SECONDS = 300.0  # until a replica is ready; the first one may have to compile
LOOK = 0.1  # seconds between two looks at a process
AGAIN = 1.0  # seconds until a process that has ended by itself is started again
FARTHEST = 5 * 3600  # seconds that a clock is off at most
FIGURES = re.compile(r"^bccb_\w*(?:forward|conflict|take_?over|held|holding|replica)\w*")


class Replica:
    """A place for a process that serves the database: its port stays, processes come and go."""

    def __init__(self, number: int, cluster: Cluster) -> None:
        self.number = number
        self.port = free_port()
        self.database = cluster.proxy.link(cluster.database.port)
        self.peers = cluster.proxy.link(self.port)  # the way of the others to this one
        self.lock = asyncio.Lock()  # whoever starts and ends the process
        self.server: Server | None = None
        self._cluster = cluster
        self._starts = 0

    @property
    def running(self) -> Server:
        """The process."""
        if self.server is None:
            raise ServerError(f"replica {self.number} was not started")
        return self.server

    def start(self, clock: int = 0) -> None:
        """Start a process, with its clock off by so many seconds."""
        cluster = self._cluster
        python, *rest = cluster.program
        program = [python, *rest]
        if clock:
            program = [python, "-m", "bench.chaos.clock", str(clock), *rest]
            cluster.counts["clocks set apart"] += 1
        self._starts += 1
        log = cluster.folder / f"replica-{self.number}-{self._starts}.log"
        url = cluster.database.url(self.database.port)
        arguments = ("--advertise", f"http://{HOST}:{self.peers.port}")
        self.server = Server(url, program, arguments, port=self.port, log=log)

    async def up(self, clock: int = 0) -> None:
        """Start a process and wait until it is ready; one that ends by itself is started again."""
        self.start(clock)
        began, why = time.monotonic(), ""
        while True:
            try:
                if await asyncio.to_thread(self.running.is_ready):
                    return
            except ServerError as error:
                why = str(error)
                self._cluster.counts["ended by themselves"] += 1
                await asyncio.sleep(AGAIN)
                self.start(clock)
            if time.monotonic() - began > UP_SECONDS:
                raise ServerError(f"replica {self.number} is not ready: {why}")
            await asyncio.sleep(LOOK)

    def ended(self) -> bool:
        """Whether the process is gone."""
        return self.server is not None and self.server.process.poll() is not None

    def signal(self, what: signal.Signals) -> None:
        """Send a signal, if there is still somebody."""
        with suppress(ProcessLookupError):
            self.running.process.send_signal(what)

    async def stop(self) -> None:
        """Ask the process to end; it is killed if it does not."""
        status = await asyncio.to_thread(self.running.stop)
        if status == -signal.SIGKILL:
            self._cluster.counts[f"did not end in {STOP_SECONDS:.0f} s"] += 1

    def kill(self) -> None:
        """End the process at once, also one that is paused."""
        if self.server is not None:
            self.server.kill()


class Cluster:
    """The database, the links and the replicas. ``start`` it first, ``close`` it in the end."""

    def __init__(self, folder: Path, program: Sequence[str], seed: int) -> None:
        self.folder = folder
        self.program = program
        self.clocks = random.Random(f"{seed} clocks")
        self.counts: Counter[str] = Counter()  # of what is worth a note
        self.database = Database(folder / "postgresql")
        self.proxy = Proxy()
        self.replicas: list[Replica] = []

    @property
    def ports(self) -> list[int]:
        """Where clients ask."""
        return [replica.port for replica in self.replicas]

    def any_clock(self) -> int:
        """Seconds that a clock is off: hours, ahead or behind."""
        return self.clocks.randint(-FARTHEST, FARTHEST)

    async def start(self, apart: bool = True) -> None:
        """Start everything; the first replica alone, since it makes the tables."""
        await asyncio.to_thread(self.database.start)
        self.replicas = [Replica(number, self) for number in range(REPLICAS)]
        for replica in self.replicas:
            await replica.up(self.any_clock() if apart else 0)

    async def supervise(self) -> None:
        """Start processes again that end by themselves, until this is cancelled."""
        while True:
            for replica in self.replicas:
                if replica.lock.locked() or not replica.ended():
                    continue
                async with replica.lock:
                    if replica.ended():
                        self.counts["ended by themselves"] += 1
                        await replica.up(self.any_clock())
            await asyncio.sleep(LOOK)

    def links(self) -> list[Link]:
        """All links."""
        return [link for each in self.replicas for link in (each.database, each.peers)]

    async def heal(self) -> None:
        """Open all links, and wait until every replica is ready."""
        for link in self.links():
            link.set(State.OPEN)
        for replica in self.replicas:
            async with replica.lock:
                if replica.ended():
                    await replica.up()
                began = time.monotonic()
                while not await asyncio.to_thread(replica.running.is_ready):
                    if time.monotonic() - began > UP_SECONDS:
                        raise ServerError(f"replica {replica.number} is not ready again")
                    await asyncio.sleep(LOOK)

    def figures(self) -> dict[str, float]:
        """What replicas say of forwards, conflicts and take-overs, since they were started."""
        found: dict[str, float] = {}
        for replica in self.replicas:
            _, text = replica.running.raw("GET", "/metrics")
            for line in text.decode().splitlines():
                name = FIGURES.match(line)
                if name and not name[0].endswith(("_created", "_bucket")):
                    found[name[0]] = found.get(name[0], 0.0) + float(line.split()[-1])
        return found

    async def stop(self) -> None:
        """Stop all replicas as one should."""
        for replica in self.replicas:
            await replica.stop()

    def close(self) -> None:
        """End all processes."""
        for replica in self.replicas:
            replica.kill()
        self.proxy.close()
        self.database.close()
