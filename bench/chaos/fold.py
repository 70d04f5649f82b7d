"""The money of one campaign, added up from the rows of its journal.

Written from the rules of the journal alone: nothing here is shared with the service.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

COUNTERS = ("overspent", "lost", "doubled", "diverged")
SHOWN = 10  # findings of a kind that are shown in full
ENDS = ("outcome", "expiry", "cancellation")
SECOND = 1_000_000  # microseconds


class Findings:
    """What is wrong, by counter, with the first few of each in full."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, counter: str, what: str) -> None:
        """One more."""
        assert counter in COUNTERS
        self.counts[counter] += 1
        if self.counts[counter] <= SHOWN:
            self.examples.append(f"{counter}: {what}")


class Row(NamedTuple):
    """One row of the journal, without what is for the policy alone."""

    sequence: int
    at: int  # microseconds since 1970
    kind: str
    decision: str | None
    number: int | None
    action: int | None
    money: int  # micros
    value: float | None
    price: float | None
    probability: float | None
    remaining: int
    detail: bytes | None  # of the opening and of decisions


@dataclass(slots=True)
class Decision:
    """What the journal has of one decision."""

    row: Row
    held: int  # micros that it takes from the budget by now
    end: Row | None = None
    settlement: Row | None = None
    correction: Row | None = None
    others: set[str] = field(default_factory=set)


class Terms:
    """The terms of a campaign, from the row that opened it."""

    def __init__(self, detail: bytes) -> None:
        given = json.loads(detail)
        self.treatments: list[str] = given["treatments"]
        self.policy: str = given["policy"]
        self.window: int = given["window"]  # microseconds
        self.on_conversion: bool = given.get("charge", "treatment") == "conversion"
        self.share = round((given.get("share") or 0.0) * 1e6)  # millionths of an amount

    def due(self, held: int, value: float) -> int:
        """Micros that a treatment costs once its outcome is known."""
        if not self.on_conversion:
            return held
        if self.share:
            return min(held, round(max(value, 0.0) * self.share))
        return held if value != 0.0 else 0


