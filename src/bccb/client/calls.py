"""Every call of the service, built once as a value: what is sent, and how its answer is read.

All of them may be made twice: decisions, outcomes and money have ids of the client's, a campaign
has its name, and the others ask for a state. That is why every call can be tried again.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from bccb import checks
from bccb.errors import InputError
from bccb.wire import (
    Campaign,
    CampaignList,
    DecisionAnswer,
    DecisionColumnsAnswer,
    DecisionState,
    OutcomeAnswer,
    Report,
    decoder,
)

T = TypeVar("T")
Money: TypeAlias = Decimal | str | float
CampaignId: TypeAlias = Campaign | str  # the campaign, or its id


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call: what is sent, how the answer is read, and the file that it goes to, if any."""

    method: Literal["GET", "POST", "PUT"]
    path: str
    parse: Callable[[bytes], T]  # of the answer's body
    body: bytes | None = None
    target: Path | None = None


def new_id() -> str:
    """An id that nobody else has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class User:
    """One user to decide on. The id is drawn when the value is made, so a retry has the same."""

    features: Mapping[str, float]
    costs: Mapping[str, Money]  # what each treatment would cost for this user
    decision_id: str = field(default_factory=new_id)

    def fields(self) -> dict[str, Any]:
        """As the service wants it."""
        costs = {name: money(f"costs.{name}", cost) for name, cost in self.costs.items()}
        features = {
            name: checks.number(f"features.{name}", value) for name, value in self.features.items()
        }
        return {"decision_id": self.decision_id, "features": features, "costs": costs}


class AsDecided(Enum):
    """What was done to a user whose ``action`` is not told: what the service decided."""

    AS_DECIDED = "as decided"


Action: TypeAlias = str | AsDecided | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one decision.

    In a shadow campaign, and only there, ``action`` tells the treatment that your own system gave,
    or None for none.
    """

    decision_id: str
    value: float
    action: Action = AsDecided.AS_DECIDED

    def fields(self) -> dict[str, Any]:
        """As the service wants it, but for the id."""
        told = {} if isinstance(self.action, AsDecided) else {"action": self.action}
        return {"value": checks.number("value", self.value), **told}


def create_campaign(
    name: str,
    *,
    budget: Money,
    features: Sequence[str],
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
) -> Call[Campaign]:
    """Make a campaign for a number of users, or until a time; what is left out is the service's
    default. The same name with the same settings is the same campaign.
    """
    if (users is None) == (ends_at is None):
        raise InputError("users and ends_at", (users, ends_at), "given one without the other")
    until: dict[str, Any] = {
        "ends_at": ends_at and ends_at.isoformat(),
        "expected_users": expected_users,
    }
    body = {
        "name": name,
        "budget": money("budget", budget),
        "horizon": {"users": users} if ends_at is None else _given(until),
        "features": list(features),
        "treatments": list(treatments),
        "mode": mode,
    }
    chosen = _given({"name": policy, "params": params and dict(params)})
    optional: dict[str, Any] = {
        "policy": chosen or None,
        "outcome_window_seconds": outcome_window_seconds,
    }
    optional |= {"seed": seed, "learned_from": learned_from}
    return _post("/v1/campaigns", body | _given(optional), Campaign)


def campaigns() -> Call[tuple[Campaign, ...]]:
    """All campaigns, the newest first."""
    read = _reader(CampaignList)
    return Call("GET", "/v1/campaigns", lambda answer: read(answer).campaigns)


def campaign(campaign: CampaignId) -> Call[Campaign]:
    """One campaign, its money and its counts."""
    return Call("GET", _path(campaign), _reader(Campaign))


def report(campaign: CampaignId) -> Call[Report]:
    """What the page shows of a campaign."""
    return Call("GET", _path(campaign, "report"), _reader(Report))


def pause(campaign: CampaignId) -> Call[Campaign]:
    """Take no decisions until the campaign is resumed."""
    return _post(_path(campaign, "pause"), None, Campaign)


def resume(campaign: CampaignId) -> Call[Campaign]:
    """Go on after a pause."""
    return _post(_path(campaign, "resume"), None, Campaign)


def close(campaign: CampaignId) -> Call[Campaign]:
    """End the campaign for good."""
    return _post(_path(campaign, "close"), None, Campaign)


def add_budget(
    campaign: CampaignId, add: Money, *, request_id: str | None = None
) -> Call[Campaign]:
    """Give a campaign more money; the same ``request_id`` gives it once."""
    body = {"add": money("add", add), "request_id": request_id or new_id()}
    return _post(_path(campaign, "budget"), body, Campaign)


