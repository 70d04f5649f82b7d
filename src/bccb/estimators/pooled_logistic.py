r"""Pooled Bayesian logistic regression: all arms in one model, with what they share learned once.

    logit P(y = 1 | z, k) = w . u(z) + v_k . r(z),    v_0 = 0,    tau_k = P(1 | z, k) - P(1 | z, 0).

u holds each standardised feature twice, within +-5 and within +-1, and r once, within +-1, so that
no outlier can lead an effect astray. r also holds the base score w . u, standardised and within
+-2: whether those who convert anyway are moved less. Both end with a 1. Before the first user,

    w ~ N(0, base_spread^2 / 2d),                intercept ~ N(-3, 4^2),
    v_k ~ N(0, lift_variation^2 / d),            of the base score: N(0, lift_slope^2),
                                                 of the 1: N(lift, lift_spread^2):

a treatment multiplies everybody's odds by about the same factor, until the data say otherwise.
Mean theta and full covariance S are updated by one evidence (a, b) at a time, by the Laplace
approximation of the exact posterior: with phi = (u, r in block k), s = phi' S phi and
eta_0 = theta . phi,

    eta = eta_0 + s (a - b sigma(eta)),    h = b sigma'(eta),
    theta <- theta + S phi (a - b sigma(eta)),    S <- S - h / (1 + h s) S phi phi' S.

How much lifts vary is learned, too. Every 500 outcomes the prior variance of v, and of the base
score's weight, takes a step of expectation maximisation, the default counting like prior_strength
sets of weights:

    variance <- (prior_strength n default + sum_i theta_i^2 + S_ii) / (prior_strength n + n).

Mean and covariance follow it weight by weight, in a wide model some per outcome to come.

tau_k is told for a lift that is ``optimism`` standard errors of its constant higher: one factor
for all does not change who comes first, but an effect that is not known to be below zero is tried.
Its spread is that of its difference from the average effect t_k of those treated so far,

    spread_k^2 = g' S_kk g,    g = sigma'(at that lift) r - max(tau_k / t_k, 0) mean gradient:

if all effects were larger by one factor the price would be, too, so that the factor need not be
explored. And w is learned from everybody, whatever is done.

With ``forgetting`` f the weights drift: before each outcome theta - prior shrinks by 1 - f, and
S becomes (1 - f)^2 S + (1 - (1 - f)^2) S_0.

A fifth of the users who are left alone convert, and no treated ones. The model expects a small gain
from the treatment at first, and knows about its harm after 500 users:

>>> state, z, effect = POOLED_LOGISTIC.fresh(d=1), np.array([0.5, 1.0]), np.zeros(1)
>>> predict(state, z, effect, np.zeros(1)), effect.round(3).tolist()
(True, [0.036])
>>> for i in range(500):
...     learn_estimator(state, z, i % 2, float(i % 10 == 0), 1.0)
>>> predict(state, z, effect, np.zeros(1)), effect.round(1).tolist()
(True, [-0.1])
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import add_scaled_row, add_to_row, block_quadratic, fill, sigmoid, span_dot
from bccb.kernels.soundness import LARGE, MOST_SEEN, narrowed, within
from bccb.types import Floats

FAR, NEAR, NEAR_BASE = 5.0, 1.0, 2.0  # standard deviations within which a feature counts
SCALE = 1.5  # brings what is kept within NEAR back to about one standard deviation
PRIOR_INTERCEPT, PRIOR_INTERCEPT_SPREAD = -3.0, 4.0  # rates from 0.002 % to 99 %
FLAT = 40.0  # beyond +-40 sigma is 0 or 1 to the last digit
FEW = 10  # treated users before an average effect is taken seriously
MEMORY = 2_000.0  # users over which averages run
EVERY = 500.0  # outcomes between two looks at how much lifts vary
AT_ONCE = 2_000_000  # numbers of the covariance that may be changed for it at one outcome
LEAST_VARIANCE, MOST_WEIGHT = 1e-30, 1e9  # far beyond what any prior leads to


class State(NamedTuple):
    """Posterior of D = m + K q weights, m = 2d + 1, q = d + 2, and some running averages."""

    base_spread: float
    lift: float
    lift_spread: float
    lift_variation: float
    lift_slope: float
    prior_strength: float
    optimism: float
    forgetting: float
    theta: Annotated[Floats, "D"]  # w, then v_1 to v_K
    covariance: Annotated[Floats, "D", "D"]
    variances: Annotated[Floats, "2"]  # the prior's: of features' weights, of the base score's
    step: Annotated[
        Floats, "2"
    ]  # weights that follow them so far, and the precision that each gains
    base: Annotated[Floats, "3"]  # outcomes learned; mean and variance of the base score
    treated: Annotated[Floats, "K"]  # how many
    effect: Annotated[Floats, "K"]  # their average effect
    gradient: Annotated[Floats, "K", "q"]  # and its gradient in v_k
    u: Annotated[Floats, "m"]  # work space
    r: Annotated[Floats, "q"]  # work space
    g: Annotated[Floats, "q"]  # work space
    column: Annotated[Floats, "D"]  # work space


LAYOUT = Layout(State, m="2 * d + 1", q="d + 2", D="m + K * q")


def start(memory: Floats, d: int, K: int) -> None:
    """The prior."""
    state = LAYOUT.view(memory, d, K)
    for group in range(2):
        state.variances[group] = default_variance(state, group)
    state.step[0] = K * (d + 1)
    for i in range(len(state.theta)):
        state.theta[i] = prior_mean(state, i)
        state.covariance[i, i] = prior_variance(state, i)


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether these can be a posterior, and averages over users."""
    state = LAYOUT.view(memory, d, K)
    following = float(state.step[0])
    if not (following.is_integer() and 0.0 <= following <= K * (d + 1)):
        return False
    return (
        within(state.variances, LEAST_VARIANCE, MOST_WEIGHT)
        and within(state.theta, -MOST_WEIGHT, MOST_WEIGHT)
        and within(state.base[:1], 0.0, MOST_SEEN)
        and within(state.base[1:2], -LARGE, LARGE)
        and within(state.base[2:], 0.0, LARGE)
        and within(state.treated, 0.0, MOST_SEEN)
        and within(state.effect, -1.0, 1.0)
        and within(state.gradient, -1.0, 1.0)
        and _narrowed(state, int(following))
    )


