"""A small service that fails on purpose, and the asynchronous client as the other one."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from bccb.client import (
    AsyncClient,
)

CAMPAIGN: dict[str, Any] = {
    "id": "c1",
    "name": "summer",
    "status": "running",
    "reason": None,
    "mode": "live",
    "created_at": "2030-01-01T00:00:00Z",
    "horizon": {"users": 100},
    "features": ["age"],
    "treatments": ["email"],
    "policy": {"name": "bccb", "params": {"c": 1}},
    "outcome_window_seconds": 60,
    "seed": 7,
    "learned_from": None,
    "budget": "10.00",
    "spent": "0.10",
    "reserved": "0.20",
    "remaining": "9.70",
    "decisions": 3,
    "treated": 1,
    "pending": 2,
    "conversions": 1.0,
    "median_delay_seconds": None,
    "too_late": 0,
    "caused": None,
    "fits": 0,
    "fitted_at": None,
}


RATE = {"value": 0.5, "low": 0.1, "high": 0.9}


ARM = {"treatment": None, "decisions": 2, "outcomes": 1, "conversions": 1, "rate": RATE}


REPORT = {
    "campaign": CAMPAIGN,
    "now": "2030-01-01T00:00:01Z",
    "arms": [ARM, ARM | {"treatment": "email", "rate": None}],
    "caused_series": {"at": [], "estimated": [], "measured": []},
    "decisions_per_second": 3,
    "planned": "1.5",
    "money_ends_at": None,
    "series": {"at": [1.5], "decisions": [3], "spent": [0.3], "planned": [1.5], "price": [0.0]},
    "delays": {
        "seconds": [30.0, 60.0],
        "arms": [{"treatment": None, "reports": 7, "shares": [0.25, 1.0]}],
    },
}


SEGMENT = {"name": "above 41", "share": 0.3, "effect": RATE, "treated": None}


FEATURE = {"feature": "age", "is_clear": True, "most": "above 41", "least": "above 41"}


EXPLANATION = {
    "users": 9,
    "treatments": [
        {
            "treatment": "email",
            "average": RATE,
            "features": [FEATURE | {"difference": RATE, "segments": [SEGMENT]}],
        }
    ],
}


LOG = b"log" * 100_000


USER: dict[str, Any] = {"features": {"age": 41.0}, "costs": {"email": "0.77"}}


class Service:
    """What the small service holds, and how it is to fail: one word of ``plan`` for a request."""

    def __init__(self) -> None:
        self.plan: list[str] = []
        self.seen: list[tuple[str, str, Any, str | None]] = []  # method, path, body, authorization
        self.done: dict[str, Any] = {}  # what was carried out, by id
        self.problem: Any = None
        self.retry_after = ""  # a header of refusals
        self.late = 0  # answers that were slow
        self.url, self.stopped = "", threading.Event()

    def carry_out(self, path: str, body: Any) -> Any:
        """The answer to a request; what has an id is done once."""
        if path.endswith("/decisions"):
            if isinstance(body, list):
                return [self.decide(one) for one in body]
            return self.decide(body)
        if path.endswith("/outcomes"):
            return [self.take(one["decision_id"], one) for one in body]
        if path.endswith("/correct"):
            return {"decision_id": path.split("/")[-2], "status": "recorded", **body}
        if path.endswith("/outcome"):
            return self.take(path.split("/")[-2], body)
        if path.endswith(("/cancel", "/settle")):
            state = {"decision_id": path.split("/")[-2], "treatment": None, "status": "cancelled"}
            return state | {"reserved": "0", "spent": "0", "remaining": "10"}
        if path.endswith("/budget"):
            self.done.setdefault(body["request_id"], body["add"])
        if path.endswith("/report"):
            return REPORT
        if path.endswith("/explanation"):
            return EXPLANATION
        if path == "/v1/campaigns" and body is None:
            return {"campaigns": [CAMPAIGN]}
        return CAMPAIGN

    def decide(self, body: Any) -> Any:
        answer = {"decision_id": body["decision_id"], "treatment": f"email-{len(self.done)}"}
        answer |= {"probability": 0.25, "price": 0.1, "remaining": "9.23", "act": True}
        return self.done.setdefault(body["decision_id"], answer)

    def take(self, identity: str, body: Any) -> Any:
        status = "already_recorded" if identity in self.done else "recorded"
        self.done.setdefault(identity, body.get("value"))
        return {"decision_id": identity, "value": self.done[identity], "status": status}


def handler_of(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", -1

        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            key = self.headers.get("Authorization")
            service.seen.append((self.command, self.path, body, key))
            how = service.plan.pop(0) if service.plan else "answer"
            if how.isdigit():
                problem = service.problem or {"detail": "not now"}
                return self.reply(int(how), json.dumps(problem).encode())
            if self.path.partition("?")[0].endswith("/log"):
                return self.reply(200, LOG, half=how == "drop")
            answer = service.carry_out(self.path, body)
            if how == "drop":  # carried out, but without an answer
                self.close_connection = True
                return None
            if how == "slow":
                service.stopped.wait(60)
                service.late += 1
            if how == "compiles":
                time.sleep(0.3)
            return self.reply(200, b"<html>" if how == "page" else json.dumps(answer).encode())

        do_POST = do_PUT = do_GET  # noqa: N815

        def reply(self, status: int, content: bytes, half: bool = False) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if status >= 500 and service.retry_after:
                self.send_header("Retry-After", service.retry_after)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if half else content)
            self.close_connection = half

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # a client that gave up
                self.close_connection = True

        def log_message(self, *given: object) -> None: ...

    return Handler


class Server(ThreadingHTTPServer):
    request_queue_size = 100


class Waiting:
    """An `AsyncClient` whose calls are waited for, so that it is tested as the other one."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.client, self.runner = AsyncClient(*given, **named), asyncio.Runner()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def method(*given: Any, **named: Any) -> Any:
            return self.runner.run(getattr(self.client, name)(*given, **named))

        return method

    def __repr__(self) -> str:
        return repr(self.client)


Connect: TypeAlias = Callable[..., Any]
