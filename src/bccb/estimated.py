r"""Estimated: what the money caused, by the model's own posterior.

The effects of all N treated users are summed, as the model sees them now, over a sample of m of
them (:mod:`bccb.kernels.sample`). With the sum T of the sample's effects, its posterior variance V
and the variance s^2 of the effects within the sample,

    caused = (N / m) T,    variance = (N / m)^2 V + N^2 s^2 / m (1 - m / N).

After history the model is corrected (:mod:`bccb.after_history`).

It is as good as the model. It needs no decisions at random and is narrow; :mod:`bccb.measured`
trusts nothing but the draws, and is wide.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bccb.intervals import QUANTILE, Interval
from bccb.kernels.amount_errors import variance_of
from bccb.kernels.amounts import size_in, write_input
from bccb.kernels.counts import AT_AMOUNTS, AT_ESTIMATOR, AT_EXPLORER, END, FEATURES, TREATMENTS
from bccb.kernels.jit import jit
from bccb.kernels.linalg import fill, quadratic
from bccb.kernels.scaling import standardise as prepare
from bccb.kernels.scaling import view_scaler
from bccb.kernels.slots import (
    MISFIT,
    amount_of,
    effect_of,
    rate_of,
    sum_effects,
    unit_of,
    view_amounts,
    view_estimator,
)
from bccb.types import Floats, Ints

COPIES = 1  # of each feature, in what the estimator reads
AMOUNTS = False


@jit
def sum_over(counts: Ints, memory: Floats, xs: Floats, arms: Floats) -> tuple[float, float, float]:
    """The sum of the effects on users with features ``xs``, its variance, the sum of squares."""
    d, K = counts[FEATURES], counts[TREATMENTS]
    scaler = view_scaler(memory[: counts[AT_ESTIMATOR]], d)
    estimator: Any = view_estimator(memory[counts[AT_ESTIMATOR] : counts[AT_EXPLORER]], d, K)
    zs = np.empty((xs.shape[0], COPIES * d + 1))
    for i in range(xs.shape[0]):
        prepare(scaler, xs[i], zs[i])
    return sum_effects(estimator, zs, arms)


@jit
def value_effect(
    estimator: Any, amounts: Any, z: Floats, k: int, gradient: Floats
) -> tuple[float, float]:
    """As :func:`effect_of`, but of the value of conversions, in currency: m_k P_k - m_0 P_0.

    Its gradient is m_k (dP_k - dP_0) + (m_k - m_0) dP_0.
    """
    effect, slope = effect_of(estimator, z, k, gradient)
    if AMOUNTS:
        unit, before = unit_of(amounts), amount_of(amounts, z, 0)
        after = amount_of(amounts, z, k + 1)
        effect = unit * (after * effect + rate_of(estimator, z, 0) * (after - before))
        for j in range(gradient.shape[0]):
            gradient[j] *= unit * after
        for j in range(estimator.u.shape[0]):
            gradient[j] += unit * (after - before) * slope * estimator.u[j]
        slope *= unit * before  # P_0 may be off, and the value depends on it by m_0
    return effect, slope


@jit
def add_gradient(
    estimator: Any, amounts: Any, z: Floats, k: int, in_amounts: Floats, sizes: Floats
) -> None:
    """Add the gradient of a :func:`value_effect` in b, c and a, and in the balance of each arm."""
    unit = unit_of(amounts)
    for arm, sign in ((k + 1, 1.0), (0, -1.0)):
        rate = sign * unit * rate_of(estimator, z, arm)
        worth = rate * amount_of(amounts, z, arm)
        sizes[arm] += rate * size_in(amounts, z, arm)
        write_input(amounts, z, arm)
        for j in range(in_amounts.shape[0]):
            in_amounts[j] += worth * amounts.input[j]


@jit
def sum_values(
    counts: Ints, memory: Floats, xs: Floats, arms: Floats
) -> tuple[float, float, float]:
    """As :func:`sum_over`, of the value of conversions.

    The amounts are not certain either: their error is common to all users, too.
    """
    d, K = counts[FEATURES], counts[TREATMENTS]
    scaler = view_scaler(memory[: counts[AT_ESTIMATOR]], d)
    estimator: Any = view_estimator(memory[counts[AT_ESTIMATOR] : counts[AT_EXPLORER]], d, K)
    amounts: Any = view_amounts(memory[counts[AT_AMOUNTS] : counts[END]], d, K)
    z, own = np.empty(COPIES * d + 1), np.empty(estimator.theta.shape[0])
    gradient, in_amounts, sizes = np.zeros(own.shape[0]), np.zeros(d + 1 + K), np.zeros(K + 1)
    total, squares, slopes = 0.0, 0.0, 0.0
    for i in range(xs.shape[0]):
        k = int(arms[i]) - 1
        prepare(scaler, xs[i], z)
        effect, slope = value_effect(estimator, amounts, z, k, own)
        for j in range(own.shape[0]):
            gradient[j] += own[j]
        total += effect
        squares += effect**2
        slopes += slope
        add_gradient(estimator, amounts, z, k, in_amounts, sizes)
    variance = max(quadratic(estimator.covariance, 0, gradient), 0.0)
    variance += variance_of(amounts, total, in_amounts, sizes)
    return total, variance + (MISFIT * slopes) ** 2, squares


@jit
def write_effects(
    counts: Ints, memory: Floats, xs: Floats, k: int, effects: Floats, slopes: Floats, G: Floats
) -> None:
    """The effects of treatment k + 1 on users with features ``xs``, and the rows of gradients G.

    With amounts they are gradients in the parameters of
    :func:`~bccb.kernels.amount_errors.joint_covariance`.
    """
    d, K = counts[FEATURES], counts[TREATMENTS]
    scaler = view_scaler(memory[: counts[AT_ESTIMATOR]], d)
    estimator: Any = view_estimator(memory[counts[AT_ESTIMATOR] : counts[AT_EXPLORER]], d, K)
    amounts: Any = view_amounts(memory[counts[AT_AMOUNTS] : counts[END]], d, K)
    z = np.empty(COPIES * d + 1)
    for i in range(xs.shape[0]):
        prepare(scaler, xs[i], z)
        own = G[i, : estimator.theta.shape[0]]
        effects[i], slopes[i] = value_effect(estimator, amounts, z, k, own)
        if AMOUNTS:
            scale = own.shape[0] + d + 1 + K
            fill(G[i, own.shape[0] :], 0.0)
            add_gradient(estimator, amounts, z, k, G[i, own.shape[0] : scale], G[i, scale + 1 :])
            G[i, scale] = effects[i]


@jit
def write_rates(
    counts: Ints, memory: Floats, xs: Floats, arm: Ints, rates: Floats, worths: Floats
) -> None:
    """Write P(conversion) of users in arms, and what a conversion of each is worth there."""
    d, K = counts[FEATURES], counts[TREATMENTS]
    scaler = view_scaler(memory[: counts[AT_ESTIMATOR]], d)
    estimator: Any = view_estimator(memory[counts[AT_ESTIMATOR] : counts[AT_EXPLORER]], d, K)
    amounts: Any = view_amounts(memory[counts[AT_AMOUNTS] : counts[END]], d, K)
    z = np.empty(COPIES * d + 1)
    for i in range(xs.shape[0]):
        prepare(scaler, xs[i], z)
        rates[i] = rate_of(estimator, z, arm[i])
        worths[i] = unit_of(amounts) * amount_of(amounts, z, arm[i])


class Sums(NamedTuple):
    """Of the effects on the users of a sample."""

    total: float
    variance: float  # of the total, because parameters are not known
    squares: float


def interval_of(N: float, m: float, total: float, variance: float, squares: float) -> Interval:
    """What was caused, with its 95 % interval, from the sums over a sample.

    >>> interval_of(N=1_000, m=100, total=5.0, variance=1.0, squares=0.25)
    Interval(value=50.0, low=30.4..., high=69.5...)
    """
    if m == 0:
        return Interval(0.0, 0.0, 0.0)
    spread = max(squares / m - (total / m) ** 2, 0.0)
    left_out = N**2 * spread / m * max(1.0 - m / max(N, 1.0), 0.0)
    value = N / m * total
    reach = QUANTILE * math.sqrt((N / m) ** 2 * variance + left_out)
    return Interval(value, value - reach, value + reach)
