"""Every call of the service, built once as a value: what is sent, and how its answer is read.

All of them may be made twice: decisions, outcomes and money have ids of the client's, a campaign
has its name, and the others ask for a state. That is why every call can be tried again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from bccb.client.values import (
    Action,
    AsDecided,
    Money,
    Outcome,
    User,
    Value,
    feature,
    money,
    new_id,
)
from bccb.encoding import Encoding, Feature
from bccb.errors import InputError
from bccb.policy import Policy
from bccb.wire import (
    Campaign,
    CampaignList,
    DecisionAnswer,
    DecisionColumnsAnswer,
    DecisionState,
    Explanation,
    OutcomeAnswer,
    Report,
    decoder,
)

T = TypeVar("T")
Method: TypeAlias = Literal["GET", "POST", "PUT"]
CampaignId: TypeAlias = Campaign | str  # the campaign, or its id
FILE = "application/octet-stream"
COMPILING = 300.0  # seconds; the first campaign of its kind waits for its policy to be compiled


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call: what is sent, how the answer is read, and the file that it goes to, if any."""

    method: Method
    path: str
    parse: Callable[[bytes], T]  # of the answer's body
    body: bytes | None = None
    target: Path | None = None
    content_type: str = "application/json"  # of the body
    silence: float = 0.0  # seconds without an answer that are normal


def create_campaign(
    name: str,
    *,
    budget: Money,
    features: Sequence[str | Feature],
    treatments: Sequence[str],
    users: int | None = None,
    ends_at: datetime | None = None,
    expected_users: int | None = None,
    policy: str | None = None,
    params: Mapping[str, float] | None = None,
    outcome_window_seconds: int | None = None,
    seed: int | None = None,
    mode: Literal["live", "shadow"] = "live",
    learned_from: str | None = None,
    charge: Literal["treatment", "conversion"] | None = None,
    cost_cap: Money | None = None,
    outcome: Literal["conversion", "amount"] | None = None,
    negative: bool | None = None,
    largest: Money | None = None,
    share: float | None = None,
    currency: str | None = None,
    cells: int | None = None,
) -> Call[Campaign]:
    """Make a campaign for a number of users, or until a time; what is left out is the service's
    default. The same name with the same settings is the same campaign.

    A feature that is no plain number is a :class:`bccb.encoding.Feature`; ``log.encoding.features``
    are those of a trial. With ``learned_from="upload"`` it begins with :func:`upload_learning`.
    With ``charge="conversion"`` a cost is due only if the user converts, and is held until then.
    ``cost_cap`` is the most that one more conversion may be expected to cost. With
    ``outcome="amount"`` outcomes are amounts of money, in ``currency``: ``negative=False`` refuses
    those below 0, ``largest`` is the largest that counts when effects are measured, and ``share``
    charges this share of the amount, at most the cost. ``cells`` cuts a campaign that is too hot
    for one process into parts.
    """
    if (users is None) == (ends_at is None):
        raise InputError("users and ends_at", (users, ends_at), "given one without the other")
    horizon: dict[str, Any] = {"users": users}
    if ends_at is not None:
        horizon = {"ends_at": ends_at.isoformat(), "expected_users": expected_users}
    kind: dict[str, Any] = {"kind": outcome, "negative": negative}
    kind["largest"] = None if largest is None else money("largest", largest)
    body = {
        "name": name,
        "budget": money("budget", budget),
        "horizon": _given(horizon),
        "features": [_feature(each) for each in features],
        "treatments": list(treatments),
        "policy": _given({"name": policy, "params": params and dict(params)}) or None,
        "outcome_window_seconds": outcome_window_seconds,
        "seed": seed,
        "mode": mode,
        "learned_from": learned_from,
        "charge": charge,
        "cost_cap": None if cost_cap is None else money("cost_cap", cost_cap),
        "outcome": _given(kind) or None,
        "share": share,
        "currency": currency,
        "cells": cells,
    }
    return _call("POST", "/v1/campaigns", Campaign, _given(body), COMPILING)


