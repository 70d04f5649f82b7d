"""A look into the ledger's file, read-only and past the service's own code.

Between a kill and the next start, what was acknowledged must be in the journal, and the row of
each campaign must be the sum of its journal.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from bench.service.memory import Book, Decision, Faults

MONEY = """
SELECT c.id, c.budget, c.spent, c.reserved,
    coalesce(sum(CASE WHEN j.kind IN ('opened', 'budget') THEN j.money END), 0),
    coalesce(sum(CASE WHEN j.kind = 'decision' THEN j.money END), 0)
    - coalesce(sum(CASE WHEN j.kind IN ('cancellation', 'outcome') THEN j.money END), 0)
    - coalesce(sum(CASE WHEN j.kind = 'settlement' THEN held.money - j.money END), 0),
    coalesce(sum(j.kind = 'decision'), 0),
    count(DISTINCT CASE WHEN j.kind = 'decision' THEN j.decision END)
FROM campaigns AS c
LEFT JOIN journal AS j ON j.campaign = c.key
LEFT JOIN journal AS held
    ON j.kind = 'settlement' AND held.campaign = j.campaign AND held.decision = j.decision
    AND held.kind = 'decision'
GROUP BY c.key
"""
KNOWN = """
SELECT decision, kind FROM journal
WHERE campaign = (SELECT key FROM campaigns WHERE id = ?)
    AND decision IN (SELECT value FROM json_each(?)) AND decision IS NOT NULL
"""


class Money(NamedTuple):
    """The row of a campaign, and what its journal adds up to, in micros."""

    id: str
    budget: int
    spent: int
    reserved: int
    granted: int
    paid: int
    decisions: int
    ids: int


def check(
    ledger: Path, wanted: dict[str, list[Decision]], books: list[Book], faults: Faults
) -> None:
    """Add up the money of all campaigns, and look for what was acknowledged."""
    with closing(sqlite3.connect(f"{ledger.resolve().as_uri()}?mode=ro", uri=True)) as file:
        for row in file.execute(MONEY):
            _check_money(Money(*row), faults)
        for book in books:
            _check_known(file, book, wanted[book.id], faults)


def _check_money(row: Money, faults: Faults) -> None:
    if row.spent + row.reserved > row.budget or row.paid > row.granted:
        faults.add("overspent", str(row))
    if (row.granted, row.paid) != (row.budget, row.spent + row.reserved):
        faults.add("state_mismatch", str(row))
    if row.decisions != row.ids:
        faults.add("doubled", str(row))


def _check_known(
    file: sqlite3.Connection, book: Book, wanted: Iterable[Decision], faults: Faults
) -> None:
    ids = [one.id for one in wanted] + list(book.added)
    known: dict[str, set[str]] = {}
    for decision, kind in file.execute(KNOWN, (book.id, json.dumps(ids))):
        known.setdefault(decision, set()).add(kind)
    for one in wanted:
        missing = _kinds(one) - known.get(one.id, set())
        if missing:
            faults.add("lost", f"{sorted(missing)} of {one.id} in campaign {book.id}")
    for name in book.added:
        if "budget" not in known.get(name, set()):
            faults.add("lost", f"the money {name} of campaign {book.id}")


def _kinds(one: Decision) -> set[str]:
    """The events that must be there."""
    found = {"decision"}
    if one.outcome is not None:
        found.add("expiry" if one.outcome["status"] == "too_late" else "outcome")
    if one.cancelled is not None:
        found.add("cancellation")
    if one.settled is not None:
        found.add("settlement")
    return found
