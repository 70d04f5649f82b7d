"""Campaigns as they are told: rows for lists and answers, and the report of the page."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from bccb.intervals import Interval
from bccb.ledger.moment import SECOND, as_time
from bccb.ledger.port import Account
from bccb.money import MICROS, as_text
from bccb.serve.campaign import RUNS, Campaign
from bccb.serve.quarantine import UNREADABLE, Quarantined
from bccb.serve.tally import Point
from bccb.serve.terms import Terms

# The report of a campaign of which nothing is known but its row
NOTHING: dict[str, Any] = {
    "arms": [],
    "incremental": None,
    "decisions_per_second": 0.0,
    "planned": as_text(0),
    "money_ends_at": None,
    "series": {name: [] for name in ("at", "decisions", "spent", "planned", "price")},
}


def campaign_view(campaign: Campaign | Quarantined) -> dict[str, Any]:
    """A campaign, its money and its counts."""
    if isinstance(campaign, Quarantined):
        return _quarantined_view(campaign)
    return {
        "id": campaign.id,
        "name": campaign.terms.name,
        "status": RUNS[campaign.status],
        "reason": None,
        **_terms_view(campaign.terms),
        **_money_view(campaign.account()),
        "decisions": campaign.machine.decisions,
        "treated": sum(campaign.tally.decisions[1:]),
        "open": campaign.open,
    }


def _quarantined_view(campaign: Quarantined) -> dict[str, Any]:
    """What the campaign's row tells, and its terms; the counts would be part of the fold."""
    return {
        "id": campaign.id,
        "name": campaign.account.name,
        "status": "quarantined",
        "reason": campaign.reason,
        **_readable_terms(campaign.terms),
        **_money_view(campaign.account),
        "decisions": 0,
        "treated": 0,
        "open": 0,
    }


def _readable_terms(terms: Terms) -> dict[str, Any]:
    """The terms of a quarantined campaign, which may be damaged, too."""
    try:
        view = _terms_view(terms)
        json.dumps(view, allow_nan=False).encode()
        return view
    except Exception:
        return _terms_view(UNREADABLE)


def _terms_view(terms: Terms) -> dict[str, Any]:
    horizon: dict[str, Any] = {"users": terms.users}
    if terms.ends_at is not None:
        horizon = {"ends_at": as_time(terms.ends_at), "expected_users": terms.expected_users}
    return {
        "mode": "shadow" if terms.shadow else "live",
        "created_at": as_time(terms.opened_at),
        "horizon": horizon,
        "features": list(terms.features),
        "treatments": list(terms.treatments),
        "policy": {"name": terms.policy, "params": terms.parameters},
        "outcome_window_seconds": terms.window // SECOND,
        "seed": terms.seed,
        "learned_from": terms.learned_from,
    }


def _money_view(account: Account) -> dict[str, str]:
    return {
        "budget": as_text(account.budget),
        "spent": as_text(account.spent),
        "reserved": as_text(account.reserved),
        "remaining": as_text(account.budget - account.spent - account.reserved),
    }


def report_view(campaign: Campaign | Quarantined, at: int) -> dict[str, Any]:
    """What the page shows."""
    if isinstance(campaign, Quarantined):
        return {"campaign": campaign_view(campaign), "now": as_time(at), **NOTHING}
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