def upload_learning(campaign: CampaignId, policy: Policy | bytes) -> Call[Campaign]:
    """Let a campaign begin with a policy, or a saved one, that has learned history. The campaign
    must have been made with ``learned_from="upload"``, the same policy and as many columns.
    """
    saved = policy.to_bytes() if isinstance(policy, Policy) else policy
    read = decoder(Campaign).decode
    return Call(
        "PUT", _path(campaign, "learning"), read, saved, content_type=FILE, silence=COMPILING
    )


def campaigns() -> Call[tuple[Campaign, ...]]:
    """All campaigns, the newest first."""
    read = decoder(CampaignList).decode
    return Call("GET", "/v1/campaigns", lambda answer: read(answer).campaigns)


def campaign(campaign: CampaignId) -> Call[Campaign]:
    """One campaign, its money and its counts."""
    return _call("GET", _path(campaign), Campaign)


def report(campaign: CampaignId) -> Call[Report]:
    """What the page shows of a campaign."""
    return _call("GET", _path(campaign, "report"), Report)


def explanation(campaign: CampaignId) -> Call[Explanation]:
    """What the policy has learned: the effect by segment of each feature, and who is treated."""
    return _call("GET", _path(campaign, "explanation"), Explanation)


def pause(campaign: CampaignId) -> Call[Campaign]:
    """Take no decisions until the campaign is resumed."""
    return _call("POST", _path(campaign, "pause"), Campaign)


def resume(campaign: CampaignId) -> Call[Campaign]:
    """Go on after a pause."""
    return _call("POST", _path(campaign, "resume"), Campaign)


def close(campaign: CampaignId) -> Call[Campaign]:
    """End the campaign for good."""
    return _call("POST", _path(campaign, "close"), Campaign)


def add_budget(
    campaign: CampaignId, add: Money, *, request_id: str | None = None
) -> Call[Campaign]:
    """Give a campaign more money; the same ``request_id`` gives it once."""
    body = {"add": money("add", add), "request_id": request_id or new_id()}
    return _call("POST", _path(campaign, "budget"), Campaign, body)


def decide(
    campaign: CampaignId,
    *,
    features: Mapping[str, Value],
    costs: Mapping[str, Money],
    decision_id: str | None = None,
) -> Call[DecisionAnswer]:
    """Decide on one user. Keep the id of the answer, under which the outcome is reported.

    Costs that are floats are rounded to a millionth.
    """
    user = User(features, costs, decision_id or new_id())
    return _call("POST", _path(campaign, "decisions"), DecisionAnswer, user.fields())


def decide_many(campaign: CampaignId, users: Sequence[User]) -> Call[tuple[DecisionAnswer, ...]]:
    """Decide on up to 1,000 users, one after the other: on all of them or on none."""
    body = [user.fields() for user in users]
    return _call("POST", _path(campaign, "decisions"), tuple[DecisionAnswer, ...], body)


def decide_columns(
    campaign: CampaignId,
    *,
    features: Mapping[str, Sequence[Value]],
    costs: Mapping[str, Sequence[Money]],
    decision_ids: Sequence[str] | None = None,
) -> Call[DecisionColumnsAnswer]:
    """Decide on up to 1,000 users given in columns, one after the other: on all or on none.

    Columns may be lists or arrays, as long as there are users. Without ``decision_ids``, ids are
    drawn: they are in the answer.
    """
    users = len(next(iter(costs.values()), ()))
    ids = [new_id() for _ in range(users)] if decision_ids is None else list(decision_ids)
    body = {
        "decision_ids": ids,
        "features": {
            name: [feature(f"features.{name}.{i}", each) for i, each in enumerate(column)]
            for name, column in features.items()
        },
        "costs": {
            name: [money(f"costs.{name}.{i}", each) for i, each in enumerate(column)]
            for name, column in costs.items()
        },
    }
    return _call("POST", _path(campaign, "decisions", "columns"), DecisionColumnsAnswer, body)


