r"""Posterior sampling: b_k ~ N(0, (width spread_k)^2), a draw from what is not known of the effect.

One treatment is given where m + b > 0, with probability Phi(m / s), s = width spread. Of several,

    P(0) = prod_j Phi(-m_j / s_j),
    P(k) = int_{m_k + s_k t > 0} phi(t) prod_{j != k} Phi((m_k + s_k t - m_j) / s_j) dt.

A share ``reserve`` of the decisions is drawn at random, treatments at a rate that spends the budget
evenly, but to every other user at most. So everybody is left alone with probability reserve / 2 or
more, and the log can tell what its own treatments caused. Treated is everybody with probability
reserve x (money per user to come) / cost: where money is scarce that is little.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.rng import key_of, normal
from bccb.kernels.special import NODES, WEIGHTS, normal_cdf
from bccb.types import Floats

PANELS = np.array([-9.0, -6.0, -4.0, -2.5, -1.0, 0.0, 1.0, 2.5, 4.0, 6.0, 9.0])
DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


class State(NamedTuple):
    """How much of the spread is drawn from, and the share of decisions at random."""

    width: float
    reserve: float


@jit
def view_explorer(memory: Floats, d: int, K: int) -> State:
    """See the memory as State."""
    return State(memory[0], memory[1])


@jit
def explore(
    explorer: State, seed: int, number: int, spread: Floats, ready: bool, bonus: Floats
) -> None:
    """b_k = width spread_k e_k; treatment k draws from lane k of the decision."""
    for k in range(bonus.shape[0]):
        drawn, _ = normal(key_of(seed, number, k + 1), 0)
        bonus[k] = explorer.width * spread[k] * drawn


@jit
def reserve(explorer: State) -> float:
    """The share of decisions at random."""
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
            s = explorer.width * spread[j]
            tied = s == 0.0 and margin[j] == score and j > action - 1
            product *= 1.0 if tied else _below(score - margin[j], s)
    return product


@jit
def _edges(explorer: State, margin: Floats, spread: Floats, action: int, edges: Floats) -> None:
    """Panels for the integral over t: fine where phi has its mass and where a factor rises."""
    n, m, s = PANELS.shape[0], margin[action - 1], explorer.width * spread[action - 1]
    for j in range(margin.shape[0]):
        own = j == action - 1
        middle = 0.0 if own else (margin[j] - m) / s
        scale = 1.0 if own else explorer.width * spread[j] / s
        for i in range(n):
            known = margin[j] > -np.inf
            edges[n * j + i] = middle + PANELS[i] * scale if known else 0.0
    low = max(-m / s, PANELS[0])
    for i in range(edges.shape[0]):
        edges[i] = min(max(edges[i], low), max(PANELS[n - 1], low))
    edges.sort()


@jit
def _integral(explorer: State, margin: Floats, spread: Floats, action: int) -> float:
    m, s = margin[action - 1], explorer.width * spread[action - 1]
    edges = np.empty(PANELS.shape[0] * margin.shape[0])
    _edges(explorer, margin, spread, action, edges)
    total = 0.0
    for i in range(edges.shape[0] - 1):
        half = 0.5 * (edges[i + 1] - edges[i])
        if half <= 0.0:
            continue
        for q in range(NODES.shape[0]):
            t = edges[i] + half * (1.0 + NODES[q])
            density = DENSITY * math.exp(-0.5 * t * t)
            ahead = _ahead(explorer, margin, spread, action, m + s * t)
            total += half * WEIGHTS[q] * density * ahead
    return total


@jit
def chance(explorer: State, margin: Floats, spread: Floats, ready: bool, action: int) -> float:
    """P(action): in closed form but for one of several treatments, which takes a quadrature."""
    if action == 0:
        none = 1.0
        for j in range(margin.shape[0]):
            if margin[j] > -np.inf:
                s = explorer.width * spread[j]
                above = 1.0 if margin[j] > 0.0 else 0.0
                none *= normal_cdf(-margin[j] / s) if s > 0.0 else 1.0 - above
        return none
    m, s = margin[action - 1], explorer.width * spread[action - 1]
    if m == -np.inf:
        return 0.0
    if margin.shape[0] == 1:
        return _below(m, s)
    if s == 0.0:
        return _ahead(explorer, margin, spread, action, m) if m > 0.0 else 0.0
    return min(max(_integral(explorer, margin, spread, action), 0.0), 1.0)


POSTERIOR_SAMPLING = Component(
    name="posterior-sampling",
    about="posterior sampling",
    parameters={"width": Parameter(0.25, 0.0, 100.0), "reserve": Parameter(0.01, 0.0, 1.0)},
    size=lambda d, K: 2,
    kernels={
        "view_explorer": view_explorer,
        "explore": explore,
        "reserve": reserve,
        "chance": chance,
    },
)
