"""Merging: a campaign in cells, as one, from what its cells answer."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from statistics import median
from typing import TypeVar

from msgspec import structs

from bccb import wire
from bccb.ledger.port import Account
from bccb.money import MICROS
from bccb.serve.cells import cells_of, whole_of
from bccb.serve.tally import CAUSED, POINTS
from bccb.serve.views import money, money_view

T = TypeVar("T")
CAMPAIGNS = wire.decoder(wire.Campaign)
# A campaign in cells goes on while one of them does
STATUSES = ("quarantined", "running", "paused", "closed")


def merged_campaign(cells: Sequence[wire.Campaign], accounts: Sequence[Account]) -> wire.Campaign:
    """The campaign whose cells these are, in their order; of a single one itself.

    Its money is that of their ``accounts``, which are of one moment. The cells may have answered at
    different ones, and money that moved meanwhile would count in none of them, or twice.
    """
    if len(cells) == 1:
        return cells[0]
    bad = [cell for cell in cells if cell.status == "quarantined"]
    one = next((cell for cell in cells if cell not in bad), cells[0])  # for what all have in common
    reason = bad[0].reason if bad else None
    delays = [each.median_delay_seconds for each in cells if each.median_delay_seconds is not None]
    return structs.replace(
        one,
        id=whole_of(one.id) or one.id,
        name=cells[0].name,
        status=min((cell.status for cell in cells), key=STATUSES.index),
        reason=reason and f"cell {bad[0].id} is, while the others go on: {reason}",
        seed=cells[0].seed,
        horizon=_horizon([cell.horizon for cell in cells if cell not in bad] or [one.horizon]),
        **money_view(accounts),
        decisions=sum(cell.decisions for cell in cells),
        treated=sum(cell.treated for cell in cells),
        pending=sum(cell.pending for cell in cells),
        conversions=sum(cell.conversions for cell in cells),
        # each cell estimates the same: the middle of them is as good as a median of all
        median_delay_seconds=median(delays) if delays else None,
        too_late=sum(cell.too_late for cell in cells),
        caused=_caused(cells),
        fit_due=any(cell.fit_due for cell in cells),
        fits=sum(cell.fits for cell in cells),
        fitted_at=max((cell.fitted_at for cell in cells if cell.fitted_at), default=None),
        alerts=tuple(_named(alert, cell) for cell in cells for alert in cell.alerts),
        needs_history=any(cell.needs_history for cell in cells),
        cap_binds=all(cell.cap_binds for cell in cells),
        value=None if one.value is None else sum(cell.value or 0.0 for cell in cells),
        corrections=sum(cell.corrections for cell in cells),
        cells=len(cells),
    )


def merged_list(campaigns: Mapping[str, bytes], accounts: Mapping[str, Account]) -> list[bytes]:
    """Campaigns as JSON, by id, with the cells of each made one, in the place of the first."""
    merged: list[bytes] = []
    for id_, view in campaigns.items():
        whole = whole_of(id_)
        cells = [] if whole is None else cells_of(whole)
        if not cells or any(cell not in campaigns for cell in cells):
            merged.append(view)
        elif id_ == cells[0]:
            views = [CAMPAIGNS.decode(campaigns[cell]) for cell in cells]
            merged.append(wire.encode(merged_campaign(views, [accounts[cell] for cell in cells])))
    return merged


def merged_report(cells: Sequence[wire.Report], accounts: Sequence[Account]) -> wire.Report:
    """The report of the campaign whose cells these are, in their order."""
    arms = [cell.arms for cell in cells if cell.arms]  # a quarantined cell has none
    delays = [cell.delays.arms for cell in cells if cell.delays.arms]
    now = max(cell.now for cell in cells)
    return wire.Report(
        campaign=merged_campaign([cell.campaign for cell in cells], accounts),
        now=now,
        arms=tuple(_arm(arm) for arm in zip(*arms, strict=True)),
        caused_series=_caused_series([cell.caused_series for cell in cells if cell.arms]),
        decisions_per_second=sum(cell.decisions_per_second for cell in cells),
        planned=_money(cell.planned for cell in cells),
        money_ends_at=_money_ends_at(cells, now),
        series=_series([cell.series for cell in cells]),
        delays=wire.Delays(
            max((cell.delays.seconds for cell in cells), key=len),
            tuple(_arm_delays(arm) for arm in zip(*delays, strict=True)),
        ),
        to_return=_money(cell.to_return for cell in cells),
    )


def _money(parts: Iterable[Decimal]) -> Decimal:
    return money(int(sum(parts) * MICROS))


def _named(alert: wire.Alert, cell: wire.Campaign) -> wire.Alert:
    return structs.replace(alert, text=f"Cell {cell.id.rpartition('.')[2]}: {alert.text}")


def _horizon(cells: Sequence[wire.Horizon]) -> wire.Horizon:
    if isinstance(cells[0], wire.TimeHorizon):
        by_time = [each for each in cells if isinstance(each, wire.TimeHorizon)]
        expected = sum(each.expected_users or 0 for each in by_time)
        return wire.TimeHorizon(cells[0].ends_at, expected or None)
    return wire.UsersHorizon(
        sum(each.users for each in cells if isinstance(each, wire.UsersHorizon))
    )


# Figures


def _sum(figures: Sequence[wire.Figure | None]) -> wire.Figure | None:
    """The sum of figures of different users; None if one of them is not known.

    Half-widths add up as the root of the sum of squares. That is right for errors that are
    independent and about normal. Cells decide on different users with draws of their own; what
    errors they have in common, such as a model that none of them can fit, adds up in full. What is
    measured holds in each cell however often one looks; of the sum that is true for one look.
    """
    known = [figure for figure in figures if figure is not None]
    if not known or len(known) < len(figures):
        return None
    value = sum(each.value for each in known)
    below = math.hypot(*(each.value - each.low for each in known))
    above = math.hypot(*(each.high - each.value for each in known))
    return wire.Figure(value, value - below, value + above)


def _mean(figures: Sequence[wire.Figure | None], users: Sequence[int]) -> wire.Figure | None:
    """The mean over all users, of means over so many; None if one of them is not known."""
    counted = [(figure, n) for figure, n in zip(figures, users, strict=True) if n]
    total = sum(n for _, n in counted)
    return _sum([figure and _times(figure, n / total) for figure, n in counted])


def _times(figure: wire.Figure, factor: float) -> wire.Figure:
    return wire.Figure(figure.value * factor, figure.low * factor, figure.high * factor)


def _caused(cells: Sequence[wire.Campaign]) -> wire.Caused | None:
    known = [cell.caused for cell in cells if cell.caused is not None]
    if not known:
        return None
    estimated = _sum([each.estimated for each in known])
    # a return is value over money: it tells what the money was, which counts what will come back
    out = sum(
        each.estimated.value / each.return_on_spend.value
        for each in known
        if each.estimated and each.return_on_spend and each.return_on_spend.value
    )
    few = next((each.too_few for each in known if each.too_few), None)
    return wire.Caused(
        estimated=estimated,
        measured=_sum([each.measured for each in known]),
        measured_users=sum(each.measured_users for each in known),
        return_on_spend=_times(estimated, 1.0 / out) if estimated and out else None,
        not_measured=next((each.not_measured for each in known if each.not_measured), None),
        measurable=all(each.measurable for each in known),
        too_few=few and f"{few} Each of the {len(cells)} cells needs as many.",
    )


def _arm(cells: Sequence[wire.ArmFigures]) -> wire.ArmFigures:
    known = [cell.outcomes for cell in cells]
    return wire.ArmFigures(
        treatment=cells[0].treatment,
        decisions=sum(cell.decisions for cell in cells),
        outcomes=sum(known),
        conversions=sum(cell.conversions for cell in cells),
        rate=_mean([cell.rate for cell in cells], known),
        value=None if cells[0].value is None else sum(cell.value or 0.0 for cell in cells),
        value_per_user=_mean([cell.value_per_user for cell in cells], known),
    )


def _arm_delays(cells: Sequence[wire.ArmDelays]) -> wire.ArmDelays:
    """The mean curve, by the reports that each rests on."""
    reports = sum(cell.reports for cell in cells)
    weights = [cell.reports / reports if reports else 1.0 / len(cells) for cell in cells]
    curves = zip(*(cell.shares for cell in cells), strict=True)
    shares = (sum(w * share for w, share in zip(weights, at, strict=True)) for at in curves)
    return wire.ArmDelays(cells[0].treatment, reports, tuple(round(each, 6) for each in shares))


# Over time


def _series(cells: Sequence[wire.Series]) -> wire.Series:
    """All cells at each moment: sums, and the mean price. Before its first point a cell is at 0."""
    times = _thinned(sorted({at for cell in cells for at in cell.at}), POINTS)

    def total(pick: Callable[[wire.Series], Sequence[float]]) -> tuple[float, ...]:
        return tuple(sum(_by(cell.at, pick(cell), at, 0) for cell in cells) for at in times)

    prices = ([_by(cell.at, cell.price, at, None) for cell in cells] for at in times)
    known = ([price for price in at if price is not None] for at in prices)
    return wire.Series(
        at=tuple(times),
        decisions=tuple(int(each) for each in total(lambda cell: cell.decisions)),
        spent=total(lambda cell: cell.spent),
        planned=total(lambda cell: cell.planned),
        price=tuple(sum(at) / len(at) for at in known),
    )


def _caused_series(cells: Sequence[wire.CausedSeries]) -> wire.CausedSeries:
    """All cells at each moment from which on all of them have a point."""
    if not cells or not all(cell.at for cell in cells):
        return wire.CausedSeries((), (), ())
    begin = max(cell.at[0] for cell in cells)
    times = sorted({at for cell in cells for at in cell.at if at >= begin})
    times = _thinned(times, CAUSED)
    return wire.CausedSeries(
        at=tuple(times),
        estimated=tuple(
            _sum([_by(cell.at, cell.estimated, at, None) for cell in cells]) for at in times
        ),
        measured=tuple(
            _sum([_by(cell.at, cell.measured, at, None) for cell in cells]) for at in times
        ),
    )


def _by(times: Sequence[float], values: Sequence[T], at: float, before: T) -> T:
    """The last value by a moment."""
    place = bisect_right(times, at)
    return values[place - 1] if place else before


def _thinned(times: list[float], most: int) -> list[float]:
    """About so many of these, evenly, with the last one."""
    step = -(-len(times) // most) or 1
    return times[::-1][::step][::-1]


def _money_ends_at(cells: Sequence[wire.Report], now: datetime) -> datetime | None:
    """When the money of all cells ends at the speeds of each: it moves to where it is spent.

    None if the speed of one that has money is not known.
    """
    left, speed = 0.0, 0.0  # currency units, and those per second
    for cell in cells:
        some = float(cell.campaign.remaining)
        if not some:
            continue
        if cell.money_ends_at is None:
            return None
        left += some
        speed += some / max((cell.money_ends_at - now).total_seconds(), 1e-3)
    if not left:
        return None
    return datetime.fromtimestamp(now.timestamp() + left / speed, now.tzinfo)
