"""Decisions: asked for by the client's ids, each made once.

All checks come before the first change. They run one at a time, in the
engine's task; ``at`` is the time in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bccb.drivers import first_refused
from bccb.ledger.event import Event, Kind, fault_of
from bccb.money import COST_RANGE, MOST_COST, as_text, costs_up
from bccb.serve.books import Books
from bccb.serve.campaign import RUNS, Campaign, Known
from bccb.serve.problem import ProblemError, conflict, internal, invalid, missing
from bccb.serve.schemas import DecisionRequest
from bccb.serve.terms import Terms
from bccb.types import FEATURE_RANGE, MOST_FEATURE, Floats, Ints


class Asked(NamedTuple):
    """One request, or a part of one: users to decide on."""

    campaign_id: str
    users: Sequence[DecisionRequest]
    single: bool  # not a list
    first: int = 0  # the place of its first user in the whole list

    def where(self, i: int) -> str:
        """What comes before the name of a field of user i."""
        return "" if self.single else f"{self.first + i}."

    def parts(self, size: int) -> Iterator[Asked]:
        """The same users, so many at a time."""
        for i in range(0, len(self.users), size):
            yield self._replace(users=self.users[i : i + size], first=self.first + i)


class Draft(NamedTuple):
    """A request that can be read."""

    campaign: Campaign
    ids: list[str]
    features: Floats
    costs: Ints


Answers: TypeAlias = list[dict[str, Any]]


def decide(books: Books, at: int, requests: Sequence[Asked]) -> list[Answers | ProblemError]:
    """Decide on the users of requests that came together; an id that is known gets its old answer.

    Those of one campaign are decided in one go, since every call of a kernel has its price.
    """
    results: list[Answers | ProblemError] = [[] for _ in requests]
    waiting = list(range(len(requests)))
    while waiting:
        taken, waiting = _apart(requests, waiting)
        drafts: list[tuple[int, Draft]] = []
        for i in taken:
            try:
                drafts.append((i, _draft(books, requests[i])))
            except ProblemError as problem:
                results[i] = problem
        for i, result in _decide_apart(books, at, requests, drafts):
            results[i] = result
    return results


def check(books: Books, at: int, asked: Asked) -> None:
    """Refuse what :func:`decide` would refuse, and change nothing."""
    draft = _draft(books, asked)
    _check(draft.campaign, at, asked, draft, _made_before(books, draft.campaign, draft.ids))


def _apart(requests: Sequence[Asked], waiting: list[int]) -> tuple[list[int], list[int]]:
    """Requests without an id of another one, of the first one's campaign, and the rest of them."""
    first, seen = requests[waiting[0]].campaign_id, set[str]()
    taken: list[int] = []
    rest: list[int] = []
    for i in waiting:
        ids = {user.decision_id for user in requests[i].users}
        here = requests[i].campaign_id == first and seen.isdisjoint(ids)
        (taken if here else rest).append(i)
        seen |= ids if here else set()
    return taken, rest


def _draft(books: Books, asked: Asked) -> Draft:
    campaign = books.campaign(asked.campaign_id)
    ids = [user.decision_id for user in asked.users]
    if len(set(ids)) < len(ids):
        i = next(i for i, each in enumerate(ids) if each in ids[:i])
        field = f"{asked.where(i)}decision_id"
        raise invalid(field, ids[i], "another one than those before it in this list")
    return Draft(campaign, ids, *_read(campaign.terms, asked))


def _decide_apart(
    books: Books, at: int, requests: Sequence[Asked], drafts: Sequence[tuple[int, Draft]]
) -> Iterator[tuple[int, Answers | ProblemError]]:
    """Decide for requests of one campaign that have no id in common."""
    if not drafts:
        return
    campaign = drafts[0][1].campaign
    made = _made_before(books, campaign, [id_ for _, draft in drafts for id_ in draft.ids])
    good: list[tuple[int, Draft]] = []
    for i, draft in drafts:
        try:
            _check(campaign, at, requests[i], draft, made)
            good.append((i, draft))
        except ProblemError as problem:
            yield i, problem
    fresh = [(draft, j) for _, draft in good for j, id_ in enumerate(draft.ids) if id_ not in made]
    if fresh:
        ids = [draft.ids[j] for draft, j in fresh]
        features = np.array([draft.features[j] for draft, j in fresh])
        costs = np.array([draft.costs[j] for draft, j in fresh])
        for event in campaign.deciding([campaign.now(at)] * len(ids), ids, features, costs):
            books.record(campaign, event)
            made[event.decision or ""] = Known(event)
        campaign.meter.add(at, len(ids))
    for i, draft in good:
        yield i, [_answer(campaign.terms, made[id_].decision) for id_ in draft.ids]


