"""What goes in and out over HTTP. Money is decimal text, names are the client's."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from bccb.policies import DEFAULT

MOST_BATCH = 1_000
MOST_FEATURES = 1_000
MOST_TREATMENTS = 100
ID = r"^[A-Za-z0-9][A-Za-z0-9._~:@+=-]*$"

Money = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,10}(\.[0-9]{1,12})?$"),
    Field(examples=["0.77"], description="Decimal text, in currency units."),
]
DecisionId = Annotated[
    str,
    StringConstraints(pattern=ID, max_length=128),
    Field(
        examples=["order-17"], description="Yours, one for each decision: it makes retries safe."
    ),
]
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Outcome = Annotated[
    float, Field(strict=True, ge=0, le=1, description="1 for a conversion, 0 for none.")
]


class Body(BaseModel):
    """What a client sends: a field that is not known is a mistake."""

    model_config = ConfigDict(extra="forbid")


class UsersHorizon(Body):
    """The campaign is planned for a number of users."""

    users: int = Field(strict=True, ge=1, le=10**12, description="How many users are expected.")


class TimeHorizon(Body):
    """The campaign ends at a time; the money is paced by the clock until then."""

    ends_at: AwareDatetime = Field(description="With its time zone, such as 2030-01-31T18:00:00Z.")
    expected_users: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=10**12,
        description="A forecast of the traffic, if there is one.",
    )


BY_USERS, BY_TIME = "by-users", "by-time"


def _which_horizon(given: object) -> str:
    fields = given if isinstance(given, dict) else getattr(given, "__dict__", {})
    return BY_TIME if "ends_at" in fields else BY_USERS


Horizon = Annotated[
    Annotated[UsersHorizon, Tag(BY_USERS)] | Annotated[TimeHorizon, Tag(BY_TIME)],
    Discriminator(_which_horizon),
]


class PolicyChoice(Body):
    """Which policy decides, and the parameters that are other than its defaults."""

    name: str = DEFAULT
    params: dict[str, Number] = Field(default_factory=dict)


class CampaignRequest(Body):
    """A new campaign."""

    name: Name = Field(description="Unlike that of any other campaign.")
    budget: Money
    horizon: Horizon
    features: list[Name] = Field(max_length=MOST_FEATURES)
    treatments: list[Name] = Field(min_length=1, max_length=MOST_TREATMENTS)
    policy: PolicyChoice = Field(default_factory=PolicyChoice)
    outcome_window_seconds: int = Field(
        7 * 86_400,
        strict=True,
        ge=1,
        le=10 * 366 * 86_400,
        description="An outcome that was not reported by then counts as none.",
    )
    seed: int | None = Field(
        None, strict=True, ge=0, le=2**53 - 1, description="Of all draws; a random one if left out."
    )
    mode: Literal["live", "shadow"] = Field(
        "live",
        description="A shadow campaign decides and learns, but its answers are not to be acted on.",
    )
    learned_from: str | None = Field(
        None,
        description="The id of a campaign, such as a shadow one, whose learning to begin with.",
    )

    @model_validator(mode="after")
    def _names_differ(self) -> CampaignRequest:
        for field in ("features", "treatments"):
            names = getattr(self, field)
            if len(set(names)) < len(names):
                raise ValueError(f"{field} must all be different")
        return self


class Campaign(BaseModel):
    """A campaign, its money and its counts."""

    id: str
    name: str
    status: Literal["running", "paused", "closed", "quarantined"] = Field(
        description="quarantined: its journal cannot be folded, and nothing of it is decided or "
        "changed. Its money is that of the ledger; its counts are 0, and its terms are empty if "
        "they cannot be read."
    )
    reason: str | None = Field(description="Why it is quarantined; null if it is not.")
    mode: Literal["live", "shadow"]
    created_at: datetime
    horizon: Horizon
    features: list[str]
    treatments: list[str]
    policy: PolicyChoice
    outcome_window_seconds: int
    seed: int
    learned_from: str | None
    budget: Money
    spent: Money = Field(description="Paid for treatments whose outcome or final cost is known.")
    reserved: Money = Field(description="Held for treatments whose outcome is not known yet.")
    remaining: Money = Field(description="budget - spent - reserved")
    decisions: int
    treated: int
    open: int = Field(description="Decisions whose outcome is not known yet.")


class CampaignList(BaseModel):
    """All campaigns, the newest first."""

    campaigns: list[Campaign]


class BudgetRequest(Body):
    """More money for a campaign."""

    add: Money
    request_id: DecisionId | None = Field(
        None, description="Yours: a retry with the same id adds nothing."
    )


class DecisionRequest(Body):
    """One user to decide on."""

    decision_id: DecisionId
    features: dict[str, Number] = Field(max_length=MOST_FEATURES)
    costs: dict[str, Money] = Field(
        max_length=MOST_TREATMENTS, description="What each treatment would cost for this user."
    )


class DecisionAnswer(BaseModel):
    """What to do with this user. The same id and body always give the same answer."""

    decision_id: str
    treatment: str | None = Field(description="null: leave this user alone")
    probability: float = Field(description="That of this action, over all draws of the policy.")
    price: float = Field(description="What a unit of money had to bring, in conversions.")
    remaining: Money
    act: bool = Field(description="false in a shadow campaign: do what your own system says.")


class OutcomeRequest(Body):
    """What became of one decision."""

    value: Outcome
    action: str | None = Field(
        None, description="Shadow campaigns alone: the treatment your system gave, null for none."
    )


class OutcomeItem(OutcomeRequest):
    """What became of one decision, in a list."""

    decision_id: DecisionId


class OutcomeAnswer(BaseModel):
    """How a reported outcome was taken."""

    decision_id: str
    value: float = Field(description="What counts now.")
    status: Literal["recorded", "already_recorded", "too_late"]


class SettleRequest(Body):
    """What a treatment cost in the end."""

    cost: Money


class DecisionState(BaseModel):
    """A decision and its money, after it was cancelled or settled."""

    decision_id: str
    treatment: str | None
    status: Literal["open", "observed", "expired", "cancelled"]
    reserved: Money
    spent: Money
    remaining: Money = Field(description="Of the campaign.")


class Interval(BaseModel):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


class Arm(BaseModel):
    """The users of one action."""

    treatment: str | None = Field(description="null: left alone")
    decisions: int
    outcomes: int = Field(description="How many of their outcomes are known.")
    conversions: float
    rate: Interval | None = Field(description="Conversions of those whose outcome is known.")


class Series(BaseModel):
    """Points over time, at most some hundreds; all lists are equally long."""

    at: list[float] = Field(description="Unix seconds.")
    decisions: list[int]
    spent: list[float] = Field(description="Spent and reserved.")
    planned: list[float] = Field(
        description="What even spending over the horizon would have spent."
    )
    price: list[float]


class Report(BaseModel):
    """What the page shows of a campaign."""

    campaign: Campaign
    now: datetime
    arms: list[Arm] = Field(description="Left alone first, then the treatments.")
    incremental: Interval | None = Field(
        description="Conversions that the treatments caused; null while that cannot be told."
    )
    decisions_per_second: float = Field(description="Over the last ten seconds.")
    planned: Money = Field(description="What even spending would have spent by now.")
    money_ends_at: datetime | None = Field(
        description="When the money ends, if it goes on as of late; null if that cannot be told."
    )
    series: Series


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = Field(None, description="The field of the request that is to blame.")


class Health(BaseModel):
    """The state of the process."""

    status: Literal["ok", "failing"]
    detail: str | None = None
