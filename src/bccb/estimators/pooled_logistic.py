r"""Pooled Bayesian logistic regression: one model of all arms, which share the base rate.

    logit P(y = 1 | z, k) = w . u(z) + v_k . r(z),    v_0 = 0,    tau_k = P(1 | z, k) - P(1 | z, 0).

u holds each standardised feature twice, cut at +-5 and at +-1, and r once, cut at +-1, so that no
outlier can distort an effect. r also holds the base score w . u, standardised and cut at +-2, to
learn whether users who convert anyway respond less. Both end with a 1. Before the first user,

    w ~ N(0, base_spread^2 / 2d),                intercept ~ N(-3, 4^2),
    v_k ~ N(0, lift_variation^2 / d),            of the base score: N(0, lift_slope^2),
                                                 of the 1: N(lift, lift_spread^2):

a treatment multiplies everybody's odds by about the same factor, until the data say otherwise.
Each evidence (a, b) updates the mean theta and the full covariance S, by the Laplace approximation
of the exact posterior: with phi = (u, r in block k), s = phi' S phi and eta_0 = theta . phi,

    eta = eta_0 + s (a - b sigma(eta)),    h = b sigma'(eta),
    theta <- theta + S phi (a - b sigma(eta)),    S <- S - h / (1 + h s) S phi phi' S.

On which features lifts depend, and how much, is learned, too: see ``pooled_prior``.

The lift in tau_k is raised by ``optimism`` standard errors e of its constant c, and by three times
that where c is not above zero: by optimism max(e, 3 (e - max(c, 0))). A factor common to all users
does not change their order, but a treatment that may have an effect is tried, and one that looks
bad by chance stays in play. The spread of
tau_k is that of its difference from the average effect t_k of the users treated so far,

    spread_k^2 = g' S_kk g,    g = sigma'(at that lift) r - max(tau_k / t_k, 0) mean gradient:

because a factor common to all effects would raise the price as well, and needs no exploration. Nor
does w, which is learned from every user, whatever the action.

A fifth of the users who are left alone convert, and no treated ones. The model expects a small gain
from the treatment at first, and knows about its harm after 500 users:

>>> import numpy as np
>>> state, z, effect = POOLED_LOGISTIC.fresh(d=1), np.array([0.5, 1.0]), np.zeros(1)
>>> predict(state, z, effect, np.zeros(1)), effect.round(3).tolist()
(True, [0.021])
>>> for i in range(500):
...     learn_estimator(state, z, i % 2, float(i % 10 == 0), 1.0)
>>> predict(state, z, effect, np.zeros(1)), effect.round(1).tolist()
(True, [-0.1])
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bccb.estimators.pooled_prior import (
    LAYOUT,
    State,
    forget,
    learn_variances,
    move,
    sound,
    start,
)
from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import bind, jit
from bccb.kernels.linalg import add_scaled_row, fill, quadratic, sigmoid, span_dot
from bccb.kernels.slots import MISFIT
from bccb.types import Floats

FAR, NEAR, NEAR_BASE = 5.0, 1.0, 2.0  # standard deviations at which features are cut
SCALE = 1.5  # gives a feature that is cut at NEAR a standard deviation of about 1
FLAT = 40.0  # beyond +-40, sigma is 0 or 1 to the last digit
DOUBTFUL = 3.0  # times more optimism about a treatment that does not seem to work
FEW = 10  # treated users before an average effect is used
MEMORY = 2_000.0  # users over which averages run
SWEEPS = 20


@jit
def write_features(state: Any, z: Floats, d: int) -> None:
    """Write the d features into u(z) and r(z)."""
    for j in range(d):
        near = min(max(z[j], -NEAR), NEAR)
        state.u[j] = min(max(z[j], -FAR), FAR)
        state.u[d + j] = SCALE * near
        state.r[j] = near


@jit
def write_base(state: Any, d: int) -> float:
    """Write both 1s and, after the features in r(z), the base score w . u; return the latter."""
    state.u[state.u.shape[0] - 1] = state.r[state.r.shape[0] - 1] = 1.0
    base = span_dot(state.theta, 0, state.u)
    state.r[d] = 0.0
    if state.base[2] > 0.0:
        score = (base - state.base[1]) / math.sqrt(state.base[2])
        state.r[d] = min(max(score, -NEAR_BASE), NEAR_BASE)
    return float(base)


@jit
def write_inputs(state: State, z: Floats) -> float:
    """Write u(z) and r(z); return the base score w . u."""
    d = z.shape[0] - 1
    write_features(state, z, d)
    return write_base(state, d)


@jit
def write_lift(state: State, k: int) -> None:
    """Write what r(z) has for treatment k + 1 alone: nothing, here."""


@jit
def raised(estimator: State, constant: int) -> float:
    """What is added to the lifts of a treatment, whose 1 has this weight."""
    error = math.sqrt(max(estimator.covariance[constant, constant], 0.0))
    short = error - max(estimator.theta[constant], 0.0)
    return float(estimator.optimism * max(error, DOUBTFUL * short))


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k, and the spread of its difference from the average effect."""
    base = write_inputs(estimator, z)
    S, r, g = estimator.covariance, estimator.r, estimator.g
    m, q = estimator.u.shape[0], estimator.r.shape[0]
    p_0 = sigmoid(base)
    for k in range(effect.shape[0]):
        at = m + k * q
        write_lift(estimator, k)
        lift = span_dot(estimator.theta, at, r) + raised(estimator, at + q - 1)
        p = sigmoid(base + lift)
        effect[k] = p - p_0
        average, times = estimator.effect[k], 0.0
        if estimator.treated[k] > FEW and average > 0.0:
            times = max(effect[k] / average, 0.0)
        slope = p * (1.0 - p)
        for j in range(q):
            g[j] = slope * r[j] - times * estimator.gradient[k, j]
        spread[k] = math.sqrt(max(quadratic(S, at, g), 0.0))
    return True


