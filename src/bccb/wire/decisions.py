"""Decisions, and what becomes of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from bccb import outcome
from bccb.wire.features import FeatureValue
from bccb.wire.fields import (
    MAY_BE_ZERO,
    MOST_BATCH,
    MOST_FEATURES,
    MOST_TREATMENTS,
    Answer,
    Body,
    DecisionId,
    Money,
    MoneyText,
    Outcome,
)


class DecisionRequest(Body):
    """One user to decide on."""

    decision_id: DecisionId
    features: Annotated[dict[str, FeatureValue], Meta(max_length=MOST_FEATURES)]
    costs: Annotated[
        dict[str, MoneyText],
        Meta(
            max_length=MOST_TREATMENTS, description="What each treatment would cost for this user."
        ),
    ]


class PlainDecisionRequest(Body):
    """The same in a campaign all of whose features are plain numbers, which is read faster."""

    decision_id: DecisionId
    features: Annotated[dict[str, float], Meta(max_length=MOST_FEATURES)]
    costs: Annotated[dict[str, MoneyText], Meta(max_length=MOST_TREATMENTS)]


class DecisionColumns(Body):
    """Many users to decide on, one list per feature and per treatment, all equally long."""

    decision_ids: Annotated[list[DecisionId], Meta(min_length=1, max_length=MOST_BATCH)]
    features: Annotated[
        dict[str, Annotated[list[FeatureValue], Meta(max_length=MOST_BATCH)]],
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
    price: Annotated[
        float,
        Meta(
            description="What a unit of money had to bring, in conversions, or in currency where "
            "outcomes are amounts."
        ),
    ]
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


class CorrectRequest(Body):
    """What an outcome was in the end."""

    value: Outcome


class SettleRequest(Body):
    """What a treatment cost in the end."""

    cost: Annotated[MoneyText, Meta(extra={MAY_BE_ZERO: True})]


class DecisionState(Answer, frozen=True):
    """A decision and its money, after it was cancelled or settled."""

    decision_id: str
    treatment: str | None
    status: outcome.DecisionStatus
    reserved: Money
    spent: Money
    remaining: Annotated[Money, Meta(description="Of the campaign.")]
