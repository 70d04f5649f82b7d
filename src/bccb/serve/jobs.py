"""Jobs: commands that wait for the engine, and how their results reach those who asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from bccb.serve.books import Books
from bccb.serve.decisions import Asked, decide
from bccb.serve.problem import ProblemError

Command: TypeAlias = Callable[[Books, int], Any] | Asked  # decisions are made together


class Job(NamedTuple):
    """A command that waits, and where its result goes."""

    command: Command
    future: asyncio.Future[Any]
    seconds: float  # an estimate of how long it takes
    campaign: str | None  # which others may have moved on, in a shared ledger


def results_of(books: Books, at: int, jobs: list[Job]) -> list[Any]:
    """The results of commands, or their refusals."""
    results: list[Any] = []
    for asked, group in groupby(jobs, lambda job: isinstance(job.command, Asked)):
        commands: list[Any] = [job.command for job in group]
        results += (decide if asked else _one_by_one)(books, at, commands)
    return results


def _one_by_one(
    books: Books, at: int, commands: list[Callable[[Books, int], Any]]
) -> Iterator[Any]:
    """The result of each command, or its refusal."""
    for command in commands:
        try:
            yield command(books, at)
        except ProblemError as problem:
            yield problem


def deliver(jobs: list[Job], results: list[Any]) -> None:
    """Answer those who still wait."""
    for job, result in zip(jobs, results, strict=True):
        if job.future.done():  # the client has gone
            continue
        if isinstance(result, ProblemError):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
