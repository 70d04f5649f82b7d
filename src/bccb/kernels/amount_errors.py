"""How well amounts are known: the variances of what is estimated of them."""

from __future__ import annotations

import math

import numpy as np

from bccb.kernels.amounts import AMOUNTS, Amounts
from bccb.kernels.jit import jit
from bccb.kernels.linalg import quadratic
from bccb.kernels.moments import balance_spread
from bccb.types import Floats


@jit
def scale_variance(amounts: Amounts) -> float:
    """The variance of the typical amount relative to itself, beyond that of c.

    It is in proportion to exp(s^2 / 2), and s^2 is an estimate, too. So is the misfit.
    """
    of_noise = 0.5 * amounts.noise[0] * math.sqrt(2.0 / max(amounts.weight[0], 1.0))
    return float(of_noise**2 + amounts.misfit[1] ** 2)


@jit
def balance_variance(amounts: Amounts, arm: int) -> float:
    """The variance of the balance of gains and losses of an arm, and of its own mean with it."""
    lost, whole = amounts.lost[arm], 0.0
    variance = ((1.0 - lost) * amounts.unsure[arm]) ** 2
    for k in range(amounts.sizes.shape[0]):
        whole += amounts.sizes[k]
    if lost > 0.0 and whole > 0.0:
        rows = amounts.weight[0] * amounts.sizes[arm] / whole + 1.0
        variance += balance_spread(amounts, 1.0 - lost) / rows
    return float(variance)


@jit
def variance_of(amounts: Amounts, total: float, gradient: Floats, sizes: Floats) -> float:
    """The variance of a sum of amounts with a gradient in b, c and a, and sizes in each arm."""
    variance = max(quadratic(amounts.covariance, 0, gradient), 0.0)
    variance += total**2 * scale_variance(amounts)
    for k in range(sizes.shape[0]):
        variance += sizes[k] ** 2 * balance_variance(amounts, k)
    return float(variance)


def joint_covariance(of_rates: Floats, memory: Floats, d: int, K: int) -> Floats:
    """The covariance of a model of rates, then that of b, c and a, the scale and the balances.

    The parts are independent of each other.
    """
    amounts = AMOUNTS.view(memory, d, K)
    balances = [balance_variance(amounts, k) for k in range(K + 1)]
    n, m = len(of_rates), len(amounts.covariance)
    joint = np.zeros((n + m + K + 2, n + m + K + 2))
    joint[:n, :n], joint[n : n + m, n : n + m] = of_rates, amounts.covariance
    joint[range(n + m, len(joint)), range(n + m, len(joint))] = [scale_variance(amounts), *balances]
    return joint