def _narrowed(state: State, following: int) -> bool:
    """Whether the covariance is narrower than the prior that each weight follows so far."""
    m, q, K = state.u.shape[0], state.r.shape[0], state.treated.shape[0]
    prior = np.array([prior_variance(state, i) for i in range(len(state.theta))])
    group, end = (0, K * (q - 2)) if following < K * (q - 2) else (1, K * (q - 1))
    if following not in (0, K * (q - 2), K * (q - 1)):  # the rest of a group follows the old one
        precision = 1.0 / state.variances[group] - state.step[1]
        if not 0.0 < precision <= 1.0 / LEAST_VARIANCE:
            return False
        prior[[weight_at(place, m, q, K) for place in range(following, end)]] = 1.0 / precision
    return narrowed(state.covariance, prior)


@jit
def default_variance(state: State, group: int) -> float:
    """The prior variance before the first user of the weights of features, or the base score."""
    d = state.r.shape[0] - 2
    return state.lift_slope**2 if group == 1 else state.lift_variation**2 / max(d, 1)


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
    place = (i - m) % q
    if place == q - 1:
        return state.lift_spread**2
    return float(state.variances[1] if place == q - 2 else state.variances[0])


@jit
def take(state: State, z: Floats) -> float:
    """Write u(z) and r(z); the base score w . u."""
    d = z.shape[0] - 1
    for j in range(d):
        near = min(max(z[j], -NEAR), NEAR)
        state.u[j] = min(max(z[j], -FAR), FAR)
        state.u[d + j] = SCALE * near
        state.r[j] = near
    state.u[2 * d] = 1.0
    base = span_dot(state.theta, 0, state.u)
    state.r[d] = 0.0
    if state.base[2] > 0.0:
        score = (base - state.base[1]) / math.sqrt(state.base[2])
        state.r[d] = min(max(score, -NEAR_BASE), NEAR_BASE)
    state.r[d + 1] = 1.0
    return base


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k, and the spread of its difference from the average effect."""
    base = take(estimator, z)
    S, r, g = estimator.covariance, estimator.r, estimator.g
    m, q = estimator.u.shape[0], estimator.r.shape[0]
    p_0 = sigmoid(base)
    for k in range(effect.shape[0]):
        at = m + k * q
        error = math.sqrt(max(S[at + q - 1, at + q - 1], 0.0))
        p = sigmoid(base + span_dot(estimator.theta, at, r) + estimator.optimism * error)
        effect[k] = p - p_0
        average, times = estimator.effect[k], 0.0
        if estimator.treated[k] > FEW and average > 0.0:
            times = max(effect[k] / average, 0.0)
        slope = p * (1.0 - p)
        for j in range(q):
            g[j] = slope * r[j] - times * estimator.gradient[k, j]
        spread[k] = math.sqrt(max(block_quadratic(S, at, g), 0.0))
    return True


@jit
def learn_estimator(estimator: State, z: Floats, arm: int, a: float, b: float) -> None:
    """One Laplace step of the posterior."""
    if estimator.forgetting > 0.0:
        forget(estimator)
    base = take(estimator, z)
    seen = note_base(estimator, base, b)
    theta, S, column = estimator.theta, estimator.covariance, estimator.column
    u, r = estimator.u, estimator.r
    q, at = r.shape[0], u.shape[0] + (arm - 1) * r.shape[0]
    fill(column, 0.0)
    for j in range(u.shape[0]):
        add_scaled_row(column, u[j], S, j)
    eta_0 = base
    if arm > 0:
        for j in range(q):
            add_scaled_row(column, r[j], S, at + j)
        eta_0 += span_dot(theta, at, r)
        note_treated(estimator, arm - 1, b, sigmoid(eta_0), sigmoid(base))
    s = span_dot(column, 0, u) + (span_dot(column, at, r) if arm > 0 else 0.0)
    p = sigmoid(mode(eta_0, s, a, b))
    h = b * p * (1.0 - p)
    move(theta, S, column, a - b * p, h / (1.0 + h * s))
    if estimator.base[0] // EVERY > seen // EVERY:
        estimator.step[0] = 0.0
    learn_variances(estimator, weights_at_once(estimator))


@jit
def move(theta: Floats, S: Floats, column: Floats, step: float, shrink: float) -> None:
    """Theta <- theta + step column, S <- S - shrink column column'."""
    for i in range(theta.shape[0]):
        theta[i] += step * column[i]
        add_to_row(S, i, -shrink * column[i], column)


