"""The tally of a campaign: what its page shows, added up as events come."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from bccb.intervals import QUANTILE, Interval, wilson
from bccb.outcome import NOT_REPORTED

PARTS = 10**12  # of the currency: sums of whole numbers are exact
POINTS = 400  # at most; then every second one is dropped
CAUSED, OUTCOMES = 100, 50  # the same of what was caused; outcomes between two, at first
FEWEST = 5  # conversions, before it is shown what a user brings
RECENT = 20  # points over which the speed of spending is measured
CLOSE = 1e-9  # of a price: as near as rounding leaves it
FORESEEABLE = 100 * 366 * 86_400 * 1_000_000  # microseconds: no forecast reaches further


class Point(NamedTuple):
    """A moment of a campaign."""

    at: int  # microseconds since 1970
    decisions: int
    spent: int  # micros, with what is held
    planned: int  # micros
    price: float
    held: int = 0  # micros, of those spent: until outcomes are known


class CausedPoint(NamedTuple):
    """What had been caused by a moment, as it was known then."""

    at: int  # microseconds since 1970
    estimated: Interval | None
    measured: Interval | None


class Reports(NamedTuple):
    """Outcomes that were reported, and how long the gaps between them were at most."""

    number: int
    at: int  # of the last one, in microseconds since 1970
    decisions: int  # by then
    longest: int  # microseconds without a report, between two
    most_decisions: int  # without a report

    def with_one(self, at: int, decisions: int) -> Reports:
        """One more."""
        passed = at - self.at if self.number else 0
        users = decisions - self.decisions
        return Reports(
            self.number + 1,
            at,
            decisions,
            max(self.longest, passed),
            max(self.most_decisions, users),
        )


NO_REPORTS = Reports(0, 0, 0, 0, 0)


@dataclass(slots=True)
class Tally:
    """Sums over the events of a campaign with K treatments, arms 0..K."""

    decisions: list[int]
    outcomes: list[int]
    conversions: list[float]
    every: int = 1  # decisions from point to point
    points: list[Point] = field(default_factory=list)
    caused_every: int = OUTCOMES
    caused: list[CausedPoint] = field(default_factory=list)
    offers: int = 0  # users whose cheapest treatment is in the next sum
    cheapest: int = 0  # micros
    reports: Reports = NO_REPORTS
    parts: list[int] = field(default_factory=list)  # of each arm, where outcomes are amounts
    squares: list[int] = field(default_factory=list)  # likewise, of the amounts: exact
    corrections: int = 0  # outcomes that were corrected

    @classmethod
    def empty(cls, treatments: int, amounts: bool = False) -> Tally:
        """Before the first event."""
        arms = treatments + 1
        made = cls([0] * arms, [0] * arms, [0.0] * arms)
        if amounts:
            made.parts, made.squares = [0] * arms, [0] * arms
        return made

    def note_point(self, point: Point) -> None:
        """One more point, where ``every`` is due."""
        self.points.append(point)
        if len(self.points) > POINTS:
            self.points = self.points[1::2]
            self.every *= 2

    def note_caused(self, point: CausedPoint) -> None:
        """One more point of what was caused."""
        self.caused.append(point)
        if len(self.caused) > CAUSED:
            self.caused = self.caused[1::2]
            self.caused_every *= 2

    def note_outcome(self, action: int, y: float) -> bool:
        """One more outcome; whether a point of what was caused is due."""
        self.outcomes[action] += 1
        if self.parts:
            self._add_amount(action, y, 1)
            y = float(y != NOT_REPORTED)
        self.conversions[action] += y
        return sum(self.outcomes) % self.caused_every == 0

    def correct(self, action: int, was: float, y: float) -> None:
        """An outcome was another one."""
        self.corrections += 1
        if self.parts:
            self._add_amount(action, y, 1)
            self._add_amount(action, was, -1)
            was, y = float(was != NOT_REPORTED), float(y != NOT_REPORTED)
        self.conversions[action] += y - was

    def _add_amount(self, action: int, y: float, sign: int) -> None:
        parts = round(y * PARTS)
        self.parts[action] += sign * parts
        self.squares[action] += sign * parts**2

    def value(self, arm: int) -> float | None:
        """What an arm has brought, in currency; None where outcomes are conversions."""
        return self.parts[arm] / PARTS if self.parts else None

    @property
    def whole_value(self) -> float | None:
        """What all arms have brought."""
        return sum(self.parts) / PARTS if self.parts else None

    @property
    def average_cost(self) -> float:
        """Micros that the cheapest treatment of a user costs on average; 0 before the first."""
        return self.cheapest / self.offers if self.offers else 0.0

    @property
    def one_sided(self) -> bool:
        """Whether conversions alone are known: others are, once their window has passed."""
        return sum(self.outcomes) > 0 and sum(self.conversions) == sum(self.outcomes)

    def rate(self, arm: int, pending: float = 0.0) -> Interval | None:
        """The conversion rate of an arm, where pending users count as so many; None if it misleads.

        Conversions are known before all else is: of known outcomes alone it would be far too high.
        """
        if not self.outcomes[arm] or (self.one_sided and not pending):
            return None
        n = self.outcomes[arm] + pending
        return wilson(self.conversions[arm] / n, n)

    def value_per_user(self, arm: int, pending: float = 0.0) -> Interval | None:
        """The amount that a user of an arm brings, counted as in :meth:`rate`.

        None as there, and while few converted: so few amounts say nothing of how far others spread.
        """
        value = self.value(arm)
        if value is None or self.rate(arm, pending) is None or self.conversions[arm] < FEWEST:
            return None
        n = self.outcomes[arm] + pending
        mean, squares = value / n, self.squares[arm] / PARTS**2
        reach = QUANTILE * math.sqrt(max(squares / n - mean**2, 0.0) / n)
        return Interval(mean, mean - reach, mean + reach)

    def at_most(self, price: float) -> bool:
        """Whether the price was no higher at most of the recent points, if there are so many."""
        low = sum(point.price <= price * (1.0 + CLOSE) for point in self.points[-RECENT:])
        return 2 * low > RECENT

    def money_ends_at(self, at: int, remaining: int, returning: float = 0.0) -> int | None:
        """When the money ends at the recent speed; None if that is not known.

        ``returning`` is the share of what is held that is expected to return: that share of the
        increase in held money does not count as spent. It is also None where no user has come for
        as long as those points took.
        """
        if len(self.points) < RECENT or remaining == 0:
            return None
        first, last = self.points[-RECENT], self.points[-1]
        spent = last.spent - first.spent - returning * (last.held - first.held)
        passed = at - first.at
        if spent <= 0 or passed <= 0 or at - last.at > last.at - first.at:
            return None
        left = remaining / spent * passed
        return at + round(left) if left < FORESEEABLE else None

    def to_dict(self) -> dict[str, Any]:
        """The sums in plain types."""
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        kept["caused"] = [(at, *map(_ends, figures)) for at, *figures in self.caused]
        return kept

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Tally:
        """The sums that :meth:`to_dict` gave; those that older versions kept besides are left."""
        known = {each.name: kept[each.name] for each in fields(cls) if each.name in kept}
        known["reports"] = Reports(*kept.get("reports", NO_REPORTS))
        known["points"] = [Point(*point) for point in kept["points"]]
        known["caused"] = [
            CausedPoint(at, *(figure and Interval(*figure) for figure in figures))
            for at, *figures in kept.get("caused", ())
        ]
        return cls(**known)


def _ends(interval: Interval | None) -> tuple[float, float, float] | None:
    return None if interval is None else (interval.value, interval.low, interval.high)
