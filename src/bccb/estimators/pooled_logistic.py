r"""Pooled Bayesian logistic regression: all arms in one model, with what they share learned once.

    logit P(y = 1 | z, k) = w . u(z) + v_k . r(z),    v_0 = 0,    tau_k = P(1 | z, k) - P(1 | z, 0).

u holds each standardised feature twice, within +-5 and within +-1, and r once, within +-1, so that
no outlier can lead an effect astray; both end with a 1. Before the first user, with d features,

    w ~ N(0, base_spread^2 / 2d),    intercept ~ N(-3, 4^2),
    v_k ~ N(0, lift_variation^2 / d),    its constant ~ N(lift, lift_spread^2):

a treatment multiplies everybody's odds by about the same factor, until the data say otherwise.
Mean theta and full covariance S are updated one outcome at a time, by the Laplace approximation
of the exact posterior: with phi = (u, r in block k), s = phi' S phi and eta_0 = theta . phi,

    eta = eta_0 + s (y - sigma(eta)),    h = sigma'(eta),
    theta <- theta + S phi (y - sigma(eta)),    S <- S - h / (1 + h s) S phi phi' S.

The spread of tau_k is that of its difference from the average effect t_k of those treated so far:

    spread_k^2 = g' S_kk g,    g = sigma'(w . u + v_k . r) r - max(tau_k / t_k, 0) mean gradient.

If all effects were larger by one factor the price would be, too, and nothing else would be done:
that factor need not be explored. And w is learned from everybody, whatever is done.

With ``forgetting`` f the weights drift: before each outcome theta - prior shrinks by 1 - f, and
S becomes (1 - f)^2 S + (1 - (1 - f)^2) S_0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.linalg import add_scaled_row, block_quadratic, fill, sigmoid, span_dot
from bccb.types import Floats

FAR, NEAR = 5.0, 1.0  # standard deviations within which a feature counts
SCALE = 1.5  # brings what is kept within NEAR back to about one standard deviation
PRIOR_INTERCEPT, PRIOR_INTERCEPT_SPREAD = -3.0, 4.0  # rates from 0.002 % to 99 %
FLAT = 40.0  # beyond +-40 sigma is 0 or 1 to the last digit
FEW = 10  # treated users before an average effect is taken seriously
MEMORY = 2_000.0  # treated users over which it is averaged
PARAMETERS = 5


class State(NamedTuple):
    """Posterior, D = 2d + 1 + K (d + 1) weights, and the average effect of those treated."""

    base_spread: float
    lift: float
    lift_spread: float
    lift_variation: float
    forgetting: float
    theta: Floats  # (D,), w, then v_1 to v_K
    covariance: Floats  # (D, D)
    treated: Floats  # (K,), how many
    effect: Floats  # (K,), their average effect
    gradient: Floats  # (K, d+1), and its gradient in v_k
    u: Floats  # (2d+1,), work space
    r: Floats  # (d+1,), work space
    column: Floats  # (D,), work space


def size(d: int, K: int) -> int:
    """The number of slots."""
    m, q = 2 * d + 1, d + 1
    D = m + K * q
    return PARAMETERS + D + D * D + 2 * K + K * q + m + q + D


def start(memory: Floats, d: int, K: int) -> None:
    """The prior."""
    state = view_estimator(memory, d, K)
    for i in range(len(state.theta)):
        state.theta[i] = prior_mean(state, i)
        state.covariance[i, i] = prior_variance(state, i)


@jit
def view_estimator(memory: Floats, d: int, K: int) -> State:
    """See the memory as State."""
    m, q = 2 * d + 1, d + 1
    D = m + K * q
    a = PARAMETERS + D
    b = a + D * D
    c = b + 2 * K
    e = c + K * q
    return State(
        memory[0],
        memory[1],
        memory[2],
        memory[3],
        memory[4],
        memory[PARAMETERS:a],
        memory[a:b].reshape(D, D),
        memory[b : b + K],
        memory[b + K : c],
        memory[c:e].reshape(K, q),
        memory[e : e + m],
        memory[e + m : e + m + q],
        memory[e + m + q : e + m + q + D],
    )


@jit
def prior_mean(state: State, i: int) -> float:
    """The prior mean of weight i."""
    m, q = state.u.shape[0], state.r.shape[0]
    if i < m:
        return PRIOR_INTERCEPT if i == m - 1 else 0.0
    return state.lift if (i - m) % q == q - 1 else 0.0


@jit
def prior_variance(state: State, i: int) -> float:
    """The prior variance of weight i."""
    m, q = state.u.shape[0], state.r.shape[0]
    if i < m:
        return PRIOR_INTERCEPT_SPREAD**2 if i == m - 1 else state.base_spread**2 / (m - 1)
    constant = (i - m) % q == q - 1
    return state.lift_spread**2 if constant else state.lift_variation**2 / (q - 1)


@jit
def take(state: State, z: Floats) -> None:
    """Write u(z) and r(z)."""
    d = z.shape[0] - 1
    for j in range(d):
        near = min(max(z[j], -NEAR), NEAR)
        state.u[j] = min(max(z[j], -FAR), FAR)
        state.u[d + j] = SCALE * near
        state.r[j] = near
    state.u[2 * d] = 1.0
    state.r[d] = 1.0


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k, and the spread of its difference from the average effect."""
    take(estimator, z)
    r, g = estimator.r, estimator.column
    m, q = estimator.u.shape[0], estimator.r.shape[0]
    base = span_dot(estimator.theta, 0, estimator.u)
    p_0 = sigmoid(base)
    for k in range(effect.shape[0]):
        at = m + k * q
        p = sigmoid(base + span_dot(estimator.theta, at, r))
        effect[k] = p - p_0
        average, times = estimator.effect[k], 0.0
        if estimator.treated[k] > FEW and average > 0.0:
            times = max(effect[k] / average, 0.0)
        slope = p * (1.0 - p)
        for j in range(q):
            g[j] = slope * r[j] - times * estimator.gradient[k, j]
        spread[k] = math.sqrt(max(block_quadratic(estimator.covariance, at, g, q), 0.0))
    return True


