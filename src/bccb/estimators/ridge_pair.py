r"""Ridge pair (section 4.5, Uplifting Bandits): one online ridge regression per arm.

    A_a = ridge I + sum b z z',    theta_a = A_a^-1 sum a z,    tau_k = (theta_k - theta_0) . z,
    spread_k = sqrt(z' (A_k^-1 + A_0^-1) z).

A^-1 is kept by rank-one updates (Sherman and Morrison), and theta by the matching recursion
theta <- theta + A^-1 z (a - b theta . z), with the new A^-1.

Users who convert exactly when they are treated:

>>> state, z, effect, spread = RIDGE_PAIR.fresh(d=1), np.array([0.5, 1.0]), np.zeros(1), np.zeros(1)
>>> for i in range(100):
...     learn_estimator(state, z, i % 2, float(i % 2), 1.0)
>>> predict(state, z, effect, spread), effect.round(2).tolist(), spread.round(1).tolist()
(True, [0.98], [0.2])
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import dot, downdate, quadratic, row_dot
from bccb.kernels.slots import MISFIT
from bccb.kernels.soundness import LARGE, narrowed, within
from bccb.types import Floats


class State(NamedTuple):
    """Weights and inverse Gram matrices, m = d + 1."""

    ridge: float
    theta: Annotated[Floats, "K + 1", "m"]
    inverse: Annotated[Floats, "K + 1", "m", "m"]
    column: Annotated[Floats, "m"]  # work space


LAYOUT = Layout(State, m="d + 1")


def start(memory: Floats, d: int, K: int) -> None:
    """A_a = ridge I before the first user."""
    state = LAYOUT.view(memory, d, K)
    state.inverse[:] = np.eye(d + 1) / state.ridge


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether memory holds weights, and inverses of ridge I + sum b z z'."""
    state = LAYOUT.view(memory, d, K)
    prior = np.full(d + 1, 1.0 / state.ridge)
    inverses = all(narrowed(inverse, prior) for inverse in state.inverse)
    return inverses and within(state.theta, -LARGE, LARGE)


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k and its width."""
    base = row_dot(estimator.theta, 0, z)
    base_width = quadratic(estimator.inverse[0], 0, z)
    for k in range(effect.shape[0]):
        effect[k] = row_dot(estimator.theta, k + 1, z) - base
        spread[k] = math.sqrt(max(quadratic(estimator.inverse[k + 1], 0, z) + base_width, 0.0))
    return True


@jit
def rate_of(estimator: State, z: Floats, arm: int) -> float:
    """theta_a . z, as far as it can be a rate."""
    return min(max(row_dot(estimator.theta, arm, z), 0.0), 1.0)


@jit
def learn_estimator(estimator: State, z: Floats, arm: int, a: float, b: float) -> None:
    """One rank-one update of the arm's regression."""
    theta, inverse = estimator.theta[arm], estimator.inverse[arm]
    error = a - b * dot(theta, z)
    downdate(inverse, b, z, estimator.column)
    for i in range(z.shape[0]):
        theta[i] += error * row_dot(inverse, i, z)


@jit
def sum_effects(estimator: State, zs: Floats, arms: Floats) -> tuple[float, float, float]:
    """Sum tau = sum_a theta_a . g_a, where g_a sums the z of arm a, and g_0 = -sum z.

    The variance is sum_a p_a (1 - p_a) g_a' A_a^-1 g_a, with p_a the average prediction for these
    users, which is taken to be at least that of one conversion in all users of the arm; and that
    of a common error of the treated, MISFIT in logits.
    """
    total, squares, gradient = 0.0, 0.0, np.zeros(estimator.theta.shape)
    users, rates = np.zeros(estimator.theta.shape[0]), np.zeros(estimator.theta.shape[0])
    for i in range(zs.shape[0]):
        arm = int(arms[i])
        base, treated = row_dot(estimator.theta, 0, zs[i]), row_dot(estimator.theta, arm, zs[i])
        for j in range(zs.shape[1]):
            gradient[0, j] -= zs[i, j]
            gradient[arm, j] += zs[i, j]
        users[0], users[arm] = users[0] + 1.0, users[arm] + 1.0
        rates[0], rates[arm] = rates[0] + base, rates[arm] + treated
        total += treated - base
        squares += (treated - base) ** 2
    variance, last = 0.0, zs.shape[1] - 1
    for arm in range(users.shape[0]):
        if users[arm] > 0.0:
            least = min(estimator.inverse[arm, last, last], 0.5)
            p = min(max(rates[arm] / users[arm], least), 1.0 - least)
            variance += p * (1.0 - p) * quadratic(estimator.inverse[arm], 0, gradient[arm])
            variance += (MISFIT * p * (1.0 - p) * users[0]) ** 2 if arm == 0 else 0.0
    return total, max(variance, 0.0), squares


RIDGE_PAIR = Component(
    name="ridge-pair",
    about="ridge pair",
    parameters={
        "ridge": Parameter(
            1.0,
            1e-9,
            1e9,
            "weight of the penalty, in users; raise it with many features and few users",
        )
    },
    layout=LAYOUT,
    start=start,
    sound=sound,
    reads="standardised",
    kernels={
        "predict": predict,
        "rate_of": rate_of,
        "learn_estimator": learn_estimator,
        "sum_effects": sum_effects,
    },
)
