r"""Beta difference (section 4.2): b_k = eta (theta_k - theta_0), a draw from the arms' posteriors.

    theta_a ~ Beta(alpha_a, beta_a),    alpha_a <- alpha_a + y,    beta_a <- beta_a + 1 - y,

from alpha_a = beta_a = 1. With eta = 1 and no estimator this is Thompson sampling.

The probability of an action is an integral over theta_0, and for a treatment over its own theta
too: given theta_0, the scores s_j = m_j + eta (theta_j - theta_0) are independent, so

    P(0)       = E[ prod_j F_j(theta_0 - m_j / eta) ],
    P(k)       = E[ int f_k(u) 1[s_k > 0] prod_{j != k} F_j(theta_0 + (s_k - m_j) / eta) du ].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bccb.kernels.component import Component
from bccb.kernels.jit import jit
from bccb.kernels.rng import beta, key_of
from bccb.kernels.slots import chance as certain
from bccb.kernels.special import NODES, WEIGHTS, beta_cdf, beta_density
from bccb.types import Floats

PANELS = np.array([-8.0, -3.0, -1.0, 0.0, 1.0, 3.0, 8.0, 20.0])  # in standard deviations


class State(NamedTuple):
    """The weight and the posteriors of the arms' rates."""

    eta: float
    alpha: Floats  # (K+1,)
    beta: Floats  # (K+1,)


def start(memory: Floats, d: int, K: int) -> None:
    """Uniform priors."""
    memory[1 : 1 + 2 * (K + 1)] = 1.0


@jit
def view_explorer(memory: Floats, d: int, K: int) -> State:
    """See the memory as State."""
    A = K + 1
    return State(memory[0], memory[1 : 1 + A], memory[1 + A : 1 + 2 * A])


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
def learn_explorer(explorer: State, arm: int, y: float) -> None:
    """Update the arm's posterior."""
    explorer.alpha[arm] += y
    explorer.beta[arm] += 1.0 - y


@jit
def _edges(a: float, b: float, edges: Floats) -> None:
    """Panels for integrals over Beta(a, b): fine where its mass is, within [0, 1]."""
    mean = a / (a + b)
    deviation = math.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
    for i in range(PANELS.shape[0]):
        edges[i] = min(max(mean + PANELS[i] * deviation, 0.0), 1.0)


@jit
def _others_below(explorer: State, margin: Floats, k: int, theta_0: float, score: float) -> float:
    """The probability, given theta_0, that every treatment but k scores at most ``score``."""
    product = 1.0
    for j in range(margin.shape[0]):
        if j + 1 != k and margin[j] > -np.inf:
            x = theta_0 + (score - margin[j]) / explorer.eta
            product *= beta_cdf(x, explorer.alpha[j + 1], explorer.beta[j + 1])
    return product


@jit
def _wins(explorer: State, margin: Floats, k: int, theta_0: float, edges: Floats) -> float:
    """The probability, given theta_0, that treatment k scores above 0 and above all others."""
    a, b, m = explorer.alpha[k], explorer.beta[k], margin[k - 1]
    least = theta_0 - m / explorer.eta  # s_k > 0 means theta_k > least
    if margin.shape[0] == 1:
        return 1.0 - beta_cdf(least, a, b)
    _edges(a, b, edges)
    total = 0.0
    for i in range(edges.shape[0] - 1):
        low, high = max(edges[i], least), edges[i + 1]
        if high <= low:
            continue
        half = 0.5 * (high - low)
        for q in range(NODES.shape[0]):
            u = low + half * (1.0 + NODES[q])
            below = _others_below(explorer, margin, k, theta_0, m + explorer.eta * (u - theta_0))
            total += half * WEIGHTS[q] * beta_density(u, a, b) * below
    return total


@jit
def chance(explorer: State, margin: Floats, spread: Floats, ready: bool, action: int) -> float:
    """P(action), by Gauss-Legendre quadrature over theta_0."""
    if explorer.eta == 0.0:
        return certain(explorer, margin, spread, ready, action)
    if action > 0 and margin[action - 1] == -np.inf:
        return 0.0
    a, b = explorer.alpha[0], explorer.beta[0]
    edges, inner = np.empty(PANELS.shape[0]), np.empty(PANELS.shape[0])
    _edges(a, b, edges)
    total = 0.0
    for i in range(edges.shape[0] - 1):
        half = 0.5 * (edges[i + 1] - edges[i])
        if half <= 0.0:
            continue
        for q in range(NODES.shape[0]):
            theta_0 = edges[i] + half * (1.0 + NODES[q])
            if action == 0:
                given = _others_below(explorer, margin, 0, theta_0, 0.0)
            else:
                given = _wins(explorer, margin, action, theta_0, inner)
            total += half * WEIGHTS[q] * beta_density(theta_0, a, b) * given
    return min(max(total, 0.0), 1.0)


BETA_DIFFERENCE = Component(
    name="beta-difference",
    about="Beta difference",
    defaults={"eta": 1.0},
    size=lambda d, K: 1 + 2 * (K + 1),
    start=start,
    kernels={
        "view_explorer": view_explorer,
        "explore": explore,
        "learn_explorer": learn_explorer,
        "chance": chance,
    },
)
