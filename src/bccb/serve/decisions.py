"""Decisions: asked for by the client's ids, each made once.

All checks come before the first change. They run one at a time, in the thread
that owns the books; ``at`` is the time in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bccb.drivers import first_refused
from bccb.ledger.event import Event, Kind
from bccb.ledger.money import MICROS, as_text, costs_up
from bccb.serve.books import Books
from bccb.serve.campaign import STATUS, Campaign
from bccb.serve.problem import ProblemError, conflict, invalid
from bccb.serve.schemas import DecisionRequest
from bccb.serve.terms import Terms
from bccb.types import COST_RANGE, FEATURE_RANGE, MOST_COST, MOST_FEATURE, Floats, Ints


def decide(
    books: Books, at: int, campaign_id: str, requests: Sequence[DecisionRequest], single: bool
) -> list[dict[str, Any]]:
    """Decide on users in their order; an id that is known gets the answer it got before."""
    campaign = books.campaign(campaign_id)
    features, costs = _read(campaign.terms, requests, single)
    ids = [request.decision_id for request in requests]
    if len(set(ids)) < len(ids):
        i = next(i for i, each in enumerate(ids) if each in ids[:i])
        raise invalid(f"{i}.decision_id", ids[i], "another one than those before it in this list")
    made = _made_before(books, campaign, ids)
    for i, id_ in enumerate(ids):
        if id_ in made and not _same(campaign, made[id_], features[i], costs[i]):
            field = "decision_id" if single else f"{i}.decision_id"
            raise conflict("id-taken", f"decision {id_!r} was asked for with another body", field)
    fresh = [i for i, id_ in enumerate(ids) if id_ not in made]
    if fresh:
        _check_running(campaign, at)
        times = [campaign.now(at)] * len(fresh)
        if made:
            features, costs = features[fresh], costs[fresh]
        new = campaign.deciding(times, [ids[i] for i in fresh], features, costs)
        campaign.meter.add(at, len(fresh))
        for i, event in zip(fresh, new, strict=True):
            books.record(campaign, event)
            made[ids[i]] = event
    return [_answer(campaign.terms, made[id_]) for id_ in ids]


def _made_before(books: Books, campaign: Campaign, ids: Sequence[str]) -> dict[str, Event]:
    """The decisions among these that were made already."""
    return {
        id_: event
        for id_, events in books.known(campaign, ids).items()
        for event in events
        if event.kind == Kind.DECISION
    }


def _read(terms: Terms, requests: Sequence[DecisionRequest], single: bool) -> tuple[Floats, Ints]:
    """Features in the campaign's order and costs in micros, one row a user, checked."""
    rows, prices = [], []
    for i, request in enumerate(requests):
        where = "" if single else f"{i}."
        rows.append(_in_order(request.features, terms.features, where, "features"))
        offered = _in_order(request.costs, terms.treatments, where, "costs")
        prices.append([costs_up("costs", text) for text in offered])
    features = np.array(rows, np.float64).reshape(len(rows), len(terms.features))
    costs = np.array(prices, np.int64)
    bad = first_refused(features, costs / MICROS)
    if bad >= 0:
        raise _refusal(terms, requests[bad], "" if single else f"{bad}.")
    return features, costs


def _refusal(terms: Terms, request: DecisionRequest, where: str) -> ProblemError:
    """Which field of a request is out of its range."""
    for name in terms.features:
        if not abs(request.features[name]) <= MOST_FEATURE:
            return invalid(f"{where}features.{name}", request.features[name], FEATURE_RANGE)
    name = next(
        name
        for name in terms.treatments
        if not 1 <= costs_up("costs", request.costs[name]) <= MOST_COST * MICROS
    )
    return invalid(f"{where}costs.{name}", request.costs[name], COST_RANGE)


def _in_order(given: Mapping[str, Any], names: Sequence[str], where: str, field: str) -> list[Any]:
    """The values under exactly these names, in their order."""
    try:
        values = [given[name] for name in names]
    except KeyError as error:
        raise invalid(f"{where}{field}.{error.args[0]}", None, "given") from None
    if len(given) > len(values):
        extra = next(name for name in given if name not in names)
        allowed = "absent: the campaign does not know it"
        raise invalid(f"{where}{field}.{extra}", given[extra], allowed)
    return values


def _same(campaign: Campaign, decision: Event, x: Floats, costs: Ints) -> bool:
    """Whether a decision was asked for with this body."""
    trace = campaign.trace(decision)
    return bool((trace[: len(x)] == x).all() and (campaign.costs(decision) == costs).all())


def _check_running(campaign: Campaign, at: int) -> None:
    if campaign.status != Kind.RESUMED:
        told = STATUS[campaign.status]
        raise conflict(f"campaign-{told}", f"campaign {campaign.id} is {told}: nobody is treated")
    if campaign.terms.ended(campaign.now(at)):
        raise conflict("campaign-ended", f"the time of campaign {campaign.id} is over")


def _answer(terms: Terms, event: Event) -> dict[str, Any]:
    return {
        "decision_id": event.decision,
        "treatment": terms.treatments[event.action - 1] if event.action else None,
        "probability": event.probability,
        "price": event.price,
        "remaining": as_text(event.remaining),
        "act": not terms.shadow,
    }
