r"""Posterior sampling: b_k ~ N(0, (width spread_k)^2), a draw from the uncertainty of the effect.

A single treatment is given if m + b > 0, with probability Phi(m / s), s = width spread. Of several,

    P(0) = prod_j Phi(-m_j / s_j),
    P(k) = int_{m_k + s_k t > 0} phi(t) prod_{j != k} Phi((m_k + s_k t - m_j) / s_j) dt.

A share ``reserve`` of the decisions is made at random. They treat at a rate that spends the budget
evenly, but at most every second user. So every user is left alone with a probability of at least
reserve / 2, and the log shows what its own treatments caused. Every user is treated with a
probability of about reserve x (money per user to come) / cost, which is low where money is scarce.
While a cost cap binds, up to nine in ten of the cheapest users are treated at random instead.

A treatment one standard error above the price is given with probability Phi(1):

>>> state, one = POSTERIOR_SAMPLING.fresh(width=1.0), np.ones(1)
>>> round(chance(state, one, one, True, 1), 3), float(reserve(state))
(0.841, 0.01)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bccb.kernels import quadrature
from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import bind, jit
from bccb.kernels.layout import Layout
from bccb.kernels.rng import key_of, normal
from bccb.kernels.special import normal_cdf
from bccb.types import Floats

TAIL = 8.5  # standard deviations beyond which the probability is lost in rounding
DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
LEAST = 1e-100  # of a deviation


class State(NamedTuple):
    """The share of the spread that is drawn from, and of decisions made at random."""

    width: float
    reserve: float


LAYOUT = Layout(State)


@jit
def deviation_of(explorer: State, spread: float) -> float:
    """Width x spread, or 0 where it is so small that ratios would overflow."""
    deviation = explorer.width * spread
    return deviation if deviation > LEAST else 0.0


@jit
def explore(
    explorer: State, seed: int, number: int, spread: Floats, ready: bool, bonus: Floats
) -> None:
    """b_k = width spread_k e_k; treatment k draws from lane k of the decision."""
    for k in range(bonus.shape[0]):
        drawn, _ = normal(key_of(seed, number, k + 1), 0)
        bonus[k] = deviation_of(explorer, spread[k]) * drawn


@jit
def reserve(explorer: State) -> float:
    """The share of decisions made at random."""
    return explorer.reserve


@jit
def _below(x: float, s: float) -> float:
    """P(s e < x) for e ~ N(0, 1); a draw without spread is 0."""
    if s > 0.0:
        return normal_cdf(x / s)
    return 1.0 if x > 0.0 else 0.0


@jit
def _ahead(explorer: State, margin: Floats, spread: Floats, action: int, score: float) -> float:
    """The probability that all other treatments score less than ``score``."""
    product = 1.0
    for j in range(margin.shape[0]):
        if j != action - 1 and margin[j] > -np.inf:
            s = deviation_of(explorer, spread[j])
            tied = s == 0.0 and margin[j] == score and j > action - 1
            product *= 1.0 if tied else _below(score - margin[j], s)
    return product


class Scores(NamedTuple):
    """The scores of all treatments in units of that of one: N(mean_j, deviation_j^2)."""

    mean: Floats  # (K,)
    deviation: Floats  # (K,)


@jit
def density(scores: Scores, j: int, s: Floats, values: Floats) -> None:
    """phi, the density of the treatment in whose units the scores are."""
    for i in range(s.shape[0]):
        values[i] = DENSITY * math.exp(-0.5 * s[i] * s[i])


@jit
def below(scores: Scores, j: int, s: float) -> float:
    """P(score j < s)"""
    return _below(s - scores.mean[j], scores.deviation[j])


@jit
def distribution(
    scores: Scores, j: int, s: Floats, half: float, before: float, values: Floats
) -> tuple[float, float]:
    """The normal distribution function."""
    for i in range(s.shape[0]):
        values[i] = below(scores, j, s[i])
    return 1.0, 0.0  # the value at the right end is not used


largest = bind(
    quadrature.largest,
    "posterior-sampling",
    {"density": density, "distribution": distribution, "below": below},
)


@jit
def _integral(explorer: State, margin: Floats, spread: Floats, action: int) -> float:
    """P(treatment ``action`` scores more than all others, and more than 0)."""
    K, m, s = margin.shape[0], margin[action - 1], deviation_of(explorer, spread[action - 1])
    mean, deviation, low, high, sharp = np.zeros((5, K))
    for j in range(K):
        mean[j] = (margin[j] - m) / s
        deviation[j] = deviation_of(explorer, spread[j]) / s
        low[j] = mean[j] - TAIL * deviation[j]
        high[j] = mean[j] + TAIL * deviation[j]
    scores = Scores(mean, deviation)
    return largest(scores, action - 1, -m / s, low, high, deviation, sharp)


@jit
def chance(explorer: State, margin: Floats, spread: Floats, ready: bool, action: int) -> float:
    """P(action): in closed form, except for one of several treatments, by quadrature."""
    if action == 0:
        none = 1.0
        for j in range(margin.shape[0]):
            if margin[j] > -np.inf:
                s = deviation_of(explorer, spread[j])
                above = 1.0 if margin[j] > 0.0 else 0.0
                none *= normal_cdf(-margin[j] / s) if s > 0.0 else 1.0 - above
        return none
    m, s = margin[action - 1], deviation_of(explorer, spread[action - 1])
    if m == -np.inf:
        return 0.0
    if margin.shape[0] == 1:
        return _below(m, s)
    if s == 0.0:
        return _ahead(explorer, margin, spread, action, m) if m > 0.0 else 0.0
    return _integral(explorer, margin, spread, action)


POSTERIOR_SAMPLING = Component(
    name="posterior-sampling",
    about="posterior sampling",
    parameters={
        "width": Parameter(
            0.25,
            0.0,
            100.0,
            "share of the model's own uncertainty that decisions are drawn from; raise it "
            "where effects surely differ between users",
        ),
        "reserve": Parameter(
            0.01,
            0.0,
            1.0,
            "share of decisions drawn at random, which is what later measures the effect; "
            "raise it for a narrower measured interval",
        ),
    },
    layout=LAYOUT,
    kernels={"explore": explore, "reserve": reserve, "chance": chance},
)
