"""The operations of the API: each reads a body, runs a command in the engine and answers."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import IO, Annotated, cast

from msgspec import Meta, structs
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bccb import wire
from bccb.errors import InputError
from bccb.ledger.event import Kind
from bccb.ledger.port import Scope
from bccb.serve import campaigns, log, outcomes
from bccb.serve.answers import json_response
from bccb.serve.body import parse, parse_list, read
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.columns import parse_columns
from bccb.serve.decisions import Asked, answer_columns, answers
from bccb.serve.engine import Engine
from bccb.serve.operation import JSON, Endpoint, Operation, Reply
from bccb.serve.outcomes import Reports
from bccb.serve.problem import ProblemError, invalid
from bccb.serve.users import Rows
from bccb.serve.views import campaign_view, report_view
from bccb.serve.work import LONG

ALL = "/v1/campaigns"
ONE = "/v1/campaigns/{campaign_id}"
DECISION = f"{ONE}/decisions/{{decision_id}}"
ID = re.compile(wire.ID)
LONGEST_ID = 128

CAMPAIGNS = wire.decoder(wire.CampaignRequest)
BUDGETS = wire.decoder(wire.BudgetRequest)
DECISIONS = wire.decoder(wire.DecisionRequest)
OUTCOMES = wire.decoder(wire.OutcomeRequest)
OUTCOME_ITEMS = wire.decoder(wire.OutcomeItem)
SETTLEMENTS = wire.decoder(wire.SettleRequest)
SEVERAL = Meta(min_length=1, max_length=wire.MOST_BATCH)
USERS = Annotated[list[wire.DecisionRequest], SEVERAL]
ITEMS = Annotated[list[wire.OutcomeItem], SEVERAL]
LOG_TYPES = {"ndjson": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
CHUNK = 1 << 16  # bytes of a download at once


def api(engine: Engine) -> list[Operation]:
    """All operations under /v1; the most frequent ones first, since they are matched in order."""
    return [
        *_decision_operations(engine),
        *_outcome_operations(engine),
        *_campaign_operations(engine),
        *_look_operations(engine),
        _log_operation(engine),
    ]


def _campaign_id(request: Request) -> str:
    return cast("str", request.path_params["campaign_id"])


def _decision_id(request: Request) -> str:
    id_: str = request.path_params["decision_id"]
    if len(id_) > LONGEST_ID or not ID.fullmatch(id_):
        allowed = f"letters, digits and ._~:@+=-, at most {LONGEST_ID}"
        raise invalid("decision_id", id_, allowed)
    return id_


def _decision_operations(engine: Engine) -> list[Operation]:
    async def decide(request: Request) -> Response:
        """Decide on one user, or on a list of up to 1,000: all of them or none.

        The same id with the same body gives the same answer, so that retries are safe.
        """
        body = await read(request)
        single = body.lstrip()[:1] != b"["
        users = [parse(DECISIONS, body)] if single else await parse_list(DECISIONS, body)
        made = await engine.decide(Asked(_campaign_id(request), Rows.of(users, single)))
        found = answers(made)
        return json_response(found[0] if single else found)

    async def decide_columns(request: Request) -> Response:
        """Decide on up to 1,000 users in columns: all of them or none.

        As for a list, but with one list per feature and per treatment, which is faster.
        """
        users = await parse_columns(await read(request))
        made = await engine.decide(Asked(_campaign_id(request), users))
        return json_response(answer_columns(made))

    may = partial(Operation, "POST", scope=Scope.DECIDE, tag="decisions", problems=(404, 409, 503))
    return [
        may(
            f"{ONE}/decisions",
            endpoint=decide,
            takes=wire.DecisionRequest | USERS,
            replies={200: Reply(wire.DecisionAnswer | list[wire.DecisionAnswer])},
        ),
        may(
            f"{ONE}/decisions/columns",
            endpoint=decide_columns,
            takes=wire.DecisionColumns,
            replies={200: Reply(wire.DecisionColumnsAnswer)},
        ),
    ]


def _outcome_operations(engine: Engine) -> list[Operation]:
    async def report_outcome(request: Request) -> Response:
        """Report what became of a decision, once; after the window it is too late."""
        id_ = _decision_id(request)
        given = parse(OUTCOMES, await read(request))
        item = wire.OutcomeItem(**structs.asdict(given), decision_id=id_)
        found = await engine.observe(Reports(_campaign_id(request), [item], single=True))
        return json_response(found[0])

    async def report_outcomes(request: Request) -> Response:
        """Report a list of up to 1,000 outcomes: all of them or none."""
        items = await parse_list(OUTCOME_ITEMS, await read(request))
        reports = Reports(_campaign_id(request), items, single=False)
        return json_response(await engine.observe(reports))

    async def cancel(request: Request) -> Response:
        """Undo a decision whose treatment was not delivered: its money returns."""
        id_ = _decision_id(request)
        command = partial(outcomes.cancel, campaign_id=_campaign_id(request), decision=id_)
        return json_response(await engine.do(command))

    async def settle(request: Request) -> Response:
        """Report what a treatment cost in the end: the rest of its money returns."""
        id_ = _decision_id(request)
        given = parse(SETTLEMENTS, await read(request))
        command = partial(
            outcomes.settle, campaign_id=_campaign_id(request), decision=id_, cost=given.cost
        )
        return json_response(await engine.do(command))

    may = partial(Operation, scope=Scope.DECIDE, tag="outcomes")
    one, many = {200: Reply(wire.OutcomeAnswer)}, {200: Reply(list[wire.OutcomeAnswer])}
    state, problems = {200: Reply(wire.DecisionState)}, (404, 409, 503)
    return [
        may(
            "PUT",
            f"{DECISION}/outcome",
            endpoint=report_outcome,
            takes=wire.OutcomeRequest,
            replies=one,
            problems=problems,
        ),
        may(
            "POST",
            f"{ONE}/outcomes",
            endpoint=report_outcomes,
            takes=ITEMS,
            replies=many,
            problems=problems,
        ),
        may(
            "POST",
            f"{DECISION}/cancel",
            endpoint=cancel,
            replies=state,
            problems=(*problems, 422),
        ),
        may(
            "POST",
            f"{DECISION}/settle",
            endpoint=settle,
            takes=wire.SettleRequest,
            replies=state,
            problems=problems,
        ),
    ]


def _campaign_operations(engine: Engine) -> list[Operation]:
    async def open_campaign(request: Request) -> Response:
        """Open a campaign. To ask again with the same body is safe: it is opened once."""
        asked = parse(CAMPAIGNS, await read(request))
        terms = campaigns.terms_of(asked, engine.clock())
        try:
            # compiling must hold up nobody else
            await asyncio.to_thread(lambda: terms.machine().warm())
        except InputError as error:
            raise ProblemError(422, "invalid-field", str(error), "policy") from None

        def command(books: Books, at: int) -> tuple[wire.Campaign, bool]:
            campaign, new = campaigns.open_campaign(books, at, terms)
            return campaign_view(campaign), new

        view, new = await engine.do(command, LONG)
        return json_response(view, 201 if new else 200)

    async def add_budget(request: Request) -> Response:
        """Add money, which is planned over the users to come."""
        asked = parse(BUDGETS, await read(request))
        id_ = _campaign_id(request)

        def command(books: Books, at: int) -> wire.Campaign:
            return campaign_view(campaigns.add_budget(books, at, id_, asked.add, asked.request_id))

        return json_response(await engine.do(command))

    may = partial(Operation, "POST", scope=Scope.ADMIN, tag="campaigns")
    campaign, problems = {200: Reply(wire.Campaign)}, (404, 409, 503)
    opened = {
        201: Reply(wire.Campaign, "It is open."),
        200: Reply(wire.Campaign, "The same request has opened it."),
    }
    return [
        may(
            ALL,
            endpoint=open_campaign,
            takes=wire.CampaignRequest,
            replies=opened,
            problems=(409, 503),
        ),
        may(
            f"{ONE}/budget",
            endpoint=add_budget,
            takes=wire.BudgetRequest,
            replies=campaign,
            problems=problems,
        ),
        *(
            may(f"{ONE}/{turn}", endpoint=endpoint, replies=campaign, problems=problems)
            for turn, endpoint in _turns(engine).items()
        ),
    ]


def _turns(engine: Engine) -> dict[str, Endpoint]:
    async def turn(request: Request, kind: Kind) -> Response:
        id_ = _campaign_id(request)
        return json_response(
            await engine.do(lambda books, at: campaign_view(campaigns.turn(books, at, id_, kind)))
        )

    async def pause_campaign(request: Request) -> Response:
        """Pause a campaign: until it is resumed, nobody is treated."""
        return await turn(request, Kind.PAUSED)

    async def resume_campaign(request: Request) -> Response:
        """Resume a campaign after a pause."""
        return await turn(request, Kind.RESUMED)

    async def close_campaign(request: Request) -> Response:
        """Close a campaign for good: nobody is treated any more."""
        return await turn(request, Kind.CLOSED)

    return {"pause": pause_campaign, "resume": resume_campaign, "close": close_campaign}


def _look_operations(engine: Engine) -> list[Operation]:
    async def list_campaigns(request: Request) -> Response:
        """All campaigns, the newest first."""

        def command(books: Books, at: int) -> bytes:
            # there may be many with many names: in pieces, so that the event loop has its turns
            views = [wire.encode(campaign_view(each)) for each in reversed(books.all())]
            return b'{"campaigns":[' + b",".join(views) + b"]}"

        return Response(await engine.do(command, LONG), media_type=JSON)

    async def get_campaign(request: Request) -> Response:
        """One campaign, its money and its counts."""
        id_ = _campaign_id(request)
        return json_response(await engine.do(lambda books, at: campaign_view(books.look(id_))))

    async def get_report(request: Request) -> Response:
        """What the page shows of a campaign."""
        id_ = _campaign_id(request)
        return json_response(await engine.do(lambda books, at: report_view(books.look(id_), at)))

    may = partial(Operation, "GET", scope=Scope.READ, tag="campaigns")
    problems = (404, 503)
    return [
        may(
            ALL,
            endpoint=list_campaigns,
            replies={200: Reply(wire.CampaignList)},
            problems=(503,),
        ),
        may(ONE, endpoint=get_campaign, replies={200: Reply(wire.Campaign)}, problems=problems),
        may(
            f"{ONE}/report",
            endpoint=get_report,
            replies={200: Reply(wire.Report)},
            problems=problems,
        ),
    ]


def _log_operation(engine: Engine) -> Operation:
    making = asyncio.Semaphore(1)  # the others wait: each may take as much memory as its log

    async def get_log(request: Request) -> Response:
        """Every decision with features, costs, action, probability, price and outcome."""
        kind, id_ = request.query_params.get("format", "ndjson"), _campaign_id(request)
        if kind not in LOG_TYPES:
            raise invalid("format", kind, f"one of {', '.join(LOG_TYPES)}")

        def command(books: Books, at: int) -> tuple[Campaign, int]:
            campaign = books.campaign(id_)
            return campaign, campaign.sequence

        campaign, until = await engine.do(command)
        try:
            async with making:
                file = await asyncio.to_thread(
                    log.write, engine.books.ledger, campaign, until, kind
                )
        except OSError as error:
            raise ProblemError(503, "no-space", f"the log cannot be written: {error}") from None
        headers = {
            "Content-Disposition": f'attachment; filename="{campaign.id}.{kind}"',
            "Content-Length": str(file.seek(0, os.SEEK_END)),
        }
        return StreamingResponse(_chunks(file), headers=headers, media_type=LOG_TYPES[kind])

    content = {
        LOG_TYPES["ndjson"]: {"schema": {"type": "string"}},
        LOG_TYPES["parquet"]: {"schema": {"type": "string", "format": "binary"}},
    }
    return Operation(
        "GET",
        f"{ONE}/log",
        Scope.READ,
        get_log,
        tag="campaigns",
        replies={200: Reply(None, "One row per decision.", content)},
        problems=(404, 409, 422, 503),
        query={"format": {"enum": list(LOG_TYPES), "default": "ndjson"}},
    )


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while chunk := file.read(CHUNK):
            yield chunk