@jit
def mode(eta_0: float, s: float, a: float, b: float) -> float:
    """The root of eta = eta_0 + s (a - b sigma(eta)), by Newton steps of at most 2."""
    eta = eta_0
    if eta_0 < -FLAT:  # cross the flat parts at once
        eta = min(eta_0 + s * a, -FLAT)
    elif eta_0 > FLAT:
        eta = max(eta_0 - s * (b - a), FLAT)
    for _ in range(1_000):
        p = sigmoid(eta)
        step = (eta - eta_0 - s * (a - b * p)) / (1.0 + s * b * p * (1.0 - p))
        eta -= min(max(step, -2.0), 2.0)
        if abs(step) < 1e-9:
            break
    return eta


@jit
def note_base(estimator: State, base: float, b: float) -> float:
    """Take one more base score, of weight b, into mean and variance; the weight before it."""
    before = estimator.base[0]
    estimator.base[0] += b
    rate = b / min(estimator.base[0], MEMORY) if b > 0.0 else 0.0
    delta = base - estimator.base[1]
    estimator.base[1] += rate * delta
    estimator.base[2] = (1.0 - rate) * (estimator.base[2] + rate * delta * delta)
    return float(before)


@jit
def note_treated(estimator: State, k: int, b: float, p: float, p_0: float) -> None:
    """Take a user of weight b into the average effect of treatment k + 1, and into its gradient."""
    estimator.treated[k] += b
    rate = b / min(estimator.treated[k], MEMORY) if b > 0.0 else 0.0
    slope = p * (1.0 - p)
    estimator.effect[k] += rate * (p - p_0 - estimator.effect[k])
    for j in range(estimator.r.shape[0]):
        estimator.gradient[k, j] += rate * (slope * estimator.r[j] - estimator.gradient[k, j])


