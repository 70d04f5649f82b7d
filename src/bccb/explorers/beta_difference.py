r"""Beta difference (section 4.2): b_k = eta (theta_k - theta_0), a draw from the arms' posteriors.

    theta_a ~ Beta(alpha_a, beta_a),    alpha_a <- alpha_a + y,    beta_a <- beta_a + 1 - y,

from alpha_a = beta_a = 1. With eta = 1 and no estimator this is Thompson sampling.

All scores share -eta theta_0, so that, with m_0 = 0, action a is the best where m_a + eta theta_a
is the largest. Its probability is one integral, f and F being the density and the distribution
function of an arm's posterior:

    P(a) = int f_a(u) prod_{j != a} F_j(u + (m_a - m_j) / eta) du.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.rng import beta, key_of
from bccb.kernels.slots import chance as certain
from bccb.kernels.special import NODES, WEIGHTS, beta_cdf, beta_density
from bccb.types import Floats

PANELS = np.array([-20.0, -8.0, -3.0, -1.0, 0.0, 1.0, 3.0, 8.0, 20.0])  # in standard deviations


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
def _lead(explorer: State, margin: Floats, action: int, j: int) -> float:
    """(m_a - m_j) / eta: with theta_a = u, ``action`` beats j where theta_j < u + lead."""
    m_a = 0.0 if action == 0 else margin[action - 1]
    m_j = 0.0 if j == 0 else margin[j - 1]
    return 0.0 if action == j else float((m_a - m_j) / explorer.eta)


@jit
def _edges(explorer: State, margin: Floats, action: int, edges: Floats) -> None:
    """Panels for the integral over u: fine where f_a has its mass and where an F_j rises."""
    n = PANELS.shape[0]
    for j in range(margin.shape[0] + 1):
        a, b = explorer.alpha[j], explorer.beta[j]
        mean = a / (a + b)
        deviation = math.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
        lead = _lead(explorer, margin, action, j)
        for i in range(n):
            edges[n * j + i] = min(max(mean + PANELS[i] * deviation, 0.0), 1.0) - lead
    low, high = edges[n * action], edges[n * action + n - 1]
    for i in range(edges.shape[0]):
        edges[i] = min(max(edges[i], low), high)
    edges.sort()


@jit
def _beats_others(explorer: State, margin: Floats, action: int, u: float) -> float:
    """The probability that every other action scores less, where theta_a = u."""
    product = 1.0
    for j in range(margin.shape[0] + 1):
        if j != action and (j == 0 or margin[j - 1] > -np.inf):
            x = u + _lead(explorer, margin, action, j)
            product *= beta_cdf(x, explorer.alpha[j], explorer.beta[j])
    return product


@jit
def chance(explorer: State, margin: Floats, spread: Floats, ready: bool, action: int) -> float:
    """P(action), by Gauss-Legendre quadrature."""
    if explorer.eta == 0.0:
        return certain(explorer, margin, spread, ready, action)
    if action > 0 and margin[action - 1] == -np.inf:
        return 0.0
    a, b = explorer.alpha[action], explorer.beta[action]
    edges = np.empty(PANELS.shape[0] * (margin.shape[0] + 1))
    _edges(explorer, margin, action, edges)
    total = 0.0
    for i in range(edges.shape[0] - 1):
        half = 0.5 * (edges[i + 1] - edges[i])
        if half <= 0.0:
            continue
        for q in range(NODES.shape[0]):
            u = edges[i] + half * (1.0 + NODES[q])
            below = _beats_others(explorer, margin, action, u)
            total += half * WEIGHTS[q] * beta_density(u, a, b) * below
    return min(max(total, 0.0), 1.0)


BETA_DIFFERENCE = Component(
    name="beta-difference",
    about="Beta difference",
    parameters={"eta": Parameter(1.0, 0.0)},
    size=lambda d, K: 1 + 2 * (K + 1),
    start=start,
    kernels={
        "view_explorer": view_explorer,
        "explore": explore,
        "learn_explorer": learn_explorer,
        "chance": chance,
    },
)
