"""Campaigns: opened, given more money, paused, resumed and closed.

Each function checks first and changes after. They run one at a time, in the
engine's task; ``at`` is the time in microseconds.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from msgspec import to_builtins

from bccb.charge import TREATMENT, share_in_millionths
from bccb.data.service_log import CONTROL
from bccb.encoding import OTHER, Encoding, Feature
from bccb.errors import InputError, StateError
from bccb.ledger.event import Kind
from bccb.ledger.moment import SECOND, as_time, moment_of
from bccb.money import BUDGET_RANGE, MICROS, MOST_MONEY, as_text, budget_down
from bccb.outcome import check_largest
from bccb.policies import POLICIES
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.cells import cells_beside, cells_of, check_cells, cut
from bccb.serve.code import this_code
from bccb.serve.log import taken_names
from bccb.serve.problem import ProblemError, conflict, invalid
from bccb.serve.terms import UPLOAD, Terms
from bccb.types import FEATURE_RANGE, MOST_FEATURE
from bccb.wire import (
    MOST_FEATURES,
    CampaignRequest,
    FeatureRequest,
    OutcomeTermsRequest,
    TimeHorizon,
    UsersHorizon,
    encode,
)

LAST_END = 221_845_392_000 * SECOND  # microseconds since 1970: the year 9000
# Of a request, with their defaults
NEW_FIELDS: dict[str, object] = {
    "charge": TREATMENT,
    "cost_cap": None,
    "outcome": to_builtins(OutcomeTermsRequest()),
    "share": None,
    "currency": None,
    "cells": 1,
}
ABOUT_AMOUNTS = 'left out: it is about amounts, with outcome {"kind": "amount"}'
ENDS = "in the future, before the year 9000"


def terms_of(asked: CampaignRequest, at: int) -> Terms:
    """The terms that a request asks for, checked except for the policy's parameters."""
    budget = budget_down("budget", asked.budget)
    if not 1 <= budget <= MOST_MONEY:
        raise invalid("budget", asked.budget, BUDGET_RANGE)
    by_time = asked.horizon if isinstance(asked.horizon, TimeHorizon) else None
    ends_at = None if by_time is None else moment_of(by_time.ends_at)
    if ends_at is not None and not 0 <= ends_at <= LAST_END:
        raise invalid("horizon.ends_at", str(by_time and by_time.ends_at), ENDS)
    features = [each if isinstance(each, str) else each.name for each in asked.features]
    treatments, code = tuple(asked.treatments), this_code()
    _check_names(features, treatments)
    return Terms(
        name=asked.name,
        budget=budget,
        users=asked.horizon.users if isinstance(asked.horizon, UsersHorizon) else None,
        ends_at=ends_at,
        expected_users=None if by_time is None else by_time.expected_users,
        features=tuple(features),
        treatments=treatments,
        policy=asked.policy.name,
        parameters=asked.policy.params,
        window=asked.outcome_window_seconds * SECOND,
        seed=secrets.randbits(32) if asked.seed is None else asked.seed,
        shadow=asked.mode == "shadow",
        learned_from=asked.learned_from,
        opened_at=at,
        version=code.version,
        asked=_as_asked(asked),
        fingerprint=code.fingerprint,
        encoding=_encoding_of(asked.features),
        charge=asked.charge,
        cost_cap=_check_cap(asked),
        outcome=asked.outcome.kind,
        negative=asked.outcome.negative,
        largest=_check_amounts(asked),
        share=asked.share,
        currency=asked.currency,
    )


def _check_names(features: Sequence[str], treatments: Sequence[str]) -> None:
    """Refuse names that stand for two things."""
    for field, names in (("features", features), ("treatments", treatments)):
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise invalid(field, twice, "named once")
    if CONTROL in treatments:
        raise invalid("treatments", CONTROL, "another name: it stands for those left alone")
    for name in features:
        if name in taken_names(tuple(treatments)):
            raise invalid("features", name, "another name: the log has a column with this one")


def _check_cap(asked: CampaignRequest) -> int | None:
    """The cost cap in micros; refused if out of range, or if the policy takes none."""
    if asked.cost_cap is None:
        return None
    cap, spec = budget_down("cost_cap", asked.cost_cap), POLICIES.get(asked.policy.name)
    if not 1 <= cap <= MOST_MONEY:
        raise invalid("cost_cap", asked.cost_cap, BUDGET_RANGE)
    if spec is not None and spec.composition.no_cap:
        raise invalid("cost_cap", asked.cost_cap, spec.composition.no_cap)
    return cap


def _check_amounts(asked: CampaignRequest) -> int | None:
    """The largest amount in micros; terms that are wrong, or about no amounts, are refused."""
    outcome = asked.outcome
    given = {"outcome.largest": outcome.largest, "share": asked.share}
    given["outcome.negative"] = None if outcome.negative else False
    for field, value in given.items():
        if value is not None and outcome.kind != "amount":
            raise invalid(field, value, ABOUT_AMOUNTS)
    try:
        share_in_millionths(asked.share, asked.charge)
        if outcome.largest is None:
            return None
        largest = budget_down("outcome.largest", outcome.largest)
        check_largest(largest / MICROS, "outcome.largest", outcome.largest)
    except InputError as error:
        raise ProblemError(422, "invalid-field", str(error), error.field) from None
    return largest


def _as_asked(asked: CampaignRequest) -> str:
    """A request, to be recognised when it comes again, also from the version before this one.

    Fields that older versions do not know are left out where they have their defaults.
    """
    given = to_builtins(asked)
    for name, default in NEW_FIELDS.items():
        if given[name] == default:
            del given[name]
    return encode(given).decode()


