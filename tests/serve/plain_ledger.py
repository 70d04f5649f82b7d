"""The service's promises in plain Python: dicts and whole micros, written without its code.

It does not know what a policy decides: it is given that, and says what must follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any


class Refused(Exception):  # noqa: N818
    """The status with which the service must refuse."""

    def __init__(self, status: int) -> None:
        self.status = status


def micros(text: str, up: bool = True) -> int:
    return int((Decimal(text) * 10**6).to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


@dataclass
class Row:
    """A decision."""

    body: tuple[Any, ...]
    answer: dict[str, Any]
    at: int
    costs: dict[str, int]
    status: str = "open"
    settled: int | None = None
    reported: tuple[float, str | None] | None = None  # outcome and action
    returned: bool = False
    charged: int | None = None  # of a share of the amount
    corrected: float | None = None

    @property
    def value(self) -> float | None:
        """The outcome that counts."""
        if self.corrected is not None or self.reported is None:
            return self.corrected
        return self.reported[0]

    @property
    def cost(self) -> int:
        return self.costs.get(self.answer["treatment"], 0)

    @property
    def held(self) -> int:
        if self.returned:
            return 0
        charged = self.cost if self.charged is None else self.charged
        return charged if self.settled is None else min(self.settled, charged)

    @property
    def reserved(self) -> int:
        return self.held if self.status == "open" and self.settled is None else 0

    @property
    def spent(self) -> int:
        return self.held - self.reserved


@dataclass
class Book:
    """A campaign."""

    id: str
    terms: dict[str, Any]
    at: int
    status: str = "running"
    rows: dict[str, Row] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    added_without_id: int = 0

    @property
    def shadow(self) -> bool:
        return bool(self.terms.get("mode") == "shadow")

    @property
    def on_conversion(self) -> bool:
        return bool(self.terms.get("charge") == "conversion")

    def charge(self, row: Row, outcome: float) -> int:
        """What a treatment costs with this outcome."""
        if not self.on_conversion:
            return row.cost
        if self.terms.get("share") is None:
            return row.cost if outcome else 0
        exact = Decimal(str(outcome)) * Decimal(str(self.terms["share"])) * 10**6
        return min(row.cost, max(0, int(exact.to_integral_value(ROUND_HALF_EVEN))))

    def check_value(self, value: float) -> None:
        outcome = self.terms.get("outcome") or {"kind": "conversion"}
        amounts = outcome["kind"] == "amount"
        if (not amounts and value > 1) or (value < 0 and not (amounts and outcome["negative"])):
            raise Refused(422)

    @property
    def window(self) -> int:
        return int(self.terms["outcome_window_seconds"]) * 10**6

    @property
    def money(self) -> dict[str, int]:
        budget = micros(self.terms["budget"], up=False)
        budget += sum(self.added.values()) + self.added_without_id
        spent = sum(row.spent for row in self.rows.values())
        reserved = sum(row.reserved for row in self.rows.values())
        left = budget - spent - reserved
        return {"budget": budget, "spent": spent, "reserved": reserved, "remaining": left}

    def ended(self, now: int) -> bool:
        ends_at = self.terms["ends_at"]
        return ends_at is not None and max(now, self.at) >= ends_at

    def tick(self, now: int) -> int:
        """The time of a new event."""
        self.at = max(now, self.at)
        return self.at

    def check_decide(self, now: int, asked: list[tuple[str, tuple[Any, ...]]]) -> None:
        ids = [id_ for id_, _ in asked]
        if any(micros(cost) == 0 for _, (_, *costs) in asked for cost in costs):
            raise Refused(422)
        if len(set(ids)) < len(ids):
            raise Refused(422)
        if any(id_ in self.rows and self.rows[id_].body != body for id_, body in asked):
            raise Refused(409)
        if any(id_ in self.rows and self.rows[id_].status == "cancelled" for id_ in ids):
            raise Refused(409)
        if any(id_ not in self.rows for id_ in ids) and (
            self.status != "running" or self.ended(now)
        ):
            raise Refused(409)

    def decided(self, now: int, id_: str, body: tuple[Any, ...], answer: dict[str, Any]) -> None:
        """Take what the policy decided: known ids must have got the answer that they got before."""
        if id_ in self.rows:
            assert answer == self.rows[id_].answer
            return
        costs = dict(zip(self.terms["treatments"], map(micros, body[1:]), strict=True))
        assert answer["treatment"] is None or costs[answer["treatment"]] <= self.money["remaining"]
        self.rows[id_] = Row(body, answer, self.tick(now), costs)
        assert micros(answer["remaining"]) == self.money["remaining"]
        assert answer["act"] is not self.shadow
        assert 0 < answer["probability"] <= 1

    def observe(self, now: int, items: list[dict[str, Any]]) -> list[tuple[str, float]]:
        fresh: dict[str, tuple[float, str | None]] = {}
        answers: list[tuple[str, float]] = []
        for item in items:
            if item["decision_id"] not in self.rows:
                raise Refused(404)
            row = self.rows[item["decision_id"]]
            self.check_value(item["value"])
            reported = item["value"], self._action(row, item)
            answers.append(self._answer_to(now, row, reported, fresh.get(item["decision_id"])))
            if answers[-1][0] == "recorded":
                fresh[item["decision_id"]] = reported
        for id_, reported in fresh.items():
            row = self.rows[id_]
            row.status, row.reported = "observed", reported
            row.charged = self.charge(row, reported[0])
            row.returned = reported[1] != row.answer["treatment"] or row.charged == 0
            self.tick(now)
        for item in items:
            row = self.rows[item["decision_id"]]
            if row.status == "open":
                row.status, row.returned = "expired", self.shadow or self.on_conversion
                self.tick(now)
        return answers

    def _action(self, row: Row, item: dict[str, Any]) -> str | None:
        if self.shadow != ("action" in item):
            raise Refused(422)
        action: str | None = item.get("action", row.answer["treatment"])
        if action is not None and action not in self.terms["treatments"]:
            raise Refused(422)
        return action

    def _answer_to(
        self,
        now: int,
        row: Row,
        reported: tuple[float, str | None],
        before: tuple[float, str | None] | None,
    ) -> tuple[str, float]:
        before = before or row.reported
        if before is not None:
            if before != reported:
                raise Refused(409)
            return "already_recorded", before[0] if row.corrected is None else row.corrected
        if row.status == "cancelled":
            raise Refused(409)
        if row.status == "expired" or self.late(now, row):
            counts = reported[0] == 0 and not self.shadow  # of a shadow, no zero was recorded
            return "already_recorded" if counts else "too_late", 0.0
        return "recorded", reported[0]

    def late(self, now: int, row: Row) -> bool:
        return max(now, self.at) > row.at + self.window

    def sweep(self, now: int) -> None:
        late = [row for row in self.rows.values() if row.status == "open" and self.late(now, row)]
        for row in late:
            row.status, row.returned = "expired", self.shadow or self.on_conversion
            self.tick(now)

    def find(self, id_: str) -> Row:
        if id_ not in self.rows:
            raise Refused(404)
        return self.rows[id_]

    def cancel(self, now: int, id_: str) -> None:
        row = self.find(id_)
        if row.status == "cancelled":
            return
        if row.status != "open" or row.settled is not None or self.late(now, row):
            raise Refused(409)
        row.status, row.returned = "cancelled", True
        self.tick(now)

    def correct(self, now: int, id_: str, value: float) -> tuple[str, float]:
        row = self.find(id_)
        self.check_value(value)
        if row.corrected is not None:
            if row.corrected != value:
                raise Refused(409)
            return "already_recorded", value
        if row.status != "observed" or self.late(now, row):
            raise Refused(409)
        assert row.reported is not None
        if row.reported[1] == row.answer["treatment"]:
            charged = self.charge(row, value)
            if row.settled is None and charged - row.held > self.money["remaining"]:
                raise Refused(409)
            row.charged, row.returned = charged, charged == 0
        row.corrected = value
        self.tick(now)
        return "recorded", value

    def settle(self, now: int, id_: str, cost: str) -> None:
        row = self.find(id_)
        if row.status == "cancelled" or row.answer["treatment"] is None:
            raise Refused(409)
        if row.settled is None and self.on_conversion and not row.value:
            raise Refused(409)
        if micros(cost) > row.cost:
            raise Refused(422)
        if row.settled is not None:
            if row.settled != micros(cost):
                raise Refused(409)
            return
        if row.returned:
            raise Refused(409)
        if micros(cost) > row.held:
            raise Refused(422)
        row.settled = micros(cost)
        self.tick(now)

    def add(self, now: int, text: str, request: str | None) -> None:
        add = micros(text, up=False)
        if request is not None and request in self.added:
            if self.added[request] != add:
                raise Refused(409)
            return
        if self.status == "closed" or self.ended(now):
            raise Refused(409)
        if add == 0:
            raise Refused(422)
        if request is None:
            self.added_without_id += add
        else:
            self.added[request] = add
        self.tick(now)

    def turn(self, now: int, turn: str) -> None:
        status = {"pause": "paused", "resume": "running", "close": "closed"}[turn]
        if self.status == "closed" != status:
            raise Refused(409)
        if self.status != status:
            self.status = status
            self.tick(now)

    def state(self, id_: str) -> dict[str, Any]:
        """What cancel and settle must answer; money in micros."""
        row = self.rows[id_]
        return {
            "decision_id": id_,
            "treatment": row.answer["treatment"],
            "status": row.status,
            "reserved": row.reserved,
            "spent": row.spent,
            "remaining": self.money["remaining"],
        }

    def log_row(self, number: int, id_: str) -> dict[str, Any]:
        """What the log must say of a decision."""
        row = self.rows[id_]
        outcome = row.value if row.reported else 0.0 if row.status == "expired" else None
        given: str | None = row.answer["treatment"] or "control"
        answers = {"decision_id": id_, "number": number, "status": row.status, "outcome": outcome}
        answers["age"] = row.body[0]
        if self.shadow:
            answers["proposed"] = given
            given = (row.reported[1] or "control") if row.reported else None
            answers["outcome"] = row.value
        return answers | {"treatment": given}
