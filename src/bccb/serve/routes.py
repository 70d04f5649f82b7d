"""The routes of the API. Each reads a body, runs a command in the engine and tells its result."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial
from typing import IO, Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import TypeAdapter
from pydantic_core import to_json
from starlette.responses import StreamingResponse

from bccb.errors import InputError
from bccb.ledger.event import Kind
from bccb.serve import campaigns, log, outcomes, schemas
from bccb.serve.answers import json_response
from bccb.serve.body import parse, parse_list, read
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.decisions import Asked
from bccb.serve.engine import Engine
from bccb.serve.openapi import answers, takes
from bccb.serve.outcomes import Reports
from bccb.serve.problem import ProblemError
from bccb.serve.schemas import (
    ID,
    BudgetRequest,
    CampaignRequest,
    DecisionRequest,
    OutcomeItem,
    OutcomeRequest,
    SettleRequest,
)
from bccb.serve.views import campaign_view, report_view
from bccb.serve.work import LONG

T = TypeVar("T")
CampaignId = Annotated[str, Path(examples=["c0123456789"])]
DecisionPath = Annotated[str, Path(pattern=ID, max_length=128, examples=["order-17"])]

CAMPAIGN = TypeAdapter(CampaignRequest)
BUDGET = TypeAdapter(BudgetRequest)
DECISION = TypeAdapter(DecisionRequest)
OUTCOME = TypeAdapter(OutcomeRequest)
OUTCOME_ITEM = TypeAdapter(OutcomeItem)
SETTLEMENT = TypeAdapter(SettleRequest)
LOG_TYPES = {"ndjson": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
CHUNK = 1 << 16  # bytes of a download at once
TURNS = {"pause": Kind.PAUSED, "resume": Kind.RESUMED, "close": Kind.CLOSED}


def api(engine: Engine) -> APIRouter:
    """All routes under /v1."""
    router = APIRouter(prefix="/v1/campaigns")
    _decision_routes(router, engine)  # first, because routes are looked through in order
    _outcome_routes(router, engine)
    _campaign_routes(router, engine)
    _look_routes(router, engine)
    _log_route(router, engine)
    return router


def _campaign_routes(router: APIRouter, engine: Engine) -> None:
    @router.post(
        "",
        tags=["campaigns"],
        status_code=201,
        response_model=schemas.Campaign,
        responses={
            200: {"model": schemas.Campaign, "description": "The same request has opened it."},
            **answers(409, 503, body=True),
        },
        openapi_extra=takes(CampaignRequest),
    )
    async def open_campaign(request: Request) -> Response:
        """Open a campaign. To ask again with the same body is safe: it is opened once."""
        asked = parse(CAMPAIGN, await read(request))
        terms = campaigns.terms_of(asked, engine.clock())
        try:
            # compiling must hold up nobody else
            await asyncio.to_thread(lambda: terms.machine().warm())
        except InputError as error:
            raise ProblemError(422, "invalid-field", str(error), "policy") from None

        def command(books: Books, at: int) -> tuple[dict[str, Any], bool]:
            campaign, new = campaigns.open_campaign(books, at, terms)
            return campaign_view(campaign), new

        view, new = await engine.do(command, LONG)
        return json_response(view, 201 if new else 200)

    for turn, kind in TURNS.items():
        _turn_route(router, engine, turn, kind)

    @router.post(
        "/{campaign_id}/budget",
        tags=["campaigns"],
        response_model=schemas.Campaign,
        responses=answers(404, 409, 503, body=True),
        openapi_extra=takes(BudgetRequest),
    )
    async def add_budget(request: Request, campaign_id: CampaignId) -> Response:
        """Add money, which is planned over the users to come."""
        asked = parse(BUDGET, await read(request))

        def command(books: Books, at: int) -> dict[str, Any]:
            return campaign_view(
                campaigns.add_budget(books, at, campaign_id, asked.add, asked.request_id)
            )

        return json_response(await engine.do(command))


def _look_routes(router: APIRouter, engine: Engine) -> None:
    @router.get("", tags=["campaigns"], response_model=schemas.CampaignList, responses=answers(503))
    async def list_campaigns() -> Response:
        """All campaigns, the newest first."""

        def command(books: Books, at: int) -> bytes:
            # there may be many with many names: in pieces, so that the event loop has its turns
            views = [to_json(campaign_view(each)) for each in reversed(books.all())]
            return b'{"campaigns":[' + b",".join(views) + b"]}"

        content = await engine.do(command, LONG)
        return Response(content, media_type="application/json")

    @router.get(
        "/{campaign_id}",
        tags=["campaigns"],
        response_model=schemas.Campaign,
        responses=answers(404, 503),
    )
    async def get_campaign(campaign_id: CampaignId) -> Response:
        """A campaign, its money and its counts."""
        return json_response(
            await engine.do(lambda books, at: campaign_view(books.look(campaign_id)))
        )

    @router.get(
        "/{campaign_id}/report",
        tags=["campaigns"],
        response_model=schemas.Report,
        responses=answers(404, 503),
    )
    async def get_report(campaign_id: CampaignId) -> Response:
        """What the page shows: rates, what the treatments caused, the course of money and price."""
        return json_response(
            await engine.do(lambda books, at: report_view(books.look(campaign_id), at))
        )


def _log_route(router: APIRouter, engine: Engine) -> None:
    making = asyncio.Semaphore(1)  # the others wait: each may take as much memory as its log

    @router.get(
        "/{campaign_id}/log",
        tags=["campaigns"],
        response_class=Response,
        responses={
            200: {
                "description": "One row a decision.",
                "content": {
                    LOG_TYPES["ndjson"]: {"schema": {"type": "string"}},
                    LOG_TYPES["parquet"]: {"schema": {"type": "string", "format": "binary"}},
                },
            },
            **answers(404, 409, 422, 503),
        },
    )
    async def get_log(
        campaign_id: CampaignId,
        format: Annotated[Literal["parquet", "ndjson"], Query()] = "ndjson",  # noqa: A002
    ) -> Response:
        """Every decision with features, costs, action, probability, price and outcome."""

        def command(books: Books, at: int) -> tuple[Campaign, int]:
            campaign = books.campaign(campaign_id)
            return campaign, campaign.sequence

        campaign, until = await engine.do(command)
        try:
            async with making:
                file = await asyncio.to_thread(
                    log.write, engine.books.ledger, campaign, until, format
                )
        except OSError as error:
            raise ProblemError(503, "no-space", f"the log cannot be written: {error}") from None
        headers = {
            "Content-Disposition": f'attachment; filename="{campaign.id}.{format}"',
            "Content-Length": str(file.seek(0, os.SEEK_END)),
        }
        return StreamingResponse(_chunks(file), headers=headers, media_type=LOG_TYPES[format])


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while chunk := file.read(CHUNK):
            yield chunk


def _turn_route(router: APIRouter, engine: Engine, turn: str, kind: Kind) -> None:
    @router.post(
        f"/{{campaign_id}}/{turn}",
        tags=["campaigns"],
        name=f"{turn}_campaign",
        response_model=schemas.Campaign,
        responses=answers(404, 409, 503),
    )
    async def turn_campaign(campaign_id: CampaignId) -> Response:
        """Pause, resume or close a campaign: while it does not run, nobody is treated."""

        def command(books: Books, at: int) -> dict[str, Any]:
            return campaign_view(campaigns.turn(books, at, campaign_id, kind))

        return json_response(await engine.do(command))


def _decision_routes(router: APIRouter, engine: Engine) -> None:
    @router.post(
        "/{campaign_id}/decisions",
        tags=["decisions"],
        response_model=schemas.DecisionAnswer | list[schemas.DecisionAnswer],
        responses=answers(404, 409, 503, body=True),
        openapi_extra=takes(DecisionRequest, or_many=True),
    )
    async def decide(request: Request, campaign_id: CampaignId) -> Response:
        """Decide on one user, or on a list of up to 1,000; a list is checked whole first.

        The same id with the same body gives the same answer, so that retries are safe.
        """
        body = await read(request)
        single = body.lstrip()[:1] != b"["
        asked = [parse(DECISION, body)] if single else await parse_list(DECISION, body)
        made = await engine.decide(Asked(campaign_id, asked, single))
        return json_response(made[0] if single else made)


def _outcome_routes(router: APIRouter, engine: Engine) -> None:
    @router.put(
        "/{campaign_id}/decisions/{decision_id}/outcome",
        tags=["outcomes"],
        response_model=schemas.OutcomeAnswer,
        responses=answers(404, 409, 503, body=True),
        openapi_extra=takes(OutcomeRequest),
    )
    async def report_outcome(
        request: Request, campaign_id: CampaignId, decision_id: DecisionPath
    ) -> Response:
        """Report what became of a decision, once; after the window it is too late."""
        told = parse(OUTCOME, await read(request))
        item = OutcomeItem(decision_id=decision_id, **told.model_dump(exclude_unset=True))
        answers = await engine.observe(Reports(campaign_id, [item], single=True))
        return json_response(answers[0])

    @router.post(
        "/{campaign_id}/outcomes",
        tags=["outcomes"],
        response_model=list[schemas.OutcomeAnswer],
        responses=answers(404, 409, 503, body=True),
        openapi_extra=takes(OutcomeItem, many=True),
    )
    async def report_outcomes(request: Request, campaign_id: CampaignId) -> Response:
        """Report a list of up to 1,000 outcomes, which is checked whole before anything is done."""
        items = await parse_list(OUTCOME_ITEM, await read(request))
        return json_response(await engine.observe(Reports(campaign_id, items, single=False)))

    @router.post(
        "/{campaign_id}/decisions/{decision_id}/cancel",
        tags=["outcomes"],
        response_model=schemas.DecisionState,
        responses=answers(404, 409, 422, 503),
    )
    async def cancel(campaign_id: CampaignId, decision_id: DecisionPath) -> Response:
        """Undo a decision whose treatment was not delivered: its money returns."""
        command = partial(outcomes.cancel, campaign_id=campaign_id, decision=decision_id)
        return json_response(await engine.do(command))

    @router.post(
        "/{campaign_id}/decisions/{decision_id}/settle",
        tags=["outcomes"],
        response_model=schemas.DecisionState,
        responses=answers(404, 409, 503, body=True),
        openapi_extra=takes(SettleRequest),
    )
    async def settle(
        request: Request, campaign_id: CampaignId, decision_id: DecisionPath
    ) -> Response:
        """Tell what a treatment cost in the end: the rest of its money returns."""
        told = parse(SETTLEMENT, await read(request))
        command = partial(
            outcomes.settle, campaign_id=campaign_id, decision=decision_id, cost=told.cost
        )
        return json_response(await engine.do(command))