def decide(
    campaign: CampaignId,
    *,
    features: Mapping[str, float],
    costs: Mapping[str, Money],
    decision_id: str | None = None,
) -> Call[DecisionAnswer]:
    """Decide on one user. Keep the id of the answer, under which the outcome is reported.

    Costs that are floats are rounded to a millionth.
    """
    user = User(features, costs, decision_id or new_id())
    return _post(_path(campaign, "decisions"), user.fields(), DecisionAnswer)


def decide_many(campaign: CampaignId, users: Sequence[User]) -> Call[tuple[DecisionAnswer, ...]]:
    """Decide on up to 1,000 users, one after the other: on all of them or on none."""
    body = [user.fields() for user in users]
    return _post(_path(campaign, "decisions"), body, tuple[DecisionAnswer, ...])


def decide_columns(
    campaign: CampaignId,
    *,
    features: Mapping[str, Sequence[float]],
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
            name: [checks.number(f"features.{name}.{i}", each) for i, each in enumerate(column)]
            for name, column in features.items()
        },
        "costs": {
            name: [money(f"costs.{name}.{i}", each) for i, each in enumerate(column)]
            for name, column in costs.items()
        },
    }
    return _post(_path(campaign, "decisions", "columns"), body, DecisionColumnsAnswer)


def report_outcome(
    campaign: CampaignId,
    decision_id: str,
    value: float,
    *,
    action: Action = AsDecided.AS_DECIDED,
) -> Call[OutcomeAnswer]:
    """Tell what became of a decision: 1 for a conversion, 0 for none. In a shadow campaign, and
    only there, ``action`` tells the treatment that your own system gave, or None for none.
    """
    body = _encoded(Outcome(decision_id, value, action).fields())
    path = _path(campaign, "decisions", decision_id, "outcome")
    return Call("PUT", path, _reader(OutcomeAnswer), body)


def report_outcomes(
    campaign: CampaignId, outcomes: Sequence[Outcome]
) -> Call[tuple[OutcomeAnswer, ...]]:
    """Tell what became of up to 1,000 decisions: all are taken or none."""
    body = [{"decision_id": each.decision_id, **each.fields()} for each in outcomes]
    return _post(_path(campaign, "outcomes"), body, tuple[OutcomeAnswer, ...])


def cancel(campaign: CampaignId, decision_id: str) -> Call[DecisionState]:
    """Tell that a decision was not carried out: its money comes back."""
    return _post(_path(campaign, "decisions", decision_id, "cancel"), None, DecisionState)


def settle(campaign: CampaignId, decision_id: str, cost: Money) -> Call[DecisionState]:
    """Tell what a treatment cost in the end: what was reserved beyond that comes back."""
    path = _path(campaign, "decisions", decision_id, "settle")
    return _post(path, {"cost": money("cost", cost)}, DecisionState)


def download_log(
    campaign: CampaignId,
    path: str | os.PathLike[str],
    format: Literal["parquet", "ndjson"] = "parquet",  # noqa: A002 (as the service calls it)
) -> Call[Path]:
    """Write the log of a campaign's decisions to a file, which appears whole or not at all."""
    target = Path(path)
    where = f"{_path(campaign, 'log')}?format={quote(format, safe='')}"
    return Call("GET", where, lambda _: target, target=target)


def money(field: str, value: Money) -> str:
    """Decimal text without an exponent; what is no decimal is rounded to a millionth.

    >>> money("cost", Decimal("1E-6")), money("cost", 0.1 + 0.2), money("cost", "0.50")
    ('0.000001', '0.300000', '0.50')
    """
    if not isinstance(value, Decimal | str):
        return f"{checks.number(field, value):.6f}"
    try:
        exact = Decimal(value)
    except InvalidOperation:
        raise InputError(field, value, "an amount of money") from None
    if not exact.is_finite():
        raise InputError(field, value, "a finite amount of money")
    return format(exact, "f")


def _reader(answer: type[T]) -> Callable[[bytes], T]:
    """Reads an answer; what is not one is refused with a ``msgspec.DecodeError``."""
    return decoder(answer).decode


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what was left out."""
    return {name: value for name, value in fields.items() if value is not None}


def _post(path: str, body: Any, answer: type[T]) -> Call[T]:
    return Call("POST", path, _reader(answer), None if body is None else _encoded(body))


def _path(campaign: CampaignId, *parts: str) -> str:
    """The path of a campaign, or of something of it."""
    identity = campaign.id if isinstance(campaign, Campaign) else campaign
    for name in (identity, *parts):
        if not isinstance(name, str) or name.strip(".") == "":
            raise InputError("an id in the path", name, "the id of a campaign or of a decision")
    return "/".join(("/v1/campaigns", *(quote(name, safe="") for name in (identity, *parts))))


def _encoded(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InputError("what is sent", body, f"finite numbers and text ({error})") from None
