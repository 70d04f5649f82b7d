"""Campaigns as they are answered: rows for lists, and the report of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from decimal import Decimal
from typing import Any, Literal, cast

from bccb import wire
from bccb.caused import Caused
from bccb.encoding import Encoding
from bccb.intervals import Interval
from bccb.ledger.moment import SECOND, time_of
from bccb.ledger.port import Account
from bccb.money import MICROS, as_text
from bccb.serve.campaign import RUNS, Campaign
from bccb.serve.delays import delays_view, exposure, median_delay
from bccb.serve.quarantine import UNREADABLE, Quarantined
from bccb.serve.tally import CausedPoint, Point
from bccb.serve.terms import Terms
from bccb.wire import encode

NO_LARGEST = (
    "Not measured: amounts have no bound in this campaign, and a test without a model needs one. "
    'Open the next one with the largest amount that counts, such as "outcome": {"kind": "amount", '
    '"largest": "500.00"}.'
)

NOBODY_COUNTS = (
    "Nobody counts yet: users are measured in the order of their decisions, once their outcome is "
    "reported or their window has ended."
)

LOSSES = (
    "Not measured: some outcomes are below 0 ({losses:,}), which would count as 0 without a model. "
    "Rely on the estimate."
)

TOO_WIDE = (
    "Too few users were left alone at random yet: the measured interval is wider than all that "
    "treated users brought. More users narrow it, and in the next campaign a larger reserve."
)

TOO_FEW = (
    "Too few users yet: until {needed:,} were treated whose outcomes are known, the measured "
    "interval excludes next to nothing."
)


def money(micros: int) -> Decimal:
    """Micros in currency units, with two decimals or as many as it takes."""
    return Decimal(as_text(micros))


def campaign_view(campaign: Campaign | Quarantined, whole: bool = True) -> wire.Campaign:
    """A campaign, its money, its counts and, for the ``whole`` view, what it caused.

    Without all that needs its journal, where it is quarantined.
    """
    if isinstance(campaign, Quarantined):
        return wire.Campaign(
            id=campaign.id,
            name=campaign.account.name,
            status="quarantined",
            reason=campaign.reason,
            **_readable_terms(campaign.terms),
            **money_view([campaign.account]),
            decisions=0,
            treated=0,
            pending=0,
            conversions=0.0,
            median_delay_seconds=None,
            too_late=0,
            corrections=0,
            caused=None,
        )
    return wire.Campaign(
        id=campaign.id,
        name=campaign.terms.name,
        status=cast("Literal['running', 'paused', 'closed']", RUNS[campaign.status]),
        reason=None,
        **_terms_view(campaign.terms),
        **money_view([campaign.account()]),
        decisions=campaign.machine.decisions,
        treated=sum(campaign.tally.decisions[1:]),
        pending=campaign.open,
        conversions=sum(campaign.tally.conversions),
        median_delay_seconds=median_delay(campaign.pending),
        too_late=campaign.pending.too_late,
        corrections=campaign.tally.corrections,
        caused=_caused(campaign) if whole else None,
        needs_history=campaign.needs_history,
        cap_binds=campaign.cap_binds,
        value=campaign.tally.whole_value,
        fit_due=campaign.machine.fit_due,
        fits=campaign.machine.fits,
        fitted_at=None if campaign.fitted_at is None else time_of(campaign.fitted_at),
        alerts=tuple(
            wire.Alert(kind, time_of(since), text) for kind, since, text in campaign.alerts
        ),
    )


def _readable_terms(terms: Terms) -> dict[str, Any]:
    """The terms of a quarantined campaign, which may be damaged, too."""
    try:
        view = _terms_view(terms)
        encode(view)
        return view
    except Exception:
        return _terms_view(UNREADABLE)


def _terms_view(terms: Terms) -> dict[str, Any]:
    horizon: wire.Horizon = wire.UsersHorizon(terms.users or 0)
    if terms.ends_at is not None:
        horizon = wire.TimeHorizon(time_of(terms.ends_at), terms.expected_users)
    return {
        "mode": "shadow" if terms.shadow else "live",
        "created_at": time_of(terms.opened_at),
        "horizon": horizon,
        "features": terms.features,
        "treatments": terms.treatments,
        "policy": wire.PolicyChoice(terms.policy, terms.parameters),
        "outcome_window_seconds": terms.window // SECOND,
        "seed": terms.seed,
        "learned_from": terms.learned_from,
        "encoding": _encoding_view(terms.encoding),
        "charge": terms.charge,
        "cost_cap": None if terms.cost_cap is None else money(terms.cost_cap),
        "outcome": wire.OutcomeTerms(
            cast("Literal['conversion', 'amount']", terms.outcome),
            terms.negative,
            None if terms.largest is None else money(terms.largest),
        ),
        "share": terms.share,
        "currency": terms.currency,
    }


def _encoding_view(encoding: Encoding | None) -> tuple[wire.FeatureChoice, ...]:
    if encoding is None:
        return ()
    return tuple(
        wire.FeatureChoice(each.name, each.kind, each.levels, each.others, each.fill)
        for each in encoding.features
    )


def money_view(accounts: Sequence[Account]) -> dict[str, Any]:
    """The money of a campaign, or of its cells together."""
    budget, spent, reserved = (
        sum(getattr(each, name) for each in accounts) for name in ("budget", "spent", "reserved")
    )
    return {
        "budget": money(budget),
        "spent": money(spent),
        "reserved": money(reserved),
        "remaining": money(budget - spent - reserved),
    }


def report_view(campaign: Campaign | Quarantined, at: int) -> wire.Report:
    """What the page shows."""
    if isinstance(campaign, Quarantined):
        return wire.Report(
            campaign=campaign_view(campaign),
            now=time_of(at),
            arms=(),
            caused_series=_caused_series([]),
            decisions_per_second=0.0,
            planned=money(0),
            money_ends_at=None,
            series=_series([]),
            delays=wire.Delays((), ()),
        )
    tally, now = campaign.tally, campaign.now(at)
    planned = campaign.planned(now, campaign.machine.decisions)
    points = list(tally.points)
    if points:  # as things stand: money may have returned since the last decision
        out = campaign.spent + campaign.reserved
        points.append(Point(now, campaign.machine.decisions, out, planned, points[-1].price))
    back = campaign.machine.to_return
    returning = back / max(campaign.machine.held_micros, 1)
    ends = tally.money_ends_at(now, campaign.remaining + back, returning)
    return wire.Report(
        campaign=campaign_view(campaign),
        now=time_of(at),
        arms=_arms(campaign),
        caused_series=_caused_series(tally.caused),
        decisions_per_second=campaign.meter.rate(at),
        planned=money(planned),
        money_ends_at=None if ends is None or campaign.over(now) else time_of(ends),
        series=_series(points),
        delays=delays_view(campaign.pending, campaign.terms.treatments),
        to_return=money(back),
    )


def _arms(campaign: Campaign) -> tuple[wire.ArmFigures, ...]:
    tally, waiting = campaign.tally, exposure(campaign.pending)
    if tally.one_sided and median_delay(campaign.pending) is None:
        waiting[:] = 0.0  # how late conversions come is not known, either
    values = [tally.value_per_user(arm, float(users)) for arm, users in enumerate(waiting)]
    if not campaign.terms.negative:
        values = [value and replace(value, low=max(value.low, 0.0)) for value in values]
    return tuple(
        wire.ArmFigures(
            treatment=name,
            decisions=tally.decisions[arm],
            outcomes=tally.outcomes[arm],
            conversions=tally.conversions[arm],
            rate=_figure(tally.rate(arm, float(waiting[arm]))),
            value=tally.value(arm),
            value_per_user=_figure(values[arm]),
        )
        for arm, name in enumerate((None, *campaign.terms.treatments))
    )


def _caused_series(points: list[CausedPoint]) -> wire.CausedSeries:
    return wire.CausedSeries(
        at=tuple(point.at / SECOND for point in points),
        estimated=tuple(_figure(point.estimated) for point in points),
        measured=tuple(_figure(point.measured) for point in points),
    )


def _caused(campaign: Campaign) -> wire.Caused | None:
    if campaign.terms.shadow:
        return None
    caused, terms = campaign.caused(), campaign.terms
    reason = None
    too_few = TOO_WIDE if caused.wide else None
    if caused.needed:
        too_few = TOO_FEW.format(needed=caused.needed)
    if terms.has_amounts and terms.largest is None and campaign.machine.reserve > 0.0:
        reason = NO_LARGEST
    elif caused.losses:
        reason = LOSSES.format(losses=caused.losses)
    elif campaign.measure is not None and caused.measured is None:
        reason = NOBODY_COUNTS
    return wire.Caused(
        estimated=_figure(caused.estimated),
        measured=_figure(caused.measured),
        measured_users=caused.measured_users,
        return_on_spend=_figure(_return_on_spend(campaign, caused)),
        not_measured=reason,
        measurable=campaign.measure is not None and not caused.losses,
        too_few=too_few,
    )


def _return_on_spend(campaign: Campaign, caused: Caused) -> Interval | None:
    """The estimated value for each unit of money, where outcomes are amounts."""
    out = (campaign.spent + campaign.reserved - campaign.machine.to_return) / MICROS
    if not campaign.terms.has_amounts or caused.estimated is None or out <= 0.0:
        return None
    value, low, high = (each / out for each in astuple(caused.estimated))
    return Interval(value, low, high)


def _series(points: list[Point]) -> wire.Series:
    return wire.Series(
        at=tuple(point.at / SECOND for point in points),
        decisions=tuple(point.decisions for point in points),
        spent=tuple(point.spent / MICROS for point in points),
        planned=tuple(point.planned / MICROS for point in points),
        price=tuple(point.price for point in points),
    )


def _figure(interval: Interval | None) -> wire.Figure | None:
    return None if interval is None else wire.Figure(interval.value, interval.low, interval.high)