def _encoding_of(asked: Sequence[str | FeatureRequest]) -> Encoding | None:
    """How features are encoded; None where all of them are plain numbers."""
    try:
        encoding = Encoding(tuple(_feature_of(each) for each in asked))
    except InputError as error:
        raise ProblemError(422, "invalid-field", str(error), "features") from None
    columns = len(encoding.columns)
    if columns > MOST_FEATURES:
        wrong = f"the columns of all features and levels are {columns:,}"
        detail = f"{wrong}, but must be at most {MOST_FEATURES:,}: declare fewer levels"
        raise ProblemError(422, "invalid-field", detail, "features")
    return None if encoding.is_plain else encoding


def _feature_of(asked: str | FeatureRequest) -> Feature:
    if isinstance(asked, str):
        return Feature(asked)
    if asked.fill is not None and abs(asked.fill) > MOST_FEATURE:
        raise InputError(f"fill of feature {asked.name!r}", asked.fill, FEATURE_RANGE)
    others = asked.others
    if others is None:
        others = asked.kind == "category" and OTHER not in asked.levels
    return Feature(asked.name, asked.kind, asked.levels, others, asked.fill)


def open_campaign(
    books: Books, at: int, terms: Terms, cells: int = 1
) -> tuple[list[Campaign], bool]:
    """A new campaign, or the one that the same request has opened before; whether it is new.

    As all of its cells, or as the only one.
    """
    before = books.named(terms.name)
    if before is not None:
        if before.terms.asked == terms.asked:
            return [books.campaign(id_) for id_ in cells_beside(before.id)], False
        detail = f"there is another campaign with the name {terms.name!r}"
        raise conflict("name-taken", detail, "name")
    if terms.ends_at is not None and terms.ended(at):
        raise invalid("horizon.ends_at", as_time(terms.ends_at), ENDS)
    if terms.has_amounts and not books.ledger.takes_amounts:
        allowed = "conversion until the ledger is upgraded, which a quarantined campaign prevents"
        raise invalid("outcome.kind", terms.outcome, allowed)
    check_cells(terms, cells)
    id_ = f"c{secrets.token_hex(5)}"
    parts = {id_: terms}
    if cells > 1:
        parts = dict(zip(cells_of(f"{id_}x{cells}"), cut(terms, cells), strict=True))
    learns = terms.learned_from not in (None, UPLOAD)
    memories = [_learned(books, part) if learns else None for part in parts.values()]
    opened = [books.add(*part) for part in parts.items()]
    for campaign, memory in zip(opened, memories, strict=True):
        books.record(campaign, campaign.opening())
        if memory is not None:
            books.record(campaign, campaign.learning(at, memory))
    return opened, True


def _learned(books: Books, terms: Terms) -> bytes:
    """What the campaign named in the terms has learned, if it is of the same make."""
    cells = cells_of(terms.learned_from or "")
    if cells:
        allowed = f"one of its cells, such as {cells[0]}: each has learned on its own"
        raise invalid("learned_from", terms.learned_from, allowed)
    try:
        source = books.campaign(terms.learned_from or "")
    except ProblemError as problem:
        if problem.status != 404:
            raise
        allowed = f'the id of a campaign, or "{UPLOAD}"'
        raise invalid("learned_from", terms.learned_from, allowed) from None
    allowed = "a campaign with the same features, treatments, policy, outcome, charge and share"
    if _kind_of(terms) != _kind_of(source.terms):
        raise invalid("learned_from", terms.learned_from, allowed)
    if terms.currency and source.terms.currency and terms.currency != source.terms.currency:
        same = f"a campaign in {terms.currency}, as this one: amounts are learned, too"
        raise invalid("learned_from", terms.learned_from, same)
    if source.needs_history:
        allowed = "a campaign that has learned something: this one waits for its history"
        raise invalid("learned_from", terms.learned_from, allowed)
    machine = terms.machine()
    try:
        machine.adopt(source.machine)
    except StateError:
        raise invalid("learned_from", terms.learned_from, allowed) from None
    return machine.used_memory().tobytes()


def _kind_of(terms: Terms) -> tuple[object, ...]:
    """What campaigns must have in common to learn from each other, besides the policy."""
    same = terms.features, terms.encoding, terms.treatments, terms.charge
    return *same, terms.outcome, terms.share


def add_budget(books: Books, at: int, campaign_id: str, add: str, request: str | None) -> Campaign:
    """More money, once for each request."""
    campaign = books.campaign(campaign_id)
    micros = budget_down("add", add)
    request = request or f"auto-{secrets.token_hex(12)}"
    for event in books.known(campaign, [request]).get(request, ()):
        if event.kind == Kind.BUDGET:
            if event.money != micros:
                detail = f"request {request!r} has added {as_text(event.money)} already"
                raise conflict("id-taken", detail, "request_id")
            return campaign
    if campaign.over(at):
        raise conflict("campaign-closed", f"campaign {campaign_id} is over")
    if not 1 <= micros <= MOST_MONEY - campaign.budget:
        raise invalid("add", add, f"above 0, with the budget at most {MOST_MONEY // MICROS:,}")
    books.record(campaign, campaign.adding(at, request, micros))
    return campaign


def turn(books: Books, at: int, campaign_id: str, kind: Kind) -> Campaign:
    """Pause, resume or close a campaign; to do so twice does nothing more."""
    campaign = books.campaign(campaign_id)
    if campaign.status == Kind.CLOSED and kind != Kind.CLOSED:
        raise conflict("campaign-closed", f"campaign {campaign_id} is closed, which is for good")
    if campaign.status != kind:
        books.record(campaign, campaign.turning(at, kind))
    return campaign
