"""Real `bccb serve` processes, what is asked of them, and ledgers with a past."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

START_SECONDS = 120.0  # the first start may have to compile
STOP_SECONDS = 30.0
RUN = "from bccb.cli import main; main()"
TREAT_ALL = {
    "name": "autumn",
    "budget": "1000",
    "horizon": {"users": 1_000},
    "features": ["age"],
    "treatments": ["email"],
    "policy": {"name": "treat-all"},
}


def command(*arguments: object, hook: str = "") -> list[str]:
    """The command line as a process; ``hook`` is Python that runs before it."""
    return [sys.executable, "-c", f"{hook}\n{RUN}", *map(str, arguments)]


def bccb(*arguments: object, hook: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments, hook=hook),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        env={**os.environ, "COLUMNS": "100"},
    )


class Server:
    """A process that serves a ledger; one that does not begin to in time is an error."""

    def __init__(self, ledger: Path, *arguments: object, hook: str = "", port: int = 0) -> None:
        self.ledger = ledger
        self.log = ledger.parent.parent / f"{ledger.parent.name}-{time.time_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command("serve", "--port", port, "--ledger", ledger, *arguments, hook=hook),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            self.address = self._wait_for_address()
        except BaseException:
            self.kill()
            raise
        host, _, bound = self.address.removeprefix("http://").rpartition(":")
        self.host, self.port = host.strip("[]"), int(bound)
        self.client = httpx.Client(base_url=self.address, timeout=30.0)

    def _wait_for_address(self) -> str:
        lines: queue.Queue[str] = queue.Queue()
        assert self.process.stdout is not None
        told = self.process.stdout
        threading.Thread(target=lambda: lines.put(told.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=START_SECONDS)
        except queue.Empty:
            raise AssertionError(f"it hangs at the start: {self.stderr()}") from None
        found = re.fullmatch(r"serving on (http://\S+)\n", line)
        if found is None:
            self.process.wait(STOP_SECONDS)
            raise AssertionError(f"it did not start: {self.stderr()}")
        return found[1]

    @property
    def pid(self) -> int:
        return self.process.pid

    def stderr(self) -> str:
        """What it has logged so far."""
        return self.log.read_text()

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End it in peace; its exit status."""
        self.process.send_signal(by)
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        if hasattr(self, "client"):
            self.client.close()

    # What is asked of it

    def open(self, **changes: Any) -> str:
        """A new campaign that treats everybody it can pay for; its id."""
        answer = self.client.post("/v1/campaigns", json={**TREAT_ALL, **changes})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def decide(self, campaign: str, id_: str, cost: str = "0.50") -> httpx.Response:
        """A decision on one user."""
        return self.client.post(f"/v1/campaigns/{campaign}/decisions", json=user(id_, cost))

    def campaign(self, id_: str) -> dict[str, Any]:
        """A campaign as it stands."""
        answer = self.client.get(f"/v1/campaigns/{id_}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def status(self, path: str) -> int:
        """How a GET is answered."""
        return self.client.get(path).status_code

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection((self.host, self.port), timeout=30.0)


@contextmanager
def serving(ledger: Path, *arguments: object, hook: str = "", port: int = 0) -> Iterator[Server]:
    """A server that is gone afterwards, however the block ends."""
    server = Server(ledger, *arguments, hook=hook, port=port)
    try:
        yield server
    finally:
        server.kill()


def user(id_: str, cost: str = "0.50") -> dict[str, Any]:
    """A user of the campaign."""
    return {"decision_id": id_, "features": {"age": 41}, "costs": {"email": cost}}


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something to become so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it has not become so"
        time.sleep(0.02)


def is_problem(answer: httpx.Response, status: int, kind: str) -> bool:
    """Whether an answer is this problem document."""
    told = answer.json() if answer.content else {}
    return (
        answer.status_code == status == told.get("status")
        and answer.headers["content-type"] == "application/problem+json"
        and told["type"] == f"urn:bccb:problem:{kind}"
    )


def decisions_in(ledger: Path) -> list[str]:
    """The ids of all decisions that are in a ledger, in order."""
    with closing(sqlite3.connect(ledger)) as file:
        asked = "SELECT decision FROM journal WHERE kind = 'decision' ORDER BY campaign, sequence"
        return [id_ for (id_,) in file.execute(asked)]


def assert_whole(ledger: Path) -> None:
    """What `bccb ledger verify` says of a ledger that nobody serves."""
    ran = bccb("ledger", "verify", ledger)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("events: whole\n")
