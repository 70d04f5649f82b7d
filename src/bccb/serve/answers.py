"""Answers: JSON and problem documents."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from bccb import wire
from bccb.serve.problem import ProblemError

JSON = "application/json"
PROBLEM_TYPE = "application/problem+json"
RETRY_SECONDS = "1"


def json_response(content: Any, status: int = 200) -> Response:
    """Wire types and plain ones as JSON."""
    return Response(wire.encode(content), status, media_type=JSON)


def problem_response(problem: ProblemError) -> Response:
    """What went wrong."""
    headers = {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status == 413:  # the rest of the body is not wanted
        headers["Connection"] = "close"
    if problem.status == 503:
        headers["Retry-After"] = RETRY_SECONDS
    content = wire.encode(problem.document())
    return Response(content, problem.status, headers, media_type=PROBLEM_TYPE)