def report_outcome(
    campaign: CampaignId,
    decision_id: str,
    value: float | None,
    *,
    action: Action = AsDecided.AS_DECIDED,
) -> Call[OutcomeAnswer]:
    """Report what became of a decision: 1 for a conversion, 0 for none; or an amount of money,
    where the campaign's outcomes are amounts. In a shadow campaign, and only there, ``action`` is
    the treatment that your own system gave, or None for none; with ``value`` None it is reported
    alone, before the outcome is known.
    """
    path = _path(campaign, "decisions", decision_id, "outcome")
    return _call("PUT", path, OutcomeAnswer, Outcome(decision_id, value, action).fields())


def report_outcomes(
    campaign: CampaignId, outcomes: Sequence[Outcome]
) -> Call[tuple[OutcomeAnswer, ...]]:
    """Report what became of up to 1,000 decisions: all are recorded or none."""
    body = [{"decision_id": each.decision_id, **each.fields()} for each in outcomes]
    return _call("POST", _path(campaign, "outcomes"), tuple[OutcomeAnswer, ...], body)


def cancel(campaign: CampaignId, decision_id: str) -> Call[DecisionState]:
    """Report that a decision was not carried out: its money returns."""
    return _call("POST", _path(campaign, "decisions", decision_id, "cancel"), DecisionState)


def correct(campaign: CampaignId, decision_id: str, value: float) -> Call[OutcomeAnswer]:
    """Correct an outcome, such as an order that came back: once, within its window."""
    path = _path(campaign, "decisions", decision_id, "correct")
    return _call("POST", path, OutcomeAnswer, {"value": value})


def settle(campaign: CampaignId, decision_id: str, cost: Money) -> Call[DecisionState]:
    """Report what a treatment cost in the end: the rest of its reserved money returns."""
    path = _path(campaign, "decisions", decision_id, "settle")
    return _call("POST", path, DecisionState, {"cost": money("cost", cost)})


def download_log(
    campaign: CampaignId,
    path: str | os.PathLike[str],
    format: Literal["parquet", "ndjson", "csv"] = "parquet",  # noqa: A002 (as the service calls it)
) -> Call[Path]:
    """Write the log of a campaign's decisions to a file, which appears whole or not at all."""
    target = Path(path)
    where = f"{_path(campaign, 'log')}?format={quote(format, safe='')}"
    return Call("GET", where, lambda _: target, target=target)


def _feature(declared: str | Feature) -> str | dict[str, Any]:
    """A feature as the service wants it: a name where it is a plain number."""
    if isinstance(declared, str) or declared == Feature(declared.name):
        return declared if isinstance(declared, str) else declared.name
    (fields,) = Encoding((declared,)).to_list()
    return {**fields, "others": declared.others} if declared.levels else fields


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what was left out."""
    return {name: value for name, value in fields.items() if value is not None}


def _call(
    method: Method, path: str, answer: type[T], body: Any = None, silence: float = 0.0
) -> Call[T]:
    """A call with JSON; what is not an ``answer`` is refused with a ``msgspec.DecodeError``."""
    try:
        sent = (
            None
            if body is None
            else json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        )
    except (TypeError, ValueError) as error:
        raise InputError("what is sent", body, f"finite numbers and text ({error})") from None
    return Call(method, path, decoder(answer).decode, sent, silence=silence)


def _path(campaign: CampaignId, *parts: str) -> str:
    """The path of a campaign, or of something of it."""
    identity = campaign.id if isinstance(campaign, Campaign) else campaign
    for name in (identity, *parts):
        if not isinstance(name, str) or name.strip(".") == "":
            raise InputError("an id in the path", name, "the id of a campaign or of a decision")
    return "/".join(("/v1/campaigns", *(quote(name, safe="") for name in (identity, *parts))))
