"""Balance: whether treated and untreated users are reported alike.

If the outcomes of one side are lost on the way, the two can no longer be compared. Only users whose
window has ended count, in the order of their decisions: of others, those who convert soon are known
first.

A side is missed when its share is clearly below so many parts of the other one. Where zeros are
reported on both sides, both should be reported for much the same share of users: less than half is
too few. Where conversions alone are, the policy chooses whom to treat, and those may well convert
twenty times as often: then only next to none is too few.

>>> balance = Balance()
>>> balance.treated, balance.untreated = Side(50_000, 3_000, 3_000), Side(50_000, 5, 5)
>>> balance.fault()
'Conversions were reported for 6.00 % of treated users, but for 0.01 % of untreated users.'
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bccb.ledger.event import Kind, Known

RECENT = 100_000  # users: when as many are counted, all counts are halved
SURE = 3.0  # standard deviations
ALL_REPORTED, CONVERSIONS_REPORTED = 0.5, 0.02  # the least share of the other side's


@dataclass(slots=True)
class Side:
    """Counts of treated or of untreated users."""

    users: float = 0.0
    reported: float = 0.0
    converted: float = 0.0

    @property
    def tells_zeros(self) -> bool:
        """Whether most reports are of users who did not convert."""
        return self.reported > 2.0 * self.converted

    def halve(self) -> None:
        """Let the past count less."""
        self.users, self.reported = self.users / 2.0, self.reported / 2.0
        self.converted /= 2.0


@dataclass(slots=True)
class Balance:
    """Both sides, since the service has started."""

    treated: Side = field(default_factory=Side)
    untreated: Side = field(default_factory=Side)

    def note(self, known: Known, action: int | None) -> None:
        """Count a user whose window has ended, and what was done to whom, if that is known."""
        end = known.end
        if end is None or end.kind == Kind.CANCELLATION:
            return
        reported = end.kind == Kind.OUTCOME
        action = end.action if reported else action
        if action is None:
            return
        side = self.treated if action else self.untreated
        side.users += 1
        side.reported += reported
        side.converted += reported and end.value != 0.0
        if self.treated.users + self.untreated.users >= RECENT:
            self.treated.halve()
            self.untreated.halve()

    def fault(self) -> str | None:
        """What is out of balance, in a sentence; None if nothing is."""
        treated, untreated = self.treated, self.untreated
        if not (treated.users and untreated.users):
            return None
        zeros = treated.tells_zeros and untreated.tells_zeros
        what, least = ("Outcomes", ALL_REPORTED) if zeros else ("Conversions", CONVERSIONS_REPORTED)
        one, other = (side.reported if zeros else side.converted for side in (treated, untreated))
        if not _is_below(other, untreated.users, one, treated.users, least) and not _is_below(
            one, treated.users, other, untreated.users, least
        ):
            return None
        return (
            f"{what} were reported for {one / treated.users:.2%} of treated users, "
            f"but for {other / untreated.users:.2%} of untreated users."
        ).replace("%", " %")


def _is_below(few: float, users: float, many: float, others: float, least: float) -> bool:
    """Whether a share is surely below ``least`` of another one."""
    return _ends(few, users)[1] < least * _ends(many, others)[0]


def _ends(count: float, users: float) -> tuple[float, float]:
    """Wilson's interval of a share, as wide as it takes to be sure."""
    share, extra = count / users, SURE**2 / users
    centre = (share + extra / 2.0) / (1.0 + extra)
    reach = math.sqrt(extra * share * (1.0 - share) + (extra / 2.0) ** 2) / (1.0 + extra)
    return centre - reach, centre + reach
