"""Tests for paired comparisons, with the seed as the matching unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from bccb.errors import InputError, MissingExtraError
from bccb.types import Floats

RESAMPLES = 10_000
BOOTSTRAP_SEED = 20_260
LEVEL = 0.05


class Limits(NamedTuple):
    """The ends of a 95 % interval."""

    low: float
    high: float


def load_stats() -> Any:
    """The module ``scipy.stats``, imported where it is used: the core of bccb does without it."""
    try:
        from scipy import stats
    except ImportError:
        raise MissingExtraError("scipy", "lab") from None
    return stats


def paired_t(
    ones: Sequence[float] | Floats,
    others: Sequence[float] | Floats,
    alternative: Literal["two-sided", "greater", "less"] = "two-sided",
) -> float:
    """The p-value of Student's paired t-test; 1 where the pairs never differ.

    >>> round(paired_t([3, 4, 6, 5], [1, 1, 2, 2]), 4)
    0.0052
    """
    stats = load_stats()
    difference = _differences(ones, others)
    if not difference.any():
        return 1.0
    if np.ptp(difference) == 0:  # every pair differs by the same: no doubt about the sign
        rises = bool(difference[0] > 0)
        return 0.0 if alternative == "two-sided" or rises == (alternative == "greater") else 1.0
    return float(stats.ttest_1samp(difference, 0.0, alternative=alternative).pvalue)


def paired_bootstrap(
    ones: Sequence[float] | Floats, others: Sequence[float] | Floats, resamples: int = RESAMPLES
) -> Limits:
    """The percentile interval of the mean difference, pairs drawn with replacement.

    Plain percentiles are too narrow for few pairs: they know neither Student's quantile nor the
    n - 1 of a variance. The percentiles taken are those that would give Student's interval if the
    n differences were normal (Hesterberg's expanded percentiles):

        tail = Phi(-sqrt(n / (n - 1)) t), with t the upper quantile of Student's t at n - 1.

    >>> paired_bootstrap([3, 4, 6, 5], [1, 1, 2, 2])
    Limits(low=2.0, high=4.0)
    """
    stats = load_stats()
    difference = _differences(ones, others)
    n = len(difference)
    reach = float(stats.t.ppf(1 - LEVEL / 2, n - 1)) * (n / (n - 1)) ** 0.5 if n > 1 else 0.0
    tail = float(stats.norm.cdf(-reach))
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    picks = generator.integers(0, n, (resamples, n))
    low, high = np.quantile(difference[picks].mean(axis=1), [tail, 1 - tail])
    return Limits(float(low), float(high))


def share_interval(hits: int, trials: int, level: float = LEVEL) -> Limits:
    """The exact binomial interval (Clopper and Pearson) of a share.

    >>> low, high = share_interval(5, 100)
    >>> round(low, 4), round(high, 4)
    (0.0164, 0.1128)
    """
    stats = load_stats()
    return Limits(*stats.binomtest(hits, trials).proportion_ci(1 - level, method="exact"))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    so_far = 0.0
    for rank, place in enumerate(order):
        so_far = max(so_far, min(1.0, (len(order) - rank) * p_values[place]))
        adjusted[place] = so_far
    return [float(value) for value in adjusted]


def crossover(rivals: Mapping[int, Sequence[float]], ours: Sequence[float]) -> int | None:
    """The paper's crossover: the smallest n at which the rival's mean exceeds ours with a
    one-sided paired p below 0.05, and whose advantage persists at all larger n.

    Persisting is read as the mean staying above ours.

    >>> crossover({10: [1, 2, 1], 20: [5, 6, 7], 40: [9, 9, 8]}, [2, 2, 2])
    20
    """
    smallest = None
    for n in sorted(rivals, reverse=True):
        if not np.mean(rivals[n]) > np.mean(ours):
            break
        if paired_t(rivals[n], ours, alternative="greater") < LEVEL:
            smallest = n
    return smallest


def _differences(ones: Sequence[float] | Floats, others: Sequence[float] | Floats) -> Floats:
    a, b = np.asarray(ones, np.float64), np.asarray(others, np.float64)
    if a.shape != b.shape or a.ndim != 1 or len(a) < 2:
        raise InputError("the shape of the pairs", (a.shape, b.shape), "two lists of 2 or more")
    return a - b
