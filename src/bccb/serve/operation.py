"""An operation of the API: a path, who may use it, what it takes and what it answers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from bccb.ledger.port import Account, Scope
from bccb.serve.body import MOST_BYTES
from bccb.serve.cells import cells_of, whole_of
from bccb.serve.engine import Engine
from bccb.serve.forwarding import is_forwarded
from bccb.serve.problem import invalid
from bccb.serve.spreading import Spread, look

Method: TypeAlias = Literal["GET", "POST", "PUT"]
Endpoint: TypeAlias = Callable[[Engine, Request], Awaitable[Response]]

# What is done to a campaign in cells as a whole: with one cell closed, it would be neither
OF_WHOLE = {"pause_campaign", "resume_campaign", "close_campaign", "add_budget", "upload_learning"}


class Reply(NamedTuple):
    """One answer of an operation: a wire type, or a schema of its own for each media type."""

    kind: Any = None
    description: str = "Done."
    content: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An endpoint, with what the OpenAPI document says of it."""

    method: Method
    path: str
    scope: Scope | None  # which an API key must have; None where no key is needed
    tag: str
    endpoint: Endpoint
    replies: Mapping[int, Reply]
    takes: Any  # the type of its body; bytes for a file, None where it has none
    problems: tuple[int, ...]  # statuses beside those that every such operation has
    query: Mapping[str, Any]  # schemas of its parameters
    most_bytes: int  # of its body

    def route(self, engine: Engine) -> Route:
        """The operation in a list of routes."""
        return Route(self.path, Served(self, engine), methods=[self.method], name=self.name)

    @property
    def is_held(self) -> bool:
        """Whether one replica answers it: the holder of its campaign, or the one that opens."""
        return self.scope is not None and ("{campaign_id}" in self.path or self.method == "POST")

    @property
    def is_spread(self) -> bool:
        """Whether the cells of a campaign answer it, and not the ledger, which has all of them."""
        return "{campaign_id}" in self.path and self.name != "get_log"

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.endpoint.__name__

    @property
    def description(self) -> str | None:
        """The docstring of its function."""
        return inspect.getdoc(self.endpoint)


@dataclass(frozen=True, slots=True)
class Served:
    """An operation on an engine, as an ASGI application."""

    operation: Operation
    engine: Engine

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer a request, or let the replica answer that holds its campaign."""
        request, operation = Request(scope, receive), self.operation
        campaign = request.path_params.get("campaign_id", "")
        whole, cells = whole_of(campaign), cells_of(campaign)
        if whole is not None and operation.name in OF_WHOLE and not is_forwarded(request):
            raise invalid(
                "campaign_id", campaign, f"{whole}: the campaign, and not one of its cells"
            )
        if cells and operation.is_spread:
            asking = self._answer, self._look, partial(self._accounts, cells)
            spread = Spread(request, cells, *asking, operation.most_bytes)
            response = await spread.answer(operation.name)
        else:
            response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        return await self._answer_with(self.operation.endpoint, request)

    async def _look(self, request: Request) -> Response:
        return await self._answer_with(look, request)

    async def _accounts(self, cells: list[str]) -> list[Account]:
        return await self.engine.do(lambda books, at: books.ledger.accounts(cells))

    async def _answer_with(self, endpoint: Endpoint, request: Request) -> Response:
        """The answer of the replica that holds the campaign, or of an endpoint here."""
        forwarder, campaign = self.engine.forwarder, request.path_params.get("campaign_id")
        if forwarder is not None and self.operation.is_held:
            response, request = await forwarder.elsewhere(request, self.operation.most_bytes)
            if response is not None:
                return response
        if campaign is not None:
            await self.engine.hold(campaign)
        return await endpoint(self.engine, request)


class Operations(list[Operation]):
    """Operations, in the order in which requests are matched with them."""

    def add(
        self,
        method: Method,
        path: str,
        answer: Any = None,
        *,
        scope: Scope | None,
        tag: str,
        replies: Mapping[int, Reply] | None = None,
        takes: Any = None,
        problems: tuple[int, ...] = (),
        query: Mapping[str, Any] | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> Callable[[Endpoint], Endpoint]:
        """Decorate the endpoint of an operation; ``answer`` is the type of its only reply."""

        def added(endpoint: Endpoint) -> Endpoint:
            given = replies or {200: Reply(answer)}
            named = (method, path, scope, tag, endpoint, given, takes, problems, query or {})
            self.append(Operation(*named, most_bytes))
            return endpoint

        return added
