"""One round: a ledger, random steps on it, servers that come and go, and the checks at the end."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench.fuzzing import actions, audit, faults, malformed, space
from bench.fuzzing.actions import Action
from bench.fuzzing.faults import VERSIONS, program
from bench.fuzzing.findings import Findings
from bench.fuzzing.model import BrokenError
from bench.fuzzing.session import RoundOverError, Session
from bench.service.process import Server

MOST_STEPS = 3_000
# Shares of steps; the rest are good calls
OPEN, MALFORMED, FAIL, RESTART, SECOND = 0.18, 0.08, 0.02, 0.04, 0.004
START_UP = 2.0  # seconds within which a server is killed that has just been started
UNDER_LOAD = 0.03  # seconds after which a server is ended while calls are under way


class Size(NamedTuple):
    """How much a round does at least."""

    campaigns: int
    decisions: int


ROUND = Size(campaigns=80, decisions=12_000)  # of one that nothing cuts short


class Round:
    """A ledger in a folder of its own. What a step does depends on the seed and its number."""

    def __init__(self, folder: Path, seed: int, number: int, findings: Findings) -> None:
        (folder / "data").mkdir(parents=True)
        self.session = Session(folder / "data" / "fuzz.sqlite", findings)
        self.seed, self.number, self.step = seed, number, 0
        self.findings = findings

    def run(self, size: Size, go_on: Callable[[], bool]) -> None:
        """All steps, and the checks at the end."""
        session = self.session
        try:
            self._draws()
            session.start(0)
            while self.step < MOST_STEPS and go_on():
                if len(session.names) >= size.campaigns and session.decisions >= size.decisions:
                    break
                self.take_step(self._draws())
                self.findings.check_stop()
            self.finish(self._draws())
        except RoundOverError:
            pass
        finally:
            session.close()
        self.findings.check_stop()

    def _draws(self) -> random.Random:
        """The draws of the next step."""
        self.step += 1
        self.findings.where = f"--seed {self.seed} --round {self.number}, step {self.step}"
        return random.Random(f"{self.seed}/{self.number}/{self.step}")

    def take_step(self, draws: random.Random) -> None:
        """Whatever comes next."""
        session = self.session
        kinds: dict[Callable[[random.Random], None], float] = {
            self.open_campaigns: OPEN if len(session.names) < ROUND.campaigns else 0.0,
            self.send_malformed: MALFORMED,
            self.fail_commits: FAIL,
            self.restart: RESTART,
            self.start_second: SECOND,
        }
        kinds[self.send] = 1.0 - sum(kinds.values())
        if session.books:
            draws.choices(list(kinds), list(kinds.values()))[0](draws)
        else:
            self.open_campaigns(draws)
        session.check_alive()

    # Calls

    def open_campaigns(self, draws: random.Random) -> None:
        """Some more campaigns."""
        for _ in range(draws.randint(1, 6)):
            self.session.open(self.draw_campaign(draws))

    def draw_campaign(self, draws: random.Random) -> dict[str, Any]:
        """A request for another campaign."""
        name = f"{self.number}-{self.step}-{draws.getrandbits(32):08x}"
        if self.session.books and draws.random() < 0.15:
            source = draws.choice(self.session.books)
            return space.draw_successor(draws, source.request, source.id, name)
        return space.draw_campaign(draws, name)

    def send(self, draws: random.Random) -> None:
        """Good calls on some campaigns at once; then those must stand as the model says."""
        chosen = self.draw_actions(draws, draws.choice((1, 1, 2, 4)))
        self.session.perform(chosen)
        for action in chosen:
            if action.book in self.session.books:
                self.session.perform([actions.view(action.book)])

    def draw_actions(self, draws: random.Random, many: int) -> list[Action]:
        """Random calls, on as many campaigns."""
        session = self.session
        # what was not answered may be half done: until it is asked again nobody knows what is right
        unsure = [action.book for action in session.pending]
        books = [book for book in session.books if book not in unsure] or session.books
        alive = [book for book in books if book.status != "closed"] or books
        chosen = draws.sample(alive, min(many, len(alive)))
        if self.number % 3 == 0 and alive[0] not in chosen and draws.random() < 0.4:
            chosen[:1] = alive[:1]  # one with a long journal
        return [
            actions.drawn(draws, book, session.users[book.id], session.fresh_id) for book in chosen
        ]

    def send_malformed(self, draws: random.Random) -> None:
        """A call that must be refused and change nothing."""
        session, book = self.session, draws.choice(self.session.books)
        call = malformed.draw(draws, book)
        answer = session.wire.ask(call)
        with suppress(BrokenError):
            body = session.read(call, answer)
            assert answer is not None
            if answer.status not in malformed.REFUSALS:
                self.findings.add("disagreed", f"{call.about} was answered {answer.status} {body}")
        session.perform([actions.view(book)])
        if draws.random() < 0.2:
            audit.check_metrics(session)

    # Faults

    def fail_commits(self, draws: random.Random) -> None:
        """Make commits fail for a while: nothing is half done, and it goes on by itself."""
        session, fault = self.session, draws.choice(faults.FAULTS)
        assert session.server is not None
        with fault(session.server):
            for _ in range(draws.randint(2, 6)):
                session.perform(self.draw_actions(draws, draws.choice((1, 3))), injected=True)
            if draws.random() < 0.3:
                session.open(self.draw_campaign(draws), injected=True)
        session.until_ready(fault.__name__)
        audit.check_views(session)  # before anything is asked again
        session.resend()

    def start_second(self, draws: random.Random) -> None:
        """A second server on the same ledger, perhaps under another name, must be refused."""
        session = self.session
        path = session.ledger
        if draws.random() < 0.5:
            path = path.with_name("other.sqlite")
            os.link(session.ledger, path)
        fault = faults.second_server(path, VERSIONS[session.version])
        if path != session.ledger:
            for ending in ("", "-wal", "-shm", ".lock"):
                Path(f"{path}{ending}").unlink(missing_ok=True)
        if fault is not None:
            self.findings.add("faults", fault)
            raise RoundOverError
        session.until_ready("a second server")

    def restart(self, draws: random.Random) -> None:
        """End the server in one of several ways, perhaps under load, and start one again."""
        session = self.session
        kind = draws.choice(("kill", "kill", "kill", "stop", "stop", "start", "upgrade"))
        by = signal.SIGTERM if kind == "stop" else signal.SIGKILL
        if kind == "upgrade":
            self._upgrade(draws)
        elif draws.random() < 0.6:
            self._send_under(by, draws)
        session.end_server(by)
        if kind == "start":
            self._kill_start(draws)
        changes = kind in ("stop", "kill") and draws.random() < 0.5
        session.start(1 - session.version if changes else session.version)
        session.resend()
        audit.check_views(session)
        audit.ask_again(session, draws, everything=False)

    def _send_under(self, by: signal.Signals, draws: random.Random) -> None:
        """Send the signal while calls are under way."""
        assert self.session.server is not None
        process, wait = self.session.server.process, draws.choice((0.0, draws.random()))

        def end() -> None:
            time.sleep(UNDER_LOAD * wait)
            process.send_signal(by)

        self.session.perform(self.draw_actions(draws, 6), meanwhile=end)
        if draws.random() < 0.3:
            self.session.open(self.draw_campaign(draws), injected=True)

    def _kill_start(self, draws: random.Random) -> None:
        """Kill a server while it starts."""
        server = Server(self.session.ledger, program(VERSIONS[self.session.version]))
        time.sleep(draws.uniform(0.0, START_UP))
        server.kill()

    def _upgrade(self, draws: random.Random) -> None:
        """Open campaigns, kill the server before they decide, go on with another version."""
        session = self.session
        session.end_server(signal.SIGTERM)
        session.start(session.version)
        before = len(session.books)
        for _ in range(2):
            session.open(self.draw_campaign(draws))
        session.end_server(signal.SIGKILL)
        session.start(1 - session.version)
        for book in session.books[before:]:
            users = session.users[book.id]
            asked = actions.new_users(draws, book, users, session.fresh_id)
            session.perform([actions.decide(book, asked)])

    def finish(self, draws: random.Random) -> None:
        """Everything once more, after a restart; and the fold of all journals."""
        session, ends = self.session, (signal.SIGKILL, signal.SIGTERM)
        session.end_server(draws.choice(ends))
        session.start(session.version)
        session.resend()
        audit.ask_again(session, draws, everything=True)
        audit.await_sweep(session)
        audit.check_views(session)
        audit.check_looks(session, draws)
        session.end_server(draws.choice(ends))
        audit.check_fold(session)
