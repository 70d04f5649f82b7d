"""What is done to replicas, to their links and to the database, at random and at the same time."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, Literal

from bench.chaos.cluster import Cluster, Replica
from bench.chaos.proxy import Link, State

AT_ONCE = 3  # faults at the same time
PROCESSES_AT_ONCE = 2  # of them those that take a process away: one is left
BETWEEN = 1.5  # seconds on average until the next one begins
DOWN = (0.0, 3.0)  # seconds until what was ended is started again
AWAY = (2.0, 8.0)  # seconds that a link is not open
FROZEN = (8.0, 12.0)  # seconds of a SIGSTOP: longer than any timeout of the service
SIGNALS = ("SIGKILL", "SIGSTOP", "SIGTERM")
LINKS = ("database link", "peer link")
STATES = (State.CUT, State.BLACK_HOLE, State.STALLED)
RESTARTS: tuple[Literal["fast", "immediate"], ...] = ("fast", "immediate")

Fault = Coroutine[Any, Any, None]


def kinds() -> list[str]:
    """All kinds of faults; those of processes more often, since they are the most frequent ones."""
    links = [f"{link} {state.value}" for link in LINKS for state in STATES]
    return [*SIGNALS, *SIGNALS, *links, *(f"PostgreSQL {mode} stop" for mode in RESTARTS)]


class Injector:
    """Deals faults from a deck, so that each kind has its turn."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.draws = random.Random(f"{seed} faults")
        self.counts: Counter[str] = Counter()
        self._deck: list[str] = []
        self._running: set[asyncio.Task[None]] = set()
        self._taken: set[Replica | Link | Cluster] = set()  # under a fault now

    async def run(self, seconds: float) -> None:
        """Let faults begin for so long; in the end all of them are over."""
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                if len(self._running) < AT_ONCE:
                    self._begin()
                await asyncio.sleep(self.draws.expovariate(1 / BETWEEN))
                for task in [task for task in self._running if task.done()]:
                    self._running.discard(task)
                    task.result()
        finally:
            await asyncio.gather(*self._running)

    def _begin(self) -> None:
        """The next fault of the deck; later, if what it needs is under another one."""
        if not self._deck:
            self._deck = kinds()
            self.draws.shuffle(self._deck)
        kind = self._deck.pop()
        found = self._draw(kind)
        if found is None:
            self._deck.insert(0, kind)
            return
        target, fault = found
        self.counts[kind] += 1
        self._taken.add(target)
        self._running.add(asyncio.create_task(self._run(target, fault)))

    async def _run(self, target: Replica | Link | Cluster, fault: Fault) -> None:
        try:
            await fault
        finally:
            self._taken.discard(target)

    def _draw(self, kind: str) -> tuple[Replica | Link | Cluster, Fault] | None:
        """What it is done to, and the fault; None if nothing is free."""
        replicas = self.cluster.replicas
        free = [each for each in replicas if each not in self._taken]
        if kind in SIGNALS:
            if len(replicas) - len(free) >= PROCESSES_AT_ONCE:
                return None
            replica = self.draws.choice(free)
            return replica, self._end(replica, kind)
        for state in STATES:
            if kind.endswith(f" link {state.value}"):
                to_database = kind.startswith("database")
                links = [each.database if to_database else each.peers for each in replicas]
                link = self._free(links)
                return None if link is None else (link, self._break(link, state))
        if self.cluster in self._taken:
            return None
        return self.cluster, self._restart("fast" if "fast" in kind else "immediate")

    def _free(self, targets: Sequence[Link]) -> Link | None:
        free = [each for each in targets if each not in self._taken]
        return self.draws.choice(free) if free else None

    def _seconds(self, bounds: tuple[float, float]) -> float:
        return self.draws.uniform(*bounds)

    # The faults

    async def _end(self, replica: Replica, kind: str) -> None:
        """Take a process away: for a while, or for good, and then start another."""
        async with replica.lock:
            if kind == "SIGSTOP":
                replica.signal(signal.SIGSTOP)
                await asyncio.sleep(self._seconds(FROZEN))
                replica.signal(signal.SIGCONT)
                return
            if kind == "SIGKILL":
                replica.kill()
            else:
                await replica.stop()
            await asyncio.sleep(self._seconds(DOWN))
            await replica.up(self.cluster.any_clock())

    async def _break(self, link: Link, state: State) -> None:
        """Break a link for a while."""
        link.set(state)
        await asyncio.sleep(self._seconds(AWAY))
        link.set(State.OPEN)

    async def _restart(self, mode: Literal["fast", "immediate"]) -> None:
        """Stop the database, and start it again."""
        database = self.cluster.database
        await asyncio.to_thread(database.stop, mode)
        await asyncio.sleep(self._seconds(DOWN))
        await asyncio.to_thread(database.start)
