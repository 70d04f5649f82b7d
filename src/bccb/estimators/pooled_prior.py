r"""The prior of the pooled logistic regression, and how the posterior follows it.

The weights v of r(z) are in groups, each with a prior variance: those of features, then those of
each score that stands before the 1 at the end.

How much lifts vary is learned. Every 500 outcomes, the prior variances of the weights v of
features and of the base score take a step of expectation maximisation, in which the default counts
like prior_strength sets of weights:

    variance <- (prior_strength n default + sum_i theta_i^2 + S_ii) / (prior_strength n + n).

Mean and covariance follow the new prior weight by weight; in a wide model only some per outcome.

With ``forgetting`` f the weights drift: before each outcome theta - prior shrinks by 1 - f, and
S becomes (1 - f)^2 S + (1 - (1 - f)^2) S_0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import add_scaled_row, add_to_row, fill
from bccb.kernels.soundness import LARGE, MOST_SEEN, narrowed, within
from bccb.types import Floats

PRIOR_INTERCEPT, PRIOR_INTERCEPT_SPREAD = -3.0, 4.0  # rates from 0.002 % to 99 %
EVERY = 500.0  # outcomes between two updates of the prior variances
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
    variances: Annotated[Floats, "2"]  # the prior's: of features' weights, of the base score's
    step: Annotated[Floats, "2"]  # weights that follow them so far, and the precision each gains
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
    for group in range(len(state.variances)):
        state.variances[group] = prior.default(state, group)
    state.step[0] = len(state.treated) * (len(state.r) - 1)
    for i in range(len(state.theta)):
        state.theta[i] = prior.mean(state, i)
        state.covariance[i, i] = prior.variance(state, i)


def is_sound(state: Any, prior: Prior) -> bool:
    """Whether this can be a posterior, and averages over users."""
    following = float(state.step[0])
    most = len(state.treated) * (len(state.r) - 1)
    if not (following.is_integer() and 0.0 <= following <= most):
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
        and _narrowed(state, int(following), prior)
    )


def _narrowed(state: Any, following: int, prior: Prior) -> bool:
    """Whether the covariance is narrower than the prior that each weight has followed so far."""
    m, q, K = state.u.shape[0], state.r.shape[0], state.treated.shape[0]
    G = len(state.variances)
    variance = np.array([prior.variance(state, i) for i in range(len(state.theta))])
    ends = [K * (q - G + group) for group in range(G)]
    if following not in (0, *ends):  # others follow the old prior
        group = next(group for group, end in enumerate(ends) if following < end)
        precision = 1.0 / state.variances[group] - state.step[1]
        if not 0.0 < precision <= 1.0 / LEAST_VARIANCE:
            return False
        late = [weight_at(place, m, q, K, G) for place in range(following, ends[group])]
        variance[late] = 1.0 / precision
    return narrowed(state.covariance, variance)


@jit
def default_variance(state: Any, group: int) -> float:
    """The first prior variance of the weights of features (group 0), or of the base score (1)."""
    d = state.r.shape[0] - state.variances.shape[0]
    return float(state.lift_slope**2 if group == 1 else state.lift_variation**2 / max(d, 1))


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
    d = q - state.variances.shape[0]
    if i < m:
        return float(PRIOR_INTERCEPT_SPREAD**2 if i == m - 1 else state.base_spread**2 / (2 * d))
    place = (i - m) % q
    if place == q - 1:
        return float(state.lift_spread**2)
    return float(state.variances[max(place - d + 1, 0)])


class Prior(NamedTuple):
    """The prior of a pooled model: kernels of its state."""

    mean: Callable[[Any, int], float]  # of weight i
    variance: Callable[[Any, int], float]  # of weight i
    default: Callable[[Any, int], float]  # the first variance of a group


PRIOR = Prior(prior_mean, prior_variance, default_variance)


@jit
def move(theta: Floats, S: Floats, column: Floats, step: float, shrink: float) -> None:
    """Theta <- theta + step column, S <- S - shrink column column'."""
    for i in range(theta.shape[0]):
        theta[i] += step * column[i]
        add_to_row(S, i, -shrink * column[i], column)


@jit
def learn_variances(estimator: State, most: int) -> None:
    """Fit the prior variances to the weights; the posterior follows them, weight by weight.

    Continues with up to ``most`` weights where the last call stopped. The variance of a group is
    updated before its first weight.
    """
    theta, S, column = estimator.theta, estimator.covariance, estimator.column
    m, q, K = estimator.u.shape[0], estimator.r.shape[0], estimator.treated.shape[0]
    G = estimator.variances.shape[0]
    weights, begin = K * (q - 1), int(estimator.step[0])
    for place in range(begin, min(begin + most, weights)):
        of_scores = place - K * (q - G)
        group = 0 if of_scores < 0 else of_scores // K + 1
        if place == 0 or (group > 0 and of_scores % K == 0):
            variance = learned_variance(estimator, group)
            estimator.step[1] = 1.0 / variance - 1.0 / estimator.variances[group]
            estimator.variances[group] = variance
        i = weight_at(place, m, q, K, G)
        fill(column, 0.0)
        add_scaled_row(column, 1.0, S, i)
        shrink = estimator.step[1] / (1.0 + estimator.step[1] * column[i])
        move(theta, S, column, -shrink * theta[i], shrink)
        estimator.step[0] = place + 1.0


@jit
def weight_at(place: int, m: int, q: int, K: int, G: int) -> int:
    """The weight at a place in the order: of features, by treatment, then of each score."""
    d, of_scores = q - G, place - K * (q - G)
    if of_scores < 0:
        return m + place // d * q + place % d
    return m + of_scores % K * q + d + of_scores // K


@jit
def learned_variance(estimator: State, group: int) -> float:
    """One step of expectation maximisation for the weights of a group."""
    m, q, K = estimator.u.shape[0], estimator.r.shape[0], estimator.treated.shape[0]
    d = q - estimator.variances.shape[0]
    first, last = (d + group - 1, d + group) if group > 0 else (0, d)
    n = float(K * (last - first))
    total = estimator.prior_strength * n * default_variance(estimator, group)
    for k in range(K):
        for i in range(m + k * q + first, m + k * q + last):
            total += estimator.theta[i] ** 2 + estimator.covariance[i, i]
    return float(total / (estimator.prior_strength * n + n))


@jit
def weights_at_once(estimator: State) -> int:
    """How many weights follow the prior per outcome: many of a small model, few of a wide one.

    All of them have followed before the next update.
    """
    D = estimator.theta.shape[0]
    weights = estimator.treated.shape[0] * (estimator.r.shape[0] - 1)
    return int(max(AT_ONCE // (D * D), weights // EVERY + 1))


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
