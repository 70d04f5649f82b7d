"""A service for tests: the real application on a real ledger, with a clock that they set."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from bccb.ledger.opening import open_ledger
from bccb.ledger.sqlite.ledger import SqliteLedger
from bccb.serve import engine as engines
from bccb.serve.access import Access
from bccb.serve.app import create_app
from bccb.serve.engine import Engine
from bccb.serve.metrics import Metrics
from bccb.serve.outcomes import sweep
from bccb.serve.server import opened
from bccb.wire import Notice

T = TypeVar("T")

SECOND = 1_000_000
NEVER = 3_600.0
LONGEST = 120.0  # seconds


class Clock:
    """Microseconds since 1970, as a test sets them."""

    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        """Go forward, or back."""
        self.now += round(seconds * SECOND)


class Service:
    """A running service. Unless set otherwise, windows pass only when :meth:`sweep` is called."""

    def __init__(self, place: str | Path, clock: Clock | None = None, tick: float = NEVER) -> None:
        self.place, self.clock, self.tick = place, clock or Clock(), tick
        self.start()

    def start(self) -> None:
        """Open the ledger and begin to answer."""
        self._stack = ExitStack()
        self._stack.enter_context(pytest.MonkeyPatch.context()).setattr(engines, "TICK", self.tick)
        self._runner = self._stack.enter_context(asyncio.Runner())
        self.books = self._stack.enter_context(opened(self.place))
        if self.books.ledger.shared:  # it has no other replicas: all campaigns are held here
            list(self.books.open())
        if isinstance(self.books.ledger, SqliteLedger):
            self.books.ledger._file.execute("PRAGMA synchronous = OFF")  # no power is cut here
        self.notices: list[Notice] = []
        self.engine = Engine(self.books, Metrics(), self.clock, self.notices.append)
        beside = open_ledger(self.place, read_only=True)
        self._stack.callback(beside.close)
        self.app = create_app(self.engine, Access(beside, "127.0.0.1"))
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        lifespan = self.app.lifespan_context(self.app)
        self.run(lifespan.__aenter__())
        self._stack.callback(lambda: self.run(lifespan.__aexit__(None, None, None)))

    def stop(self) -> None:
        """Finish what waits and close the ledger."""
        self._stack.close()

    def restart(self) -> None:
        """Stop, and come up again from the ledger alone."""
        self.stop()
        self.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the service's loop; what hangs fails."""
        return self._runner.run(asyncio.wait_for(work, LONGEST))

    def sweep(self) -> None:
        """Let windows pass, as the engine does twice a second."""
        while self.run(self.engine.do(lambda books, at: sweep(books, at))):
            pass

    def look(self) -> list[Notice]:
        """Look for alerts, as the engine does twice a second; what was told since the last time."""
        self.run(self.engine.do(self.engine.watch.look))
        told = self.notices[:]
        self.notices.clear()
        return told

    # Asking

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Any request; paths begin after /v1/campaigns unless they are whole."""
        url = path if path.startswith("/") else f"/v1/campaigns/{path}".rstrip("/")
        given = more if body is None else {"json": body, **more}
        return self.run(self.http.request(method, url, **given))

    def get(self, path: str, **query: str) -> httpx.Response:
        """Look at something."""
        return self.ask("GET", path, params=query)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Ask for something to be done."""
        return self.ask("POST", path, body, **more)

    def done(self, path: str, body: Any = None) -> Any:
        """The answer to a POST that must succeed."""
        response = self.post(path, body)
        assert response.is_success, response.text
        return response.json()

    def open(self, **terms: Any) -> dict[str, Any]:
        """A new campaign that treats everybody, except where it is asked otherwise."""
        given: dict[str, Any] = {"name": f"campaign {len(list(self.books))}", **TERMS, **terms}
        answer: dict[str, Any] = self.done("", given)
        return answer

    def decide(self, campaign: str, decision: str, cost: str = "1.00", **more: Any) -> Any:
        """The answer on a user with the feature ``age`` and the treatment ``email``."""
        return self.done(f"{campaign}/decisions", user(decision, cost, **more))

    def outcome(self, campaign: str, decision: str, value: float, **more: Any) -> httpx.Response:
        """Report an outcome."""
        path = f"{campaign}/decisions/{decision}/outcome"
        return self.ask("PUT", path, {"value": value, **more})

    def campaign(self, id_: str) -> dict[str, Any]:
        """A campaign as it is reported."""
        result: dict[str, Any] = self.get(id_).json()
        return result

    def money(self, id_: str) -> tuple[str, str, str]:
        """What is spent, reserved and left."""
        result = self.campaign(id_)
        return result["spent"], result["reserved"], result["remaining"]


TERMS: dict[str, Any] = {
    "budget": "100.00",
    "horizon": {"users": 100},
    "features": ["age"],
    "treatments": ["email"],
    "policy": {"name": "treat-all"},
    "outcome_window_seconds": 60,
    "seed": 1,
}


def user(decision: str, cost: str = "1.00", age: float = 0.5, **more: Any) -> dict[str, Any]:
    """A request for a decision."""
    return {"decision_id": decision, "features": {"age": age}, "costs": {"email": cost}, **more}


def refused(response: httpx.Response, status: int, field: str | None = None, kind: str = "") -> str:
    """The sentence of a refusal, which must have this status, field and kind."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body.get("field") == field, body
    assert not kind or body["type"] == f"urn:bccb:problem:{kind}", body
    detail: str = body["detail"]
    return detail
