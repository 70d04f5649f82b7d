"""Clients that send at random, remember every answer, and send again what was not answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.service.memory import Book, Decision, Faults, money_of
from bench.service.wire import connect, request_bytes

REMEMBERED = 400  # decisions of its own that a client goes on with
# Of a campaign whose conversions are reported late: how many users convert, after how many seconds
# on average, and how seldom anything else is reported.
CONVERSIONS, DELAY, ZEROS = 0.3, 2.5, 0.03
NOT_NOW = 503


class Sender(Protocol):
    """What sends a request and waits for the answer, such as a connection."""

    async def send(self, request: bytes) -> tuple[int, Any]:
        """The status and the parsed body; ``OSError`` where the answer never came."""


@dataclass(slots=True)
class Attempt:
    """A request under way: what it is, and what to do with its answer (also: how often sent)."""

    what: str
    request: bytes
    check: Callable[[int, Any, int], None]
    twin: bool = False  # send it twice at once, as an impatient proxy would
    tries: int = 0


class Client:
    """One of those that share the campaigns; it goes on with the decisions it made itself."""

    largest = 60  # decisions in a list
    forwarded = False  # whether the service itself may send a request on, and then do it again

    def __init__(self, number: int, books: list[Book], faults: Faults, seed: int) -> None:
        self.number = number
        self.books = books
        self.faults = faults
        self.draws = random.Random(f"{seed} {number}")
        self.pending: Attempt | None = None
        self.own: list[tuple[Book, Decision]] = []  # acknowledged lately
        self._names = 0
        self.answered = 0

    async def live(self, port: int) -> None:
        """Send until the server is gone."""
        try:
            connections = [await connect(port), await connect(port)]
        except OSError:
            return
        try:
            while True:
                await self.finish(connections)
                self.pending = self.choose()
        except OSError:
            return
        finally:
            for connection in connections:
                connection.close()

    async def catch_up(self, port: int) -> None:
        """Get an answer to what is under way, if anything is."""
        connections = [await connect(port), await connect(port)]
        await self.finish(connections)
        for connection in connections:
            connection.close()

    async def finish(self, connections: Sequence[Sender]) -> None:
        """Send what is under way until it is answered."""
        while self.pending is not None:
            attempt = self.pending
            attempt.tries += 1
            if attempt.twin:
                status, answer = await self._send_twice(connections, attempt)
            else:
                status, answer = await connections[0].send(attempt.request)
            if status == NOT_NOW:
                await asyncio.sleep(0.01)
                continue
            attempt.check(status, answer, attempt.tries)
            self.pending = None
            self.answered += 1

    async def _send_twice(self, connections: Sequence[Sender], attempt: Attempt) -> tuple[int, Any]:
        sent = (connection.send(attempt.request) for connection in connections)
        found = await asyncio.gather(*sent, return_exceptions=True)
        answers = [one for one in found if not isinstance(one, BaseException)]
        if not answers:
            raise ConnectionResetError("neither was answered")
        done = [one for one in answers if one[0] != NOT_NOW]
        if len(done) == 2 and done[0] != done[1]:
            self.faults.add("doubled", f"{attempt.what}: twins got {done[0]} and {done[1]}")
        return done[0] if done else answers[0]

    # What to send

    def choose(self) -> Attempt:
        """The next request."""
        book = self.draws.choice(self.books)
        kinds = {
            self.decide: 50,
            self.report: 20,
            self.cancel: 7,
            self.settle: 7,
            self.correct: 4,
            self.add: 4,
            self.again: 6,
            self.contradict: 3,
            self.look: 3,
        }
        while True:
            (kind,) = self.draws.choices(list(kinds), list(kinds.values()))
            attempt = kind(book)
            if attempt is not None:
                return attempt

    def decide(self, book: Book) -> Attempt:
        """New decisions: mostly one, at times a list."""
        single = self.draws.random() < 0.8
        bodies = [
            self._user(book) for _ in range(1 if single else self.draws.randint(1, self.largest))
        ]

        def check(status: int, answer: Any, tries: int) -> None:
            answers = [answer] if single else answer
            if status != 200 or [one["decision_id"] for one in answers] != [
                body["decision_id"] for body in bodies
            ]:
                self.faults.add("state_mismatch", f"a decision was answered {status} {answer}")
                return
            for body, one in zip(bodies, answers, strict=True):
                book.remember(body, one, self.faults)
                made = book.decisions[body["decision_id"]]
                if book.reports_late and self.draws.random() < CONVERSIONS:
                    made.due = time.monotonic() + self.draws.expovariate(1 / DELAY)
                self.own.append((book, made))
            del self.own[:-REMEMBERED]

        path = f"/v1/campaigns/{book.id}/decisions"
        request = request_bytes("POST", path, bodies[0] if single else bodies)
        return Attempt("decide", request, check, twin=self.draws.random() < 0.1)

    def report(self, book: Book) -> Attempt | None:
        """Outcomes: mostly one, at times a list."""
        waiting = self._own(book, lambda one: one.outcome is None and one.cancelled is None)
        zeros = not book.reports_late or self.draws.random() < ZEROS
        if book.reports_late and not zeros:
            now = time.monotonic()
            waiting = [one for one in waiting if one.due <= now]
        if not waiting:
            return None
        single = self.draws.random() < 0.7
        chosen = waiting[:1] if single else waiting[: self.draws.randint(1, self.largest)]
        values = [float(not zeros or self.draws.random() < 0.3) for _ in chosen]
        if book.in_money:
            values = [value * self.draws.randint(-20, 400) / 4.0 for value in values]

        def check(status: int, answer: Any, tries: int) -> None:
            if status != 200:
                self._refused("an outcome", status, answer)
                return
            answers = [answer] if single else answer
            for one, value, each in zip(chosen, values, answers, strict=True):
                self._outcome(book, one, value, each, tries)

        if single:
            path = f"/v1/campaigns/{book.id}/decisions/{chosen[0].id}/outcome"
            return Attempt("report", request_bytes("PUT", path, {"value": values[0]}), check)
        items = [
            {"decision_id": one.id, "value": value}
            for one, value in zip(chosen, values, strict=True)
        ]
        path = f"/v1/campaigns/{book.id}/outcomes"
        return Attempt("report", request_bytes("POST", path, items), check)

    def cancel(self, book: Book) -> Attempt | None:
        """A treatment that was not delivered."""
        one = self._treatment(book, lambda one: one.outcome is None)
        if one is None:
            return None

        def check(status: int, answer: Any, tries: int) -> None:
            if status == 200:
                one.cancelled = answer
                book.recent.append(one)
            else:
                self._too_late(book, one, "a cancellation", status, answer)

        path = f"/v1/campaigns/{book.id}/decisions/{one.id}/cancel"
        return Attempt("cancel", request_bytes("POST", path), check)

    def settle(self, book: Book) -> Attempt | None:
        """A treatment that was cheaper in the end."""
        one = self._treatment(book, lambda one: not one.is_free)
        if one is None:
            return None
        cost = f"{int(one.charged * self.draws.random()) / 1e6:.6f}"

        def check(status: int, answer: Any, tries: int) -> None:
            if status == 200:
                one.settled, one.settled_cost = answer, cost
                book.recent.append(one)
            else:
                self._too_late(book, one, "a settlement", status, answer)

        path = f"/v1/campaigns/{book.id}/decisions/{one.id}/settle"
        return Attempt("settle", request_bytes("POST", path, {"cost": cost}), check)

    def correct(self, book: Book) -> Attempt | None:
        """A conversion that was none in the end."""

        def can_be(one: Decision) -> bool:
            counts = one.outcome is not None and one.outcome["status"] == "recorded"
            return counts and one.reported != 0.0 and one.corrected is None and not one.closed

        one = next(iter(self._own(book, can_be)), None)
        if one is None:
            return None

        def check(status: int, answer: Any, tries: int) -> None:
            if status == 200 and answer["value"] == 0.0:
                one.corrected = 0.0
                book.recent.append(one)
            else:
                self._too_late(book, one, "a correction", status, answer)

        path = f"/v1/campaigns/{book.id}/decisions/{one.id}/correct"
        return Attempt("correct", request_bytes("POST", path, {"value": 0.0}), check)

    def add(self, book: Book) -> Attempt:
        """More money."""
        amount, name = f"{self.draws.uniform(0.5, 3.0):.7f}", self._name("money")

        def check(status: int, answer: Any, tries: int) -> None:
            if status == 200:
                book.added[name] = amount
            else:
                self._refused("more money", status, answer)

        body = {"add": amount, "request_id": name}
        return Attempt("add", request_bytes("POST", f"/v1/campaigns/{book.id}/budget", body), check)

    def again(self, book: Book) -> Attempt | None:
        """An old decision: the same answer, except for one that was cancelled."""
        old = self._own(book, lambda one: one.cancelled is None)
        if not old:
            return None
        one = self.draws.choice(old)

        def check(status: int, answer: Any, tries: int) -> None:
            if status == 200:
                book.remember(one.request, answer, self.faults)
            else:
                self._refused("a decision asked again", status, answer)

        path = f"/v1/campaigns/{book.id}/decisions"
        return Attempt("again", request_bytes("POST", path, one.request), check)

    def contradict(self, book: Book) -> Attempt | None:
        """An old id with another body: refused."""
        old = self._own(book, lambda one: True)
        if not old:
            return None
        other = {**self._user(book), "decision_id": old[0].id}

        def check(status: int, answer: Any, tries: int) -> None:
            if status != 409:
                self.faults.add("doubled", f"{other} was answered {status} {answer}")

        path = f"/v1/campaigns/{book.id}/decisions"
        return Attempt("contradict", request_bytes("POST", path, other), check)

    def look(self, book: Book) -> Attempt:
        """The campaign as it is now: what is shown must be there after a kill too."""

        def check(status: int, answer: Any, tries: int) -> None:
            if status != 200:
                self._refused("a look at a campaign", status, answer)
                return
            budget, spent, reserved = money_of(answer)
            if spent + reserved > budget:
                self.faults.add("overspent", str(answer))
            book.seen = max(book.seen, answer["decisions"])

        return Attempt("look", request_bytes("GET", f"/v1/campaigns/{book.id}"), check)

    # The parts of it

    def _user(self, book: Book) -> dict[str, Any]:
        draws = self.draws
        features = {name: draws.gauss(0.0, 1.0) for name in book.request["features"]}
        costs = {name: f"{draws.uniform(0.05, 0.6):.8f}" for name in book.request["treatments"]}
        return {"decision_id": self._name("user"), "features": features, "costs": costs}

    def _name(self, what: str) -> str:
        self._names += 1
        return f"{what}-{self.number}-{self._names}"

    def _own(self, book: Book, wanted: Callable[[Decision], bool]) -> list[Decision]:
        found = [one for its, one in self.own if its is book and wanted(one)]
        self.draws.shuffle(found)
        return found

    def _treatment(self, book: Book, wanted: Callable[[Decision], bool]) -> Decision | None:
        def fits(one: Decision) -> bool:
            return one.treated and one.settled is None and not one.closed and wanted(one)

        return next(iter(self._own(book, fits)), None)

    def _outcome(self, book: Book, one: Decision, value: float, answer: Any, tries: int) -> None:
        status = answer["status"]
        repeated = tries > 1 or self.forwarded
        expected = {"recorded", "already_recorded"} if repeated else {"recorded"}
        if book.expires:  # once expired it counts as 0, which is no news then
            expected |= {"too_late", "already_recorded"} if value == 0.0 else {"too_late"}
        counts = 0.0 if status == "too_late" else value
        if status not in expected or answer["value"] != counts:
            self.faults.add("state_mismatch", f"the outcome {value} of {one.id}: {answer}")
        one.outcome, one.reported = answer, value
        book.recent.append(one)

    def _too_late(self, book: Book, one: Decision, what: str, status: int, answer: Any) -> None:
        if status == 409 and book.expires:
            one.closed = True
        else:
            self._refused(what, status, answer)

    def _refused(self, what: str, status: int, answer: Any) -> None:
        """An acknowledged decision that is unknown now is lost; all else is just wrong."""
        counter = "lost" if status == 404 else "state_mismatch"
        self.faults.add(counter, f"{what} was answered {status} {answer}")
