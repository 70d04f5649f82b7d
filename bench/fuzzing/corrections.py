"""Corrections in the plain ledger: of a reported outcome, once, within its window."""

from __future__ import annotations

from typing import Any

from bench.fuzzing.model import Book, BrokenError, DecisionRow, Span


def may_correct(book: Book, id_: str, value: float, at: Span) -> set[int]:
    """The statuses that the answer to a correction may have."""
    row = book.rows.get(id_)
    if row is None:
        return {404}
    if row.corrected is not None:
        return {200} if row.corrected == value else {409}
    late = book.is_late(row, at)
    if row.status == "expired" and late is None:
        return {200, 409}  # its zero may have been recorded just before
    if row.status != "observed" or late:
        return {409}
    more = _charge(book, row, value) - row.held
    least = most = book.budget - book.paid
    if book.returns:
        most += sum(each.held for each in book.due(at))
    if more > most:
        return {409}
    return {200} if late is False and more <= least else {200, 409}


def _charge(book: Book, row: DecisionRow, value: float) -> int:
    """What a decision costs once its outcome is another one.

    A settled cost is not raised, and a treatment that another system did not give costs nothing.
    """
    assert row.report is not None
    if row.report[1] != row.treatment:
        return row.held
    charged = book.charge(row, value)
    return charged if row.settled is None else min(row.settled, charged)


def corrected(book: Book, id_: str, value: float, answer: Any, again: bool) -> None:
    """Take the answer to a correction; ``again``: it may have arrived before."""
    row = book.rows[id_]
    if row.report is None:
        raise BrokenError("it expired, or its zero was recorded: from here on nobody knows")
    known = "already_recorded" if row.corrected is not None else "recorded"
    statuses = {known, "already_recorded"} if again else {known}
    wanted = [{"decision_id": id_, "value": value, "status": each} for each in statuses]
    if repr(answer) not in map(repr, wanted):  # which tells -0.0 from 0.0
        counter = "lost" if row.corrected is not None else "disagreed"
        raise book.broken(f"a correction to {value} is answered {answer}: {row.about}", counter)
    if row.corrected is None:
        if row.report[1] == row.treatment:
            charged = book.charge(row, value)
            book.change(row, charged=charged, returned=charged == 0 < row.cost)
        row.corrected = value
