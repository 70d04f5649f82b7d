"""The application: routes, the gate before them, the page, and how errors are told."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from bccb import __version__
from bccb.ledger.port import LedgerError
from bccb.serve import schemas
from bccb.serve.access import Access
from bccb.serve.answers import json_response, problem_response
from bccb.serve.engine import Engine
from bccb.serve.gate import Gate
from bccb.serve.openapi import answers, document
from bccb.serve.problem import ProblemError, not_durable
from bccb.serve.routes import api

PAGE = Path(__file__).parent / "page"
ABOUT = "Whom to treat, one user at a time, under a budget that is never exceeded."

logger = logging.getLogger("bccb.serve")


def create_app(engine: Engine, access: Access) -> FastAPI:
    """The application on an engine whose books are open."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        await engine.stop()

    app = FastAPI(
        title="bccb",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    app.include_router(api(engine))
    _operations(app, engine)
    _pages(app)
    app.add_exception_handler(ProblemError, _tell_problem)
    app.add_exception_handler(LedgerError, _tell_unread)
    app.add_exception_handler(HTTPException, _tell_http)
    app.add_exception_handler(RequestValidationError, _tell_invalid)
    app.add_middleware(Gate, access=access, metrics=engine.metrics)
    return app


def _operations(app: FastAPI, engine: Engine) -> None:
    @app.get("/healthz", tags=["operations"], response_model=schemas.Health)
    async def healthz() -> Response:
        """The process answers."""
        return json_response({"status": "ok"})

    @app.get(
        "/readyz",
        tags=["operations"],
        response_model=schemas.Health,
        responses={503: {"model": schemas.Health, "description": "It cannot decide now."}},
    )
    async def readyz() -> Response:
        """The service can decide: its ledger could be written the last time."""
        if engine.trouble is None:
            return json_response({"status": "ok"})
        return json_response({"status": "failing", "detail": engine.trouble}, 503)

    @app.get("/metrics", tags=["operations"], response_class=Response, responses=answers())
    async def metrics() -> Response:
        """Figures for Prometheus."""
        return Response(engine.metrics.text(), media_type="text/plain; version=0.0.4")


def _pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="bccb: the API",
            swagger_js_url="/docs/swagger-ui-bundle.js",
            swagger_css_url="/docs/swagger-ui.css",
            swagger_favicon_url="/docs/favicon-32x32.png",
        )

    app.mount("/page", StaticFiles(directory=PAGE, check_dir=False))
    app.mount("/docs", StaticFiles(packages=[("fastapi_swagger", "resources")]))


# Not in threads, where Starlette would run plain functions: a refusal must not need resources.


async def _tell_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return problem_response(error)


async def _tell_unread(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed: %s", request.method, request.url.path, error)
    return problem_response(not_durable("the ledger cannot be read"))


async def _tell_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = {404: "unknown", 405: "wrong-method"}.get(error.status_code, "http")
    told = f"{request.method} {request.url.path}: {error.detail}"
    response = problem_response(ProblemError(error.status_code, kind, told))
    response.headers.update(error.headers or {})
    return response


async def _tell_invalid(request: Request, error: Exception) -> Response:
    """A part of the path or of the query."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = str(first["loc"][-1])
    told = f"{field} is {first.get('input')!r}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return problem_response(ProblemError(422, "invalid-field", told, field))
