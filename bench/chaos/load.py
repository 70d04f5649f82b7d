"""The clients of a cluster, from their first request to the last answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

from bench.chaos.campaigns import GREEDY, PAUSES, campaign_requests
from bench.chaos.clients import Operator, Roamer, Route, Traffic, acknowledged
from bench.chaos.cluster import Cluster
from bench.service import checks
from bench.service.clients import NOT_NOW
from bench.service.memory import Book, Faults
from bench.service.process import Server, ServerError

ANSWER_SECONDS = 120.0  # until everything is answered, once nothing is broken any more
CONNECTIONS = 8  # to ask again with
MOST_TRIES = 100  # of a request that is asked again
MOST_WAITS = 5  # for a campaign to be opened
LEFT_ALONE = 50  # users in a row for whom there was no money: it has run out
MOST_SPENT = 1_000  # requests until it must have


class Load:
    """Clients that share some campaigns, and what they remember."""

    def __init__(self, cluster: Cluster, clients: int, seed: int) -> None:
        self.cluster = cluster
        self.seed = seed
        self.size = clients
        self.faults = Faults()  # seen in answers
        self.traffic = Traffic()
        self.books: list[Book] = []
        self.operator: Operator | None = None
        self._stop = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._roamers: list[Roamer] = []
        self._roaming: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Open the campaigns, each at another replica."""
        for request, replica in zip(
            campaign_requests(), cycle(self.cluster.replicas), strict=False
        ):
            self.books.append(Book(_create(replica.running, request), request))

    def begin(self, pauses: bool = True) -> None:
        """Let the clients send, and an operator pause a campaign again and again."""
        ports = self.cluster.ports
        paused = next(book for book in self.books if book.request["name"] == PAUSES)
        self.operator = Operator(paused, self.faults, self.seed, ports)
        if pauses:
            self._working = asyncio.create_task(self.operator.work(self._stop))
        shared = (self.books, self.faults, self.seed, ports, self.traffic)
        self._roamers = [Roamer(number, *shared) for number in range(self.size)]
        self.traffic.last = time.monotonic()
        self._roaming = [asyncio.create_task(each.roam(self._stop)) for each in self._roamers]

    async def end(self) -> None:
        """Let the clients finish what was not answered yet, and spend what should be spent."""
        assert self.operator is not None
        self._stop.set()
        done = asyncio.Event()
        resuming: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if self._working is not None:
                    await self._working
                resuming = asyncio.create_task(self.operator.resume(done))
                await asyncio.gather(*self._roaming)
                for book in self.books:
                    if book.request.get("policy", {}).get("name") == GREEDY:
                        await self._spend(book)
                done.set()
                await resuming
        except TimeoutError:
            waiting = sum(not task.done() for task in self._roaming)
            detail = f"{waiting} clients have no answer after {ANSWER_SECONDS:.0f} s"
            raise ServerError(detail) from None
        finally:
            for task in (self._working, resuming, *self._roaming):
                if task is not None:
                    task.cancel()

    async def _spend(self, book: Book) -> None:
        """Decide until the money has run out: what returned last may not have been spent yet."""
        client = self._roamers[0]
        for _ in range(MOST_SPENT):
            before = len(book.decisions)
            await client.ask(client.decide(book))
            last = list(book.decisions.values())[-LEFT_ALONE:]
            if len(book.decisions) == before or not any(one.treated for one in last):
                return

    def answers(self) -> Iterator[dict[str, Any]]:
        """All that was acknowledged, as the checker reads it."""
        assert self.operator is not None
        return acknowledged(self.books, self.operator)

    async def ask_again(self, faults: Faults) -> None:
        """Ask every replica for everything once more: nothing may come out differently."""
        for replica in self.cluster.replicas:
            work = (
                send for book in self.books for send in checks.again(book, book.known(), faults)
            )
            each = (self._again(replica.port, work, faults) for _ in range(CONNECTIONS))
            await asyncio.gather(*each)
            await asyncio.to_thread(checks.check_money, replica.running, self.books, faults)

    async def _again(
        self,
        port: int,
        work: Iterator[tuple[bytes, Callable[[int, Any], None]]],
        faults: Faults,
    ) -> None:
        route = Route([port], random.Random(self.seed))
        try:
            for request, check in work:
                status, answer = NOT_NOW, None
                for _ in range(MOST_TRIES):
                    status, answer = await route.send(request)
                    if status != NOT_NOW:
                        break
                try:
                    check(status, answer)
                except (KeyError, TypeError, ValueError) as error:
                    faults.add("state_mismatch", f"{status} {answer}: {error!r}")
        finally:
            route.close()


def _create(server: Server, request: dict[str, Any]) -> str:
    """The id of a new campaign. To compile for it may take longer than one request can wait."""
    for _ in range(MOST_WAITS):
        try:
            return server.create(request)
        except TimeoutError:
            continue
    raise ServerError(f"campaign {request['name']} was not opened")
