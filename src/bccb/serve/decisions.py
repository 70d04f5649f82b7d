"""Decisions: asked for by the client's ids, each made once.

All checks come before the first change. They run one at a time, in the
engine's task; ``at`` is the time in microseconds.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from bccb.ledger.event import Event, Kind, Known, fault_of
from bccb.money import as_text
from bccb.serve.books import Books
from bccb.serve.campaign import RUNS, Campaign
from bccb.serve.cells import cell_for, cells_of, whole_of
from bccb.serve.problem import ProblemError, conflict, internal, invalid
from bccb.serve.terms import Terms
from bccb.serve.users import Users
from bccb.types import Floats, Ints


class Asked(NamedTuple):
    """One request, or a part of one: users to decide on."""

    campaign_id: str
    users: Users

    @property
    def size(self) -> int:
        """How many users."""
        return len(self.users.ids)

    @property
    def first(self) -> int:
        """The place of its first user in the whole list."""
        return self.users.first

    def parts(self, most: int) -> Iterator[Asked]:
        """The same users, so many at a time."""
        if self.size <= most:
            yield self
            return
        for i in range(0, self.size, most):
            yield self._replace(users=self.users.part(i, i + most))


class Made(NamedTuple):
    """The decisions on the users of a request, in their order."""

    terms: Terms
    events: list[Event]


class Draft(NamedTuple):
    """A request that can be read."""

    campaign: Campaign
    ids: list[str]
    features: Floats
    costs: Ints
    raw: list[bytes]  # the features as they came, where the campaign encodes them

    def without(self, made: Container[str]) -> Draft:
        """Its users who were not decided on yet."""
        new = [i for i, id_ in enumerate(self.ids) if id_ not in made]
        if len(new) == len(self.ids):
            return self
        ids = [self.ids[i] for i in new]
        raw = [self.raw[i] for i in new]
        return self._replace(ids=ids, features=self.features[new], costs=self.costs[new], raw=raw)


def decide(books: Books, at: int, requests: Sequence[Asked]) -> list[Made | ProblemError]:
    """Decide on the users of requests that came together; a known id gets its old answer.

    Those of one campaign are decided in one go, since every call of a kernel takes time.
    """
    books.look_up((asked.campaign_id, asked.users.ids) for asked in requests)
    results: dict[int, Made | ProblemError] = {}
    for together in _turns(requests):
        drafts: list[tuple[int, Draft]] = []
        for i in together:
            try:
                drafts.append((i, _draft(books, requests[i])))
            except ProblemError as problem:
                results[i] = problem
        for i, result in _decide_apart(books, at, requests, drafts):
            results[i] = result
    return [results[i] for i in range(len(requests))]


def check(books: Books, at: int, asked: Asked) -> None:
    """Refuse what :func:`decide` would refuse, and change nothing."""
    draft = _draft(books, asked)
    _check(draft.campaign, at, asked, draft, _made_before(books, draft.campaign, draft.ids))


def _turns(requests: Sequence[Asked]) -> Iterable[list[int]]:
    """The requests of each campaign in turns: those of one turn have no id in common.

    A request with an id of an earlier one has a later turn.
    """
    turns: dict[tuple[str, int], list[int]] = {}
    last: dict[str, dict[str, int]] = {}  # by campaign and id: its latest turn
    for i, (campaign_id, users) in enumerate(requests):
        ids, seen = users.ids, last.setdefault(campaign_id, {})
        turn = 0
        if not seen.keys().isdisjoint(ids):
            turn = 1 + max(seen.get(id_, -1) for id_ in ids)
        seen.update(dict.fromkeys(ids, turn))
        turns.setdefault((campaign_id, turn), []).append(i)
    return turns.values()


def _draft(books: Books, asked: Asked) -> Draft:
    campaign = books.campaign(asked.campaign_id)
    ids = asked.users.ids
    if len(set(ids)) < len(ids):
        i = next(i for i, each in enumerate(ids) if each in ids[:i])
        allowed = "another one than those before it in this list"
        raise invalid(asked.users.id_field(i), ids[i], allowed)
    _check_cell(asked)
    terms = campaign.terms
    return Draft(campaign, ids, *asked.users.read(terms), asked.users.raw(terms))


def _check_cell(asked: Asked) -> None:
    """Refuse users of another cell: there, they may be decided on once more."""
    whole = whole_of(asked.campaign_id)
    cells = [] if whole is None else cells_of(whole)
    for i, id_ in enumerate(asked.users.ids if cells else ()):
        if cell_for(id_, cells) != asked.campaign_id:
            allowed = f"one of cell {asked.campaign_id}: ask for campaign {whole}"
            raise invalid(asked.users.id_field(i), id_, allowed)


def _decide_apart(
    books: Books, at: int, requests: Sequence[Asked], drafts: Sequence[tuple[int, Draft]]
) -> Iterator[tuple[int, Made | ProblemError]]:
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
    decided = {id_: known.decision for id_, known in made.items()}
    fresh = [draft.without(made) for _, draft in good]
    ids = [id_ for draft in fresh for id_ in draft.ids]
    if ids:
        features = np.concatenate([draft.features for draft in fresh])
        costs = np.concatenate([draft.costs for draft in fresh])
        raw = [each for draft in fresh for each in draft.raw]
        events = campaign.deciding([campaign.now(at)] * len(ids), ids, features, costs, raw)
        books.record(campaign, *events)
        decided |= zip(ids, events, strict=True)
        campaign.meter.add(at, len(ids))
    for i, draft in good:
        yield i, Made(campaign.terms, [decided[id_] for id_ in draft.ids])


def _check(
    campaign: Campaign, at: int, asked: Asked, draft: Draft, made: Mapping[str, Known]
) -> None:
    """Refuse ids that were used with another body, and new users where nobody is treated."""
    for i, id_ in enumerate(draft.ids):
        if id_ not in made:
            continue
        field, (decision, end, *_) = asked.users.id_field(i), made[id_]
        if not _same(campaign, decision, draft, i):
            detail = f"decision {id_!r} was asked for with another body"
            raise conflict("id-taken", detail, field)
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
    asked_before = {id_: Known.of(events) for id_, events in books.known(campaign, ids).items()}
    return {id_: known for id_, known in asked_before.items() if known is not None}


def _same(campaign: Campaign, decision: Event, draft: Draft, i: int) -> bool:
    """Whether a decision was asked for with the body of user i."""
    x, costs = draft.features[i], draft.costs[i]
    trace = campaign.trace(decision)
    return bool(
        (trace[: len(x)] == x).all()
        and (campaign.costs(decision) == costs).all()
        and campaign.raw(decision) == draft.raw[i]
    )


def _check_running(campaign: Campaign, at: int) -> None:
    if campaign.status != Kind.RESUMED:
        status = RUNS[campaign.status]
        raise conflict(
            f"campaign-{status}", f"campaign {campaign.id} is {status}: nobody is treated"
        )
    if campaign.needs_history:
        path = f"/v1/campaigns/{campaign.id}/learning"
        detail = f"campaign {campaign.id} has no history yet: upload a saved policy with PUT {path}"
        raise conflict("needs-history", detail)
    if campaign.terms.ended(campaign.now(at)):
        raise conflict("campaign-ended", f"the time of campaign {campaign.id} is over")


class Answered(Struct, frozen=True, gc=False):
    """A ``DecisionAnswer`` to be written: the same JSON, sooner, since its money is text."""

    decision_id: str
    treatment: str | None
    probability: float
    price: float
    remaining: str
    act: bool


class AnsweredColumns(Struct, frozen=True):
    """A ``DecisionColumnsAnswer`` to be written."""

    decision_ids: list[str]
    treatments: list[str | None]
    probabilities: list[float]
    prices: list[float]
    remaining: list[str]
    act: bool


def answers(made: Made) -> list[Answered]:
    """What to do with each user."""
    names, act = (None, *made.terms.treatments), not made.terms.shadow
    return [
        Answered(
            event.decision or "",
            names[event.action or 0],
            event.probability or 0.0,
            event.price or 0.0,
            as_text(event.remaining),
            act,
        )
        for event in made.events
    ]


def answer_columns(made: Made) -> AnsweredColumns:
    """The same, one list for each field."""
    names, events = (None, *made.terms.treatments), made.events
    return AnsweredColumns(
        decision_ids=[event.decision or "" for event in events],
        treatments=[names[event.action or 0] for event in events],
        probabilities=[event.probability or 0.0 for event in events],
        prices=[event.price or 0.0 for event in events],
        remaining=[as_text(event.remaining) for event in events],
        act=not made.terms.shadow,
    )
