"""Decisions: asked for by the client's ids, each made once.

All checks come before the first change. They run one at a time, in the thread
that owns the books; ``at`` is the time in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bccb.ledger.event import Event, Kind
from bccb.ledger.money import MICROS, as_text, costs_up
from bccb.serve.books import Books
from bccb.serve.campaign import STATUS, Campaign, Known
from bccb.serve.problem import conflict, invalid
from bccb.serve.schemas import DecisionRequest
from bccb.serve.terms import Terms
from bccb.types import COST_RANGE, FEATURE_RANGE, MOST_COST, MOST_FEATURE, Floats, Ints


def decide(
    books: Books,
    at: int,
    campaign_id: str,
    requests: Sequence[DecisionRequest],
    single: bool,
) -> list[dict[str, Any]]:
    """Decide on users in their order; an id that is known gets the answer it got before."""
    campaign = books.campaign(campaign_id)
    users = [_read(campaign.terms, r, "" if single else f"{i}.") for i, r in enumerate(requests)]
    ids = [request.decision_id for request in requests]
    if len(set(ids)) < len(ids):
        i = next(i for i, each in enumerate(ids) if each in ids[:i])
        raise invalid(f"{i}.decision_id", ids[i], "another one than those before it in this list")
    known = {
        id_: decision
        for id_, events in books.known(campaign, ids).items()
        if (decision := Known.of(events)) is not None
    }
    for i, (id_, (x, costs)) in enumerate(zip(ids, users, strict=True)):
        if id_ in known and not _same(campaign, known[id_].decision, x, costs):
            field = "decision_id" if single else f"{i}.decision_id"
            raise conflict("id-taken", f"decision {id_!r} was asked for with another body", field)
    if len(known) < len(ids):
        _check_running(campaign, at)
    campaign.meter.add(at, len(ids) - len(known))
    answers = []
    for id_, (x, costs) in zip(ids, users, strict=True):
        if id_ in known:
            event = known[id_].decision
        else:
            event = campaign.deciding(at, id_, x, costs)
            books.record(campaign, event)
        answers.append(_answer(campaign.terms, event))
    return answers


def _read(terms: Terms, request: DecisionRequest, where: str) -> tuple[Floats, Ints]:
    """Features in the campaign's order and costs in micros, checked."""
    values = _in_order(request.features, terms.features, f"{where}features")
    for name, value in zip(terms.features, values, strict=True):
        if not abs(value) <= MOST_FEATURE:
            raise invalid(f"{where}features.{name}", value, FEATURE_RANGE)
    costs = []
    for name, text in zip(
        terms.treatments, _in_order(request.costs, terms.treatments, f"{where}costs"), strict=True
    ):
        micros = costs_up(f"{where}costs.{name}", text)
        if not 1 <= micros <= MOST_COST * MICROS:
            raise invalid(f"{where}costs.{name}", text, COST_RANGE)
        costs.append(micros)
    return np.array(values, np.float64), np.array(costs, np.int64)


def _in_order(given: Mapping[str, Any], names: Sequence[str], field: str) -> list[Any]:
    """The values under exactly these names, in their order."""
    try:
        values = [given[name] for name in names]
    except KeyError as error:
        raise invalid(f"{field}.{error.args[0]}", None, "given") from None
    if len(given) > len(values):
        extra = next(name for name in given if name not in names)
        raise invalid(f"{field}.{extra}", given[extra], "absent: the campaign does not know it")
    return values


def _same(campaign: Campaign, decision: Event, x: Floats, costs: Ints) -> bool:
    """Whether a decision was asked for with this body."""
    trace = campaign.trace(decision)
    return bool((trace[: len(x)] == x).all() and (campaign.costs(decision) == costs).all())


def _check_running(campaign: Campaign, at: int) -> None:
    if campaign.status != Kind.RESUMED:
        told = STATUS[campaign.status]
        raise conflict(f"campaign-{told}", f"campaign {campaign.id} is {told}: nobody is treated")
    if campaign.terms.ended(max(at, campaign.at)):
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