@jit
def learn_estimator(estimator: State, z: Floats, arm: int, a: float, b: float) -> None:
    """One Laplace step of the posterior."""
    if estimator.forgetting > 0.0 and b > 0.0:  # a correction is of no new outcome
        forget(estimator)
    base = write_inputs(estimator, z)
    seen = note_base(estimator, base, b)
    theta, S, column = estimator.theta, estimator.covariance, estimator.column
    u, r = estimator.u, estimator.r
    q, at = r.shape[0], u.shape[0] + (arm - 1) * r.shape[0]
    fill(column, 0.0)
    for j in range(u.shape[0]):
        add_scaled_row(column, u[j], S, j)
    eta_0 = base
    if arm > 0:
        write_lift(estimator, arm - 1)
        for j in range(q):
            add_scaled_row(column, r[j], S, at + j)
        eta_0 += span_dot(theta, at, r)
        note_treated(estimator, arm - 1, b, sigmoid(eta_0), sigmoid(base))
    if b == 0.0:
        hold_slopes(S, column, u.shape[0], q)
    s = span_dot(column, 0, u) + (span_dot(column, at, r) if arm > 0 else 0.0)
    p = sigmoid(mode(eta_0, s, a, b))
    h = b * p * (1.0 - p)
    move(theta, S, column, a - b * p, h / (1.0 + h * s))
    learn_variances(estimator, seen)


@jit
def hold_slopes(S: Floats, column: Floats, m: int, q: int) -> None:
    """Let a step leave alone how the lifts depend on the base score.

    For corrections: the base score is not what it was when the outcome was learned. Where many
    orders come back late it has fallen for everybody, and steps along its change would add up to a
    slope that no outcome has shown.
    """
    first = m + (m - 1) // 2
    sweeps = 1 if first + q >= S.shape[0] else SWEEPS  # to hold one slope moves the others a little
    for _ in range(sweeps):
        for place in range(first, S.shape[0], q):
            if S[place, place] > 0.0:  # below by rounding alone
                share = column[place] / S[place, place]
                for i in range(column.shape[0]):
                    column[i] -= share * S[i, place]


@jit
def rate_of(estimator: State, z: Floats, arm: int) -> float:
    """sigma(w . u + v_k . r), at the mean."""
    base, r = write_inputs(estimator, z), estimator.r
    if arm == 0:
        return sigmoid(base)
    write_lift(estimator, arm - 1)
    return sigmoid(base + span_dot(estimator.theta, estimator.u.shape[0] + (arm - 1) * len(r), r))


