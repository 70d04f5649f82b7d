"""What a caller gives: users to decide on, outcomes, and amounts of money."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from bccb import checks
from bccb.errors import InputError

Money: TypeAlias = Decimal | str | float
Value: TypeAlias = float | str | bool | date | None  # of a feature; a time is a date, too


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


def feature(field: str, value: Value | np.bool_) -> float | str | bool | None:
    """The value of a feature, as the service wants it.

    >>> feature("since", date(2030, 1, 31)), feature("age", None), feature("plan", "plus")
    ('2030-01-31', None, 'plus')
    """
    if isinstance(value, np.bool_):
        return bool(value)
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, date):
        return value.isoformat()
    return checks.number(field, value)


def new_id() -> str:
    """An id that nobody else has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class User:
    """One user to decide on. The id is drawn when the value is made, so a retry has the same."""

    features: Mapping[str, Value]
    costs: Mapping[str, Money]  # what each treatment would cost for this user
    decision_id: str = field(default_factory=new_id)

    def fields(self) -> dict[str, Any]:
        """As the service wants it."""
        costs = {name: money(f"costs.{name}", cost) for name, cost in self.costs.items()}
        features = {
            name: feature(f"features.{name}", value) for name, value in self.features.items()
        }
        return {"decision_id": self.decision_id, "features": features, "costs": costs}


class AsDecided(Enum):
    """Stands for the ``action`` that the service decided, where no other is given."""

    AS_DECIDED = "as decided"


Action: TypeAlias = str | AsDecided | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one decision.

    In a shadow campaign, and only there, ``action`` is the treatment that your own system gave,
    or None for none; with ``value`` None it is reported alone, before the outcome is known.
    """

    decision_id: str
    value: float | None
    action: Action = AsDecided.AS_DECIDED

    def fields(self) -> dict[str, Any]:
        """As the service wants it, without the id."""
        action = {} if isinstance(self.action, AsDecided) else {"action": self.action}
        value = {} if self.value is None else {"value": checks.number("value", self.value)}
        return {**value, **action}
