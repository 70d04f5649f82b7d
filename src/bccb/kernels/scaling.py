r"""Running standardisation: z_j = (x_j - m_j) / s_j, with m and s of the users seen so far.

Welford's recurrences, where n is the number of users seen, with this one:

    m <- m + (x - m) / n,    q <- q + (x - m_old) (x - m_new),    s^2 = q / n.

The robust form forgets early users, so that an outlier among them is soon gone. Later outliers are
cut at 10 deviations. With a = min(1, 8 / n) for the first 2,000 users, then 3 / n,

    x <- x cut at m +- 10 s,    m <- m + a (x - m),    s^2 <- (1 - a) (s^2 + a (x - m_old)^2).

So a user's weight falls like n^-8, then n^-3: after 10,000 users nothing is left even of an outlier
of 1e9 deviations. But s also falls where a feature hardly ever varies and is cut when it does. So
whether there is any variation is decided by comparing the user's x - m with m, not by s.

>>> import numpy as np
>>> memory, z = np.zeros(SCALER.size(1)), np.zeros(2)
>>> for x in (1.0, 3.0):
...     see(view_scaler(memory, 1), np.array([x]))
>>> standardise(view_scaler(memory, 1), np.array([4.0]), z)
>>> z.tolist()  # the mean is 2, the standard deviation 1
[2.0, 1.0]
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import copy
from bccb.kernels.soundness import MOST_SEEN, counted, within
from bccb.types import MOST_FEATURE, Floats

NEGLIGIBLE = 1e-24  # a variance below this share of the squared mean is rounding, not variation
ROUNDING = 1e-12  # and so is a deviation below this share of the mean
HASTE, EARLY, EARLY_HASTE = 3.0, 2_000.0, 8.0  # powers of 1 / n by which users are forgotten
REACH, UNCUT = 10.0, 20.0  # deviations at which users are cut, once this many were seen


class Scaler(NamedTuple):
    """The running moments of d features."""

    seen: Annotated[Floats, "1"]
    mean: Annotated[Floats, "d"]
    square: Annotated[Floats, "d"]  # the sum of squared deviations; robust: their average


SCALER = Layout(Scaler, "d")
view_scaler = SCALER.view


def sound(memory: Floats, d: int) -> bool:
    """Whether this can be the memory of a scaler."""
    scaler = view_scaler(memory, d)
    most = 4.0 * MOST_FEATURE * MOST_FEATURE * MOST_SEEN
    return (
        counted(scaler.seen)
        and within(scaler.mean, -MOST_FEATURE, MOST_FEATURE)
        and within(scaler.square, 0.0, most)
    )


@jit
def see(scaler: Scaler, x: Floats) -> None:
    """Add one more user to the moments."""
    scaler.seen[0] += 1.0
    share = 1.0 / scaler.seen[0]
    for j in range(x.shape[0]):
        delta = x[j] - scaler.mean[j]
        mean = scaler.mean[j] + delta * share
        scaler.mean[j] = mean
        scaler.square[j] += delta * (x[j] - mean)


@jit
def standardise(scaler: Scaler, x: Floats, z: Floats) -> None:
    """Write the standardised features, then 1; a constant feature becomes 0."""
    d = x.shape[0]
    share = 1.0 / max(scaler.seen[0], 1.0)
    for j in range(d):
        m = scaler.mean[j]
        variance = scaler.square[j] * share
        z[j] = (x[j] - m) / math.sqrt(variance) if variance > NEGLIGIBLE * m * m else 0.0
    z[d] = 1.0


@jit
def see_robustly(scaler: Scaler, x: Floats) -> None:
    """Add one more user to the moments, with outliers cut."""
    scaler.seen[0] += 1.0
    n = scaler.seen[0]
    rate = min(1.0, (EARLY_HASTE if n <= EARLY else HASTE) / n)
    for j in range(x.shape[0]):
        mean, variance = scaler.mean[j], scaler.square[j]
        delta = x[j] - mean
        if n > UNCUT and delta * delta > REACH * REACH * variance > 0.0:
            delta = math.copysign(REACH * math.sqrt(variance), delta)
        scaler.mean[j] = mean + rate * delta
        scaler.square[j] = (1.0 - rate) * (variance + rate * delta * delta)


@jit
def standardise_robustly(scaler: Scaler, x: Floats, z: Floats) -> None:
    """Write the standardised features, then 1; a constant feature becomes 0."""
    d = x.shape[0]
    for j in range(d):
        m, variance = scaler.mean[j], scaler.square[j]
        varies = variance > 0.0 and abs(x[j] - m) > ROUNDING * abs(m)
        z[j] = (x[j] - m) / math.sqrt(variance) if varies else 0.0
    z[d] = 1.0


@jit
def see_nothing(scaler: Scaler, x: Floats) -> None:
    """Keep no moments."""


@jit
def keep_raw(scaler: Scaler, x: Floats, z: Floats) -> None:
    """Write the features as they are, then 1."""
    copy(z, x)
    z[x.shape[0]] = 1.0


@jit
def standardise_and_keep(scaler: Scaler, x: Floats, z: Floats) -> None:
    """Write the features as :func:`standardise_robustly`, then as they are."""
    standardise_robustly(scaler, x, z)
    d = x.shape[0]
    for j in range(d):
        z[d + 1 + j] = x[j]


# By what an estimator reads. z has COPIES d + 1 entries.
READERS: dict[str, dict[str, Any]] = {
    "standardised": {"see": see, "prepare": standardise, "COPIES": 1},
    "robust": {"see": see_robustly, "prepare": standardise_robustly, "COPIES": 1},
    "raw": {"see": see_nothing, "prepare": keep_raw, "COPIES": 1},
    "robust and raw": {"see": see_robustly, "prepare": standardise_and_keep, "COPIES": 2},
}
