"""A ledger, the server on it at the moment, and what the model knows of its campaigns."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.fuzzing import actions, looks, space, strict
from bench.fuzzing.actions import Action
from bench.fuzzing.faults import VERSIONS, program
from bench.fuzzing.findings import Findings
from bench.fuzzing.model import Book, BrokenError, Span, money
from bench.fuzzing.space import budget_micros
from bench.fuzzing.wire import Answer, Call, Probe, Wire, calling, now
from bench.service.process import Server, ServerError

RECOVERY = 15.0  # seconds after a fault
LONGEST_ID = 128
WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class RoundOverError(Exception):
    """The ledger of this round cannot be used any further."""


class Session:
    """Whatever is asked goes through here, and into the model."""

    wire: Wire
    probe: Probe

    def __init__(self, ledger: Path, findings: Findings) -> None:
        self.ledger, self.findings = ledger, findings
        self.books: list[Book] = []  # those that the model can follow
        self.users: dict[str, space.Users] = {}
        self.names: list[str] = []  # of all campaigns
        self.pending: list[Action] = []  # without an answer
        self.unopened: list[dict[str, Any]] = []
        self.decisions = self.starts = self.ids = 0
        self.version = 0
        self.server: Server | None = None

    # The server

    def start(self, version: int) -> None:
        """Start a server: any version must take what the other one has left."""
        server = Server(self.ledger, program(VERSIONS[version]))
        try:
            server.wait()
        except ServerError as error:
            server.kill()
            self.findings.add("refused_starts", str(error))
            raise RoundOverError from error
        self.server, self.version = server, version
        self.starts += 1
        self.wire = Wire(server.port, server.process.pid, self.findings)
        self.probe = Probe(server.port, server.process.pid, self.findings)

    def end_server(self, by: signal.Signals) -> None:
        """End the server, with a signal that it may handle or not."""
        assert self.server is not None
        self.probe.stop()
        self.wire.close()
        server, self.server = self.server, None
        if by == signal.SIGKILL:
            server.kill()
            return
        code = server.stop()
        if code != 0:
            fault = f"it ended with {code} after SIGTERM: {server.stderr()[-200:]}"
            self.findings.add("faults", fault)

    def close(self) -> None:
        """End what still runs."""
        if self.server is not None:
            self.end_server(signal.SIGKILL)

    def check_alive(self) -> None:
        """The server must not end by itself."""
        assert self.server is not None
        if self.server.process.poll() is not None:
            self.findings.add("faults", f"the server has ended by itself: {self.printed()}")
            raise RoundOverError

    def printed(self) -> str:
        """The last line that the server has printed."""
        lines: list[str] = []
        with suppress(OSError):  # a fault may have moved the folder away
            if self.server is not None:
                lines = self.server.stderr().splitlines()
        return lines[-1] if lines else ""

    def until_ready(self, fault: str) -> None:
        """The service must go on by itself, once a fault is gone."""
        deadline, call = time.monotonic() + RECOVERY, calling("GET", "/readyz")
        while (answer := self.wire.ask(call)) is None or answer.status != 200:
            if time.monotonic() > deadline:
                self.findings.add("faults", f"it has not recovered from {fault}: {answer}")
                raise RoundOverError
            time.sleep(0.02)

    # Asking

    def perform(
        self,
        asked: Sequence[Action],
        injected: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Send calls on different campaigns together.

        ``injected``: a fault is there, and 503 is the right answer. ``meanwhile`` ends the server.
        """
        again = [action.began is not None for action in asked]
        for action in asked:
            action.began = action.began or now()
        calls = [action.call for action in asked]
        answers = self.wire.ask_all(calls, meanwhile or (lambda: None))
        for action, answer, before in zip(asked, answers, again, strict=True):
            not_done = answer is None or answer.status == 503
            if not_done and (injected or meanwhile is not None):
                self.pending.append(action)
            else:
                self._take(action, answer, before)

    def _take(self, action: Action, answer: Answer | None, again: bool) -> None:
        try:
            body = self.read(action.call, answer, action.parse)
            assert answer is not None
            assert action.began is not None
            at = Span(action.began, answer.ended)
            self.decisions += action.check(answer.status, body, at, again)
        except BrokenError:
            self.drop(action.book)
        except WRONG as error:
            self.findings.add("disagreed", f"{action.call.about}: {error!r} {answer}")
            self.drop(action.book)

    def read(
        self, call: Call, answer: Answer | None, parse: Callable[[bytes], Any] = strict.parse
    ) -> Any:
        """The body of an answer, which must be one that is allowed at all."""
        if answer is None or answer.status >= 500:
            given = "nothing" if answer is None else f"{answer.status} {answer.raw[-80:]!r}"
            fault = f"{call.about} was answered {given}: {self.printed()}"
            self.findings.add("faults", fault)
            raise BrokenError
        try:
            body = (parse if answer.status < 400 else strict.parse)(answer.raw)
        except ValueError as error:
            self.findings.add("nonfinite", f"{error} in the answer to {call.about}")
            raise BrokenError from error
        if answer.status >= 400 and not actions.is_problem(answer):
            self.findings.add("disagreed", f"{call.about} was answered {answer}")
        return body

    def drop(self, book: Book) -> None:
        """Nobody knows any more what is right for this campaign."""
        with suppress(ValueError):
            self.books.remove(book)

    def resend(self) -> None:
        """Ask again what was not answered: it was done, or is done now."""
        unopened, self.unopened = self.unopened, []
        for request in unopened:
            self.open(request)
        waiting, self.pending = self.pending, []
        for action in waiting:
            if action.book in self.books:
                self.perform([action])

    # Campaigns

    def open(self, request: dict[str, Any], injected: bool = False) -> None:
        """Open a campaign, once."""
        call = calling("POST", "/v1/campaigns", request)
        answer = self.wire.ask(call)
        if injected and (answer is None or answer.status == 503):
            self.unopened.append(request)
            return
        try:
            body = self.read(call, answer)
        except BrokenError:
            return
        assert answer is not None
        if answer.status == 422 and space.may_be_too_large(request):
            return
        if answer.status not in (200, 201):
            if not _ended(request, answer):
                self.findings.add("disagreed", f"{call.about} was answered {answer.status} {body}")
            return
        book = Book(body["id"], request, body, self.findings)
        self.names.append(request["name"])
        self.users[book.id] = space.draw_users(random.Random(request["name"]), request)
        try:
            _check_opening(book, body)
            looks.check_view(book, body, Span(answer.began, answer.ended))
            self.books.append(book)
        except BrokenError:
            pass
        except WRONG as error:
            self.findings.add("disagreed", f"{call.about}: {error!r} {body}")

    def fresh_id(self) -> str:
        """An id that was not used yet; they differ in form."""
        self.ids += 1
        if self.ids % 50 == 0:
            return str(self.ids).rjust(LONGEST_ID, "x")
        return ("u{}", "{}", "A.b~c:d@e+f=g-{}")[self.ids % 3].format(self.ids)


