"""Features that alone tell the outcome, most often because they were measured after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bccb import checks
from bccb.types import Floats, Log

MOST_AREA = 0.98  # under the ROC curve; what is known before an outcome seldom comes near it
LEAST_SHARE = 0.2  # of the rows with one outcome that a threshold must split off alone
LEAST_EXPECTED = 20  # rows with the other outcome that chance would have put there
MOST_ROWS = 200_000  # enough to see it; sorting more would take long
SEED = 0  # of the rows that are looked at where there are more


@dataclass(frozen=True, slots=True)
class Leak:
    """A feature that alone tells the outcome."""

    feature: str
    area: float  # under the ROC curve, from 0.5 to 1
    warning: str


def leaks(log: Log) -> tuple[Leak, ...]:
    """The features of a log that alone tell the outcome: either the area under their ROC curve is
    above 0.98, or the outcome is constant on one side of a threshold, over so many rows that
    chance does not explain it.

    >>> spent = np.arange(200) % 4 == 0
    >>> log = Log(spent[:, None] * 9.5, np.arange(200) % 2, spent, np.ones((200, 1)), ("spend",))
    >>> [leak.warning for leak in leaks(log)]
    ['feature spend alone tells the outcome (area under the ROC curve 1.000)']
    """
    checks.instance("log", log, Log, "a Log")
    rows: slice | np.ndarray = slice(None)
    if log.users > MOST_ROWS:
        rows = np.random.default_rng(SEED).choice(log.users, MOST_ROWS, replace=False)
    outcomes = log.outcomes[rows]
    if log.amounts:  # whether there was any
        outcomes = (outcomes != 0.0).astype(np.float64)
    suspects = []
    for name, values in zip(log.feature_names, log.features[rows].T, strict=True):
        ones, zeros = outcomes_by_value(values, outcomes)
        area = area_under_curve(ones, zeros)
        distance = max(area, 1 - area)
        if distance > MOST_AREA:
            warning = f"feature {name} alone tells the outcome"
            suspects.append(
                Leak(name, distance, f"{warning} (area under the ROC curve {distance:.3f})")
            )
        elif side := constant_side(ones, zeros):
            warning = f"on one side of a threshold of feature {name}, {side}"
            suspects.append(Leak(name, distance, warning))
    return tuple(suspects)


def outcomes_by_value(values: Floats, outcomes: Floats) -> tuple[Floats, Floats]:
    """The sums of the outcomes y and of 1 - y for each distinct value, in ascending order.

    >>> [sums.tolist() for sums in outcomes_by_value(np.array([3, 1, 3.0]), np.array([1, 0, 0.0]))]
    [[0.0, 1.0], [1.0, 1.0]]
    """
    order = np.argsort(values)
    ranked = values[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    ones = np.add.reduceat(outcomes[order], starts)
    return ones, np.diff(starts, append=values.size) - ones


def area_under_curve(ones: Floats, zeros: Floats) -> float:
    """P(value of a 1 > value of a 0) + P(they are equal) / 2; 0.5 where all outcomes are the same.

    >>> area_under_curve(np.array([0.0, 1, 1]), np.array([1.0, 1, 0]))
    0.875
    """
    pairs = float(ones.sum() * zeros.sum())
    below = np.cumsum(zeros) - zeros / 2
    return float(ones @ below) / pairs if pairs else 0.5


def constant_side(ones: Floats, zeros: Floats) -> str | None:
    """What the outcome is in the largest run of values from either end in which it is constant."""
    rows = float(ones.sum() + zeros.sum())
    for name, this, other in (("0", zeros, ones), ("1", ones, zeros)):
        count = max(rows_before(this, other), rows_before(this[::-1], other[::-1]))
        expected = count * float(other.sum()) / rows
        if count >= LEAST_SHARE * this.sum() and expected >= LEAST_EXPECTED:
            return f"the outcome is {name} in all {count:,.0f} rows"
    return None


def rows_before(this: Floats, other: Floats) -> float:
    """How many of these rows come before the first of the others.

    >>> rows_before(np.array([2.0, 3, 1]), np.array([0.0, 1, 1]))
    2.0
    """
    return float(this[np.cumsum(other) == 0].sum())
