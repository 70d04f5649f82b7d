"""Intervals of rates, of totals and of their differences, at 95 %."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bccb.outcome import Kind, typical_size, variance_bound

if TYPE_CHECKING:
    from bccb.types import Floats

QUANTILE = 1.959963984540054  # of the normal distribution at 0.975


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(rate: float, users: float) -> Interval:
    """Wilson's score interval of a rate: all p with |rate - p| <= z sqrt(p (1 - p) / n).

    >>> wilson(0.0, 100).low, round(wilson(0.0, 100).high, 4)
    (0.0, 0.037)
    """
    z = QUANTILE
    scale = 1 + z**2 / users
    centre = (rate + z**2 / (2 * users)) / scale
    reach = z * math.sqrt(variance_bound(rate) / users + (z / (2 * users)) ** 2) / scale
    # At the rates 0 and 1 an end is the rate itself, up to rounding.
    return Interval(rate, max(0.0, min(rate, centre - reach)), min(1.0, max(rate, centre + reach)))


def newcombe(treated: Interval, control: Interval) -> Interval:
    """Newcombe's interval of a difference of two rates, from the intervals of the rates."""
    effect = treated.value - control.value
    below = math.hypot(treated.value - treated.low, control.high - control.value)
    above = math.hypot(treated.high - treated.value, control.value - control.low)
    return Interval(effect, effect - below, effect + above)


class Total(NamedTuple):
    """Conversions of all users under one action: the estimate and its variance."""

    value: float
    variance: float
    weight: float  # of a typical row: what one more conversion would have added
    signed: bool = False  # some outcomes are negative: a small total may be of large ones


def reach(total: Total) -> tuple[float, float]:
    """How far below and above the estimate S the interval reaches: it holds all totals T with
    (S - T)^2 <= z^2 V T / S.

    With no conversion the total may still be up to z^2 times the weight of one. Where outcomes are
    of both signs, their variance is not in proportion to T, and it holds (S - T)^2 <= z^2 V.
    """
    value, variance, weight, signed = total
    if signed:
        half = QUANTILE * math.sqrt(variance) if variance > 0 else QUANTILE**2 * weight
        return half, half
    each = variance / value if value > 0 and variance > 0 else weight
    shift = QUANTILE**2 * each / 2
    half = math.sqrt(QUANTILE**2 * variance + shift**2)
    return half - shift, half + shift


def difference(treated: Total, control: Total) -> Interval:
    """Newcombe's interval of a difference, from the intervals of both totals."""
    incremental = treated.value - control.value
    below_treated, above_treated = reach(treated)
    below_control, above_control = reach(control)
    return Interval(
        incremental,
        incremental - math.hypot(below_treated, above_control),
        incremental + math.hypot(above_treated, below_control),
    )


def mean_amount(amounts: Floats) -> Interval:
    """The mean of amounts of money, mostly 0, with the interval of their total.

    >>> import numpy as np
    >>> mean_amount(np.array([0.0, 0.0, 30.0, 10.0])).value
    10.0
    """
    n, spread = len(amounts), float(amounts.var()) * len(amounts)
    typical, signed = typical_size(amounts, Kind.AMOUNT), bool((amounts < 0.0).any())
    total = Total(float(amounts.sum()), spread, typical, signed)
    below, above = reach(total)
    mean = total.value / n
    return Interval(mean, mean - below / n, mean + above / n)
