"""What goes over HTTP, for the service and its clients alike. Money is decimal text, names are the
client's.

From these types follow how bodies and answers are read and written, and the OpenAPI document.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from bccb import outcome
from bccb.policies import DEFAULT

T = TypeVar("T")

MOST_BATCH = 1_000
MOST_FEATURES = 1_000
MOST_TREATMENTS = 100
MOST_USERS = 10**12
ID = r"^[A-Za-z0-9][A-Za-z0-9._~:@+=-]*$"
MONEY = r"^[0-9]{1,10}(\.[0-9]{1,12})?$"
NAME = r"^[^\x00-\x1f\x7f]+$"


def _matching(pattern: str, **more: Any) -> Meta:
    """Text of a pattern; see :func:`in_python`."""
    return Meta(pattern=in_python(pattern), **more)


def in_python(pattern: str) -> str:
    r"""A pattern of JSON Schema for ``re``, whose "$" also matches before a last newline.

    >>> in_python("^a$")
    '^a\\Z'
    """
    return pattern.removesuffix("$") + r"\Z"


MoneyText: TypeAlias = Annotated[
    str, _matching(MONEY, examples=["0.77"], description="Decimal text, in currency units.")
]
Money: TypeAlias = Annotated[
    Decimal,
    Meta(description="Decimal text, in currency units.", extra_json_schema={"examples": ["0.77"]}),
]
DecisionId: TypeAlias = Annotated[
    str,
    _matching(
        ID,
        max_length=128,
        examples=["order-17"],
        description="Yours, one per decision: it makes retries safe.",
    ),
]
Name: TypeAlias = Annotated[str, _matching(NAME, min_length=1, max_length=100)]
Outcome: TypeAlias = Annotated[
    float, Meta(ge=outcome.LEAST, le=outcome.MOST, description="1 for a conversion, 0 for none.")
]
AlertKind: TypeAlias = Literal["money_gone", "no_outcomes", "off_plan", "out_of_balance"]
Users: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_USERS)]


class Body(Struct, forbid_unknown_fields=True):
    """What a client sends: a field that is not known is a mistake."""


class Answer(Struct, frozen=True):
    """What the service answers. A client ignores fields that it does not know."""


class Horizon:
    """How long a campaign runs: for a number of users, or until a time."""

    __slots__ = ()


class UsersHorizon(Horizon, Struct, frozen=True, forbid_unknown_fields=True):
    """The campaign is planned for a number of users."""

    users: Annotated[Users, Meta(description="How many users are expected.")]


class TimeHorizon(Horizon, Struct, frozen=True, forbid_unknown_fields=True):
    """The campaign ends at a time; the money is paced by the clock until then."""

    ends_at: Annotated[
        datetime, Meta(tz=True, description="With its time zone, such as 2030-01-31T18:00:00Z.")
    ]
    expected_users: Annotated[
        Users | None, Meta(description="A forecast of the traffic, if there is one.")
    ] = None


def horizon_type(given: Any) -> type[UsersHorizon] | type[TimeHorizon]:
    """Which horizon a JSON object describes."""
    return TimeHorizon if isinstance(given, dict) and "ends_at" in given else UsersHorizon


class PolicyChoice(Answer, frozen=True):
    """Which policy decides, and the parameters that differ from its defaults."""

    name: str = DEFAULT
    params: dict[str, float] = {}


class PolicyRequest(PolicyChoice, frozen=True, forbid_unknown_fields=True):
    """Which policy is to decide, and the parameters that differ from its defaults."""


class CampaignRequest(Body):
    """A new campaign."""

    name: Annotated[Name, Meta(description="Different from that of any other campaign.")]
    budget: MoneyText
    horizon: Horizon
    features: Annotated[list[Name], Meta(max_length=MOST_FEATURES)]
    treatments: Annotated[list[Name], Meta(min_length=1, max_length=MOST_TREATMENTS)]
    policy: PolicyRequest = PolicyRequest()
    outcome_window_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=10 * 366 * 86_400,
            description="An outcome that was not reported by then counts as none.",
        ),
    ] = 7 * 86_400
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**53 - 1)] | None,
        Meta(description="Of all draws; a random one if left out."),
    ] = None
    mode: Annotated[
        Literal["live", "shadow"],
        Meta(
            description="A shadow campaign decides and learns, but its answers are not to be "
            "acted on."
        ),
    ] = "live"
    learned_from: Annotated[
        str | None,
        Meta(description="The id of a campaign, such as a shadow one, to take the learning of."),
    ] = None


class Figure(Answer, frozen=True):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


class Caused(Answer, frozen=True):
    """What the treatments caused, by two roads."""

    estimated: Annotated[
        Figure | None,
        Meta(
            description="The effects that the model has learned, summed over all treated users: "
            "narrow, and as good as the model. Null where the policy's model has no uncertainty, "
            "and in campaigns that began with an older version."
        ),
    ]
    measured: Annotated[
        Figure | None,
        Meta(
            description="By the decisions made at random alone: wide, and valid however often "
            "one looks. Null where no decisions are made at random, and in campaigns that began "
            "with an older version."
        ),
    ]
    measured_users: Annotated[
        int,
        Meta(
            description="Who is measured: all up to the first whose outcome may still be reported."
        ),
    ]


class Alert(Answer, frozen=True):
    """Something about a campaign that somebody should look at."""

    kind: AlertKind
    since: Annotated[datetime, Meta(description="When the service noticed it.")]
    text: str


class Notice(Answer, frozen=True):
    """What is sent to the webhook of the service when an alert comes or goes."""

    campaign_id: str
    campaign: Annotated[str, Meta(description="Its name.")]
    kind: AlertKind
    state: Literal["raised", "cleared"]
    text: Annotated[str, Meta(description="What it says; of a cleared one, what it said last.")]
    at: datetime


class Campaign(Answer, frozen=True):
    """A campaign, its money and its counts."""

    id: str
    name: str
    status: Annotated[
        Literal["running", "paused", "closed", "quarantined"],
        Meta(
            description="quarantined: its journal cannot be folded, and nothing of it is decided "
            "or changed. Its money is that of the ledger; its counts are 0, and its terms are "
            "empty if they cannot be read."
        ),
    ]
    reason: Annotated[str | None, Meta(description="Why it is quarantined; null if it is not.")]
    mode: Literal["live", "shadow"]
    created_at: datetime
    horizon: Horizon
    features: tuple[str, ...]
    treatments: tuple[str, ...]
    policy: PolicyChoice
    outcome_window_seconds: int
    seed: int
    learned_from: str | None
    budget: Money
    spent: Annotated[
        Money, Meta(description="Paid for treatments whose outcome or final cost is known.")
    ]
    reserved: Annotated[
        Money, Meta(description="Held for treatments whose outcome is not known yet.")
    ]
    remaining: Annotated[Money, Meta(description="budget - spent - reserved")]
    decisions: int
    treated: int
    pending: Annotated[
        int, Meta(description="Decisions without an outcome yet, whose window has not ended.")
    ]
    conversions: Annotated[
        float, Meta(description="The sum of all outcomes that were reported within their window.")
    ]
    median_delay_seconds: Annotated[
        float | None,
        Meta(
            description="Half of the conversions are reported within so many seconds of their "
            "decision; null while too few were reported."
        ),
    ]
    too_late: Annotated[
        int,
        Meta(description="Conversions that were reported after their window: not learned."),
    ]
    caused: Annotated[
        Caused | None,
        Meta(description="What the treatments caused; null in lists, and in shadow campaigns."),
    ]
    fits: Annotated[
        int,
        Meta(
            description="How often the policy was fitted again on what it has learned; always 0 "
            "where it learns one outcome at a time and nothing else."
        ),
    ] = 0
    fitted_at: Annotated[datetime | None, Meta(description="When that was, the last time.")] = None
    alerts: Annotated[
        tuple[Alert, ...], Meta(description="What to look at; looked for twice a second.")
    ] = ()


class CampaignList(Answer, frozen=True):
    """All campaigns, the newest first."""

    campaigns: tuple[Campaign, ...]


class BudgetRequest(Body):
    """More money for a campaign."""

    add: MoneyText
    request_id: Annotated[
        DecisionId | None, Meta(description="Yours: a retry with the same id adds nothing.")
    ] = None


class DecisionRequest(Body):
    """One user to decide on."""

    decision_id: DecisionId
    features: Annotated[dict[str, float], Meta(max_length=MOST_FEATURES)]
    costs: Annotated[
        dict[str, MoneyText],
        Meta(
            max_length=MOST_TREATMENTS, description="What each treatment would cost for this user."
        ),
    ]


class DecisionColumns(Body):
    """Many users to decide on, one list per feature and per treatment, all equally long."""

    decision_ids: Annotated[list[DecisionId], Meta(min_length=1, max_length=MOST_BATCH)]
    features: Annotated[
        dict[str, Annotated[list[float], Meta(max_length=MOST_BATCH)]],
        Meta(max_length=MOST_FEATURES),
    ]
    costs: Annotated[
        dict[str, Annotated[list[MoneyText], Meta(max_length=MOST_BATCH)]],
        Meta(max_length=MOST_TREATMENTS, description="What each treatment would cost per user."),
    ]


class DecisionAnswer(Answer, frozen=True):
    """What to do with this user. The same id and body always give the same answer."""

    decision_id: str
    treatment: Annotated[str | None, Meta(description="null: leave this user alone")]
    probability: Annotated[
        float, Meta(description="That of this action, over all draws of the policy.")
    ]
    price: Annotated[float, Meta(description="What a unit of money had to bring, in conversions.")]
    remaining: Money
    act: Annotated[
        bool, Meta(description="false in a shadow campaign: do what your own system says.")
    ]


class DecisionColumnsAnswer(Answer, frozen=True):
    """What to do with many users, in the order of the request; all lists are equally long."""

    decision_ids: tuple[str, ...]
    treatments: Annotated[tuple[str | None, ...], Meta(description="null: leave this user alone")]
    probabilities: tuple[float, ...]
    prices: tuple[float, ...]
    remaining: tuple[Money, ...]
    act: Annotated[
        bool, Meta(description="false in a shadow campaign: do what your own system says.")
    ]


class OutcomeRequest(Body):
    """What became of one decision."""

    value: Annotated[
        Outcome | UnsetType,
        Meta(
            description="Left out only in shadow campaigns, where the action alone can be reported "
            "before the outcome is known."
        ),
    ] = UNSET
    action: Annotated[
        str | UnsetType | None,
        Meta(
            description="Only in shadow campaigns: the treatment your system gave, null for none. "
            "Report it once."
        ),
    ] = UNSET


class OutcomeItem(OutcomeRequest, kw_only=True):
    """What became of one decision, in a list."""

    decision_id: DecisionId


class OutcomeAnswer(Answer, frozen=True):
    """How a reported outcome was taken."""

    decision_id: str
    value: Annotated[
        float | None, Meta(description="What counts now; null while no outcome is known.")
    ]
    status: outcome.ReportStatus


class SettleRequest(Body):
    """What a treatment cost in the end."""

    cost: MoneyText


class DecisionState(Answer, frozen=True):
    """A decision and its money, after it was cancelled or settled."""

    decision_id: str
    treatment: str | None
    status: outcome.DecisionStatus
    reserved: Money
    spent: Money
    remaining: Annotated[Money, Meta(description="Of the campaign.")]


class ArmFigures(Answer, frozen=True):
    """The users of one action."""

    treatment: Annotated[str | None, Meta(description="null: left alone")]
    decisions: int
    outcomes: Annotated[int, Meta(description="How many of their outcomes are known.")]
    conversions: float
    rate: Annotated[
        Figure | None,
        Meta(
            description="Conversions per user, where a pending one counts in part: as far as "
            "conversions are usually reported by then. null while that is not known."
        ),
    ]


class Series(Answer, frozen=True):
    """Points over time, at most some hundreds; all lists are equally long."""

    at: Annotated[tuple[float, ...], Meta(description="Unix seconds.")]
    decisions: tuple[int, ...]
    spent: Annotated[tuple[float, ...], Meta(description="Spent and reserved.")]
    planned: Annotated[
        tuple[float, ...],
        Meta(description="What even spending over the horizon would have spent."),
    ]
    price: tuple[float, ...]


class ArmDelays(Answer, frozen=True):
    """How late the conversions of one action are reported."""

    treatment: Annotated[str | None, Meta(description="null: left alone")]
    reports: Annotated[int, Meta(description="Conversions that its curve rests on.")]
    shares: Annotated[
        tuple[float, ...],
        Meta(description="The share of its conversions that is reported by each age."),
    ]


class Delays(Answer, frozen=True):
    """How late conversions are reported, as the campaign has learned it.

    With few reports it is mostly what is assumed of any campaign.
    """

    seconds: Annotated[
        tuple[float, ...],
        Meta(description="Ages, since the decision; the last one is the window."),
    ]
    arms: Annotated[
        tuple[ArmDelays, ...], Meta(description="Left alone first, then the treatments.")
    ]


class CausedSeries(Answer, frozen=True):
    """What had been caused, as it was known after one outcome and another; null if it was not."""

    at: tuple[float, ...]
    estimated: tuple[Figure | None, ...]
    measured: tuple[Figure | None, ...]


class Report(Answer, frozen=True):
    """What the page shows of a campaign."""

    campaign: Campaign
    now: datetime
    arms: Annotated[
        tuple[ArmFigures, ...], Meta(description="Left alone first, then the treatments.")
    ]
    caused_series: CausedSeries
    decisions_per_second: Annotated[float, Meta(description="Over the last ten seconds.")]
    planned: Annotated[Money, Meta(description="What even spending would have spent by now.")]
    money_ends_at: Annotated[
        datetime | None,
        Meta(description="When the money ends at the recent speed; null if that is not known."),
    ]
    series: Series
    delays: Delays


class SegmentEffect(Answer, frozen=True):
    """Users who are alike in one feature."""

    name: str
    share: Annotated[float, Meta(description="Of all users.")]
    effect: Annotated[Figure, Meta(description="Of the treatment on them, on average.")]
    treated: Annotated[
        Figure | None,
        Meta(description="The share of them who got it; null where that was not counted."),
    ]


class FeatureEffect(Answer, frozen=True):
    """The effect of a treatment in each segment of a feature."""

    feature: str
    is_clear: Annotated[bool, Meta(description="Whether the effect surely differs.")]
    most: Annotated[str, Meta(description="The segment with the largest effect.")]
    least: str
    difference: Annotated[
        Figure, Meta(description="Of these two; the interval allows for the choice.")
    ]
    segments: tuple[SegmentEffect, ...]


class TreatmentEffect(Answer, frozen=True):
    """What was learned about one treatment."""

    treatment: str
    average: Figure
    features: Annotated[
        tuple[FeatureEffect, ...], Meta(description="Those that matter most come first.")
    ]


class Explanation(Answer, frozen=True):
    """What the policy of a campaign has learned."""

    users: Annotated[int, Meta(description="Over whom effects are averaged.")]
    treatments: tuple[TreatmentEffect, ...]


class Problem(Answer, frozen=True):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    field: Annotated[
        str | UnsetType, Meta(description="The field of the request that is wrong.")
    ] = UNSET


class Health(Answer, frozen=True):
    """The state of the process."""

    status: Literal["ok", "failing"]
    detail: str | UnsetType = UNSET


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Reads JSON as one of these types; what does not fit is a ``msgspec.ValidationError``.

    >>> decoder(OutcomeAnswer).decode(b'{"decision_id": "a", "value": 1, "status": "recorded"}')
    OutcomeAnswer(decision_id='a', value=1.0, status='recorded')
    """
    return cast("msgspec.json.Decoder[T]", _decoder(cast("Any", kind)))


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    strict = isinstance(kind, type) and issubclass(kind, Body)
    return msgspec.json.Decoder(kind, dec_hook=_strict_horizon if strict else _horizon)


def _strict_horizon(_: type, given: Any) -> Any:
    """Read what msgspec has no type for: one of two objects without a tag."""
    return msgspec.convert(given, horizon_type(given))


def _horizon(_: type, given: Any) -> Any:
    """The same in an answer, where a newer service may say more."""
    kind = horizon_type(given)
    if isinstance(given, dict):
        given = {name: given[name] for name in kind.__struct_fields__ if name in given}
    return msgspec.convert(given, kind)


encode = msgspec.json.Encoder().encode