def _ended(request: dict[str, Any], answer: Answer) -> bool:
    """Whether the time of a campaign was over before it could be opened."""
    return (
        answer.status == 422
        and Book("", request, {}, Findings()).is_over(Span(answer.began, answer.ended)) is not False
    )


def _check_opening(book: Book, view: dict[str, Any]) -> None:
    """A campaign must be what was asked for."""
    asked = book.request
    plain = ("name", "features", "treatments", "policy", "outcome_window_seconds", "seed", "mode")
    for name in (*plain, "learned_from", "charge"):
        if name in asked and view[name] != asked[name]:
            raise book.broken(f"{name} is {view[name]}, asked for was {asked[name]}")
    terms = {"share": None, "currency": None, "outcome": {"kind": "conversion"}}
    for name, default in terms.items():
        wanted, found = asked.get(name, default), view[name]
        if isinstance(wanted, dict):
            wanted, found = wanted["kind"], found["kind"]
        if found != wanted:
            raise book.broken(f"{name} is {view[name]}, asked for was {asked.get(name)}")
    outcome = asked.get("outcome", {})
    if book.amounts and view["outcome"]["negative"] is not book.negative:
        raise book.broken(f"outcome is {view['outcome']}, asked for was {outcome}")
    largest = outcome.get("largest")
    if largest is not None and money(view["outcome"]["largest"]) != budget_micros(largest):
        raise book.broken(f"outcome is {view['outcome']}, asked for was {outcome}")
    cap = asked.get("cost_cap")
    if cap is not None and money(view["cost_cap"]) != budget_micros(cap):
        raise book.broken(f"cost_cap is {view['cost_cap']}, asked for was {cap}")
