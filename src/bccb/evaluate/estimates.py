r"""Incremental conversions from a log of decisions with known probabilities, three ways.

With A the action that was taken, p its probability, p_0 that of "leave alone" and Y the outcome:

**What the treatments of the log caused**, the sum of the true effects over its treated users. A
user who was left alone stands for w = (1 - p_0) / p_0 treated ones:

    incremental = sum_{A>0} (Y - m_0) - sum_{A=0} w (Y - m_0)

**What the proposals a > 0 of another policy would cause**, the sum of the true effects over them,
where a proposal depends on the user and on what was seen before, but not on A:

    incremental = sum_{a>0} ( m_a - m_0 + 1[A = a] (Y - m_a) / p - 1[A = 0] (Y - m_0) / p )

The three methods differ in m, the expected rate of a user:

- inverse propensity weights (IPW): m = 0;
- self-normalised (SNIPS): m_a is the weighted mean outcome of the rows with that action, and
  weights are scaled to add up to the number of users they stand for;
- doubly robust (DR): m_a = m_a(x), of a model fitted on earlier rows.

Each term minus the effect it stands for has the mean 0 given all that came before, also where the
log's policy learned as it went, so IPW and DR have no bias and variances add up over rows; SNIPS is
a ratio, whose bias goes to zero with more rows. All are differences of two totals, conversions with
and without treatment. A total S has the variance

    V = sum of w^2 (Y - m)^2 over its rows,

or what the model expects of it if that is more: where large weights are rare, the rows that happen
to have them say too little. Where the chance of the action is known of every row, the expectation
is over all rows, sum of E[w^2] E[(Y - m)^2], whether they were drawn or not. An interval
S ± 1.96 sqrt(V) would be too short just where too few conversions were seen; so V is taken to rise
in proportion to the true total, as Wilson's interval does, and Newcombe's formula makes the 95 %
interval of the difference from those of the totals.

Of amounts of money a model knows the mean alone. Their variance is taken to be that of conversions
which bring a typical amount each (:func:`bccb.outcome.typical_size`), and a total to be one of such
conversions.

What cannot be is cut off, except of amounts: n treated users of whom C converted can owe at most C
of the conversions to the treatment, and at least C - n; n proposals cause from -n to n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bccb.intervals import Total, difference
from bccb.outcome import Kind, typical_size
from bccb.types import Flags, Floats

METHODS = ("IPW", "SNIPS", "DR")
HEADLINE = "DR"  # unbiased as IPW is, and narrower where the model knows anything


@dataclass(frozen=True, slots=True)
class Estimate:
    """Incremental conversions by one method, with a 95 % interval."""

    method: str
    incremental: float
    se: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Weighted:
    """The users of one action, weighted to stand for all users."""

    weights: Floats  # of each row, 0 where the row had another action
    rates: Floats  # m_a(x)
    squares: Floats | None = None  # the expected squared weight of each row, drawn or not, if known


def estimate_treated(
    outcomes: Floats, treated: Flags, control: Weighted, kind: str = Kind.CONVERSION
) -> tuple[Estimate, ...]:
    """What treatments caused; the weights of ``control`` are w in the rows left alone.

    >>> y, treated = np.array([1.0, 1, 0, 1, 0, 0]), np.array([True] * 3 + [False] * 3)
    >>> for estimate in estimate_treated(y, treated, Weighted(1.0 * ~treated, np.full(6, 0.5))):
    ...     print(estimate.method, round(estimate.incremental, 2), round(estimate.se, 2))
    IPW 1.0 1.41
    SNIPS 1.0 1.15
    DR 1.0 1.22
    """
    estimates, conversions = [], float(outcomes[treated].sum())
    typical = typical_size(outcomes, kind)
    for method in METHODS:
        arm, guess = _prepared(method, outcomes, control, int(treated.sum()))
        without = _total(outcomes, arm, guess, float(guess[treated].sum()), typical)
        effect = (conversions - without.value) / float(treated.sum())
        errors = (outcomes - guess - effect)[treated]
        signed = bool((outcomes < 0.0).any())
        observed = Total(conversions, float(errors @ errors), typical, signed)
        estimates.append(_difference(method, observed, without))
    if kind == Kind.AMOUNT:
        return tuple(estimates)
    users = float(treated.sum())
    return tuple(_within(each, conversions - users, conversions) for each in estimates)


def estimate_proposed(
    outcomes: Floats, taken: Weighted, control: Weighted, kind: str = Kind.CONVERSION
) -> tuple[Estimate, ...]:
    """What the proposals for these users would cause; ``taken`` are those that the log followed.

    >>> y, half = np.array([1.0, 1, 0, 1, 0, 0]), np.array([True] * 3 + [False] * 3)
    >>> taken = Weighted(2.0 * half, np.full(6, 0.6))
    >>> control = Weighted(2.0 * ~half, np.full(6, 0.4))
    >>> for estimate in estimate_proposed(y, taken, control):
    ...     print(estimate.method, round(estimate.incremental, 2), round(estimate.se, 2))
    IPW 2.0 3.46
    SNIPS 2.0 2.31
    DR 2.0 2.33
    """
    estimates, typical = [], typical_size(outcomes, kind)
    for method in METHODS:
        totals = []
        for each in (taken, control):
            arm, guess = _prepared(method, outcomes, each, len(outcomes))
            totals.append(_total(outcomes, arm, guess, float(guess.sum()), typical))
        estimates.append(_difference(method, *totals))
    if kind == Kind.AMOUNT:
        return tuple(estimates)
    return tuple(_within(each, -len(outcomes), len(outcomes)) for each in estimates)


def _prepared(method: str, outcomes: Floats, arm: Weighted, users: int) -> tuple[Weighted, Floats]:
    """The arm as a method weights it and its guess of each rate, for rows that stand for users."""
    if method == "DR":
        return arm, arm.rates
    if method == "IPW":
        return arm, np.zeros(len(outcomes))
    total = float(arm.weights.sum())
    mean, scale = float(arm.weights @ outcomes) / total, users / total
    squares = None if arm.squares is None else arm.squares * scale**2
    return Weighted(arm.weights * scale, arm.rates, squares), np.full(len(outcomes), mean)


def _total(outcomes: Floats, arm: Weighted, guess: Floats, guessed: float, typical: float) -> Total:
    rows = np.flatnonzero(arm.weights)
    w, seen = arm.weights[rows], (outcomes - guess)[rows] ** 2
    squares = w * w
    known = arm.rates != 0.0  # the first rows have no model
    m = np.where(known, arm.rates, arm.rates[known].mean() if known.any() else 0.0)
    shape = np.maximum(typical * np.abs(m) - m**2, 0.0) + (m - guess) ** 2
    if arm.squares is not None:
        expected, weight = float(arm.squares @ shape), float(arm.squares.sum() / w.sum())
    else:  # the rows that were drawn stand for all: the model only smooths what was seen
        shape = np.where(known, shape, 0.0)[rows]
        ratio = float(seen[shape > 0].sum() / shape.sum()) if shape.any() else 0.0
        expected, weight = float(squares @ np.where(shape > 0, ratio * shape, seen)), 0.0
    value = guessed + float(w @ (outcomes - guess)[rows])
    weight = max(weight, float(squares.sum() / w.sum()))
    variance, signed = max(float(squares @ seen), expected), bool((outcomes < 0.0).any())
    return Total(value, variance, typical * weight, signed)


def _difference(method: str, treated: Total, control: Total) -> Estimate:
    interval, se = difference(treated, control), math.sqrt(treated.variance + control.variance)
    return Estimate(method, interval.value, se, interval.low, interval.high)


def _within(estimate: Estimate, least: float, most: float) -> Estimate:
    """The estimate cut to what is possible."""
    value, low, high = np.clip((estimate.incremental, estimate.low, estimate.high), least, most)
    return replace(estimate, incremental=float(value), low=float(low), high=float(high))


def effective_size(weights: Floats) -> float:
    """Kish's effective sample size, (sum w)^2 / sum w^2; 0 where all weights are 0.

    >>> effective_size(np.array([1.0, 1.0, 0.0])), round(effective_size(np.array([9.0, 1, 1])), 2)
    (2.0, 1.46)
    """
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares else 0.0