class Fold:
    """A campaign after some of its rows; says what is wrong with each row that is added."""

    def __init__(self, campaign: str, findings: Findings) -> None:
        self.campaign = campaign
        self.findings = findings
        self.terms: Terms | None = None
        self.sequence = 0
        self.at = self.latest = 0  # of the last event, and of the latest one
        self.budget = self.spent = self.reserved = 0  # micros
        self.offered = 0  # micros: the cheapest treatment of each user, added up
        self.paused = False
        self.pauses = 0
        self.decisions: dict[str, Decision] = {}
        self.added: dict[str, int] = {}  # micros by request
        self.moved: dict[str, int] = {}  # micros by move, from another cell or, below 0, to one
        self._off = 0  # by how much the rows are off what remains

    @property
    def remaining(self) -> int:
        """Micros that can still be reserved."""
        return self.budget - self.spent - self.reserved

    def add(self, row: Row) -> None:
        """One more row."""
        self._check_place(row)
        if row.kind == "opened":
            self._open(row)
        elif row.kind == "budget":
            self._grant(row)
        elif row.kind in ("given", "received"):
            self._move(row)
        elif row.kind == "decision":
            self._decide(row)
        elif row.kind in ("paused", "resumed"):
            self._turn(row)
        elif row.decision is not None and row.kind != "learned":
            self._follow(row)
        self._check_money(row)

    def _found(self, counter: str, row: Row, what: str) -> None:
        about = f"{row.kind} {row.decision or ''}".strip()
        self.findings.add(
            counter, f"campaign {self.campaign}, event {row.sequence} ({about}): {what}"
        )

    def _check_place(self, row: Row) -> None:
        if row.sequence > self.sequence + 1:
            self._found("lost", row, f"the event before it is {self.sequence}")
        elif row.sequence <= self.sequence:
            self._found("doubled", row, "there is another event with this number")
        if row.at < self.at:
            self._found("diverged", row, f"it is {self.at - row.at} us before the event before it")
        self.sequence, self.at, self.latest = row.sequence, row.at, max(row.at, self.latest)

    def _check_money(self, row: Row) -> None:
        money = f"budget {self.budget}, spent {self.spent}, reserved {self.reserved}"
        if self.spent + self.reserved > self.budget:
            self._found("overspent", row, money)
        if row.remaining - self.remaining != self._off:  # once, and not at every event that follows
            self._off = row.remaining - self.remaining
            self._found("diverged", row, f"{row.remaining} remain, but {money}")

    # The kinds of rows

    def _open(self, row: Row) -> None:
        if self.terms is not None:
            self._found("doubled", row, "it is open already")
        self.terms = Terms(row.detail or b"")
        self.budget += row.money

    def _grant(self, row: Row) -> None:
        request = row.decision or ""
        if request in self.added:
            self._found("doubled", row, "this money was added before")
        self.added[request] = row.money
        self.budget += row.money

    def _move(self, row: Row) -> None:
        """Money goes to another cell, or comes from one."""
        move, more = row.decision or "", row.money if row.kind == "received" else -row.money
        if move in self.moved:
            self._found("doubled", row, "this money was moved before")
        self.moved[move] = more
        self.budget += more

    def _turn(self, row: Row) -> None:
        paused = row.kind == "paused"
        if paused == self.paused:
            self._found("doubled", row, "it is so already")
        self.paused, self.pauses = paused, self.pauses + paused

    def _decide(self, row: Row) -> None:
        id_, treatments = row.decision or "", len(self.terms.treatments) if self.terms else 0
        offers = [
            int.from_bytes((row.detail or b"")[8 * k : 8 * k + 8], "little")
            for k in range(treatments)
        ]
        self.offered += min(offers, default=0)
        wanted = offers[row.action - 1] if row.action else 0
        if row.money != wanted:
            self._found("diverged", row, f"{row.money} are held, and the treatment costs {wanted}")
        if self.paused:
            self._found("diverged", row, "the campaign is paused")
        if id_ in self.decisions:
            self._found(
                "doubled", row, f"it was decided by event {self.decisions[id_].row.sequence}"
            )
        elif row.number != len(self.decisions) + 1:
            self._found("diverged", row, f"number {row.number} after {len(self.decisions)}")
        self.decisions[id_] = Decision(row, row.money)
        self.reserved += row.money

    def _follow(self, row: Row) -> None:
        """What becomes of a decision."""
        known = self.decisions.get(row.decision or "")
        if known is None:
            self._found("lost", row, "its decision is not in the journal")
        elif row.kind in ENDS:
            self._end(row, known)
        elif row.kind == "settlement":
            self._settle(row, known)
        elif row.kind == "correction":
            self._correct(row, known)
        else:  # a late conversion, or what another system did: no money
            if row.kind in known.others:
                self._found("doubled", row, "the same was recorded before")
            known.others.add(row.kind)

    def _end(self, row: Row, known: Decision) -> None:
        """Money returns, and the rest is spent."""
        if known.end is not None:
            self._found("doubled", row, f"it ended by event {known.end.sequence}")
        if row.kind == "cancellation":
            returned = known.held
        else:
            returned = known.held - self._due(known.held, row.value)
        if row.money != returned:
            self._found("diverged", row, f"{row.money} of {known.held} returned, not {returned}")
        self._check_window(row, known, passed=row.kind == "expiry")
        if known.settlement is None and known.end is None:
            self.reserved -= known.held
            self.spent += known.held
        self.spent -= row.money
        known.end, known.held = row, known.held - row.money

    def _settle(self, row: Row, known: Decision) -> None:
        """The cost is another one in the end."""
        if known.settlement is not None:
            self._found("doubled", row, f"it was settled by event {known.settlement.sequence}")
        if row.money > known.held:
            self._found("diverged", row, f"it costs {row.money}, and {known.held} are held")
        if known.settlement is None and known.end is None:
            self.reserved -= known.held
            self.spent += known.held
        self.spent += row.money - known.held
        known.settlement, known.held = row, row.money

    def _correct(self, row: Row, known: Decision) -> None:
        """The outcome is another one in the end, and so may be the cost."""
        if known.correction is not None:
            self._found("doubled", row, f"it was corrected by event {known.correction.sequence}")
        if known.end is None or known.end.kind != "outcome":
            self._found("diverged", row, "there is no outcome to correct")
        cost = self._due(known.row.money, row.value)
        if known.settlement is not None:  # which is never raised
            cost = min(known.held, cost)
        if row.money != cost:
            self._found("diverged", row, f"it costs {row.money}, not {cost}")
        self._check_window(row, known, passed=False)
        self.spent += row.money - known.held
        known.correction, known.held = row, row.money

    def _due(self, held: int, value: float | None) -> int:
        return held if self.terms is None else self.terms.due(held, value or 0.0)

    def _check_window(self, row: Row, known: Decision, passed: bool) -> None:
        window = 0 if self.terms is None else self.terms.window
        if (row.at > known.row.at + window) != passed:
            after = (row.at - known.row.at) / SECOND
            self._found("diverged", row, f"{after:g} s after its decision")
