"""The gate: finds the route of a request, checks access and size, counts it and sets headers."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Lifespan, Message, Receive, Scope, Send

from bccb.ledger import port
from bccb.ledger.port import LedgerError
from bccb.serve.access import Access
from bccb.serve.answers import problem_response
from bccb.serve.body import MOST_BYTES, too_large
from bccb.serve.metrics import Metrics
from bccb.serve.operation import Served
from bccb.serve.problem import ProblemError, not_durable, problem_of

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
)
ASKED = (b"host", b"authorization", b"origin")
PROXIED = {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"}
ASK_AGAIN = (b"cache-control", b"no-cache")
UNEXPECTED = "an error inside the service: see its log"
NO_ROUTE = "none"  # not the path itself, which anybody can make up
LOOKS = ("GET", "HEAD")

logger = logging.getLogger("bccb.serve")


class Gate(Router):
    """The router of the service. A request is matched first: its route says what it needs."""

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        access: Access,
        metrics: Metrics,
        lifespan: Lifespan[Any],
    ) -> None:
        super().__init__(routes, lifespan=lifespan)
        self.access, self.metrics = access, metrics

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await super().app(scope, receive, send)
            return
        begin, status, path = time.perf_counter(), None, NO_ROUTE
        granted: port.Scope | None = None

        async def passing(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], *HEADERS]
                if not scope["path"].startswith("/v1"):  # another version has other pages
                    headers.append(ASK_AGAIN)
                if granted is not None:  # the page shows no more than its key allows
                    headers.append((b"bccb-scope", granted.value.encode()))
                message["headers"] = headers
            await send(message)

        try:
            route, whole = self._route(scope)
            path = getattr(route, "path", NO_ROUTE)
            granted = self._check(scope, route)
            if route is None:
                raise HTTPException(404)
            if not whole and isinstance(route, Route):
                raise HTTPException(405, headers={"Allow": ", ".join(route.methods or ())})
            await route.handle(scope, receive, passing)
        except Exception as error:
            if status is not None:  # half of an answer is worse than none
                logger.exception("%s %s failed", scope["method"], scope["path"])
                raise
            await _refusal(error, scope)(scope, receive, passing)
        finally:
            self.metrics.requests.labels(path, status or 500).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - begin)

    def _route(self, scope: Scope) -> tuple[BaseRoute | None, bool]:
        """The route of a request, and whether it also takes its method."""
        partial: BaseRoute | None = None
        for route in self.routes:
            match, more = route.matches(scope)
            if match == Match.FULL:
                scope.update(more)
                return route, True
            if match == Match.PARTIAL and partial is None:
                partial = route
        return partial, False

    def _check(self, scope: Scope, route: BaseRoute | None) -> port.Scope | None:
        headers: dict[bytes, Any] = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        served = _served(route)
        most = MOST_BYTES if served is None else served.operation.most_bytes
        if length.isdigit() and int(length) > most:
            raise too_large(most)
        host, key, origin = (headers.get(name, b"").decode("latin-1") for name in ASKED)
        forwarded = not PROXIED.isdisjoint(headers)
        return self.access.check(_needed(scope, route), host, key, origin, forwarded)


def _needed(scope: Scope, route: BaseRoute | None) -> port.Scope | None:
    """What an API key must allow; None where no key is needed."""
    if route is None:  # without a key, nobody learns which paths exist
        return port.Scope.READ if scope["method"] in LOOKS else port.Scope.ADMIN
    served = _served(route)
    return None if served is None else served.operation.scope


def _served(route: BaseRoute | None) -> Served | None:
    """The operation of a route, if it has one."""
    served = route.app if isinstance(route, Route) else None
    return served if isinstance(served, Served) else None


def _refusal(error: Exception, scope: Scope) -> Any:
    """What is answered instead. Made here and not in a thread: it must not need resources."""
    where = scope["method"], scope["path"]
    if isinstance(error, ProblemError):
        return problem_response(error)
    if isinstance(error, HTTPException):
        kind = {404: "unknown", 405: "wrong-method"}.get(error.status_code, "http")
        detail = f"{where[0]} {where[1]}: {error.detail}"
        response = problem_response(ProblemError(error.status_code, kind, detail))
        response.headers.update(error.headers or {})
        return response
    if isinstance(error, LedgerError):
        logger.error("%s %s failed: %s", *where, error)
        return problem_response(not_durable("the ledger cannot be read"))
    logger.error("%s %s failed", *where, exc_info=error)
    return problem_response(problem_of(error, UNEXPECTED))
