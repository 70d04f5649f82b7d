r"""The tally of a campaign: what its page shows, added up as events come.

What the treatments caused is the self-normalised estimate of :mod:`bccb.evaluate.estimates`, from
sums alone: N treated users with C conversions; users left alone with weights w = (1 - p_0) / p_0,

    m = sum w Y / sum w,    incremental = C - N m,    scale = N / sum w,

where the variance of N m is scale^2 times sum w^2 (Y - m)^2, or what m lets one expect of it over
all users, sum (1 - p_0)^2 / p_0 x m (1 - m), if that is more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from bccb.intervals import Interval, Total, difference, wilson
from bccb.outcome import variance_bound

POINTS = 400  # at most; then every second one is dropped
# Probability of being left alone; below it users cannot be compared. Just below what pooled-bayes
# keeps.
LEAST_CHANCE = 0.005 * (1 - 1e-9)
MOST_INCOMPARABLE = 0.05  # share of the treated; beyond it the estimate would leave out too many
RECENT = 20  # points over which the speed of spending is measured
FORESEEABLE = 100 * 366 * 86_400 * 1_000_000  # microseconds: no forecast reaches further

KEYS = {"incomparable": "untold"}  # names in snapshots, where older versions wrote another one
FIELDS = {key: name for name, key in KEYS.items()}


class Point(NamedTuple):
    """A moment of a campaign."""

    at: int  # microseconds since 1970
    decisions: int
    spent: int  # micros, with what is held
    planned: int  # micros
    price: float


@dataclass(slots=True)
class Tally:
    """Sums over the events of a campaign with K treatments, arms 0..K."""

    decisions: list[int]
    outcomes: list[int]
    conversions: list[float]
    every: int = 1  # decisions from point to point
    points: list[Point] = field(default_factory=list)
    treated: float = 0.0  # N, and the rest of the docstring's sums
    treated_y: float = 0.0
    treated_yy: float = 0.0
    incomparable: int = 0  # treated users who had no real chance of being left alone
    w: float = 0.0
    wy: float = 0.0
    ww: float = 0.0
    wwy: float = 0.0
    wwyy: float = 0.0
    expected: float = 0.0

    @classmethod
    def empty(cls, treatments: int) -> Tally:
        """Before the first event."""
        arms = treatments + 1
        return cls([0] * arms, [0] * arms, [0.0] * arms)

    def note_point(self, point: Point) -> None:
        """One more point, where ``every`` is due."""
        self.points.append(point)
        if len(self.points) > POINTS:
            self.points = self.points[1::2]
            self.every *= 2

    def note_outcome(self, action: int, y: float, alone: float | None) -> None:
        """One more outcome, of a user who was left alone with probability ``alone``, if known."""
        self.outcomes[action] += 1
        self.conversions[action] += y
        if alone is None or not alone >= LEAST_CHANCE:  # also where it is not a number
            self.incomparable += action > 0
            return
        self.expected += (1.0 - alone) ** 2 / alone
        if action > 0:
            self.treated += 1.0
            self.treated_y += y
            self.treated_yy += y * y
            return
        w = (1.0 - alone) / alone
        self.w += w
        self.wy += w * y
        self.ww += w * w
        self.wwy += w * w * y
        self.wwyy += w * w * y * y

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

    def incremental(self) -> Interval | None:
        """Conversions that the treatments caused; None where too few can be compared."""
        if self.treated == 0 or self.w == 0 or self.one_sided:
            return None
        if self.incomparable > MOST_INCOMPARABLE * (self.treated + self.incomparable):
            return None
        m, scale = self.wy / self.w, self.treated / self.w
        seen = max(self.wwyy - 2 * m * self.wwy + m * m * self.ww, 0.0)
        variance = scale**2 * max(seen, self.expected * variance_bound(m))
        weight = scale * max(self.expected, self.ww) / self.w
        spread = max(self.treated_yy - self.treated_y**2 / self.treated, 0.0)
        treated = Total(self.treated_y, spread, 1.0)
        caused = difference(treated, Total(self.treated * m, variance, weight))
        # without treatment at least none and at most all of them would have converted
        least, most = self.treated_y - self.treated, self.treated_y
        return Interval(caused.value, max(caused.low, least), min(caused.high, most))

    def money_ends_at(self, at: int, remaining: int) -> int | None:
        """When the money ends at the recent speed; None if that is not known.

        It is also None where no user has come for as long as those points took.
        """
        if len(self.points) < RECENT or remaining == 0:
            return None
        first, last = self.points[-RECENT], self.points[-1]
        spent, passed = last.spent - first.spent, at - first.at
        if spent <= 0 or passed <= 0 or at - last.at > last.at - first.at:
            return None
        left = remaining / spent * passed
        return at + round(left) if left < FORESEEABLE else None

    def to_dict(self) -> dict[str, Any]:
        """The sums in plain types."""
        return {KEYS.get(each.name, each.name): getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Tally:
        """The sums that :meth:`to_dict` gave."""
        points = [Point(*point) for point in kept["points"]]
        return cls(
            **{FIELDS.get(name, name): value for name, value in kept.items()} | {"points": points}
        )
