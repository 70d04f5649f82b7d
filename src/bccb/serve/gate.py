"""The gate that every request passes: access, size, the count of it, and headers of the answer."""

from __future__ import annotations

import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bccb.serve.access import Access
from bccb.serve.answers import problem_response
from bccb.serve.body import MOST_BYTES, too_large
from bccb.serve.metrics import Metrics
from bccb.serve.problem import ProblemError, problem_of

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
STRICT = (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'")
ASKED = (b"host", b"authorization", b"origin")
PROXIED = {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"}
ASK_AGAIN = (b"cache-control", b"no-cache")
UNEXPECTED = "an error of the service: see its log"
NO_ROUTE = "none"  # instead of a path that a stranger made up

logger = logging.getLogger("bccb.serve")


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, access: Access, metrics: Metrics) -> None:
        self.app, self.access, self.metrics = app, access, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), None

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
            await self.app(scope, receive, passing)
        except ProblemError as problem:
            await problem_response(problem)(scope, receive, passing)
        except Exception as error:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if status is not None:  # half of an answer is worse than none
                raise
            await problem_response(problem_of(error, UNEXPECTED))(scope, receive, passing)
        finally:
            route = getattr(scope.get("route"), "path", NO_ROUTE)
            self.metrics.requests.labels(route, status or 500).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - begin)

    def _check(self, scope: Scope) -> None:
        found: dict[bytes, Any] = dict(scope["headers"])
        length = found.get(b"content-length", b"0")
        if length.isdigit() and int(length) > MOST_BYTES:
            raise too_large()
        host, key, origin = (found.get(name, b"").decode("latin-1") for name in ASKED)
        handed_on = not PROXIED.isdisjoint(found)
        self.access.check(scope["method"], scope["path"], host, key, origin, handed_on)
