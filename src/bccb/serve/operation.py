"""An operation of the API: a path, who may use it, what it takes and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from bccb.ledger.port import Scope

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
JSON = "application/json"


class Reply(NamedTuple):
    """One answer of an operation: a wire type, or a schema of its own for each media type."""

    kind: Any = None
    description: str = "Done."
    content: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An endpoint as ASGI, with what the OpenAPI document says of it."""

    method: Literal["GET", "POST", "PUT"]
    path: str
    scope: Scope | None  # which an API key must have; None where no key is needed
    endpoint: Endpoint
    tag: str
    replies: Mapping[int, Reply]
    takes: Any = None  # the type of its body
    problems: tuple[int, ...] = ()
    query: Mapping[str, Any] = field(default_factory=dict)  # schemas of its parameters

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer a request."""
        response = await self.endpoint(Request(scope, receive))
        await response(scope, receive, send)

    def route(self) -> Route:
        """The operation in a list of routes."""
        return Route(self.path, self, methods=[self.method], name=self.name)

    @property
    def name(self) -> str:
        """That of its function."""
        return self.endpoint.__name__
