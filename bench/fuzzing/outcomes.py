"""Outcomes in the plain ledger: recorded once, within the window."""

from __future__ import annotations

from typing import Any

from bench.fuzzing.model import Book, DecisionRow, Report, Span

Result = int | tuple[str, float]  # the status of a refusal, or how a report is taken


def observed(
    book: Book, items: list[dict[str, Any]], status: int, answers: Any, at: Span, again: bool
) -> None:
    """Take the answer to a list of reports; ``again``: they may have arrived before."""
    too_long = len(items) > book.most_per_list
    allowed: list[set[Result]] = [{422}] if too_long else _allowed(book, items, at, again)
    if status != 200:
        if not any(status in results for results in allowed):
            raise book.broken(f"outcomes {items[:3]} were answered {status} {answers}")
        return
    if too_long or not isinstance(answers, list) or len(answers) != len(items):
        raise book.broken(f"{len(items)} outcomes were answered {answers}")
    for item, answer, results in zip(items, answers, allowed, strict=True):
        found = answer["status"], answer["value"]
        allows = any(repr(found) == repr(each) for each in results)
        if not allows or answer["decision_id"] != item["decision_id"]:
            counter = "lost" if found[0] == "recorded" else "disagreed"
            fault = f"the outcome {item} was answered {answer}, not {results}"
            raise book.broken(f"{fault}: {book.rows[item['decision_id']].about}", counter)
        _take(book, item, found[0], at)


def _allowed(book: Book, items: list[dict[str, Any]], at: Span, again: bool) -> list[set[Result]]:
    planned: dict[str, Report] = {}
    unsure: set[str] = set()  # reported before in this list, and perhaps too late
    found = []
    for item in items:
        id_, value = item["decision_id"], item["value"] + 0.0
        if id_ in unsure:
            results: set[Result] = {409, ("already_recorded", value), ("too_late", 0.0)}
            results.add(("already_recorded", 0.0))
        else:
            results = _results(book, item, at, planned.get(id_))
            if again and ("recorded", value) in results:
                results = results | {("already_recorded", value)}
        if len(results) > 1:
            unsure.add(id_)
        elif ("recorded", value) in results:
            planned[id_] = report_of(book.rows[id_], item)
        found.append(results)
    return found


def _results(book: Book, item: dict[str, Any], at: Span, before: Report | None) -> set[Result]:
    row = book.rows.get(item["decision_id"])
    if row is None:
        return {404}
    if book.shadow != ("action" in item):
        return {422}
    report = report_of(row, item)
    if report[1] not in (None, *book.request["treatments"]):
        return {422}
    before = before or row.report
    if before is not None:
        counts = before[0] if row.corrected is None else row.corrected
        return {("already_recorded", counts)} if before == report else {409}
    if row.status == "cancelled":
        return {409}
    late = row.status == "expired" or book.is_late(row, at)
    # Of a shadow's user nothing is known once the window has passed, not even a zero
    known = report[0] == 0.0 and not book.shadow
    past: Result = ("already_recorded", 0.0) if known else ("too_late", 0.0)
    fresh: Result = ("recorded", report[0])
    return {past} if late else {fresh} if late is False else {past, fresh}


def report_of(row: DecisionRow, item: dict[str, Any]) -> Report:
    """The outcome and the action that an item reports."""
    return item["value"] + 0.0, item.get("action", row.treatment)


def _take(book: Book, item: dict[str, Any], status: str, at: Span) -> None:
    row = book.rows[item["decision_id"]]
    report = report_of(row, item)
    if status == "too_late" and report[0] != 0.0:
        row.too_late = True
    if row.status != "open":
        return
    expired = status == "already_recorded" and not report[0] and book.is_late(row, at) is not False
    if status == "too_late" or expired:
        book.expire(row)
    else:
        charged = row.cost if row.settled is not None else book.charge(row, report[0])
        returned = row.returned or report[1] != row.treatment or (charged == 0 < row.cost)
        changes: dict[str, Any] = {"charged": charged, "returned": returned}
        book.change(row, status="observed", report=report, **changes)
