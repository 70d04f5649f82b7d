r"""The prior of the pooled logistic regression, and how the posterior follows it.

Who responds usually depends on few features, and nobody knows on which. So each weight v of r(z),
except that of the 1, has a prior variance of its own, which is learned: every 100 outcomes or more
it takes a step of expectation maximisation, where the default counts like prior_strength weights:

    variance_i <- (prior_strength default_i + theta_i^2 + S_ii) / (prior_strength + 1).

A weight without evidence stays near zero, and one with evidence is soon free to grow, as under a
prior with heavy tails (Student's t; MacKay 1994 and Tipping 2001 call it automatic relevance
determination). Mean and covariance follow the new prior weight by weight; in a wide model only
some per outcome.

With ``forgetting`` f the weights drift: before each outcome theta - prior shrinks by 1 - f, and
S becomes (1 - f)^2 S + (1 - (1 - f)^2) S_0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import add_scaled_row, add_to_row, fill
from bccb.kernels.soundness import LARGE, MOST_SEEN, narrowed, within
from bccb.types import Floats

PRIOR_INTERCEPT, PRIOR_INTERCEPT_SPREAD = -3.0, 4.0  # rates from 0.002 % to 99 %
EVERY, MOST_EVERY = 100.0, 500.0  # outcomes between two updates of the prior variances
PER_WEIGHT = 8.0  # such outcomes for each weight, so that updates cost little beside learning
AT_ONCE = 2_000_000  # numbers of the covariance that such an update may change per outcome
LEAST_VARIANCE, MOST_WEIGHT = 1e-30, 1e9  # far beyond what any prior leads to


class State(NamedTuple):
    """Posterior of D = m + K q weights, with m = 2d + 1 and q = d + 2, and running averages."""

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
    variances: Annotated[Floats, "K", "q - 1"]  # the prior's
    step: Annotated[Floats, "1"]  # how many weights have followed their newest update so far
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
    begin(LAYOUT.view(memory, d, K), PRIOR)


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether memory holds a posterior, and averages over users."""
    return is_sound(LAYOUT.view(memory, d, K), PRIOR)


def begin(state: Any, prior: Prior) -> None:
    """Write the prior."""
    for place in range(len(state.r) - 1):
        state.variances[:, place] = prior.default(state, place)
    state.step[0] = state.variances.size
    for i in range(len(state.theta)):
        state.theta[i] = prior.mean(state, i)
        state.covariance[i, i] = prior.variance(state, i)


def is_sound(state: Any, prior: Prior) -> bool:
    """Whether this can be a posterior, and averages over users."""
    following = float(state.step[0])
    if not (following.is_integer() and 0.0 <= following <= state.variances.size):
        return False
    if not within(state.variances, LEAST_VARIANCE, MOST_WEIGHT):
        return False
    variance = np.array([prior.variance(state, i) for i in range(len(state.theta))])
    return (
        within(state.theta, -MOST_WEIGHT, MOST_WEIGHT)
        and within(state.base[:1], 0.0, MOST_SEEN)
        and within(state.base[1:2], -LARGE, LARGE)
        and within(state.base[2:], 0.0, LARGE)
        and within(state.treated, 0.0, MOST_SEEN)
        and within(state.effect, -1.0, 1.0)
        and within(state.gradient, -1.0, 1.0)
        and narrowed(state.covariance, variance)
    )


@jit
def default_variance(state: Any, place: int) -> float:
    """The first prior variance of the weight at a place of r(z): a feature, or the base score."""
    d = state.r.shape[0] - 2
    return float(state.lift_slope**2 if place == d else state.lift_variation**2 / d)


@jit
def prior_mean(state: Any, i: int) -> float:
    """The prior mean of weight i."""
    m, q = state.u.shape[0], state.r.shape[0]
    if i < m:
        return PRIOR_INTERCEPT if i == m - 1 else 0.0
    return float(state.lift if (i - m) % q == q - 1 else 0.0)


@jit
def prior_variance(state: Any, i: int) -> float:
    """The prior variance of weight i."""
    m, q = state.u.shape[0], state.r.shape[0]
    if i < m:
        d = (m - 1) // 2
        return float(PRIOR_INTERCEPT_SPREAD**2 if i == m - 1 else state.base_spread**2 / (2 * d))
    k, place = (i - m) // q, (i - m) % q
    return float(state.lift_spread**2 if place == q - 1 else state.variances[k, place])


class Prior(NamedTuple):
    """The prior of a pooled model: kernels of its state."""

    mean: Callable[[Any, int], float]  # of weight i
    variance: Callable[[Any, int], float]  # of weight i
    default: Callable[[Any, int], float]  # the first variance at a place of r


PRIOR = Prior(prior_mean, prior_variance, default_variance)


@jit
def move(theta: Floats, S: Floats, column: Floats, step: float, shrink: float) -> None:
    """Theta <- theta + step column, S <- S - shrink column column'."""
    for i in range(theta.shape[0]):
        theta[i] += step * column[i]
        add_to_row(S, i, -shrink * column[i], column)


@jit
def outcomes_between(estimator: State) -> float:
    """How many outcomes there are between two updates of the prior variances."""
    return float(min(max(EVERY, PER_WEIGHT * estimator.variances.size), MOST_EVERY))


@jit
def learn_variances(estimator: State, seen: float) -> None:
    """Fit the prior variances to the weights; the posterior follows, weight by weight.

    ``seen`` is the number of outcomes before the last one. An update begins where enough came since
    the one before; it continues with some weights per call where the last call stopped.
    """
    theta, S, column = estimator.theta, estimator.covariance, estimator.column
    m, q, every = estimator.u.shape[0], estimator.r.shape[0], outcomes_between(estimator)
    if math.floor(estimator.base[0] / every) > math.floor(seen / every):
        estimator.step[0] = 0.0
    begin = int(estimator.step[0])
    end = min(begin + weights_at_once(estimator), estimator.variances.size)
    for which in range(begin, end):
        k, place = which // (q - 1), which % (q - 1)
        i, strength = m + k * q + place, estimator.prior_strength
        default = default_variance(estimator, place)
        variance = (strength * default + theta[i] ** 2 + S[i, i]) / (strength + 1.0)
        gained = 1.0 / variance - 1.0 / estimator.variances[k, place]
        estimator.variances[k, place] = variance
        fill(column, 0.0)
        add_scaled_row(column, 1.0, S, i)
        shrink = gained / (1.0 + gained * column[i])
        move(theta, S, column, -shrink * theta[i], shrink)
    estimator.step[0] = max(begin, end)


@jit
def weights_at_once(estimator: State) -> int:
    """How many weights follow the prior per outcome: many of a small model, few of a wide one.

    All of them have followed before the next update.
    """
    D, weights = estimator.theta.shape[0], estimator.variances.size
    return int(max(AT_ONCE // (D * D), weights // outcomes_between(estimator) + 1))


@jit
def forget(estimator: State) -> None:
    """Move mean and covariance a little towards the prior."""
    keep = 1.0 - estimator.forgetting
    theta, S = estimator.theta, estimator.covariance
    for i in range(theta.shape[0]):
        mean = prior_mean(estimator, i)
        theta[i] = mean + keep * (theta[i] - mean)
        for j in range(theta.shape[0]):
            S[i, j] *= keep * keep
        S[i, i] += (1.0 - keep * keep) * prior_variance(estimator, i)
