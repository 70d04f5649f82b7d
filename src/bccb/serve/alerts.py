"""Alerts: what somebody should look at, by rules that stay silent in a healthy campaign.

A rule sees a running campaign and gives a sentence, or None. One that stands already is cleared
only when things are clearly better, so that it does not come and go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

from bccb.ledger.event import Kind
from bccb.ledger.moment import SECOND, as_time, time_of
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.standing import Alert
from bccb.wire import AlertKind, Notice

ENOUGH = 20  # reports, or treatments, before a rule says anything
BACK = 2.0  # treatments that must be affordable again
# Of the budget: when spending is off plan, and by how much less it no longer is. Small campaigns
# spend up to 40 % ahead on purpose, since what is learned early serves all who come later
AHEAD, BEHIND, NEARER = 0.5, 0.2, 0.05
GAPS = 5  # longest gaps between reports: five in a row without any are no chance
LEAST_GAP, LEAST_USERS = 60 * SECOND, 100
NEVER_REPORTED = 1_000  # users whose window has ended

Rule: TypeAlias = Callable[[Campaign, int, bool], str | None]  # campaign, time, whether it stands
Tell: TypeAlias = Callable[[Notice], None]

logger = logging.getLogger("bccb.serve")


def money_gone(campaign: Campaign, at: int, stands: bool) -> str | None:
    """What is left does not pay for one treatment, the cheapest of each user on average."""
    average, left = campaign.tally.average_cost, campaign.remaining
    if left > 0 and left >= average * (BACK if stands else 1.0):
        return None
    budget, some = campaign.terms.in_words(campaign.budget), campaign.terms.in_words(left)
    if campaign.machine.charges_on_conversion and campaign.reserved >= average:
        free = f"Only {some} of {budget} is free"
        held = f"{campaign.terms.in_words(campaign.reserved)} is held until outcomes are known"
        return f"{free} and {held}: hardly anybody is treated until then."
    if left == 0:
        return f"Nothing is left of {budget}: nobody is treated without more."
    return f"Only {some} is left of {budget}: hardly anybody is treated without more."


def no_outcomes(campaign: Campaign, at: int, stands: bool) -> str | None:
    """Decisions go on, and no outcome is reported.

    Much longer than ever before, in users and in time: in a night there are few users, in a rush
    there is little time. Or none of many users whose window has ended was reported at all.
    """
    tally = campaign.tally
    reports = tally.reports
    if not reports.number:
        ended = sum(tally.outcomes)
        if ended < NEVER_REPORTED or sum(tally.conversions) > 0:  # of an older version
            return None
        late = campaign.pending.too_late
        also = f" {late:,} conversions came too late: the window is too short." if late else ""
        return f"No outcome was reported in time for any of {ended:,} users.{also}"
    users, passed = campaign.machine.decisions - reports.decisions, at - reports.at
    if (
        reports.number < ENOUGH
        or users <= max(GAPS * reports.most_decisions, LEAST_USERS)
        or passed <= max(GAPS * reports.longest, LEAST_GAP)
    ):
        return None
    since = as_time(reports.at - reports.at % SECOND)
    return f"No outcome was reported since {since}, and {users:,} users were decided on."


def off_plan(campaign: Campaign, at: int, stands: bool) -> str | None:
    """Spending is far from even. A shadow campaign spends what another system decides.

    What is held and expected to return is not spent. A cost cap leaves money over on purpose.
    """
    out = campaign.spent + campaign.reserved - campaign.machine.to_return
    ahead = out - campaign.planned(at, campaign.machine.decisions)
    off = abs(ahead) / campaign.budget
    few = abs(ahead) < ENOUGH * campaign.tally.average_cost
    most = (AHEAD if ahead > 0 else BEHIND) - (NEARER if stands else 0.0)
    if campaign.terms.shadow or few or off <= most or (ahead < 0 and campaign.cap_binds):
        return None
    how = f"{campaign.terms.in_words(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'}"
    return f"Spending is {how} the plan, {off:.0%} of the budget.".replace("%", " %")


def out_of_balance(campaign: Campaign, at: int, stands: bool) -> str | None:
    """Treated and untreated users are not reported alike."""
    fault = campaign.balance.fault()
    return fault and f"{fault} They cannot be compared: see that both are reported."


RULES: dict[AlertKind, Rule] = {
    "money_gone": money_gone,
    "no_outcomes": no_outcomes,
    "off_plan": off_plan,
    "out_of_balance": out_of_balance,
}


def ignore(notice: Notice) -> None:
    """Tell nobody."""


class Watch:
    """Which alerts stand, and who is notified."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._stand: dict[str, dict[AlertKind, Alert]] = {}  # by campaign, by kind

    def look(self, books: Books, at: int) -> None:
        """Apply all rules to all campaigns. A fault here must not stop what matters more."""
        for id_ in [each for each in self._stand if not books.has(each)]:
            del self._stand[id_]  # another replica holds it
        for campaign in books:
            try:
                self._look(campaign, campaign.now(at))
            except Exception:
                logger.exception("campaign %s cannot be watched", campaign.id)

    def _look(self, campaign: Campaign, at: int) -> None:
        before = self._stand.get(campaign.id, {})
        now = _standing(campaign, at, before)
        for kind, alert in (before | now).items():
            if (kind in now) != (kind in before):
                state: Literal["raised", "cleared"] = "raised" if kind in now else "cleared"
                name = campaign.terms.name
                self._tell(Notice(campaign.id, name, kind, state, alert.text, time_of(at)))
        self._stand[campaign.id] = now
        campaign.alerts = tuple(now.values())


def _standing(
    campaign: Campaign, at: int, before: dict[AlertKind, Alert]
) -> dict[AlertKind, Alert]:
    """The alerts of a campaign now, given those that stood before."""
    if campaign.status != Kind.RESUMED or campaign.over(at):
        return {}
    now: dict[AlertKind, Alert] = {}
    for kind, rule in RULES.items():
        stood = before.get(kind)
        text = rule(campaign, at, stood is not None)
        if text is not None:
            now[kind] = Alert(kind, at if stood is None else stood.since, text)
    return now