def _check(
    campaign: Campaign, at: int, asked: Asked, draft: Draft, made: Mapping[str, Known]
) -> None:
    """Refuse ids that were used with another body, and new users where nobody is treated."""
    for i, id_ in enumerate(draft.ids):
        if id_ not in made:
            continue
        field, (decision, end, _) = f"{asked.where(i)}decision_id", made[id_]
        if not _same(campaign, decision, draft.features[i], draft.costs[i]):
            told = f"decision {id_!r} was asked for with another body"
            raise conflict("id-taken", told, field)
        if end is not None and end.kind == Kind.CANCELLATION:  # its money is for others now
            raise conflict("decision-cancelled", f"decision {id_!r} was cancelled", field)
        fault = fault_of(decision)
        if fault is not None:  # older versions let it pass
            raise internal(f"decision {id_!r} cannot be answered: its {fault}")
    # a later part of a list was accepted with the first one, and is finished whatever came between
    if asked.first == 0 and any(id_ not in made for id_ in draft.ids):
        _check_running(campaign, at)


def _made_before(books: Books, campaign: Campaign, ids: Sequence[str]) -> dict[str, Known]:
    """The decisions among these that were made already."""
    found = {id_: Known.of(events) for id_, events in books.known(campaign, ids).items()}
    return {id_: known for id_, known in found.items() if known is not None}


def _read(terms: Terms, asked: Asked) -> tuple[Floats, Ints]:
    """Features in the campaign's order and costs in micros, one row a user, checked."""
    users, d, K = asked.users, len(terms.features), len(terms.treatments)
    try:
        rows = [terms.pick_features(user.features) for user in users]
        prices = [[costs_up("", user.costs[name]) for name in terms.treatments] for user in users]
        extra = any(len(user.features) > d or len(user.costs) > K for user in users)
    except KeyError:
        extra = True
    if extra:
        for i, user in enumerate(users):
            _check_names(user.features, terms.features, f"{asked.where(i)}features")
            _check_names(user.costs, terms.treatments, f"{asked.where(i)}costs")
    features = np.array(rows, np.float64).reshape(len(users), d)
    costs = np.array(prices, np.int64)
    bad = first_refused(features, costs)
    if bad >= 0:
        raise _refusal(terms, asked.users[bad], asked.where(bad))
    return features, costs


def _refusal(terms: Terms, request: DecisionRequest, where: str) -> ProblemError:
    """Which field of a request is out of its range."""
    for name in terms.features:
        if not abs(request.features[name]) <= MOST_FEATURE:
            return invalid(f"{where}features.{name}", request.features[name], FEATURE_RANGE)
    name = next(
        name
        for name in terms.treatments
        if not 1 <= costs_up("costs", request.costs[name]) <= MOST_COST
    )
    return invalid(f"{where}costs.{name}", request.costs[name], COST_RANGE)


def _check_names(given: Mapping[str, Any], names: Sequence[str], field: str) -> None:
    """Refuse a name that is missing, or one that the campaign does not know."""
    for name in names:
        if name not in given:
            raise missing(f"{field}.{name}")
    for name in given:
        if name not in names:
            allowed = "absent: the campaign does not know it"
            raise invalid(f"{field}.{name}", given[name], allowed)


def _same(campaign: Campaign, decision: Event, x: Floats, costs: Ints) -> bool:
    """Whether a decision was asked for with this body."""
    trace = campaign.trace(decision)
    return bool((trace[: len(x)] == x).all() and (campaign.costs(decision) == costs).all())


def _check_running(campaign: Campaign, at: int) -> None:
    if campaign.status != Kind.RESUMED:
        told = RUNS[campaign.status]
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