@jit
def learn_estimator(estimator: State, z: Floats, arm: int, y: float) -> None:
    """One Laplace step of the posterior."""
    take(estimator, z)
    if estimator.forgetting > 0.0:
        forget(estimator)
    theta, S, column = estimator.theta, estimator.covariance, estimator.column
    u, r = estimator.u, estimator.r
    m, q, at = u.shape[0], r.shape[0], u.shape[0] + (arm - 1) * r.shape[0]
    fill(column, 0.0)
    for j in range(m):
        add_scaled_row(column, u[j], S, j)
    base = span_dot(theta, 0, u)
    eta_0 = base
    if arm > 0:
        for j in range(q):
            add_scaled_row(column, r[j], S, at + j)
        eta_0 += span_dot(theta, at, r)
        note_treated(estimator, arm - 1, sigmoid(eta_0), sigmoid(base))
    s = span_dot(column, 0, u) + (span_dot(column, at, r) if arm > 0 else 0.0)
    p = sigmoid(mode(eta_0, s, y))
    h = p * (1.0 - p)
    shrink = h / (1.0 + h * s)
    for i in range(theta.shape[0]):
        theta[i] += column[i] * (y - p)
        weight = -shrink * column[i]
        for j in range(theta.shape[0]):
            S[i, j] += weight * column[j]


@jit
def mode(eta_0: float, s: float, y: float) -> float:
    """The root of eta = eta_0 + s (y - sigma(eta)), by Newton steps of at most 2."""
    eta = eta_0
    if eta_0 < -FLAT:  # cross the flat parts at once
        eta = min(eta_0 + s * y, -FLAT)
    elif eta_0 > FLAT:
        eta = max(eta_0 - s * (1.0 - y), FLAT)
    for _ in range(1_000):
        p = sigmoid(eta)
        step = (eta - eta_0 - s * (y - p)) / (1.0 + s * p * (1.0 - p))
        eta -= min(max(step, -2.0), 2.0)
        if abs(step) < 1e-9:
            break
    return eta


@jit
def note_treated(estimator: State, k: int, p: float, p_0: float) -> None:
    """Take one more user into the average effect of treatment k + 1, and into its gradient."""
    estimator.treated[k] += 1.0
    rate = 1.0 / min(estimator.treated[k], MEMORY)
    slope = p * (1.0 - p)
    estimator.effect[k] += rate * (p - p_0 - estimator.effect[k])
    for j in range(estimator.r.shape[0]):
        estimator.gradient[k, j] += rate * (slope * estimator.r[j] - estimator.gradient[k, j])


@jit
def forget(estimator: State) -> None:
    """Move mean and covariance a little way back to the prior."""
    keep = 1.0 - estimator.forgetting
    theta, S = estimator.theta, estimator.covariance
    for i in range(theta.shape[0]):
        mean = prior_mean(estimator, i)
        theta[i] = mean + keep * (theta[i] - mean)
        for j in range(theta.shape[0]):
            S[i, j] *= keep * keep
        S[i, i] += (1.0 - keep * keep) * prior_variance(estimator, i)


POOLED_LOGISTIC = Component(
    name="pooled-logistic",
    about="pooled Bayesian logistic",
    parameters={
        "base_spread": Parameter(1.0, 1e-6, 1e3),
        "lift": Parameter(0.3, -10.0, 10.0),
        "lift_spread": Parameter(0.3, 1e-6, 1e3),
        "lift_variation": Parameter(0.2, 1e-6, 1e3),
        "forgetting": Parameter(0.0, 0.0, 0.5),
    },
    size=size,
    start=start,
    reads="robust",
    kernels={
        "view_estimator": view_estimator,
        "predict": predict,
        "learn_estimator": learn_estimator,
    },
)
