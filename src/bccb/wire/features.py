"""Features: how a campaign declares them, and what a user's values may be."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from bccb.encoding import Kind
from bccb.wire.fields import MOST_FEATURES, Answer, Name

MOST_TEXT = 500  # characters of a level

Level: TypeAlias = Annotated[str, Meta(max_length=MOST_TEXT)]
FeatureValue: TypeAlias = Annotated[
    float | Level | bool | None,
    Meta(
        description="A number, a date as text, the level of a category, or null where it is not "
        "known and may be missing."
    ),
]


class FeatureChoice(Answer, frozen=True):
    """How one feature becomes the numbers that the policy reads."""

    name: Name
    kind: Annotated[
        Kind,
        Meta(description="A date is text such as 2030-01-31, a category text, a number or a flag."),
    ] = "number"
    levels: Annotated[
        tuple[Level, ...],
        Meta(
            max_length=MOST_FEATURES,
            description="Of a category; the first is what the others are compared with. With the "
            "level (missing) it may be null.",
        ),
    ] = ()
    others: Annotated[
        bool | None,
        Meta(
            description="Whether all other levels of a category, those that nobody has seen yet "
            "included, have a column together. Otherwise they count as the first level. True for "
            "a category if left out."
        ),
    ] = None
    fill: Annotated[
        float | None,
        Meta(
            description="What stands for a number or date that is null; if left out, it must be "
            "given."
        ),
    ] = None


class FeatureRequest(FeatureChoice, frozen=True, forbid_unknown_fields=True):
    """How one feature is to become the numbers that the policy reads."""
