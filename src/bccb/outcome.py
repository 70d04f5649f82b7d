"""The outcome of a decision: its range, what it is as evidence, and how a decision can end.

A new kind of outcome is added here first; everything that checks, stores or bounds one asks here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from bccb.errors import InputError

N = TypeVar("N", float, npt.NDArray[np.float64])

LEAST, MOST = 0.0, 1.0  # 1 is a conversion, 0 is none
RANGE = f"from {LEAST:g} to {MOST:g}"
MOST_AMOUNT = 1e9  # of money, in both directions, where outcomes are amounts
AMOUNT_RANGE = f"a finite amount from {-MOST_AMOUNT:,.0f} to {MOST_AMOUNT:,.0f}"
LARGEST_RANGE = f"at least 0.000001 and at most {MOST_AMOUNT:,.0f}"

# Policies learn evidence (gain a, weight b). A known outcome y is the evidence (y, KNOWN_WEIGHT).
KNOWN_WEIGHT = 1.0
NOT_REPORTED = 0.0  # the outcome that counts when none was reported within the window


class Kind(StrEnum):
    """What an outcome is."""

    CONVERSION = "conversion"  # from 0 to 1
    AMOUNT = "amount"  # of money, mostly 0


def kind_of(value: object, field: str = "outcome") -> Kind:
    """The kind of outcome with this name; checked.

    >>> kind_of("amount") is Kind.AMOUNT
    True
    """
    try:
        return Kind(value)  # type: ignore[arg-type]
    except ValueError:
        raise InputError(field, value, " or ".join(f'"{kind}"' for kind in Kind)) from None


def range_of(kind: str) -> tuple[float, float, str]:
    """The least and the largest outcome of a kind, and that in words."""
    return (
        (-MOST_AMOUNT, MOST_AMOUNT, AMOUNT_RANGE) if kind == Kind.AMOUNT else (LEAST, MOST, RANGE)
    )


def is_allowed(value: float, kind: str = Kind.CONVERSION) -> bool:
    """Whether an outcome is within the range of its kind; NaN is not.

    >>> is_allowed(0.5), is_allowed(1.5), is_allowed(float("nan")), is_allowed(-20.0, "amount")
    (True, False, False, True)
    """
    least, most, _ = range_of(kind)
    return least <= value <= most


def check_amount(value: float, field: str = "outcome") -> None:
    """Refuse what cannot be an amount of money.

    >>> check_amount(float("inf"))
    Traceback (most recent call last):
    bccb.errors.InputError: outcome is inf, but must be a finite amount from -1,000,000,000 to \
1,000,000,000
    """
    if not -MOST_AMOUNT <= value <= MOST_AMOUNT:
        raise InputError(field, value, AMOUNT_RANGE)


def check_largest(value: float, field: str = "largest", given: object = None) -> None:
    """Refuse what cannot be the largest amount that counts; ``given`` is how it was written.

    >>> check_largest(9e9)
    Traceback (most recent call last):
    bccb.errors.InputError: largest is 9000000000.0, but must be at least 0.000001 and at most \
1,000,000,000
    """
    if not 1e-6 <= value <= MOST_AMOUNT:
        raise InputError(field, value if given is None else given, LARGEST_RANGE)


def check_outcome(value: float, field: str = "outcome") -> None:
    """Refuse an outcome outside the range.

    >>> check_outcome(2.0)
    Traceback (most recent call last):
    bccb.errors.InputError: outcome is 2.0, but must be from 0 to 1
    """
    if not LEAST <= value <= MOST:  # not through is_allowed: this is called for every outcome
        raise InputError(field, value, RANGE)


def check_outcomes(values: npt.NDArray[np.float64], kind: str = Kind.CONVERSION) -> None:
    """Refuse a list in which an outcome is outside the range, naming the first one."""
    least, most, allowed = range_of(kind)
    for i in np.flatnonzero(~((values >= least) & (values <= most)))[:1].tolist():
        raise InputError(f"outcome {i}", float(values[i]), allowed)


def variance_bound(mean: N) -> N:
    """The largest variance that outcomes with this mean can have (Bhatia and Davis, 2000):
    (mean - LEAST) (MOST - mean), reached when all of them are at the ends of the range.

    >>> variance_bound(0.5)
    0.25
    """
    return (mean - LEAST) * (MOST - mean)


def kind_by_values(values: npt.NDArray[np.float64]) -> Kind:
    """The kind of a column of outcomes: amounts, where one of them is no conversion.

    Where most that are not 0 are 1, it is a column of conversions with a mistake in it.

    >>> kind_by_values(np.array([0.0, 1.0])).value, kind_by_values(np.array([0.0, 19.9])).value
    ('conversion', 'amount')
    >>> kind_by_values(np.array([0.0, 1.0, 1.0, 7.0])).value
    'conversion'
    """
    is_rate = bool(((values >= LEAST) & (values <= MOST)).all())
    ones = 2 * np.count_nonzero(values == MOST) >= np.count_nonzero(values)
    return Kind.CONVERSION if is_rate or ones else Kind.AMOUNT


def typical_size(values: npt.NDArray[np.float64], kind: str) -> float:
    """What one more conversion adds to a total: 1, or of amounts sum y^2 / sum |y|.

    That is their mean weighted by themselves, so that the variance of a sum of n outcomes with
    mean m is n (typical m - m^2): of conversions the bound above, of amounts what they show.

    >>> typical_size(np.array([0.0, 30.0, 10.0]), "amount")
    25.0
    """
    if kind != Kind.AMOUNT:
        return MOST
    total = float(np.abs(values).sum())
    return float(values @ values) / total if total else 0.0


class End(StrEnum):
    """The ways in which a decision can end. Each decision has one end at most."""

    OUTCOME = "outcome"  # it was reported
    EXPIRY = "expiry"  # the window passed without a report
    CANCELLATION = "cancellation"  # the treatment was not delivered


EndStatus: TypeAlias = Literal["observed", "expired", "cancelled"]
DecisionStatus: TypeAlias = Literal["open", EndStatus]
STATUS_AFTER: dict[str, EndStatus] = {
    End.OUTCOME: "observed",
    End.EXPIRY: "expired",
    End.CANCELLATION: "cancelled",
}
WITH_VALUE = frozenset({End.OUTCOME, End.EXPIRY})  # after these an outcome counts
# How a report of an outcome was received
ReportStatus: TypeAlias = Literal["recorded", "already_recorded", "too_late"]


def status_of(end: str | None) -> DecisionStatus:
    """The status of a decision that ended in this way, or has not ended.

    >>> status_of(None), status_of("expiry")
    ('open', 'expired')
    """
    return "open" if end is None else STATUS_AFTER[end]
