"""What the service shows of a campaign, against the plain ledger: views, reports and logs."""

from __future__ import annotations

import io
import json
import math
from typing import Any

from bench.fuzzing import strict
from bench.fuzzing.model import CHANGING, ROUNDING, Book, DecisionRow, Span, money

SERIES = ("at", "decisions", "spent", "planned", "price")


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same, also in the sign of a zero."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def check_view(book: Book, view: Any, at: Span) -> None:
    """The campaign as the service shows it."""
    for name, before in book.view.items():
        if name not in CHANGING and not same(view[name], before):
            raise book.broken(f"{name} was {before} and is {view[name]}", "lost")
    budget, spent, reserved, left = (
        money(view[name]) for name in ("budget", "spent", "reserved", "remaining")
    )
    if spent + reserved > budget or left < 0:
        raise book.broken(f"{spent} + {reserved} of {budget} micros", "overspent")
    exact = (budget, view["decisions"], view["treated"], view["status"], left)
    expected = (book.budget, len(book.rows), book.treated, book.status, budget - spent - reserved)
    if exact != expected:
        counter = "lost" if view["decisions"] < len(book.rows) else "disagreed"
        raise book.broken(f"it is {exact}, by the answers {expected}", counter)
    _check_sums(book, view["pending"], reserved, at)
    _check_outcomes(book, view)
    book.check_left(left, at)


def _check_sums(book: Book, open_: int, reserved: int, at: Span) -> None:
    due = list(book.due(at))
    if not book.open - len(due) <= open_ <= book.open:
        raise book.broken(f"{open_} are open, by the answers {book.open} less up to {len(due)}")
    least = book.reserved - sum(row.reserved for row in due)
    if not least <= reserved <= book.reserved:
        raise book.broken(f"{reserved} are reserved, by the answers {least} to {book.reserved}")


def _check_outcomes(book: Book, view: Any) -> None:
    """How many outcomes came too late, were corrected, and what all that count add up to."""
    rows = book.rows.values()
    exact = view["too_late"], view["corrections"]
    expected = sum(row.too_late for row in rows), sum(row.corrected is not None for row in rows)
    if exact != expected:
        raise book.broken(f"(too late, corrected) is {exact}, by the answers {expected}", "lost")
    values = [row.value for row in rows if row.value]
    # sums of a report and its correction: as much is rounded as both are large
    sizes = [abs(row.report[0]) for row in rows if row.report and row.corrected is not None]
    rounding = ROUNDING * (1.0 + sum(map(abs, values)) + sum(sizes))
    counted = [float(value != 0.0) for value in values] if book.amounts else values
    for name, all_of_them in (("conversions", counted), ("value", values)):
        total = math.fsum(all_of_them)
        if view[name] is None and not book.amounts:
            continue
        if not abs(view[name] - total) <= rounding:
            raise book.broken(f"{name} is {view[name]}, by the answers {total}", "lost")


def check_report(book: Book, report: Any, at: Span) -> None:
    """What the page shows."""
    check_view(book, report["campaign"], at)
    arms = report["arms"]
    if [arm["treatment"] for arm in arms] != [None, *book.request["treatments"]]:
        raise book.broken(f"the arms are {arms}")
    standing = sum(row.status != "cancelled" for row in book.rows.values())
    if sum(arm["decisions"] for arm in arms) != standing:
        raise book.broken(f"{standing} decisions stand, but the arms are {arms}")
    caused = report["campaign"]["caused"] or {}
    rates = (arm[name] for arm in arms for name in ("rate", "value_per_user"))
    figures = (caused.get(name) for name in ("estimated", "measured", "return_on_spend"))
    for interval in (*figures, *rates):
        if interval is not None and not interval["low"] <= interval["value"] <= interval["high"]:
            raise book.broken(f"an interval is {interval}")
    if len({len(report["series"][name]) for name in SERIES}) != 1:
        raise book.broken("the series are not equally long")
    money(report["planned"])


def check_log(book: Book, rows: list[dict[str, Any]], at: Span) -> None:
    """Every decision once, in order, as it was answered and with its end."""
    ids = [row["decision_id"] for row in rows]
    if ids != list(book.rows):
        missing = sorted(book.rows.keys() - set(ids))[:5]
        counter = "lost" if missing else "disagreed"
        raise book.broken(f"the log has {len(ids)} of {len(book.rows)}, not {missing}", counter)
    for number, (logged, row) in enumerate(zip(rows, book.rows.values(), strict=True), 1):
        _check_row(book, logged, row, number, at)


def _check_row(book: Book, logged: dict[str, Any], row: DecisionRow, number: int, at: Span) -> None:
    proposed = row.treatment or "control"
    done: str | None = proposed
    value = row.value if row.report else 0.0 if row.status == "expired" else None
    if (
        logged["status"] == "expired"
        and row.status == "open"
        and book.is_late(row, at) is not False
    ):
        value = 0.0
    elif logged["status"] != row.status and (
        logged["status"] not in ENDED or row.status not in ENDED
    ):
        raise book.broken(f"{row.about} stands in the log as {logged}", "lost")
    chance = "proposed_probability" if book.shadow else "probability"
    if book.shadow:
        done = (row.report[1] or "control") if row.report else None
        value = row.value
        if logged["proposed"] != proposed:
            raise book.broken(f"{row.about} stands in the log as {logged}", "lost")
    features = {name: logged[name] for name in row.user["features"]}
    found = (
        logged["number"],
        logged["treatment"],
        logged["outcome"],
        logged[chance],
        logged["price"],
    )
    expected = number, done, value, row.answer["probability"], row.answer["price"]
    if found != expected or features != row.user["features"]:
        raise book.broken(f"{row.about} stands in the log as {logged}", "lost")


ENDED = ("observed", "expired")  # a zero may be both, where the report came as the window passed


def parquet_rows(raw: bytes) -> list[dict[str, Any]]:
    """The rows of a log in Parquet."""
    import polars

    rows = polars.read_parquet(io.BytesIO(raw)).to_dicts()
    strict.check_finite(rows)
    return rows
