r"""Beta difference (section 4.2): b_k = eta (theta_k - theta_0), a draw from the arms' posteriors.

    theta_a ~ Beta(alpha_a, beta_a),    alpha_a <- alpha_a + a,    beta_a <- beta_a + b - a,

for evidence (a, b), from alpha_a = beta_a = 1. With eta = 1 and no estimator this is Thompson
sampling.

All scores share -eta theta_0. So, with m_0 = 0, the best action is the one with the largest
m_a + eta theta_a. Its probability is one integral, where f and F are the density and the
distribution function of an arm's posterior:

    P(a) = int f_a(u) prod_{j != a} F_j(u + (m_a - m_j) / eta) du.

>>> state, zero = BETA_DIFFERENCE.fresh(), np.zeros(1)
>>> round(float(chance(state, zero, zero, True, 1)), 3)  # nothing is known of either arm
0.5
>>> learn_explorer(state, 1, 1.0, 1.0)  # a treated user converts: P(theta_1 > theta_0) = 2/3
>>> round(float(chance(state, zero, zero, True, 1)), 3)
0.667
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from bccb.kernels import quadrature
from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import bind, jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import row_dot
from bccb.kernels.quadrature import ORDER, RUNNING, WEIGHTS, rough
from bccb.kernels.rng import beta, key_of
from bccb.kernels.slots import chance as certain
from bccb.kernels.soundness import within
from bccb.kernels.special import beta_cdf, beta_density, log_beta
from bccb.types import Floats

TAIL = 37.0  # e^-37 is lost in rounding beside 1
MOST_USERS = 1e10  # of an arm: beyond it the quadrature would integrate rounding errors
SHARP = 6.0  # the density of Beta(a, b) falls to 0 at 1 like (1 - x)^(b - 1): below this, abruptly


class State(NamedTuple):
    """The weight and the posteriors of the arms' rates."""

    eta: float
    alpha: Annotated[Floats, "K + 1"]
    beta: Annotated[Floats, "K + 1"]


LAYOUT = Layout(State)


def start(memory: Floats, d: int, K: int) -> None:
    """Uniform priors."""
    state = LAYOUT.view(memory, d, K)
    state.alpha[:] = state.beta[:] = 1.0


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether memory holds posteriors."""
    state = LAYOUT.view(memory, d, K)
    return within(state.alpha, 1.0, MOST_USERS) and within(state.beta, 1.0, MOST_USERS)


@jit
def explore(
    explorer: State, seed: int, number: int, spread: Floats, ready: bool, bonus: Floats
) -> None:
    """b_k = eta (theta_k - theta_0); arm a draws from lane a of the decision."""
    theta_0 = beta(key_of(seed, number, 0), explorer.alpha[0], explorer.beta[0])
    for k in range(bonus.shape[0]):
        key = key_of(seed, number, k + 1)
        bonus[k] = explorer.eta * (beta(key, explorer.alpha[k + 1], explorer.beta[k + 1]) - theta_0)


@jit
def learn_explorer(explorer: State, arm: int, a: float, b: float) -> None:
    """Update the arm's posterior: a conversions among b users."""
    explorer.alpha[arm] += a
    explorer.beta[arm] += b - a


class Scores(NamedTuple):
    """The scores of all actions in units of theta_a: that of action j is theta_j - lead_j."""

    lead: Floats  # (K+1,), (m_a - m_j) / eta
    alpha: Floats
    beta: Floats
    log_norm: Floats  # (K+1,), log B(alpha_j, beta_j)


@jit
def density(scores: Scores, j: int, s: Floats, values: Floats) -> None:
    """f_j"""
    a, b, log_norm = scores.alpha[j], scores.beta[j], scores.log_norm[j]
    for i in range(s.shape[0]):
        values[i] = beta_density(s[i] + scores.lead[j], a, b, log_norm)


@jit
def distribution(
    scores: Scores, j: int, s: Floats, half: float, before: float, values: Floats
) -> tuple[float, float]:
    """F_j: its value before the panel, plus the integral of f_j from there."""
    at_nodes = np.empty(ORDER)
    density(scores, j, s, at_nodes)
    after = before
    for i in range(ORDER):
        after += half * WEIGHTS[i] * at_nodes[i]
        values[i] = min(before + half * row_dot(RUNNING, i, at_nodes), 1.0)
    return min(after, 1.0), half * rough(at_nodes)


@jit
def below(scores: Scores, j: int, s: float) -> float:
    """F_j(s)"""
    return beta_cdf(s + scores.lead[j], scores.alpha[j], scores.beta[j])


largest = bind(
    quadrature.largest,
    "beta-difference",
    {"density": density, "distribution": distribution, "below": below},
)


@jit
def reach(a: float, b: float) -> float:
    """The distance above its mean that a Beta(a, b) exceeds with probability e^-TAIL at most.

    P(X > mean + x) <= exp(-x^2 / 2 (v + c x / 3)) with the variance v and
    c = 2 max(b - a, 0) / (a + b) (a + b + 2): Skorski (2023), Bernstein-type bounds for beta
    distributions.
    """
    n = a + b
    v = a * b / (n * n * (n + 1.0))
    third = TAIL * 2.0 * max(b - a, 0.0) / (3.0 * n * (n + 2.0))
    return third + math.sqrt(third * third + 2.0 * TAIL * v)


@jit
def chance(explorer: State, margin: Floats, spread: Floats, ready: bool, action: int) -> float:
    """P(action), by quadrature."""
    if explorer.eta == 0.0:
        return certain(explorer, margin, spread, ready, action)
    if action > 0 and margin[action - 1] == -np.inf:
        return 0.0
    n = margin.shape[0] + 1
    lead, log_norm, low, high, scale, sharp = np.empty((6, n))
    m_a = 0.0 if action == 0 else margin[action - 1]
    for j in range(n):
        a, b = explorer.alpha[j], explorer.beta[j]
        mean = a / (a + b)
        m_j = 0.0 if j == 0 else margin[j - 1]
        lead[j] = 0.0 if j == action else (m_a - m_j) / explorer.eta
        log_norm[j] = log_beta(a, b)
        scale[j] = math.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
        low[j] = max(mean - reach(b, a), 0.0) - lead[j]
        high[j] = min(mean + reach(a, b), 1.0) - lead[j]
        sharp[j] = 1.0 if b < SHARP else 0.0
    scores = Scores(lead, explorer.alpha, explorer.beta, log_norm)
    return largest(scores, action, 0.0, low, high, scale, sharp)


BETA_DIFFERENCE = Component(
    name="beta-difference",
    about="Beta difference",
    parameters={
        "eta": Parameter(
            1.0,
            0.0,
            1e6,
            "weight of the random draw, in effect per unit of rate; lower it to explore less",
        )
    },
    layout=LAYOUT,
    start=start,
    sound=sound,
    kernels={"explore": explore, "learn_explorer": learn_explorer, "chance": chance},
)
