"""The application: operations, pages and documents, behind one gate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from bccb import wire
from bccb.ledger.port import Scope
from bccb.serve import reference
from bccb.serve.access import Access
from bccb.serve.answers import JSON, json_response
from bccb.serve.engine import Engine
from bccb.serve.gate import Gate
from bccb.serve.openapi import document
from bccb.serve.operation import Operation, Operations, Reply
from bccb.serve.routes import API

PAGE = Path(__file__).parent / "page"
OPERATIONS = Operations()
operating = partial(OPERATIONS.add, "GET", tag="operations")


def create_app(engine: Engine, access: Access) -> Gate:
    """The application on an engine whose books are open."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        engine.start()
        yield
        await engine.stop()
        if engine.forwarder is not None:
            engine.forwarder.close()

    operations = [*API, *OPERATIONS]
    routes: list[BaseRoute] = [each.route(engine) for each in operations]
    return Gate([*routes, *_pages(operations)], access, engine.metrics, lifespan)


@operating("/healthz", wire.Health, scope=None)
async def healthz(engine: Engine, request: Request) -> Response:
    """The process answers."""
    return json_response(wire.Health("ok"))


@operating(
    "/readyz",
    scope=None,
    replies={200: Reply(wire.Health), 503: Reply(wire.Health, "It cannot decide now.")},
)
async def readyz(engine: Engine, request: Request) -> Response:
    """The service can decide: its ledger could be written the last time."""
    if engine.trouble is not None:
        return json_response(wire.Health("failing", engine.trouble), 503)
    if engine.forwarder is not None and engine.forwarder.places.leaving:
        return json_response(wire.Health("failing", "it hands over and stops"), 503)
    return json_response(wire.Health("ok"))


@operating(
    "/metrics",
    scope=Scope.READ,
    replies={
        200: Reply(
            description="One line per figure.",
            content={"text/plain": {"schema": {"type": "string"}}},
        )
    },
)
async def metrics(engine: Engine, request: Request) -> Response:
    """Figures for Prometheus."""
    return Response(engine.metrics.text(), media_type="text/plain; version=0.0.4")


def _pages(operations: list[Operation]) -> list[BaseRoute]:
    """Pages and documents, which contain nothing of any campaign and need no key."""
    described = document(operations)
    as_json, as_html = wire.encode(described), reference.page(described)

    async def page(request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def openapi(request: Request) -> Response:
        return Response(as_json, media_type=JSON)

    async def docs(request: Request) -> Response:
        return HTMLResponse(as_html)

    return [
        Route("/", page),
        Route("/openapi.json", openapi),
        Route("/docs", docs),
        Mount("/page", StaticFiles(directory=PAGE, check_dir=False)),
    ]
