"""What the crash harness's clients remember of the server's answers, and what follows from them.

This is the second opinion on the service's money: added up from what went over the wire alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

LATE = "late conversions"  # the campaign of which little but conversions is reported, and late
SHOWN = 10  # faults of a kind that are shown in full
COUNTERS = ("overspent", "lost", "doubled", "state_mismatch")


def cost_micros(text: str) -> int:
    """A cost in micros, rounded up."""
    return int((Decimal(text) * 10**6).to_integral_value(ROUND_CEILING))


def budget_micros(text: str) -> int:
    """A budget in micros, rounded down."""
    return int((Decimal(text) * 10**6).to_integral_value(ROUND_FLOOR))


def money_of(campaign: dict[str, Any]) -> tuple[int, int, int]:
    """Micros of budget, spent and reserved, as the service tells them."""
    budget, spent, reserved = (
        budget_micros(campaign[name]) for name in ("budget", "spent", "reserved")
    )
    return budget, spent, reserved


class Faults:
    """What went wrong, by counter, with the first few of each in full."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, counter: str, what: str) -> None:
        """One more."""
        assert counter in COUNTERS
        self.counts[counter] += 1
        if self.counts[counter] <= SHOWN:
            self.examples.append(f"{counter}: {what}")

    def line(self, kills: int) -> str:
        """The last line of the harness."""
        counts = " ".join(f"{name}={self.counts[name]}" for name in COUNTERS)
        return f"kills={kills} {counts}"


@dataclass(slots=True)
class Decision:
    """An acknowledged decision, and what was acknowledged about it since."""

    request: dict[str, Any]
    answer: dict[str, Any]
    outcome: dict[str, Any] | None = None
    reported: float = 0.0
    cancelled: dict[str, Any] | None = None
    settled: dict[str, Any] | None = None
    settled_cost: str = ""
    corrected: float | None = None
    due: float = math.inf  # when its conversion happens, if it does, by this process's clock
    on_conversion: bool = False  # its cost is due
    share: int = 0  # millionths of the amount that are charged then; 0: the whole cost
    closed: bool = False  # the server said that it is too late for anything but an outcome

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.answer["decision_id"])

    @property
    def late(self) -> bool:
        """Whether its outcome came after the window."""
        return self.outcome is not None and self.outcome["status"] == "too_late"

    @property
    def treated(self) -> bool:
        """Whether there was a treatment, and it was not taken back."""
        return self.answer["treatment"] is not None and self.cancelled is None

    @property
    def held(self) -> int:
        """Micros that the treatment was to cost."""
        treatment = self.answer["treatment"]
        return 0 if treatment is None else cost_micros(self.request["costs"][treatment])

    @property
    def paid(self) -> int:
        """Micros that it takes from the budget by now.

        A correction lowers a settled cost where the new outcome costs less, and never raises it.
        """
        if not self.treated:
            return 0
        if self.settled is None:
            return self.charged
        return min(cost_micros(self.settled_cost), self.charged)

    @property
    def value(self) -> float | None:
        """The outcome that counts, if there is one."""
        if self.corrected is not None or self.outcome is None:
            return self.corrected
        return float(self.outcome["value"])

    @property
    def charged(self) -> int:
        """Micros that it costs by its outcome; what is held, before that is known."""
        if not self.on_conversion or self.outcome is None:
            return self.held
        value = self.value or 0.0
        if self.share:
            return min(self.held, round(max(value, 0.0) * self.share))
        return self.held if value != 0.0 else 0

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing, unless a conversion is reported in time."""
        return self.on_conversion and (self.outcome is None or self.charged == 0)

    @property
    def is_final(self) -> bool:
        """Whether what it takes counts as spent."""
        return self.outcome is not None or self.settled is not None


@dataclass(slots=True)
class Book:
    """One campaign, as its clients know it."""

    id: str
    request: dict[str, Any]
    decisions: dict[str, Decision] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)  # money by request id
    seen: int = 0  # the most decisions that the service has shown
    recent: list[Decision] = field(default_factory=list)  # touched since the last look

    @property
    def expires(self) -> bool:
        """Whether windows are short enough to pass while the harness runs."""
        return bool(self.request["outcome_window_seconds"] < 3600)

    @property
    def on_conversion(self) -> bool:
        """Whether costs are due on conversion."""
        return bool(self.request.get("charge") == "conversion")

    @property
    def in_money(self) -> bool:
        """Whether outcomes are amounts."""
        return "outcome" in self.request

    @property
    def share(self) -> int:
        """Millionths of the amount that are charged on conversion."""
        share: float = self.request.get("share", 0.0)
        return round(share * 1e6)

    @property
    def reports_late(self) -> bool:
        """Whether its clients report conversions late, and hardly anything else."""
        return self.request.get("name") == LATE

    def known(self) -> list[Decision]:
        """All decisions that were acknowledged."""
        return list(self.decisions.values())

    def remember(self, request: dict[str, Any], answer: dict[str, Any], faults: Faults) -> None:
        """Take the answer to a decision, which may have been answered before."""
        known = self.decisions.get(request["decision_id"])
        if known is None:
            paying: dict[str, Any] = {"on_conversion": self.on_conversion, "share": self.share}
            known = Decision(request, answer, **paying)
            self.decisions[request["decision_id"]] = known
            self.recent.append(known)
        elif known.answer != answer:
            faults.add("doubled", f"{known.answer} became {answer}")

    @property
    def budget(self) -> int:
        """Micros granted so far."""
        return sum(map(budget_micros, (self.request["budget"], *self.added.values())))

    def money(self) -> dict[str, float]:
        """Micros and counts as they must be, once nothing is under way."""
        found = self.known()
        paid = sum(one.paid for one in found)
        final = sum(one.paid for one in found if one.is_final)
        values = [one.value for one in found if one.value is not None]
        conversions = sum(value != 0.0 for value in values) if self.in_money else sum(values)
        counts = {
            "decisions": len(found),
            "conversions": conversions,
            "too_late": sum(one.late and one.reported != 0.0 for one in found),
        }
        if self.in_money:  # all are multiples of a quarter: sums are exact in any order
            counts["value"] = sum(values)
        return {"budget": self.budget, "paid": paid, "spent": final, **counts}

    def pending(self) -> int:
        """Decisions that wait for an outcome."""
        return sum(one.outcome is None and one.cancelled is None for one in self.decisions.values())


def in_lists(many: Iterable[Any], size: int) -> Iterable[list[Any]]:
    """All of them, in lists that the service takes."""
    whole = list(many)
    return (whole[at : at + size] for at in range(0, len(whole), size))
