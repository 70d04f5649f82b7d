r"""The probability that one of several independent scores is the largest, at a cost linear in them.

Score j has the density g_j and the distribution function G_j, and lies within [low_j, high_j]
except with a negligible probability. Then

    P(a) = int g_a(s) prod_{j != a} G_j(s) ds    over s from max_j low_j to high_a:

below any low_j the product is zero, and above high_j the factor of j is one. So every score whose
factor still varies at s has max_j low_j within its own range, and its scale is not small compared
with the distance from there. Panels as long as one or two scales of the narrowest such score
therefore grow with that distance, and their number hardly depends on the number of scores.

A panel is halved until the integrand and all factors are close to polynomials on it. Where the
density of a score drops to zero at high_j (``sharp``), a panel ends there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bccb.kernels.jit import jit
from bccb.types import Floats

ORDER = 8  # nodes per panel
REACH = 2.0  # scales of the narrowest score per panel, at most
PRECISION = 1e-7  # of the polynomials; the integral is more precise
EASY = 0.01  # after a panel with an error below this share of PRECISION comes a longer one
SHORTEST = 1e-15  # length of a panel relative to its place: below it is rounding
MOST_PANELS = 5_000  # some hundred are needed at most; this guards against an endless loop

# Gauss and Legendre, on [-1, 1]
NODES, WEIGHTS = (np.asarray(part, np.float64) for part in np.polynomial.legendre.leggauss(ORDER))
_POWERS = np.polynomial.legendre.legvander(NODES, ORDER - 1)
# Row m gives the coefficient of the m-th Legendre polynomial from values at the nodes
_COEFFICIENTS = (np.arange(ORDER)[:, None] + 0.5) * _POWERS.T * WEIGHTS
HIGHEST: Floats = np.ascontiguousarray(_COEFFICIENTS[-2:])  # (2, ORDER)


def _running_weights() -> Floats:
    """Row i integrates from -1 to node i, given values at the nodes."""
    series = [np.polynomial.legendre.legint(row, lbnd=-1) for row in np.eye(ORDER)]
    integrals = [np.polynomial.legendre.legval(NODES, each) for each in series]
    return np.ascontiguousarray(np.transpose(integrals) @ _COEFFICIENTS)


RUNNING: Floats = _running_weights()  # (ORDER, ORDER)


@jit
def density(scores: Any, j: int, s: Floats, values: Floats) -> None:
    """Slot: write the density of score j at the points s."""


@jit
def distribution(
    scores: Any, j: int, s: Floats, half: float, before: float, values: Floats
) -> tuple[float, float]:
    """Slot: write the distribution function of score j at the nodes s of a panel.

    ``half`` is half the panel's length and ``before`` the value at its left end; returns the value
    at its right end, and the error of the values.
    """
    return 1.0, 0.0


@jit
def below(scores: Any, j: int, s: float) -> float:
    """Slot: the probability that score j is below s."""
    return 1.0


@jit
def rough(values: Floats) -> float:
    """The size of the two highest polynomials of a function with these values at the nodes."""
    first, second = 0.0, 0.0
    for i in range(ORDER):
        first += HIGHEST[0, i] * values[i]
        second += HIGHEST[1, i] * values[i]
    return abs(first) + abs(second)


@jit
def longest(left: float, end: float, high: Floats, scale: Floats, sharp: Floats) -> float:
    """The largest allowed length of a panel that begins at ``left``."""
    length = end - left
    for j in range(high.shape[0]):
        if high[j] > left:
            length = min(length, REACH * scale[j])
            if sharp[j] > 0.0:
                length = min(length, high[j] - left)
    return length


@jit
def largest(
    scores: Any, action: int, floor: float, low: Floats, high: Floats, scale: Floats, sharp: Floats
) -> float:
    """P(score ``action`` is the largest and above ``floor``)."""
    n, left, end = low.shape[0], floor, high[action]
    for j in range(n):
        left = max(left, low[j])
    at, after = np.empty((2, n))
    s, values, product = np.empty((3, ORDER))
    for j in range(n):
        at[j] = below(scores, j, left) if j != action and high[j] > left else 1.0
    total, length = 0.0, end - left
    for _ in range(MOST_PANELS):
        if not left < end:
            break
        shortest = SHORTEST * (abs(left) + abs(end))
        length = max(min(length, longest(left, end, high, scale, sharp)), shortest)
        half = 0.5 * length
        for i in range(ORDER):
            s[i] = left + half * (1.0 + NODES[i])
        density(scores, action, s, product)
        off = 0.0
        for j in range(n):
            if j != action and high[j] > left:
                after[j], error = distribution(scores, j, s, half, at[j], values)
                off = max(off, error)
                for i in range(ORDER):
                    product[i] *= values[i]
        off = max(off, half * rough(product))
        if off > PRECISION and length > shortest:
            length = half
            continue
        for i in range(ORDER):
            total += half * WEIGHTS[i] * product[i]
        left += length
        at, after = after, at
        if off < EASY * PRECISION:
            length *= 2.0
    return min(max(total, 0.0), 1.0)
