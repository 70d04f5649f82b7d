"""A plain ledger: what the service must answer, in dicts and whole micros, without its code.

It does not know what a policy decides: it takes the answers, and says what must follow from them.
The service has a clock of its own, so that a moment is known only as lying between two others:
where that leaves several possibilities, all of them are allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from bench.fuzzing.findings import Findings
from bench.fuzzing.space import MOST_BUDGET, budget_micros, cost_micros

SECOND = 1_000_000
WEEK = 7 * 86_400
MOST_LIST = 1_000
ROUNDING = 1e-9  # of numbers that are no money
ANSWER = {"decision_id", "treatment", "probability", "price", "remaining", "act"}
STATE = {"decision_id", "treatment", "status", "reserved", "spent", "remaining"}
CHANGING = {
    "status",
    "reason",
    "budget",
    "spent",
    "reserved",
    "remaining",
    "decisions",
    "treated",
    "pending",
    "conversions",
    "median_delay_seconds",
    "too_late",
    "corrections",
    "caused",
    "fit_due",
    "fits",
    "fitted_at",
    "alerts",
    "cap_binds",
    "value",
}

Report = tuple[float, str | None]  # an outcome, and what was done


class Span(NamedTuple):
    """Microseconds since 1970 between which something happened."""

    first: int
    last: int


class BrokenError(Exception):
    """The service and the model disagree; the model does not know any more what is right."""


@dataclass(slots=True)
class DecisionRow:
    """A decision."""

    user: dict[str, Any]  # the request
    answer: dict[str, Any]
    made: Span
    cost: int  # micros of the treatment that was chosen
    status: str = "open"
    settled: int | None = None
    report: Report | None = None
    returned: bool = False  # its money
    charged: int | None = None  # micros, by its outcome
    corrected: float | None = None  # the outcome that counts instead of the reported one
    too_late: bool = False  # a conversion was reported after its window

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.user["decision_id"])

    @property
    def about(self) -> str:
        """For messages."""
        ends = f"{self.report}, corrected {self.corrected}"
        return f"decision {self.answer}, {self.status}, settled {self.settled}, {ends}"

    @property
    def treatment(self) -> str | None:
        """What was decided."""
        found: str | None = self.answer["treatment"]
        return found

    @property
    def value(self) -> float | None:
        """The outcome that counts, if one was reported."""
        if self.corrected is not None or self.report is None:
            return self.corrected
        return self.report[0]

    @property
    def held(self) -> int:
        """Micros that it takes from the budget."""
        if self.returned:
            return 0
        charged = self.cost if self.charged is None else self.charged
        return charged if self.settled is None else min(self.settled, charged)

    @property
    def reserved(self) -> int:
        """Micros of these that are not spent yet."""
        return self.held if self.status == "open" and self.settled is None else 0


@dataclass(slots=True)
class Book:
    """A campaign."""

    id: str
    request: dict[str, Any]
    view: dict[str, Any]  # as the service answered when it was opened
    findings: Findings
    status: str = "running"
    budget: int = 0
    shadow: bool = False
    on_conversion: bool = False  # costs are due
    share: int = 0  # millionths of the amount that are charged; 0: the whole cost
    amounts: bool = False  # what outcomes are
    negative: bool = False  # whether they may be below 0
    least_price: float = 0.0  # by the cost cap
    window: int = 0  # microseconds
    ends: int | None = None  # microseconds since 1970
    rows: dict[str, DecisionRow] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    paid: int = 0  # the sums of all rows
    reserved: int = 0
    open: int = 0
    treated: int = 0
    checked: int = 0  # rows that were asked again after a restart

    def __post_init__(self) -> None:
        self.budget = budget_micros(self.request["budget"])
        self.shadow = self.request.get("mode") == "shadow"
        self.on_conversion = self.request.get("charge") == "conversion"
        self.share = round((self.request.get("share") or 0.0) * 1e6)
        outcome = self.request.get("outcome", {})
        self.amounts = outcome.get("kind") == "amount"
        self.negative = self.amounts and outcome.get("negative", True)
        cap = self.request.get("cost_cap")
        self.least_price = 0.0 if cap is None else 1e6 / budget_micros(cap)
        self.window = int(self.request.get("outcome_window_seconds", WEEK)) * SECOND
        ends = self.request["horizon"].get("ends_at")
        if ends is not None:
            self.ends = round(datetime.fromisoformat(ends).timestamp() * SECOND)

    @property
    def about(self) -> str:
        """For messages."""
        policy = json.dumps(self.request.get("policy", "the default"))
        sizes = f"{len(self.request['treatments'])} treatments x {len(self.request['features'])}"
        return f"campaign {self.request['name']} ({policy}, {sizes} features)"

    @property
    def most_per_list(self) -> int:
        """Users in a list, where the campaign tells of a limit of its own."""
        return int(self.view.get("most_per_list", MOST_LIST))

    def broken(self, what: str, counter: str = "disagreed") -> BrokenError:
        """A finding about this campaign."""
        self.findings.add(counter, f"{self.about}: {what}")
        return BrokenError(what)

    @property
    def returns(self) -> bool:
        """Whether the money of a decision returns when its window has passed."""
        return self.shadow or self.on_conversion

    def charge(self, row: DecisionRow, outcome: float) -> int:
        """What a decision costs with this outcome."""
        if not self.on_conversion:
            return row.cost
        if self.share:
            return min(row.cost, round(max(outcome, 0.0) * self.share))
        return row.cost if outcome != 0.0 else 0

    # Time

    def is_late(self, row: DecisionRow, at: Span) -> bool | None:
        """Whether the window of a decision has passed; None where that is not known."""
        if at.last <= row.made.first + self.window:
            return False
        return True if at.first > row.made.last + self.window else None

    def is_over(self, at: Span) -> bool | None:
        """Whether the campaign's time is over; None where that is not known."""
        if self.ends is None or at.last < self.ends - 1:
            return False
        return True if at.first > self.ends + 1 else None

    def due(self, at: Span) -> Iterator[DecisionRow]:
        """Open rows that the service may have let expire by now."""
        oldest = next(iter(self.rows.values()), None)
        if oldest is None or self.is_late(oldest, at) is False:
            return
        for row in self.rows.values():
            if row.status == "open" and self.is_late(row, at) is not False:
                yield row

    # What is expected: the statuses that an answer may have

    def may_decide(self, users: list[dict[str, Any]], at: Span) -> set[int]:
        """To a request for decisions whose ids are all different."""
        if len(users) > self.most_per_list:
            return {422}
        known = [(user, self.rows.get(user["decision_id"])) for user in users]
        if any(row and not same_user(row.user, user) for user, row in known):
            return {409}
        if any(row and row.status == "cancelled" for _, row in known):
            return {409}
        if all(row for _, row in known):
            return {200}
        over = self.is_over(at)
        if self.status != "running" or over:
            return {409}
        return {200} if over is False else {200, 409}

    def may_cancel(self, id_: str, at: Span) -> set[int]:
        """To a cancellation."""
        row = self.rows.get(id_)
        if row is None:
            return {404}
        if row.status == "cancelled":
            return {200}
        late = self.is_late(row, at)
        if row.status != "open" or row.settled is not None or late:
            return {409}
        return {200} if late is False else {200, 409}

    def may_settle(self, id_: str, cost: str, at: Span) -> set[int]:
        """To a settlement."""
        row, micros = self.rows.get(id_), cost_micros(cost)
        if row is None:
            return {404}
        if row.status == "cancelled" or row.treatment is None:
            return {409}
        if row.settled is None and self.on_conversion and not row.value:
            return {409}
        if micros > row.cost:
            return {422}
        if row.settled is not None:
            return {200} if row.settled == micros else {409}
        if row.returned:
            return {409}
        if micros > row.held:
            return {422}
        gone = self.shadow and row.status == "open" and self.is_late(row, at) is not False
        return {200, 409} if gone else {200}

    def may_add(self, add: str, request: str | None, at: Span) -> set[int]:
        """To more money."""
        micros = budget_micros(add)
        if request is not None and request in self.added:
            return {200} if self.added[request] == micros else {409}
        over = self.is_over(at)
        if self.status == "closed" or over:
            return {409}
        fits = {200} if 1 <= micros <= MOST_BUDGET - self.budget else {422}
        return fits if over is False else fits | {409}

    def may_turn(self, turn: str) -> set[int]:
        """To a pause, and the like."""
        return {409} if self.status == "closed" and turn != "close" else {200}

    # What was answered

    def decided(self, users: list[dict[str, Any]], answers: Any, at: Span) -> int:
        """Take the answers to a request for decisions; how many of them are new."""
        if not isinstance(answers, list) or len(answers) != len(users):
            raise self.broken(f"{len(users)} users were answered {answers}")
        left: int | None = None
        new = 0
        for user, answer in zip(users, answers, strict=True):
            row = self.rows.get(user["decision_id"])
            if row is not None:
                if repr(answer) != repr(row.answer):  # which tells -0.0 from 0.0
                    raise self.broken(f"the answer {row.answer} became {answer}", "lost")
                continue
            self._check_answer(user, answer)
            left = self._take(user, answer, at, left)
            new += 1
        return new

    def _check_answer(self, user: dict[str, Any], answer: Any) -> None:
        if not isinstance(answer, dict) or set(answer) != ANSWER:
            raise self.broken(f"a decision is {answer}")
        probability, price = answer["probability"], answer["price"]
        if not isinstance(probability, float) or not 0.0 < probability <= 1.0:
            raise self.broken(f"the probability of {answer}", "nonfinite")
        if not isinstance(price, float) or price < 0.0:
            raise self.broken(f"the price of {answer}", "nonfinite")
        if price < self.least_price * (1.0 - ROUNDING):
            raise self.broken(f"the price of {answer} is below {self.least_price}, by the cost cap")
        allowed = (None, *self.request["treatments"])
        if answer["decision_id"] != user["decision_id"] or answer["treatment"] not in allowed:
            raise self.broken(f"{user} was answered {answer}")
        if answer["act"] is self.shadow:
            raise self.broken(f"act is wrong in {answer}")

    def _take(self, user: dict[str, Any], answer: Any, at: Span, left: int | None) -> int:
        """One more decision; what is left after it, where ``left`` was left before it."""
        costs, treatment = user["costs"], answer["treatment"]
        cost = 0 if treatment is None else cost_micros(costs[treatment])
        self._add(DecisionRow(user, answer, at, cost))
        remaining = money(answer["remaining"])
        most, least = self.budget - self.paid, self.budget - self.paid
        if left is not None:
            most = least = left - cost
        elif self.returns:
            most += sum(row.held for row in self.due(at))
        if most < 0 or remaining < 0:
            raise self.broken(f"{answer} for {costs}, but {most} micros are left", "overspent")
        if not least <= remaining <= most:
            raise self.broken(f"{answer}, but {least} to {most} micros are left")
        return remaining

    def cancelled(self, id_: str, answer: Any, at: Span) -> None:
        """Take the answer to a cancellation."""
        if self.rows[id_].status != "cancelled":
            self.change(self.rows[id_], status="cancelled", returned=True)
        self._check_state(id_, answer, at)

    def settled(self, id_: str, cost: str, answer: Any, at: Span) -> None:
        """Take the answer to a settlement."""
        row = self.rows[id_]
        if row.settled is None:
            self.change(row, settled=cost_micros(cost))
        self._check_state(id_, answer, at)

    def _check_state(self, id_: str, answer: Any, at: Span) -> None:
        row = self.rows[id_]
        if not isinstance(answer, dict) or set(answer) != STATE:
            raise self.broken(f"the state of a decision is {answer}")
        late = row.status == "open" and self.is_late(row, at) is not False
        if answer["status"] == "expired" and late:
            self.expire(row)
        found = money(answer["reserved"]), money(answer["spent"]), answer["status"]
        expected = row.reserved, row.held - row.reserved, row.status
        if found != expected or answer["treatment"] != row.treatment:
            raise self.broken(f"{row.about} is answered as {answer}")
        self.check_left(money(answer["remaining"]), at)

    def check_left(self, left: int, at: Span) -> None:
        """What is left of the budget must be what the answers leave."""
        least = most = self.budget - self.paid
        if self.returns:
            most += sum(row.held for row in self.due(at))
        if left < 0 or most < 0:
            raise self.broken(f"{left} micros are left, by the answers {most}", "overspent")
        if not least <= left <= most:
            raise self.broken(f"{left} micros are left, by the answers {least} to {most}")

    # Changes

    def _add(self, row: DecisionRow) -> None:
        self.rows[row.id] = row
        self.paid += row.held
        self.reserved += row.reserved
        self.open += 1
        self.treated += row.treatment is not None

    def change(self, row: DecisionRow, **changes: Any) -> None:
        """Change a row, and the sums with it."""
        self.paid -= row.held
        self.reserved -= row.reserved
        self.open -= row.status == "open"
        for name, value in changes.items():
            setattr(row, name, value)
        self.paid += row.held
        self.reserved += row.reserved
        self.open += row.status == "open"
        if changes.get("status") == "cancelled" and row.treatment is not None:
            self.treated -= 1

    def add(self, request: str, add: str) -> None:
        """More money, once for each request."""
        if request not in self.added:
            self.added[request] = budget_micros(add)
            self.budget += self.added[request]

    def expire(self, row: DecisionRow) -> None:
        """The window of a decision has passed."""
        self.change(row, status="expired", returned=row.returned or self.returns)


def same_user(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two requests for a decision mean the same."""
    if one is other:
        return True
    theirs = other["costs"]
    same = (cost_micros(text) == cost_micros(theirs[name]) for name, text in one["costs"].items())
    return one["features"] == other["features"] and all(same)


def money(text: Any) -> int:
    """Micros of an amount as the service tells it; a sign would be a mistake of the service."""
    sign = -1 if str(text).startswith("-") else 1
    return sign * budget_micros(str(text).removeprefix("-"))
