"""Clients that ask any replica, and go to another one where they get no answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.service.clients import NOT_NOW, Attempt, Client
from bench.service.memory import Book, Decision, Faults
from bench.service.wire import Connection, connect, request_bytes

TRY_SECONDS = 6.0  # an answer is waited for; longer than a replica waits for another one
BACK_OFF = 0.1  # seconds on average, after a try without an answer
THINK = 0.1  # seconds on average between two requests of a client
PAUSED_EVERY = 3.0  # seconds on average between two pauses
PAUSED_FOR = 0.3  # seconds on average


@dataclass(slots=True)
class Traffic:
    """Requests of all clients, and how long they had to wait."""

    answers: int = 0
    retries: int = 0
    retried: int = 0  # requests that needed more than one retry
    most_tries: int = 0
    longest: float = 0.0  # seconds of one request, with all its tries
    silence: float = 0.0  # the longest time without any answer
    last: float = field(default_factory=time.monotonic)  # when there was one

    def note(self, seconds: float, tries: int) -> None:
        """A request was answered, after so many tries."""
        now = time.monotonic()
        self.silence, self.last = max(self.silence, now - self.last), now
        self.answers += 1
        self.retries += tries - 1
        self.retried += tries > 2
        self.most_tries = max(self.most_tries, tries)
        self.longest = max(self.longest, seconds)


class Route:
    """Sends each request to a replica that is drawn at random, not to one that just failed.

    Where there is no answer, the status is 503: ask again. So it is while a campaign is paused.
    """

    def __init__(self, ports: Sequence[int], draws: random.Random) -> None:
        self._ports = ports
        self._draws = draws
        self._failed: int | None = None
        self._connections: dict[int, Connection] = {}

    async def send(self, request: bytes) -> tuple[int, Any]:
        """One try."""
        others = [port for port in self._ports if port != self._failed]
        port = self._draws.choice(others or list(self._ports))
        self._failed = None
        try:
            async with asyncio.timeout(TRY_SECONDS):
                connection = await self._connection(port)
                status, answer = await connection.send(request)
        except OSError:  # also where it took too long
            self._drop(port)
            status, answer = NOT_NOW, None
        if status == 409 and answer["type"].endswith("campaign-paused"):
            status = NOT_NOW
        if status == NOT_NOW:
            self._failed = port
            await asyncio.sleep(self._draws.expovariate(1 / BACK_OFF))
        return status, answer

    async def _connection(self, port: int) -> Connection:
        known = self._connections.get(port)
        if known is None or known.closed:
            known = self._connections[port] = await connect(port)
        return known

    def _drop(self, port: int) -> None:
        """An answer may still come: it must not be taken for that of another request."""
        known = self._connections.pop(port, None)
        if known is not None:
            known.close()

    def close(self) -> None:
        """Close all connections."""
        for port in list(self._connections):
            self._drop(port)


class Roamer(Client):
    """A client of all replicas."""

    largest = 12
    forwarded = True

    def __init__(
        self,
        number: int,
        books: list[Book],
        faults: Faults,
        seed: int,
        ports: Sequence[int],
        traffic: Traffic,
    ) -> None:
        super().__init__(number, books, faults, seed)
        self.traffic = traffic
        self.routes = [Route(ports, random.Random(f"{seed} {number} {way}")) for way in range(2)]

    async def roam(self, stop: asyncio.Event) -> None:
        """Send until it is enough; what is under way then is finished."""
        try:
            while not stop.is_set():
                await self.ask(self.choose())
                await asyncio.sleep(self.draws.expovariate(1 / THINK))
        finally:
            for route in self.routes:
                route.close()

    async def ask(self, attempt: Attempt) -> None:
        """Send a request until it is answered."""
        began = time.monotonic()
        self.pending = attempt
        try:
            await self.finish(self.routes)
        except (KeyError, TypeError, ValueError) as error:
            self.faults.add("state_mismatch", f"{attempt.what}: no such answer is known: {error!r}")
        self.traffic.note(time.monotonic() - began, attempt.tries)


class Operator:
    """Pauses a campaign and resumes it, again and again.

    A pause that was not answered may still come late, and pause the campaign once more: it is
    resumed more often than it is paused.
    """

    def __init__(self, book: Book, faults: Faults, seed: int, ports: Sequence[int]) -> None:
        self.book = book
        self.faults = faults
        self.draws = random.Random(f"{seed} operator")
        self.route = Route(ports, self.draws)
        self.tries: list[int] = []  # of each pause

    async def work(self, stop: asyncio.Event) -> None:
        """Pause and resume until it is enough; in the end the campaign runs."""
        try:
            while not stop.is_set():
                await asyncio.sleep(self.draws.expovariate(1 / PAUSED_EVERY))
                self.tries += await self._turn("pause", "paused")
                await asyncio.sleep(self.draws.expovariate(1 / PAUSED_FOR))
                await self._turn("resume", "running")
        finally:
            self.route.close()

    async def resume(self, stop: asyncio.Event) -> None:
        """Resume the campaign until it is enough, whatever pauses it."""
        try:
            while not stop.is_set():
                await self._turn("resume", "running")
                await asyncio.sleep(PAUSED_FOR)
        finally:
            self.route.close()

    async def _turn(self, verb: str, becomes: str) -> list[int]:
        """Send it until it is answered; how often it was sent, if it was done."""
        request = request_bytes("POST", f"/v1/campaigns/{self.book.id}/{verb}")
        tries, status = 0, NOT_NOW
        answer: Any = None
        while status == NOT_NOW:
            tries += 1
            status, answer = await self.route.send(request)
        if status != 200 or answer["status"] != becomes:
            self.faults.add("state_mismatch", f"{verb} was answered {status} {answer}")
            return []
        return [tries]


def acknowledged(books: Sequence[Book], operator: Operator) -> Iterator[dict[str, Any]]:
    """All that was acknowledged, as the checker reads it."""
    for book in books:
        for one in book.known():
            for line in _answers(one):
                yield {"campaign": book.id, "id": one.id, **line}
        for request, amount in book.added.items():
            yield {"campaign": book.id, "id": request, "kind": "budget", "add": amount}
    for tries in operator.tries:
        yield {"campaign": operator.book.id, "kind": "paused", "tries": tries}


def _answers(one: Decision) -> Iterator[dict[str, Any]]:
    fields = ("treatment", "probability", "price", "remaining")
    yield {"kind": "decision", **{name: one.answer[name] for name in fields}}
    if one.outcome is not None:
        answer = {name: one.outcome[name] for name in ("value", "status")}
        yield {"kind": "outcome", "reported": one.reported, **answer}
    if one.cancelled is not None:
        yield {"kind": "cancellation"}
    if one.settled is not None:
        yield {"kind": "settlement", "cost": one.settled_cost}
    if one.corrected is not None:
        yield {"kind": "correction", "value": one.corrected}
