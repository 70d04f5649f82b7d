"""Forwarding: requests go to the replica that holds their campaign.

If that one does not answer, it is left out for a while, and the next one holds the campaign: often
this one. A request may then be done by both. That is safe, because everything that changes a
campaign carries an id of the client's, or gets one here.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncIterator
from typing import cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive

from bccb.ledger.port import Replica
from bccb.serve.body import read_whole
from bccb.serve.metrics import Metrics
from bccb.serve.peer import Answer, Headers, Peer, UnreachableError
from bccb.serve.places import OPENINGS, Places
from bccb.serve.problem import NOT_DURABLE, ProblemError, not_durable

FORWARDED = b"bccb-forwarded"  # by whom: such a request is answered here, whoever holds it
# Of a request whose client may have given no id: by the first replica, or by a proxy before it, so
# that what is sent twice is done once. Anybody can send it: what looks otherwise counts as none
REQUEST_ID = b"bccb-request-id"
MADE_ID = re.compile(rb"[0-9a-f]{24,32}")
HANDED_ON = {b"host", b"authorization", b"content-type", b"origin"}
HANDED_BACK = {b"content-type", b"content-length", b"content-disposition", b"retry-after"}


class _Named(msgspec.Struct):
    id: str


class _Listed(msgspec.Struct):
    campaigns: list[msgspec.Raw]


NAMED, LISTS = msgspec.json.Decoder(_Named), msgspec.json.Decoder(_Listed)
logger = logging.getLogger("bccb.serve")


class Forwarder:
    """Asks other replicas on behalf of clients."""

    def __init__(self, places: Places, metrics: Metrics) -> None:
        self.places, self.metrics = places, metrics
        self._peers: dict[str, Peer] = {}

    async def elsewhere(self, request: Request, most_bytes: int) -> tuple[Response | None, Request]:
        """The answer of the replica that holds what is asked; if none, the request is for this one.

        The request is given back, because its body may have been read.
        """
        headers = request.scope["headers"]
        if is_forwarded(request):
            return None, request
        held = request.path_params.get("campaign_id", OPENINGS)
        if self.places.is_here(held):
            return None, request
        body = await read_whole(request, most_bytes)
        handed = [each for each in headers if each[0] in HANDED_ON]
        id_ = request_id_of(request) or secrets.token_hex(12)
        handed += [self._mark(), (REQUEST_ID, id_.encode())]
        tried: set[str] = set()
        while (holder := self.places.elsewhere(held)) is not None and holder.id not in tried:
            tried.add(holder.id)
            response = await self._ask(holder, request, handed, body)
            if response is not None:
                return response, request
        scope = {**request.scope, "headers": [*headers, handed[-1]]}
        return None, Request(scope, once_more(body))

    async def _ask(
        self, holder: Replica, request: Request, headers: Headers, body: bytes
    ) -> Response | None:
        """The answer of a replica; None if it gives none, or cannot reach the ledger."""
        scope = request.scope
        # The answer to HEAD is that to GET without its body, which the server leaves out
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        target = scope["raw_path"]
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        try:
            answer, rest = await self._peer(holder).ask(method, target, headers, body)
        except UnreachableError as error:
            logger.warning("a replica does not answer: %s", error)
            self._leave_out(holder)
            return None
        response = await _response(answer, rest)
        if answer.status == 503 and NOT_DURABLE.encode() in response.body:
            self._leave_out(holder)
            return None
        self.metrics.forwards.labels("answered").inc()
        return response

    def _leave_out(self, holder: Replica) -> None:
        self.metrics.forwards.labels("failed").inc()
        self.places.suspect(holder)

    def _peer(self, replica: Replica) -> Peer:
        """A replica to ask; those that are gone are forgotten."""
        for gone in self._peers.keys() - {each.id for each in self.places.others()}:
            self._peers.pop(gone).close()
        peer = self._peers.get(replica.id)
        if peer is None:
            peer = self._peers[replica.id] = Peer(replica.address)
        return peer

    def _mark(self) -> tuple[bytes, bytes]:
        return FORWARDED, self.places.me.encode()

    async def lists(self, request: Request) -> dict[str, bytes]:
        """The campaigns that the other replicas hold, by id, from each that answers."""
        headers = [each for each in request.scope["headers"] if each[0] in HANDED_ON]
        replicas = self.places.others()
        asking = (self._ask(each, request, [*headers, self._mark()], b"") for each in replicas)
        found: dict[str, bytes] = {}
        for response in await asyncio.gather(*asking):
            if response is None or response.status_code != 200:
                continue
            try:
                campaigns = LISTS.decode(await body_of(response)).campaigns
            except ProblemError as problem:
                logger.warning("a replica does not list its campaigns: %s", problem.detail)
                continue
            found |= {NAMED.decode(each).id: bytes(each) for each in campaigns}
        return found

    def close(self) -> None:
        """Close the connections that wait."""
        for peer in self._peers.values():
            peer.close()


def is_forwarded(request: Request) -> bool:
    """Whether another replica asks."""
    return any(name == FORWARDED for name, _ in request.scope["headers"])


def request_id_of(request: Request) -> str | None:
    """The id that a proxy or another replica has given a request."""
    for name, value in request.scope["headers"]:
        if name == REQUEST_ID and MADE_ID.fullmatch(value):
            return str(value, "ascii")
    return None


async def _response(answer: Answer, rest: AsyncIterator[bytes]) -> Response:
    """An answer as it is handed back."""
    headers = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in answer.headers
        if name in HANDED_BACK
    }
    if answer.is_whole:
        return Response(b"".join([part async for part in rest]), answer.status, headers)
    return StreamingResponse(rest, answer.status, headers)


async def body_of(response: Response) -> bytes:
    """The body of a response, whole."""
    if not isinstance(response, StreamingResponse):
        return bytes(response.body)
    try:
        return b"".join([cast("bytes", part) async for part in response.body_iterator])
    except UnreachableError as error:
        raise not_durable(f"a replica does not answer to the end: {error}") from None


def once_more(body: bytes) -> Receive:
    """The body of a request that was read before."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
