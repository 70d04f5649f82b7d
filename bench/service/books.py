"""A look into the ledger's file, read-only and past the service's own code.

What was acknowledged must be in the journal, as the server has left it when it was killed and as
the next one has brought it up; the row of each campaign must be the sum of its journal.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.service.memory import Book, Decision, Faults

ROWS = "SELECT key, sequence, id, budget, spent, reserved FROM campaigns"
EVENTS = """
SELECT sequence, kind, decision, money FROM journal
WHERE campaign = ? AND sequence > ? ORDER BY sequence
"""
KNOWN = """
SELECT decision, kind FROM journal
WHERE campaign = (SELECT key FROM campaigns WHERE id = ?)
    AND decision IN (SELECT value FROM json_each(?)) AND decision IS NOT NULL
"""


@dataclass(slots=True)
class Fold:
    """The money of one campaign by its journal, in micros, up to an event."""

    sequence: int = 0
    granted: int = 0
    held: dict[str, int] = field(default_factory=dict)  # by decision

    def add(self, event: tuple[int, str, str, int], faults: Faults) -> None:
        """One more event."""
        sequence, kind, decision, money = event
        if sequence != self.sequence + 1:
            faults.add("lost", f"events {self.sequence + 1} to {sequence - 1} of the journal")
        self.sequence = sequence
        if kind in ("opened", "budget"):
            self.granted += money
        elif kind == "decision":
            if decision in self.held:
                faults.add("doubled", f"the journal decides twice on {decision}")
            self.held[decision] = money
        elif kind in ("cancellation", "outcome", "expiry"):
            self.held[decision] -= money
        elif kind in ("settlement", "correction"):
            self.held[decision] = money
        if kind == "cancellation" and self.held[decision]:
            faults.add("state_mismatch", f"the cancelled {decision} keeps {self.held[decision]}")

    @property
    def paid(self) -> int:
        """What the decisions take from the budget."""
        return sum(self.held.values())


class Reader:
    """Reads the file after each kill, and goes on where it was: a journal is only ever added to."""

    def __init__(self, ledger: Path, faults: Faults) -> None:
        self.ledger = ledger
        self.faults = faults
        self.folds: dict[int, Fold] = {}

    def check(self, books: list[Book], wanted: dict[str, list[Decision]], fold_again: bool) -> None:
        """Add up the money of all campaigns, and look for what was acknowledged."""
        if not books:
            return  # there may not even be a whole file yet
        if fold_again:
            self.folds.clear()
        where = f"{self.ledger.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(where, uri=True)) as file:
            file.execute("BEGIN")  # one state of the file for all that is read
            for key, sequence, *row in file.execute(ROWS).fetchall():
                fold = self.folds.setdefault(key, Fold())
                if sequence < fold.sequence:
                    self.faults.add(
                        "lost", f"the journal has shrunk to {sequence} from {fold.sequence}"
                    )
                    fold = self.folds[key] = Fold()
                for event in file.execute(EVENTS, (key, fold.sequence)):
                    fold.add(event, self.faults)
                self._check_money(fold, *row)
            for book in books:
                _check_known(file, book, wanted[book.id], self.faults)

    def _check_money(self, fold: Fold, id_: str, budget: int, spent: int, reserved: int) -> None:
        row = f"campaign {id_}: budget {budget}, spent {spent}, reserved {reserved}"
        detail = f"{row}; by its journal {fold.paid} of {fold.granted}"
        if spent + reserved > budget or fold.paid > fold.granted:
            self.faults.add("overspent", detail)
        if (fold.granted, fold.paid) != (budget, spent + reserved):
            self.faults.add("state_mismatch", detail)


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
    if one.outcome is not None and one.outcome["status"] == "recorded":
        found.add("outcome")  # of other answers the log tells
    if one.late and one.reported != 0.0:
        found.add("too_late")
    if one.cancelled is not None:
        found.add("cancellation")
    if one.settled is not None:
        found.add("settlement")
    if one.corrected is not None:
        found.add("correction")
    return found
