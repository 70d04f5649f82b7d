"""Checks of everything that was answered so far, most of all after a restart."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from bench.fuzzing import actions, looks, strict
from bench.fuzzing.faults import VERSIONS, program
from bench.fuzzing.model import Book, BrokenError, DecisionRow, Span
from bench.fuzzing.session import WRONG, Session
from bench.fuzzing.wire import calling, now
from bench.service.process import run_bccb

SWEEP = 20.0  # seconds for windows to be swept
SAMPLE = 10  # older decisions of a campaign that are asked again
NUMBERS = 100_000  # features and costs in a list


def check_views(session: Session) -> None:
    """All campaigns are listed, each as the model has it."""
    call = calling("GET", "/v1/campaigns")
    answer = session.wire.ask(call)
    try:
        listed = session.read(call, answer)["campaigns"]
    except BrokenError:
        return
    assert answer is not None
    views = {view["id"]: view for view in listed}
    missing = set(session.names) - {view["name"] for view in listed}
    if missing:
        session.findings.add("lost", f"the campaigns {sorted(missing)[:5]} are not listed")
    for book in list(session.books):
        try:
            looks.check_view(book, views[book.id], Span(answer.began, answer.ended))
        except BrokenError:
            session.drop(book)
        except WRONG as error:
            session.findings.add("disagreed", f"{book.about}: {error!r}")
            session.drop(book)


def ask_again(session: Session, draws: random.Random, everything: bool) -> None:
    """All answers that were given are given again: those since the last time, or all of them."""
    for book in list(session.books):
        rows = list(book.rows.values())
        chosen = rows
        if not everything:
            chosen = rows[book.checked :] + draws.sample(rows, min(SAMPLE, len(rows)))
        book.checked = len(rows)
        _ask_decisions(session, book, chosen)
        _ask_outcomes(session, book, chosen)
        _ask_corrections(session, book, chosen)


def _ask_decisions(session: Session, book: Book, rows: list[DecisionRow]) -> None:
    users = {row.id: row.user for row in rows if row.status != "cancelled"}
    size = min(NUMBERS // session.users[book.id].width, book.most_per_list)
    for many in _lists(list(users.values()), size):
        if book in session.books:
            session.perform([actions.decide(book, many)])


def _ask_outcomes(session: Session, book: Book, rows: list[DecisionRow]) -> None:
    items = []
    for row in rows:
        if row.report is not None:
            item: dict[str, Any] = {"decision_id": row.id, "value": row.report[0]}
            items.append({**item, "action": row.report[1]} if book.shadow else item)
    for many in _lists(items, book.most_per_list):
        if book in session.books:
            session.perform([actions.outcome_list(book, many)])


def _ask_corrections(session: Session, book: Book, rows: list[DecisionRow]) -> None:
    for row in rows:
        if row.corrected is not None and book in session.books:
            session.perform([actions.correct(book, row.id, row.corrected)])


def _lists(many: list[Any], size: int) -> Iterator[list[Any]]:
    return (many[at : at + size] for at in range(0, len(many), max(size, 1)))


def await_sweep(session: Session) -> None:
    """Decisions whose window has passed must be let go sooner or later."""
    deadline = time.monotonic() + SWEEP
    for book in list(session.books):
        moment = Span(now(), now())
        late = [row for row in book.due(moment) if book.is_late(row, moment)]
        while late and not _swept(session, book, late):
            if time.monotonic() > deadline:
                session.findings.add("disagreed", f"{len(late)} windows were not swept")
                session.drop(book)
                break
            time.sleep(0.1)


def _swept(session: Session, book: Book, late: list[DecisionRow]) -> bool:
    call = calling("GET", f"/v1/campaigns/{book.id}")
    with suppress(BrokenError, *WRONG):
        if session.read(call, session.wire.ask(call))["pending"] > book.open - len(late):
            return False
        for row in late:
            book.expire(row)
        return True
    return False


def check_looks(session: Session, draws: random.Random) -> None:
    """The log and the report of every campaign, and the figures."""
    for book in list(session.books):
        for action in (actions.log(book, draws.random() < 0.1), actions.report(book)):
            if book in session.books:
                session.perform([action])
    check_metrics(session)


def check_metrics(session: Session) -> None:
    """The figures for Prometheus."""
    call = calling("GET", "/metrics")
    with suppress(BrokenError):
        answer = session.wire.ask(call)
        session.read(call, answer, lambda raw: strict.check_metrics(raw.decode()))


def check_fold(session: Session) -> None:
    """``bccb ledger verify``: the state is the fold of the whole journal."""
    done = run_bccb("ledger", "verify", session.ledger, program=program(VERSIONS[session.version]))
    if done.returncode != 0:
        session.findings.add("disagreed", f"ledger verify: {done.stdout}{done.stderr}")
