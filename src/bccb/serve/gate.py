"""The gate that every request passes: access, size, the count of it, and headers of the answer."""

from __future__ import annotations

import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bccb.serve.access import Access
from bccb.serve.answers import problem_response
from bccb.serve.body import MOST_BYTES, too_large
from bccb.serve.metrics import Metrics
from bccb.serve.problem import ProblemError

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
STRICT = (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'")
ASK_AGAIN = (b"cache-control", b"no-cache")
NO_ROUTE = "none"  # instead of a path that a stranger made up


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, access: Access, metrics: Metrics) -> None:
        self.app, self.access, self.metrics = app, access, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def passing(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], *HEADERS]
                if not scope["path"].startswith("/docs"):  # whose script stands in its page
                    headers.append(STRICT)
                if not scope["path"].startswith("/v1"):  # another version has other pages
                    headers.append(ASK_AGAIN)
                message["headers"] = headers
            await send(message)

        try:
            self._check(scope)
        except ProblemError as problem:
            await problem_response(problem)(scope, receive, passing)
        else:
            await self.app(scope, receive, passing)
        finally:
            route = getattr(scope.get("route"), "path", NO_ROUTE)
            self.metrics.requests.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - begin)

    def _check(self, scope: Scope) -> None:
        found: dict[bytes, Any] = dict(scope["headers"])
        length = found.get(b"content-length", b"0")
        if length.isdigit() and int(length) > MOST_BYTES:
            raise too_large()
        host, key = found.get(b"host", b""), found.get(b"authorization", b"")
        self.access.check(
            scope["method"], scope["path"], host.decode("latin-1"), key.decode("latin-1")
        )
