"""Campaigns: opened, given more money, and looked at."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from bccb.charge import SHARE_RANGE
from bccb.policies import DEFAULT
from bccb.wire.features import FeatureChoice, FeatureRequest
from bccb.wire.fields import (
    MOST_CELLS,
    MOST_FEATURES,
    MOST_TREATMENTS,
    Answer,
    Body,
    Currency,
    DecisionId,
    Money,
    MoneyText,
    Name,
)
from bccb.wire.horizons import Horizon

Charge: TypeAlias = Annotated[
    Literal["treatment", "conversion"],
    Meta(
        description="When a cost is due: at once, or only if the user converts. Until the outcome "
        "is known, or the window has ended, it is reserved."
    ),
]
OutcomeKind: TypeAlias = Annotated[
    Literal["conversion", "amount"],
    Meta(
        description="conversion: from 0 to 1. amount: money that a user brings, mostly 0; all but "
        "0 is a conversion."
    ),
]
Negative: TypeAlias = Annotated[
    bool, Meta(description="Whether amounts may be below 0, as of a return.")
]
LARGEST = (
    "The largest amount that counts in what is measured, and 0 the least: a test without a model "
    "needs a bound. Without one nothing is measured."
)
Share: TypeAlias = Annotated[
    float,
    Meta(
        description="Of the amount, that a treatment is charged on conversion, at most its cost: "
        f"{SHARE_RANGE}. Without one, the whole cost is charged."
    ),
]
AlertKind: TypeAlias = Literal["money_gone", "no_outcomes", "off_plan", "out_of_balance"]


class PolicyChoice(Answer, frozen=True):
    """Which policy decides, and the parameters that differ from its defaults."""

    name: str = DEFAULT
    params: dict[str, float] = field(default_factory=dict)


class PolicyRequest(PolicyChoice, frozen=True, forbid_unknown_fields=True):
    """Which policy is to decide, and the parameters that differ from its defaults."""


class OutcomeTermsRequest(Body):
    """What the outcomes of a new campaign are."""

    kind: OutcomeKind = "conversion"
    negative: Negative = True
    largest: Annotated[MoneyText | None, Meta(description=LARGEST)] = None


class OutcomeTerms(Answer, frozen=True):
    """What the outcomes of a campaign are."""

    kind: OutcomeKind = "conversion"
    negative: Negative = True
    largest: Annotated[Money | None, Meta(description=LARGEST)] = None


class CampaignRequest(Body):
    """A new campaign."""

    name: Annotated[Name, Meta(description="Different from that of any other campaign.")]
    budget: MoneyText
    horizon: Horizon
    features: Annotated[
        list[Name | FeatureRequest],
        Meta(
            max_length=MOST_FEATURES,
            description="A plain name is a number that must be given for every user.",
        ),
    ]
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
        Meta(
            description="The id of a campaign, such as a shadow one, to take the learning of; or "
            '"upload": a saved policy is uploaded before the first decision.'
        ),
    ] = None
    charge: Charge = "treatment"
    cost_cap: Annotated[
        MoneyText | None,
        Meta(
            description="The most that one more conversion, or one more unit of value where "
            "outcomes are amounts, may be expected to cost: the price never falls below "
            "1 / cost_cap, and money is left over rather than spent on less."
        ),
    ] = None
    outcome: OutcomeTermsRequest = field(default_factory=OutcomeTermsRequest)
    share: Share | None = None
    currency: Currency | None = None
    cells: Annotated[
        int,
        Meta(
            ge=1,
            le=MOST_CELLS,
            description="Cut the campaign into so many parts, each held and learning on its own: "
            "for one that is too hot for one process.",
        ),
    ] = 1


class Figure(Answer, frozen=True):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


class Caused(Answer, frozen=True):
    """What the treatments caused, by two roads: conversions or, of amounts, value."""

    estimated: Annotated[
        Figure | None,
        Meta(
            description="The effects that the model has learned, summed over all treated users: "
            "narrow, and as good as the model. Null where the policy's model has no uncertainty, "
            "in campaigns that began with an older version, and in money before the first amount."
        ),
    ]
    measured: Annotated[
        Figure | None,
        Meta(
            description="By the decisions made at random alone: wide, and valid however often "
            "one looks. Null where no decisions are made at random, where amounts have no largest "
            "one or some are below 0, while nobody counts, and in campaigns that began with an "
            "older version."
        ),
    ]
    measured_users: Annotated[
        int,
        Meta(
            description="Who is measured: all up to the first whose outcome may still be reported."
        ),
    ]
    return_on_spend: Annotated[
        Figure | None,
        Meta(
            description="The estimated value for each unit of money: of what was spent, and of "
            "what is reserved as far as it is expected to be charged. Null where outcomes are "
            "conversions, and while nothing was spent."
        ),
    ] = None
    not_measured: Annotated[
        str | None,
        Meta(
            description="Why nothing is measured, where amounts have no largest one, some are "
            "below 0, or nobody counts yet; otherwise null."
        ),
    ] = None
    measurable: Annotated[
        bool,
        Meta(
            description="False where nothing is measured: no decisions are made at random, amounts "
            "have no largest one, or some are below 0."
        ),
    ] = True
    too_few: Annotated[
        str | None,
        Meta(
            description="Why the measured figure should not be shown yet, with the number of users "
            "that it takes: its interval excludes next to nothing. null once there are so many."
        ),
    ] = None


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
        float,
        Meta(
            description="The sum of all outcomes that were reported within their window; where "
            "outcomes are amounts, how many were not 0."
        ),
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
    fit_due: Annotated[
        bool,
        Meta(
            description="Whether the policy is to be fitted again on outcomes that are known: what "
            "is estimated may change soon."
        ),
    ] = False
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
    needs_history: Annotated[
        bool, Meta(description="Whether it decides only after a saved policy was uploaded.")
    ] = False
    encoding: Annotated[
        tuple[FeatureChoice, ...],
        Meta(
            description="How each feature is read; empty where all of them are numbers that must "
            "be given."
        ),
    ] = ()
    charge: Charge = "treatment"
    cost_cap: Annotated[
        Money | None,
        Meta(
            description="The most that one more conversion, or unit of value, may be expected to "
            "cost."
        ),
    ] = None
    cap_binds: Annotated[
        bool,
        Meta(
            description="Whether the cost cap holds money back: of late most prices were as low "
            "as it allows, and nothing is left that is worth its price."
        ),
    ] = False
    outcome: OutcomeTerms = OutcomeTerms()
    share: Share | None = None
    currency: Currency | None = None
    value: Annotated[
        float | None,
        Meta(
            description="The sum of all amounts that were reported within their window; null where "
            "outcomes are conversions."
        ),
    ] = None
    corrections: Annotated[int, Meta(description="Outcomes that were corrected.")] = 0
    cells: Annotated[
        int, Meta(description="Into how many parts it is cut; all figures are of the whole.")
    ] = 1


class CampaignList(Answer, frozen=True):
    """All campaigns, the newest first."""

    campaigns: tuple[Campaign, ...]


class BudgetRequest(Body):
    """More money for a campaign."""

    add: MoneyText
    request_id: Annotated[
        DecisionId | None, Meta(description="Yours: a retry with the same id adds nothing.")
    ] = None
