r"""Estimated: what the money caused, by the model's own posterior.

The effects of all N treated users are summed, as the model sees them now, over a sample of m of
them (:mod:`bccb.kernels.sample`). With the sum T of the sample's effects, its posterior variance V
and the variance s^2 of the effects within the sample,

    caused = (N / m) T,    variance = (N / m)^2 V + N^2 s^2 / m (1 - m / N).

It is as good as the model. It needs no decisions at random and is narrow; :mod:`bccb.measured`
trusts nothing but the draws, and is wide.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bccb.intervals import QUANTILE, Interval
from bccb.kernels.counts import AT_ESTIMATOR, AT_EXPLORER, FEATURES, TREATMENTS
from bccb.kernels.jit import jit
from bccb.kernels.scaling import standardise as prepare
from bccb.kernels.scaling import view_scaler
from bccb.kernels.slots import effect_of, sum_effects, view_estimator
from bccb.types import Floats, Ints

COPIES = 1  # of each feature, in what the estimator reads


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
def write_effects(
    counts: Ints, memory: Floats, xs: Floats, k: int, effects: Floats, slopes: Floats, G: Floats
) -> None:
    """The effects of treatment k + 1 on users with features ``xs``, and the rows of gradients G."""
    d, K = counts[FEATURES], counts[TREATMENTS]
    scaler = view_scaler(memory[: counts[AT_ESTIMATOR]], d)
    estimator: Any = view_estimator(memory[counts[AT_ESTIMATOR] : counts[AT_EXPLORER]], d, K)
    z = np.empty(COPIES * d + 1)
    for i in range(xs.shape[0]):
        prepare(scaler, xs[i], z)
        effects[i], slopes[i] = effect_of(estimator, z, k, G[i])


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
