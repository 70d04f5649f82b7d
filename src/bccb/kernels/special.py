r"""Special functions: densities and distribution functions of the Beta and the normal.

I_x(a, b) by its continued fraction (modified Lentz), as in DLMF 8.17.22.
"""

from __future__ import annotations

import math

from bccb.kernels.jit import jit

TINY = 1e-300
PRECISION = 1e-14
MOST_TERMS = 5_000
ROOT_HALF = math.sqrt(0.5)


@jit
def normal_cdf(x: float) -> float:
    """Phi(x)"""
    return 0.5 * math.erfc(-x * ROOT_HALF)


@jit
def log_beta(a: float, b: float) -> float:
    """Log B(a, b)"""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@jit
def beta_density(x: float, a: float, b: float, log_norm: float) -> float:
    """The density of Beta(a, b) at x, with ``log_norm`` = log B(a, b); 0 outside [0, 1].

    At 0 and 1 it is the limit: there 0 x log(0) counts as 0.
    """
    if x < 0.0 or x > 1.0 or (x == 0.0 and a > 1.0) or (x == 1.0 and b > 1.0):
        return 0.0
    exponent = -log_norm
    if a != 1.0:
        exponent += (a - 1.0) * (math.log(x) if x > 0.0 else -math.inf)
    if b != 1.0:
        exponent += (b - 1.0) * (math.log1p(-x) if x < 1.0 else -math.inf)
    return math.exp(exponent)


@jit
def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of I_x(a, b), which converges fast for x < (a + 1) / (a + b + 2)."""
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > TINY else TINY)
    value = d
    for m in range(1, MOST_TERMS):
        for step in range(2):
            if step == 0:
                term = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
            else:
                term = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > TINY else TINY)
            c = 1.0 + term / c
            c = c if abs(c) > TINY else TINY
            value *= d * c
        if abs(d * c - 1.0) < PRECISION:
            break
    return value


@jit
def beta_cdf(x: float, a: float, b: float) -> float:
    """I_x(a, b), the distribution function of Beta(a, b); 0 below 0 and 1 above 1."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta(a, b))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1.0 - x, b, a) / b
