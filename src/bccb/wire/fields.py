"""Fields that several bodies and answers have, with their limits."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from bccb import outcome

MOST_BATCH = 1_000
MOST_CELLS = 64
MOST_FEATURES = 1_000
MOST_TREATMENTS = 100
MOST_USERS = 10**12
LONGEST_ID = 128  # characters
ID = r"^[A-Za-z0-9][A-Za-z0-9._~:@+=-]*$"
MONEY = r"^[0-9]{1,10}(\.[0-9]{1,12})?$"
NAME = r"^[^\x00-\x1f\x7f]+$"
CURRENCY = r"^[A-Za-z]{1,3}$"
MAY_BE_ZERO = "may_be_zero"  # of an amount of money, for messages


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
        max_length=LONGEST_ID,
        examples=["order-17"],
        description="Yours, one per decision: it makes retries safe.",
    ),
]
Name: TypeAlias = Annotated[str, _matching(NAME, min_length=1, max_length=100)]
Outcome: TypeAlias = Annotated[
    float,
    Meta(
        ge=-outcome.MOST_AMOUNT,
        le=outcome.MOST_AMOUNT,
        description="1 for a conversion, 0 for none; where outcomes are amounts of money, the "
        "amount, in currency units.",
    ),
]
Currency: TypeAlias = Annotated[
    str, _matching(CURRENCY, examples=["EUR"], description="Up to 3 letters, for display alone.")
]
Users: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_USERS)]


class Body(Struct, forbid_unknown_fields=True):
    """What a client sends: a field that is not known is a mistake."""


class Answer(Struct, frozen=True):
    """What the service answers. A client ignores fields that it does not know."""
