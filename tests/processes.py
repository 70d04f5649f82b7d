"""Real `bccb serve` processes, what is asked of them, and what they left."""

from __future__ import annotations

import io
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import pytest

from bccb.cli import main
from bench.service import process
from bench.service.process import START_SECONDS, hooked, run_bccb

TREAT_ALL = {
    "name": "autumn",
    "budget": "1000",
    "horizon": {"users": 1_000},
    "features": ["age"],
    "treatments": ["email"],
    "policy": {"name": "treat-all"},
}


def bccb(
    *arguments: object, hook: str = "", columns: int = 100
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; ``hook`` is Python that runs before it.

    What serves and what has a hook runs in a process of its own. Everything else runs in this one,
    which has imported all that it needs.
    """
    if hook or arguments[0] == "serve":
        return run_bccb(*arguments, program=hooked(hook), timeout=START_SECONDS)
    command = ["bccb", *map(str, arguments)]
    out, notes, status = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(notes):
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "argv", command)
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return subprocess.CompletedProcess(command, status, out.getvalue(), notes.getvalue())


class Server(process.Server):
    """A process that serves a ledger; one that does not begin to in time is an error."""

    def __init__(self, ledger: Path, *arguments: object, hook: str = "", port: int = 0) -> None:
        # Not beside the ledger: tests fill that folder, move it and remove it.
        log = ledger.parent.parent / f"{ledger.parent.name}-{time.time_ns()}.log"
        super().__init__(ledger, hooked(hook), arguments, port=port, log=log)
        try:
            self.wait_for_address()
        except BaseException:
            self.kill()
            raise
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.address = f"http://{host}:{self.port}"
        self.client = httpx.Client(base_url=self.address, timeout=30.0)

    def kill(self) -> None:
        """End it at once."""
        super().kill()
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


def counting_ticks(file: Path) -> str:
    """A hook: the service's clock ticks often, and every tick adds a byte to the file."""
    return f"""
from bccb.serve import engine
engine.TICK, tick = 0.02, engine.Engine._tick
async def counted(self):
    more = await tick(self)
    with open({str(file)!r}, "a") as ticks:
        ticks.write(".")
    return more
engine.Engine._tick = counted
"""


def wait_for_ticks(file: Path, ticks: int = 3) -> None:
    """Until so many further ticks are over."""
    enough = file.stat().st_size + ticks if file.exists() else ticks
    until(lambda: file.exists() and file.stat().st_size >= enough)


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


def until(true: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait for something to become so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it has not become so"
        time.sleep(0.02)


def is_problem(answer: httpx.Response, status: int, kind: str) -> bool:
    """Whether an answer is this problem document."""
    body = answer.json() if answer.content else {}
    return (
        answer.status_code == status == body.get("status")
        and answer.headers["content-type"] == "application/problem+json"
        and body["type"] == f"urn:bccb:problem:{kind}"
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
