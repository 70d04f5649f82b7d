"""Spreading: a request for a campaign in cells goes to the cells that it concerns.

Each of them is asked as if a client did: here, or where it is held. What they answer becomes one
answer. A list is done by several cells at the same time, and is all or none in each of them. Money
may move from cell to cell between two answers, so the money of the whole is read in one go.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw
from starlette.requests import Request
from starlette.responses import Response

from bccb import wire
from bccb.ledger.port import Account
from bccb.serve.answers import JSON, json_response
from bccb.serve.body import SLICE, NotNumbersError, read_whole, split_list
from bccb.serve.cells import cell_for, whole_of
from bccb.serve.columns import split_columns
from bccb.serve.engine import Engine
from bccb.serve.forwarding import body_of, once_more
from bccb.serve.merging import merged_campaign, merged_report
from bccb.serve.problem import ProblemError, conflict
from bccb.serve.views import campaign_view

Ask: TypeAlias = Callable[[Request], Awaitable[Response]]

PLACE = 3  # of the campaign's id in the parts of a path: /v1/campaigns/{campaign_id}
PROBLEM = "urn:bccb:problem:"
HALF_DONE = "others of the list were done: ask again with the same ids"


class _Named(msgspec.Struct):
    decision_id: str


class _ColumnsAnswer(msgspec.Struct):
    decision_ids: list[Raw]
    treatments: list[Raw]
    probabilities: list[Raw]
    prices: list[Raw]
    remaining: list[Raw]
    act: bool


NAMED = msgspec.json.Decoder(_Named)
IDS = msgspec.json.Decoder(list[str])
ANSWERS = msgspec.json.Decoder(list[Raw])
COLUMNS = msgspec.json.Decoder(_ColumnsAnswer)
CAMPAIGNS = wire.decoder(wire.Campaign)
REPORTS = wire.decoder(wire.Report)
PROBLEMS = wire.decoder(wire.Problem)


class Part(NamedTuple):
    """What one cell does of a list."""

    body: bytes
    items: list[int]  # their places in the whole list


Parts: TypeAlias = Mapping[str, Part]  # by cell


async def look(engine: Engine, request: Request) -> Response:
    """One campaign, its money and its counts."""
    id_ = cast("str", request.path_params["campaign_id"])
    view = await engine.do(lambda books, at: campaign_view(books.look(id_)), campaign=id_)
    return json_response(view)


@dataclass(frozen=True, slots=True)
class Spread:
    """A request for a campaign in cells."""

    request: Request
    cells: list[str]
    ask: Ask  # a cell, the same
    look: Ask  # at a cell
    accounts: Callable[[], Awaitable[list[Account]]]  # of the cells, as the ledger has them
    most_bytes: int  # of the body

    async def answer(self, operation: str) -> Response:
        """The answer to an operation."""
        match operation:
            case "decide" | "report_outcomes":
                return await self._list()
            case "decide_columns":
                return await self._columns()
            case "get_campaign" | "pause_campaign" | "resume_campaign" | "close_campaign":
                return await self._every(b"")
            case "upload_learning":
                return await self._every(await self._body())
            case "add_budget":
                return await self._add_budget()
            case "get_report":
                reports = [REPORTS.decode(each) for each in _accepted(await self._all(b""))]
                return json_response(merged_report(reports, await self.accounts()))
            case "get_explanation":
                names = f"{self.cells[0]} to {self.cells[-1]}"
                detail = f"each cell has learned on its own: ask for one of them, {names}"
                raise conflict("cannot-explain", detail)
        return await self._decided()

    async def _decided(self) -> Response:
        """The answer of the cell that has made the decision in the path."""
        cell = cell_for(self.request.path_params["decision_id"], self.cells)
        (answer,) = _accepted([await self._one(cell)])
        return Response(answer, media_type=JSON)

    # One cell, or all of them

    def _for(self, cell: str, body: bytes | None) -> Request:
        """The request, as one for a cell; None takes its body as it comes."""
        scope = self.request.scope
        path, raw = scope["path"].split("/"), scope["raw_path"].split(b"/")
        path[PLACE], raw[PLACE] = cell, cell.encode()
        changed = {
            "path": "/".join(path),
            "raw_path": b"/".join(raw),
            "path_params": {**scope["path_params"], "campaign_id": cell},
        }
        receive = self.request.receive if body is None else once_more(body)
        return Request({**scope, **changed}, receive)

    async def _one(self, cell: str, body: bytes | None = None) -> bytes | ProblemError:
        """What a cell answers, or its refusal."""
        return await self._ask(self.ask, self._for(cell, body), cell)

    async def _ask(self, ask: Ask, request: Request, cell: str) -> bytes | ProblemError:
        try:
            response = await ask(request)
            answer = await body_of(response)
        except ProblemError as problem:
            return self._of_whole(problem, cell)
        if response.status_code < 400:
            return answer
        return self._of_whole(_problem(answer), cell)

    def _of_whole(self, problem: ProblemError, cell: str) -> ProblemError:
        """A refusal, which speaks of the campaign and not of its cell."""
        detail = problem.detail.replace(cell, whole_of(cell) or cell)
        return ProblemError(problem.status, problem.kind, detail, problem.field)

    async def _all(self, body: bytes) -> list[bytes | ProblemError]:
        return await asyncio.gather(*(self._one(cell, body) for cell in self.cells))

    async def _every(self, body: bytes) -> Response:
        """Ask all cells, each of which answers with itself."""
        return await self._campaign(await self._all(body))

    async def _add_budget(self) -> Response:
        """Add money to the first cell: it moves by itself to where it is spent.

        The others are looked at before. So what is refused has added nothing.
        """
        body, (first, *others) = await self._body(), self.cells
        looks = _accepted(await asyncio.gather(*(self._look(cell) for cell in others)))
        return await self._campaign([await self._one(first, body), *looks])

    async def _campaign(self, answers: Sequence[bytes | ProblemError]) -> Response:
        views = [CAMPAIGNS.decode(each) for each in _accepted(answers)]
        return json_response(merged_campaign(views, await self.accounts()))

    async def _look(self, cell: str) -> bytes | ProblemError:
        scope = self._for(cell, b"").scope
        path = "/".join(scope["path"].split("/")[: PLACE + 1])
        changed = {"method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
        return await self._ask(self.look, Request({**scope, **changed}, once_more(b"")), cell)

    async def _body(self) -> bytes:
        return await read_whole(self.request, self.most_bytes)

    # Lists

    async def _list(self) -> Response:
        """One item, or a list of them, each with the id of its decision."""
        body = await self._body()
        single = body.lstrip()[:1] != b"["
        parts = None if single else await self._cut_list(body)
        if parts is None:  # one, or what cannot be read: any cell refuses that
            (answer,) = _accepted([await self._one(self._cell_of(body), body)])
            return Response(answer, media_type=JSON)
        items: dict[int, bytes] = {}
        for part, answer in (await self._parts(parts, _placed_row)).items():
            items |= zip(parts[part].items, map(bytes, ANSWERS.decode(answer)), strict=True)
        return Response(b"[" + b",".join(items[i] for i in sorted(items)) + b"]", media_type=JSON)

    def _cell_of(self, item: bytes) -> str:
        """The cell of an item; of one without an id, which will be refused, the first."""
        try:
            return cell_for(NAMED.decode(item).decision_id, self.cells)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return self.cells[0]

    async def _cut_list(self, body: bytes) -> Parts | None:
        """What each cell does of a list; None if it is none, which is refused whole."""
        try:
            items = split_list(body)
        except (ProblemError, NotNumbersError):
            return None
        by_cell: dict[str, list[int]] = {}
        size = 0
        for i, item in enumerate(items):
            by_cell.setdefault(self._cell_of(item), []).append(i)
            size += len(item)
            if size > SLICE:  # others are served in between
                size = 0
                await asyncio.sleep(0)
        return {
            cell: Part(b"[" + b",".join(bytes(items[i]) for i in mine) + b"]", mine)
            for cell, mine in by_cell.items()
        }

    async def _columns(self) -> Response:
        """Users in columns."""
        body = await self._body()
        parts = await self._cut_columns(body)
        if parts is None:
            (answer,) = _accepted([await self._one(self.cells[0], body)])
            return Response(answer, media_type=JSON)
        answers = await self._parts(parts, _placed_column)
        size = sum(len(part.items) for part in parts.values())
        merged = {name: [Raw()] * size for name in COLUMNS_OF_USERS}
        for cell, answer in answers.items():
            made = COLUMNS.decode(answer)
            for name, column in merged.items():
                for i, value in zip(parts[cell].items, getattr(made, name), strict=True):
                    column[i] = value
        return json_response({**merged, "act": made.act})

    async def _cut_columns(self, body: bytes) -> Parts | None:
        """The same for columns; None where one is no list, or not as long as the others."""
        try:
            unread = split_columns(body)
            ids = [bytes(each) for each in split_list(bytes(unread.decision_ids))]
            names = IDS.decode(b"[" + b",".join(ids) + b"]")
        except (ProblemError, NotNumbersError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        columns: dict[str, dict[str, list[bytes]]] = {"features": {}, "costs": {}}
        for group, given in (("features", unread.features), ("costs", unread.costs)):
            for name, column in given.items():
                try:
                    columns[group][name] = split_list(bytes(column))
                except (ProblemError, NotNumbersError):
                    return None
                if len(columns[group][name]) != len(ids):
                    return None
                await asyncio.sleep(0)
        by_cell: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            by_cell.setdefault(cell_for(name, self.cells), []).append(i)
        return {cell: Part(_columns_at(ids, columns, mine), mine) for cell, mine in by_cell.items()}

    async def _parts(self, parts: Parts, placed: Placed) -> dict[str, bytes]:
        """What each cell answers to its part; the worst refusal, in the places of the whole."""
        asking = (self._one(cell, part.body) for cell, part in parts.items())
        results = dict(zip(parts, await asyncio.gather(*asking), strict=True))
        done = {cell: each for cell, each in results.items() if isinstance(each, bytes)}
        refused = [
            placed(problem, parts[cell].items)
            for cell, problem in results.items()
            if isinstance(problem, ProblemError)
        ]
        if refused:
            worst = max(refused, key=lambda each: each.status)
            more = f" ({HALF_DONE})" if done else ""
            raise ProblemError(worst.status, worst.kind, worst.detail + more, worst.field)
        return done


COLUMNS_OF_USERS = ("decision_ids", "treatments", "probabilities", "prices", "remaining")
Placed: TypeAlias = Callable[[ProblemError, Sequence[int]], ProblemError]


def _columns_at(
    ids: list[bytes], columns: Mapping[str, Mapping[str, list[bytes]]], items: list[int]
) -> bytes:
    """The body with the columns of some users."""

    def some(column: list[bytes]) -> Raw:
        return Raw(b"[" + b",".join(bytes(column[i]) for i in items) + b"]")

    groups = {
        group: {name: some(column) for name, column in given.items()}
        for group, given in columns.items()
    }
    return wire.encode({"decision_ids": some(ids), **groups})


def _placed_row(problem: ProblemError, items: Sequence[int]) -> ProblemError:
    """A refusal of a part of a list, with the places of its items in the whole list."""
    detail = re.sub(
        r"\bitem ([0-9]+) of the list\b",
        lambda found: f"item {_place(found[1], items)} of the list",
        problem.detail,
    )
    first, dot, rest = (problem.field or "").partition(".")
    return _renamed(problem, detail, f"{_place(first, items)}{dot}{rest}")


def _placed_column(problem: ProblemError, items: Sequence[int]) -> ProblemError:
    """The same where users are in columns."""
    column, dot, last = (problem.field or "").rpartition(".")
    if column == "decision_ids" or "." in column:  # otherwise it is the name of a column
        last = _place(last, items)
    return _renamed(problem, problem.detail, f"{column}{dot}{last}")


def _place(text: str, items: Sequence[int]) -> str:
    is_place = text.isascii() and text.isdecimal() and int(text) < len(items)
    return str(items[int(text)]) if is_place else text


def _renamed(problem: ProblemError, detail: str, field: str) -> ProblemError:
    if problem.field and detail.startswith(problem.field):
        detail = field + detail.removeprefix(problem.field)
    return ProblemError(problem.status, problem.kind, detail, field or None)


def _accepted(answers: Sequence[bytes | ProblemError]) -> list[bytes]:
    """The answers, if none of them is a refusal; otherwise the worst of these is raised."""
    refused = [each for each in answers if isinstance(each, ProblemError)]
    if refused:
        raise max(refused, key=lambda each: each.status)
    return [each for each in answers if isinstance(each, bytes)]


def _problem(answer: bytes) -> ProblemError:
    """The refusal of another replica."""
    given = PROBLEMS.decode(answer)
    field = None if given.field is UNSET else given.field
    return ProblemError(given.status, given.type.removeprefix(PROBLEM), given.detail, field)