@jit
def effect_of(estimator: State, z: Floats, k: int, gradient: Floats) -> tuple[float, float]:
    """The effect sigma(w . u + v . r) - sigma(w . u), at the mean, and sigma'(w . u)."""
    theta, m, q = estimator.theta, estimator.u.shape[0], estimator.r.shape[0]
    base, at = write_inputs(estimator, z), m + k * q
    write_lift(estimator, k)
    p_0, p = sigmoid(base), sigmoid(base + span_dot(theta, at, estimator.r))
    slope_0, slope = p_0 * (1.0 - p_0), p * (1.0 - p)
    fill(gradient, 0.0)
    for j in range(m):
        gradient[j] = (slope - slope_0) * estimator.u[j]
    for j in range(q):
        gradient[at + j] = slope * estimator.r[j]
    return p - p_0, slope_0


@jit
def sum_effects(estimator: State, zs: Floats, arms: Floats) -> tuple[float, float, float]:
    """Sum tau, at the mean.

    Its variance is g' S g, with the gradient g in all weights, and that of the error which features
    do not show: without treatment the treated may convert at odds that are off by MISFIT, together.
    Hardly any of them are left alone, so that the lift would take this for its own.
    """
    total, squares, slopes = 0.0, 0.0, 0.0
    gradient, own = np.zeros(estimator.theta.shape[0]), np.empty(estimator.theta.shape[0])
    for i in range(zs.shape[0]):
        effect, slope_0 = effect_of(estimator, zs[i], int(arms[i]) - 1, own)
        for j in range(own.shape[0]):
            gradient[j] += own[j]
        total += effect
        squares += effect**2
        slopes += slope_0
    variance = max(quadratic(estimator.covariance, 0, gradient), 0.0)
    return total, variance + (MISFIT * slopes) ** 2, squares


@jit
def mode(eta_0: float, s: float, a: float, b: float) -> float:
    """The root of eta = eta_0 + s (a - b sigma(eta)), by Newton steps of at most 2."""
    eta = eta_0
    if eta_0 < -FLAT:  # cross the flat part in one step
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
    """Add one more base score, of weight b, to mean and variance; return the weight before it."""
    before = estimator.base[0]
    estimator.base[0] += b
    rate = b / min(estimator.base[0], MEMORY) if b > 0.0 else 0.0
    delta = base - estimator.base[1]
    estimator.base[1] += rate * delta
    estimator.base[2] = (1.0 - rate) * (estimator.base[2] + rate * delta * delta)
    return float(before)


@jit
def note_treated(estimator: State, k: int, b: float, p: float, p_0: float) -> None:
    """Add a user of weight b to the average effect of treatment k + 1, and to its gradient."""
    estimator.treated[k] += b
    rate = b / min(estimator.treated[k], MEMORY) if b > 0.0 else 0.0
    slope = p * (1.0 - p)
    estimator.effect[k] += rate * (p - p_0 - estimator.effect[k])
    for j in range(estimator.r.shape[0]):
        estimator.gradient[k, j] += rate * (slope * estimator.r[j] - estimator.gradient[k, j])


# in this order, because each may call those before it
TEMPLATES = learn_variances, forget, predict, learn_estimator, rate_of, effect_of, sum_effects


def kernels_with(name: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """The kernels of a pooled model with inputs and a prior of its own, which call ``own``.

    These are ``write_inputs``, ``write_lift``, and of the prior ``prior_mean``, ``prior_variance``
    and ``default_variance``.
    """
    kernels = dict(own)
    for template in TEMPLATES:
        kernels[template.__name__] = bind(template, name, kernels)
    return kernels


PARAMETERS = {
    "base_spread": Parameter(
        1.0,
        1e-6,
        1e3,
        "how much features are expected to matter for the base rate, in logits; raise "
        "it for features that nearly determine the outcome",
    ),
    "lift": Parameter(
        0.3,
        -10.0,
        10.0,
        "the expected effect on the logit of a conversion, before any data; 0.3 is a "
        "third more conversions",
    ),
    "lift_spread": Parameter(
        0.3, 1e-6, 1e3, "how far the average lift may be from that, in logits"
    ),
    "lift_variation": Parameter(
        0.1,
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
        1.0,
        1e-6,
        1e9,
        "how firmly the two widths above hold against the data, in weights; a large one keeps them",
    ),
    "optimism": Parameter(
        0.3,
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
}

POOLED_LOGISTIC = Component(
    name="pooled-logistic",
    about="pooled logistic",
    parameters=PARAMETERS,
    layout=LAYOUT,
    start=start,
    sound=sound,
    reads="robust",
    kernels={
        "predict": predict,
        "learn_estimator": learn_estimator,
        "rate_of": rate_of,
        "effect_of": effect_of,
        "sum_effects": sum_effects,
    },
)
