"""What the page shows of a campaign."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from msgspec import Meta

from bccb.wire.campaigns import Campaign, Figure
from bccb.wire.fields import Answer, Money


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
    value: Annotated[
        float | None, Meta(description="The sum of their amounts; null where there are none.")
    ] = None
    value_per_user: Annotated[
        Figure | None, Meta(description="Likewise, per user, counted as in the rate.")
    ] = None


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
    """What had been caused, as it was known after one outcome and another; null if it was not.

    What was measured of too few users is null, too.
    """

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
    to_return: Annotated[
        Money,
        Meta(
            description="The part of what is reserved that is expected to return, where costs are "
            "charged on conversion: spending stands against the plan without it."
        ),
    ] = Decimal("0.00")


class SegmentEffect(Answer, frozen=True):
    """Users who are alike in one feature."""

    name: str
    share: Annotated[float, Meta(description="Of all users.")]
    effect: Annotated[
        Figure,
        Meta(
            description="Of the treatment on them, on average: on their rate of conversions, or on "
            "their value where outcomes are amounts."
        ),
    ]
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
