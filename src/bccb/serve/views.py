"""Campaigns as they are told: rows for lists and answers, and the report of the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bccb.intervals import Interval
from bccb.ledger.moment import SECOND, as_time
from bccb.money import MICROS, as_text
from bccb.serve.campaign import RUNS, Campaign
from bccb.serve.tally import Point


def campaign_view(campaign: Campaign) -> dict[str, Any]:
    """A campaign, its money and its counts."""
    terms, tally = campaign.terms, campaign.tally
    horizon: dict[str, Any] = {"users": terms.users}
    if terms.ends_at is not None:
        horizon = {"ends_at": as_time(terms.ends_at), "expected_users": terms.expected_users}
    return {
        "id": campaign.id,
        "name": terms.name,
        "status": RUNS[campaign.status],
        "mode": "shadow" if terms.shadow else "live",
        "created_at": as_time(terms.opened_at),
        "horizon": horizon,
        "features": list(terms.features),
        "treatments": list(terms.treatments),
        "policy": {"name": terms.policy, "params": terms.parameters},
        "outcome_window_seconds": terms.window // SECOND,
        "seed": terms.seed,
        "learned_from": terms.learned_from,
        "budget": as_text(campaign.budget),
        "spent": as_text(campaign.spent),
        "reserved": as_text(campaign.reserved),
        "remaining": as_text(campaign.remaining),
        "decisions": campaign.machine.decisions,
        "treated": sum(tally.decisions[1:]),
        "open": campaign.open,
    }


def report_view(campaign: Campaign, at: int) -> dict[str, Any]:
    """What the page shows."""
    tally, now = campaign.tally, campaign.now(at)
    points = list(tally.points)
    if points:  # as things stand: money may have returned since the last decision
        planned = campaign.planned(now, campaign.machine.decisions)
        out = campaign.spent + campaign.reserved
        points.append(Point(now, campaign.machine.decisions, out, planned, points[-1].price))
    ends = tally.money_ends_at(now, campaign.remaining)
    return {
        "campaign": campaign_view(campaign),
        "now": as_time(at),
        "arms": [
            {
                "treatment": name,
                "decisions": tally.decisions[arm],
                "outcomes": tally.outcomes[arm],
                "conversions": tally.conversions[arm],
                "rate": _interval(tally.rate(arm)),
            }
            for arm, name in enumerate((None, *campaign.terms.treatments))
        ],
        "incremental": _interval(tally.incremental()),
        "decisions_per_second": campaign.meter.rate(at),
        "planned": as_text(campaign.planned(campaign.now(at), campaign.machine.decisions)),
        "money_ends_at": None if ends is None or campaign.over(now) else as_time(ends),
        "series": {
            "at": [point.at / SECOND for point in points],
            "decisions": [point.decisions for point in points],
            "spent": [point.spent / MICROS for point in points],
            "planned": [point.planned / MICROS for point in points],
            "price": [point.price for point in points],
        },
    }


def _interval(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)
