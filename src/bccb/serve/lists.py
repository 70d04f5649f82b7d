"""Lists of decisions and outcomes: those that take long are done in parts.

Such a list is checked whole, then done part by part: others are served in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from bccb.serve.books import Books
from bccb.serve.decisions import Asked, Made, check
from bccb.serve.engine import Engine
from bccb.serve.jobs import Command
from bccb.serve.outcomes import Reports, plan
from bccb.serve.outcomes import observe as record
from bccb.serve.problem import ProblemError
from bccb.serve.work import LONG
from bccb.wire import OutcomeAnswer

R = TypeVar("R", Asked, Reports)


async def decide(engine: Engine, asked: Asked) -> Made:
    """Decide on users, together with others who wait; the decisions, once they are durable."""
    made: list[Made] = await _in_parts(engine, asked, check, lambda part: part)
    return Made(made[0].terms, [event for part in made for event in part.events])


async def observe(engine: Engine, reports: Reports) -> list[OutcomeAnswer]:
    """Record outcomes; the answers, once they are durable."""
    answers = await _in_parts(engine, reports, plan, lambda part: partial(record, reports=part))
    return [answer for part in answers for answer in part]


async def _in_parts(
    engine: Engine,
    request: R,
    check: Callable[[Books, int, R], object],
    command_for: Callable[[R], Command],
) -> list[Any]:
    """The results of the parts of a request, in order."""
    id_ = request.campaign_id
    most = engine.books.users_at_once(id_)
    if request.size > most:
        await engine.do(lambda books, at: check(books, at, request), LONG, id_)
    results = []
    for part in request.parts(most):
        with _half_done(part.first):
            seconds = engine.books.seconds(id_, part.size)
            results.append(await engine.queue(command_for(part), seconds, id_))
    return results


@contextmanager
def _half_done(first: int) -> Iterator[None]:
    """Say in the refusal of a later part of a list that the parts before it were done."""
    try:
        yield
    except ProblemError as problem:
        if not first:
            raise
        done = f"the first {first} of the list were done: ask again with the same ids"
        detail = f"{problem.detail} ({done})"
        raise ProblemError(problem.status, problem.kind, detail, problem.field) from None
