"""The operations of the API: each reads a body, runs a command in the engine and answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Annotated, cast

import msgspec
from msgspec import Meta, structs
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bccb import wire
from bccb.errors import InputError
from bccb.ledger.event import Kind
from bccb.ledger.port import Scope
from bccb.machine import Machine
from bccb.serve import campaigns, explanations, learning, lists, log, outcomes
from bccb.serve.answers import JSON, json_response
from bccb.serve.body import parse, parse_items, parse_list, read, read_file, refusal
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.cells import cells_of
from bccb.serve.columns import parse_columns
from bccb.serve.decisions import Asked, answer_columns, answers
from bccb.serve.engine import Engine
from bccb.serve.forwarding import request_id_of
from bccb.serve.listing import listing
from bccb.serve.merging import merged_campaign
from bccb.serve.operation import Operations, Reply
from bccb.serve.outcomes import Reports
from bccb.serve.problem import ProblemError, invalid
from bccb.serve.spreading import look
from bccb.serve.texts import entries, plain_users
from bccb.serve.users import UserRows
from bccb.serve.views import campaign_view, report_view
from bccb.serve.work import LONG

ALL = "/v1/campaigns"
ONE = "/v1/campaigns/{campaign_id}"
DECISION = f"{ONE}/decisions/{{decision_id}}"

CAMPAIGNS = wire.decoder(wire.CampaignRequest)
BUDGETS = wire.decoder(wire.BudgetRequest)
DECISIONS = wire.decoder(wire.DecisionRequest)
PLAIN_DECISIONS = wire.decoder(wire.PlainDecisionRequest)
OUTCOMES = wire.decoder(wire.OutcomeRequest)
OUTCOME_ITEMS = wire.decoder(wire.OutcomeItem)
CORRECTIONS = wire.decoder(wire.CorrectRequest)
SETTLEMENTS = wire.decoder(wire.SettleRequest)
SEVERAL = Meta(min_length=1, max_length=wire.MOST_BATCH)
USERS = Annotated[list[wire.DecisionRequest], SEVERAL]
ITEMS = Annotated[list[wire.OutcomeItem], SEVERAL]
LOG_TYPES = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}
CHUNK = 1 << 16  # bytes of a download at once
LOG_WRITER = ThreadPoolExecutor(1, "bccb-log")  # one after the other: each may take much memory
EXPLAINER = ThreadPoolExecutor(1, "bccb-explain")  # likewise

CHANGES = (404, 409, 503)  # problems of what changes a campaign

API = Operations()  # the most frequent ones first
deciding = partial(API.add, scope=Scope.DECIDE, tag="decisions", problems=CHANGES)
reporting = partial(API.add, scope=Scope.DECIDE, tag="outcomes", problems=CHANGES)
managing = partial(API.add, "POST", scope=Scope.ADMIN, tag="campaigns", problems=CHANGES)
looking = partial(API.add, "GET", scope=Scope.READ, tag="campaigns", problems=(404, 503))


def _campaign_id(request: Request) -> str:
    return cast("str", request.path_params["campaign_id"])


def _decision_id(request: Request) -> str:
    given: str = request.path_params["decision_id"]
    try:
        return msgspec.convert(given, wire.DecisionId)
    except msgspec.ValidationError as error:
        problem = refusal(wire.DecisionId, given, "decision_id")
        raise problem or invalid("decision_id", given, str(error)) from None


async def _plain_list(body: bytes) -> Sequence[wire.PlainDecisionRequest]:
    users = plain_users(body)
    return await parse_items(PLAIN_DECISIONS, body) if users is None else users


async def _list(body: bytes) -> Sequence[wire.DecisionRequest]:
    return await parse_list(DECISIONS, body, entries)


@deciding(
    "POST",
    f"{ONE}/decisions",
    wire.DecisionAnswer | list[wire.DecisionAnswer],
    takes=wire.DecisionRequest | USERS,
)
async def decide(engine: Engine, request: Request) -> Response:
    """Decide on one user, or on a list of up to 1,000: all of them or none.

    The same id with the same body gives the same answer, so that retries are safe.
    """
    body = await read(request)
    single = body.lstrip()[:1] != b"["
    id_ = _campaign_id(request)
    plain = engine.books.is_plain(id_)
    users: Sequence[wire.DecisionRequest | wire.PlainDecisionRequest]
    if single:
        users = [parse(PLAIN_DECISIONS, body) if plain else parse(DECISIONS, body)]
    else:
        users = await (_plain_list(body) if plain else _list(body))
    made = answers(await lists.decide(engine, Asked(id_, UserRows.of(users, single))))
    return json_response(made[0] if single else made)


@deciding(
    "POST",
    f"{ONE}/decisions/columns",
    wire.DecisionColumnsAnswer,
    takes=wire.DecisionColumns,
)
async def decide_columns(engine: Engine, request: Request) -> Response:
    """Decide on up to 1,000 users in columns: all of them or none.

    As for a list, but with one list per feature and per treatment, which is faster.
    """
    id_ = _campaign_id(request)
    users = await parse_columns(await read(request), engine.books.is_plain(id_))
    return json_response(answer_columns(await lists.decide(engine, Asked(id_, users))))


@reporting("PUT", f"{DECISION}/outcome", wire.OutcomeAnswer, takes=wire.OutcomeRequest)
async def report_outcome(engine: Engine, request: Request) -> Response:
    """Report what became of a decision, once; after the window it is too late."""
    id_ = _decision_id(request)
    given = parse(OUTCOMES, await read(request))
    item = wire.OutcomeItem(**structs.asdict(given), decision_id=id_)
    (answer,) = await lists.observe(engine, Reports(_campaign_id(request), [item], single=True))
    return json_response(answer)


@reporting("POST", f"{ONE}/outcomes", list[wire.OutcomeAnswer], takes=ITEMS)
async def report_outcomes(engine: Engine, request: Request) -> Response:
    """Report a list of up to 1,000 outcomes: all of them or none."""
    items = await parse_list(OUTCOME_ITEMS, await read(request))
    reports = Reports(_campaign_id(request), items, single=False)
    return json_response(await lists.observe(engine, reports))


@reporting("POST", f"{DECISION}/cancel", wire.DecisionState, problems=(*CHANGES, 422))
async def cancel(engine: Engine, request: Request) -> Response:
    """Undo a decision whose treatment was not delivered: its money returns."""
    id_ = _decision_id(request)
    command = partial(outcomes.cancel, campaign_id=_campaign_id(request), decision=id_)
    return json_response(await engine.do(command, campaign=_campaign_id(request)))


@reporting("POST", f"{DECISION}/correct", wire.OutcomeAnswer, takes=wire.CorrectRequest)
async def correct(engine: Engine, request: Request) -> Response:
    """Correct an outcome, such as an order that came back: once, within its window."""
    id_ = _decision_id(request)
    value = parse(CORRECTIONS, await read(request)).value
    command = partial(
        outcomes.correct, campaign_id=_campaign_id(request), decision=id_, value=value
    )
    return json_response(await engine.do(command, campaign=_campaign_id(request)))


@reporting("POST", f"{DECISION}/settle", wire.DecisionState, takes=wire.SettleRequest)
async def settle(engine: Engine, request: Request) -> Response:
    """Report what a treatment cost in the end: the rest of its money returns."""
    id_ = _decision_id(request)
    cost = parse(SETTLEMENTS, await read(request)).cost
    command = partial(outcomes.settle, campaign_id=_campaign_id(request), decision=id_, cost=cost)
    return json_response(await engine.do(command, campaign=_campaign_id(request)))


@managing(
    ALL,
    takes=wire.CampaignRequest,
    replies={
        201: Reply(wire.Campaign, "It is open."),
        200: Reply(wire.Campaign, "The same request has opened it."),
    },
    problems=(409, 503),
)
async def open_campaign(engine: Engine, request: Request) -> Response:
    """Open a campaign. To ask again with the same body is safe: it is opened once."""
    asked = parse(CAMPAIGNS, await read(request))
    terms = campaigns.terms_of(asked, engine.clock())
    try:
        terms.check_installed()
        # compiling must hold up nobody else
        await asyncio.to_thread(lambda: terms.machine().warm())
    except InputError as error:
        raise ProblemError(422, "invalid-field", str(error), "policy") from None

    def command(books: Books, at: int) -> tuple[wire.Campaign, bool]:
        cells, new = campaigns.open_campaign(books, at, terms, asked.cells)
        views = [campaign_view(cell) for cell in cells]
        return merged_campaign(views, [cell.account() for cell in cells]), new

    view, new = await engine.do(command, LONG, terms.learned_from)
    return json_response(view, 201 if new else 200)


@API.add(
    "PUT",
    f"{ONE}/learning",
    wire.Campaign,
    scope=Scope.ADMIN,
    tag="campaigns",
    problems=CHANGES,
    takes=bytes,
    most_bytes=learning.MOST_BYTES,
)
async def upload_learning(engine: Engine, request: Request) -> Response:
    """Let a campaign that was opened with `learned_from: "upload"` begin with a saved policy.

    The body is what `Policy.to_bytes` gives: the same policy, with the same parameters, as many
    columns and treatments, that has learned history and made no decisions. To send the same again
    is safe.
    """
    id_ = _campaign_id(request)
    terms = await engine.do(lambda books, at: books.campaign(id_).terms, campaign=id_)
    saved = await read_file(request, learning.MOST_BYTES)
    checking = partial(learning.learned, terms, saved)
    memory = await asyncio.get_running_loop().run_in_executor(learning.CHECKER, checking)

    def command(books: Books, at: int) -> wire.Campaign:
        return campaign_view(learning.begin(books, at, id_, memory))

    return json_response(await engine.do(command, LONG, id_))


@managing(f"{ONE}/budget", wire.Campaign, takes=wire.BudgetRequest)
async def add_budget(engine: Engine, request: Request) -> Response:
    """Add money, which is planned over the users to come."""
    asked, id_ = parse(BUDGETS, await read(request)), _campaign_id(request)
    request_id = asked.request_id or request_id_of(request)

    def command(books: Books, at: int) -> wire.Campaign:
        return campaign_view(campaigns.add_budget(books, at, id_, asked.add, request_id))

    return json_response(await engine.do(command, campaign=_campaign_id(request)))


@managing(f"{ONE}/pause", wire.Campaign)
async def pause_campaign(engine: Engine, request: Request) -> Response:
    """Pause a campaign: until it is resumed, nobody is treated."""
    return await _turn(engine, request, Kind.PAUSED)


@managing(f"{ONE}/resume", wire.Campaign)
async def resume_campaign(engine: Engine, request: Request) -> Response:
    """Resume a campaign after a pause."""
    return await _turn(engine, request, Kind.RESUMED)


@managing(f"{ONE}/close", wire.Campaign)
async def close_campaign(engine: Engine, request: Request) -> Response:
    """Close a campaign for good: nobody is treated any more."""
    return await _turn(engine, request, Kind.CLOSED)


async def _turn(engine: Engine, request: Request, kind: Kind) -> Response:
    id_ = _campaign_id(request)

    def command(books: Books, at: int) -> wire.Campaign:
        return campaign_view(campaigns.turn(books, at, id_, kind))

    return json_response(await engine.do(command, campaign=id_))


@looking(ALL, wire.CampaignList, problems=(503,))
async def list_campaigns(engine: Engine, request: Request) -> Response:
    """All campaigns, the newest first."""
    listed = await listing(engine, request)
    return Response(b'{"campaigns":[' + b",".join(listed) + b"]}", media_type=JSON)


@looking(ONE, wire.Campaign)
async def get_campaign(engine: Engine, request: Request) -> Response:
    """One campaign, its money and its counts."""
    return await look(engine, request)


@looking(f"{ONE}/report", wire.Report)
async def get_report(engine: Engine, request: Request) -> Response:
    """What the page shows of a campaign."""
    id_ = _campaign_id(request)
    seconds = engine.books.seconds_to_report(id_)
    report = await engine.do(lambda books, at: report_view(books.look(id_), at), seconds, id_)
    return json_response(report)


@looking(f"{ONE}/explanation", wire.Explanation, problems=CHANGES)
async def get_explanation(engine: Engine, request: Request) -> Response:
    """What the policy has learned: the effect by segment of each feature, and who is treated.

    It takes up to some seconds, while the campaign goes on. Policies without a posterior of their
    effects, and those that have learned fewer than 100 outcomes, cannot tell.
    """
    id_ = _campaign_id(request)

    def command(books: Books, at: int) -> tuple[Campaign, Machine]:
        campaign = books.campaign(id_)
        return campaign, explanations.copied(campaign)

    work = partial(explanations.explanation_view, *await engine.do(command, LONG, id_))
    return json_response(await asyncio.get_running_loop().run_in_executor(EXPLAINER, work))


@looking(
    f"{ONE}/log",
    replies={
        200: Reply(
            description="One row per decision.",
            content={
                LOG_TYPES["ndjson"]: {"schema": {"type": "string"}},
                LOG_TYPES["csv"]: {"schema": {"type": "string"}},
                LOG_TYPES["parquet"]: {"schema": {"type": "string", "format": "binary"}},
            },
        )
    },
    problems=(*CHANGES, 422),
    query={"format": {"enum": list(LOG_TYPES), "default": "ndjson"}},
)
async def get_log(engine: Engine, request: Request) -> Response:
    """Every decision with features, costs, action, probability, price and outcome."""
    kind, id_ = request.query_params.get("format", "ndjson"), _campaign_id(request)
    cells = cells_of(id_)
    if kind not in LOG_TYPES:
        raise invalid("format", kind, f"one of {', '.join(LOG_TYPES)}")

    def command(books: Books, at: int) -> tuple[Campaign, log.Until]:
        found = log.cells_in(books.ledger, cells) if cells else None
        if found is not None:
            return found
        campaign = books.campaign(id_)
        return campaign, {campaign.key: campaign.sequence}

    campaign, until = await engine.do(command, campaign=id_)
    writing = partial(log.write, engine.books.ledger, campaign, until, kind)
    try:
        file = await asyncio.get_running_loop().run_in_executor(LOG_WRITER, writing)
    except OSError as error:
        raise ProblemError(503, "no-space", f"the log cannot be written: {error}") from None
    headers = {
        "Content-Disposition": f'attachment; filename="{id_}.{kind}"',
        "Content-Length": str(file.seek(0, os.SEEK_END)),
    }
    return StreamingResponse(_chunks(file), headers=headers, media_type=LOG_TYPES[kind])


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while chunk := file.read(CHUNK):
            yield chunk