@jit
def learn_variances(estimator: State, most: int) -> None:
    """Let the prior be as wide as the weights are, and the posterior follow it, weight by weight.

    Takes up to ``most`` weights from where the last call stopped. A group's variance is looked at
    when its first weight comes.
    """
    theta, S, column = estimator.theta, estimator.covariance, estimator.column
    m, q, K = estimator.u.shape[0], estimator.r.shape[0], estimator.treated.shape[0]
    weights, begin = K * (q - 1), int(estimator.step[0])
    for place in range(begin, min(begin + most, weights)):
        group = 0 if place < K * (q - 2) else 1
        if place == 0 or place == K * (q - 2):
            variance = learned_variance(estimator, group)
            estimator.step[1] = 1.0 / variance - 1.0 / estimator.variances[group]
            estimator.variances[group] = variance
        i = weight_at(place, m, q, K)
        fill(column, 0.0)
        add_scaled_row(column, 1.0, S, i)
        shrink = estimator.step[1] / (1.0 + estimator.step[1] * column[i])
        move(theta, S, column, -shrink * theta[i], shrink)
        estimator.step[0] = place + 1.0


@jit
def weight_at(place: int, m: int, q: int, K: int) -> int:
    """The weights of features of all treatments in turn, then those of the base score."""
    if place < K * (q - 2):
        return m + place // (q - 2) * q + place % (q - 2)
    return m + (place - K * (q - 2)) * q + q - 2


@jit
def learned_variance(estimator: State, group: int) -> float:
    """One step of expectation maximisation for the weights of features, or the base score's."""
    m, q, K = estimator.u.shape[0], estimator.r.shape[0], estimator.treated.shape[0]
    first, last = (q - 2, q - 1) if group == 1 else (0, q - 2)
    n = float(K * (last - first))
    total = estimator.prior_strength * n * default_variance(estimator, group)
    for k in range(K):
        for i in range(m + k * q + first, m + k * q + last):
            total += estimator.theta[i] ** 2 + estimator.covariance[i, i]
    return float(total / (estimator.prior_strength * n + n))


@jit
def weights_at_once(estimator: State) -> int:
    """How many weights follow the prior per outcome: many of a small model, few of a wide one.

    All have done so before the next look.
    """
    D = estimator.theta.shape[0]
    weights = estimator.treated.shape[0] * (estimator.r.shape[0] - 1)
    return int(max(AT_ONCE // (D * D), weights // EVERY + 1))


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
    about="pooled logistic",
    parameters={
        "base_spread": Parameter(
            1.0,
            1e-6,
            1e3,
            "how much features are expected to matter for the base rate, in logits; raise "
            "it for features that nearly tell the outcome",
        ),
        "lift": Parameter(
            0.3,
            -10.0,
            10.0,
            "the expected effect on the logit of a conversion, before any data; 0.3 is a "
            "third more conversions",
        ),
        "lift_spread": Parameter(
            0.3,
            1e-6,
            1e3,
            "how far the average lift may be from that, in logits",
        ),
        "lift_variation": Parameter(
            0.15,
            1e-6,
            1e3,
            "how much lifts are expected to differ between users, in logits; raise it where "
            "some are surely harmed",
        ),
        "lift_slope": Parameter(
            0.1,
            1e-6,
            1e3,
            "how much the lift may depend on the base rate, in logits; raise it where sure "
            "buyers do not respond",
        ),
        "prior_strength": Parameter(
            5.0,
            1e-6,
            1e9,
            "how firmly the two widths above hold against the data, in sets of weights; a "
            "large one keeps them",
        ),
        "optimism": Parameter(
            1.0,
            0.0,
            10.0,
            "standard errors of the average lift that are added to it; keeps a treatment "
            "that looks bad by chance in play",
        ),
        "forgetting": Parameter(
            0.0,
            0.0,
            0.5,
            "share of what was learned that is forgotten per outcome; 1e-4 follows effects "
            "that change, at a cost of 3 % where none do",
        ),
    },
    layout=LAYOUT,
    start=start,
    sound=sound,
    reads="robust",
    kernels={
        "predict": predict,
        "learn_estimator": learn_estimator,
    },
)
