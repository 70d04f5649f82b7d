r"""Two-model SGD (section 4.1 of the paper): one logistic model per arm, tau_k = f_k(x) - f_0(x).

Each model takes one gradient step per evidence (a, b) of its arm. With t the sum of b so far,

    eta_t = 1 / (alpha (t0 + t)),    w <- (1 - b alpha eta_t) w - eta_t (b f(z) - a) z,

where the intercept does not decay. These are the defaults of scikit-learn's ``SGDClassifier``
(log loss, L2 penalty 1e-4, "optimal" step, whose t0 is 1,000 for this loss and penalty). Scores
come from a copy of the weights that is refreshed every ``refresh`` observations of the arm. Until
every arm has ``warm_up`` observations the effect is the optimistic ``prior_effect``.

Features are read as they come, because the paper says nothing of standardising. The same on
standardised features is a component of its own, for comparison (decision 3). The steps sum up to at
most log(1 + t / t0) / alpha, so that weights stay finite whatever the features.

Users who convert exactly when they are treated:

>>> import numpy as np
>>> state, z, effect = TWO_MODEL.fresh(d=1), np.array([0.5, 1.0]), np.zeros(1)
>>> predict(state, z, effect, np.zeros(1)), effect.tolist()  # in warm-up
(False, [0.002])
>>> for i in range(100):
...     learn_estimator(state, z, i % 2, float(i % 2), 1.0)
>>> predict(state, z, effect, np.zeros(1)), effect.round(1).tolist()
(True, [1.0])
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, NamedTuple

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import copy, dot, fill, row_dot, sigmoid
from bccb.kernels.soundness import MOST_SEEN, within
from bccb.types import Floats

T0 = 1_000.0
MOST_WEIGHT = 1e120  # more than all steps with the least alpha on the largest features add up to


class State(NamedTuple):
    """Two copies of the weights, and the observations of each arm."""

    alpha: float
    refresh: float
    warm_up: float
    prior_effect: float
    seen: Annotated[Floats, "K + 1"]
    live: Annotated[Floats, "K + 1", "d + 1"]  # the intercept last
    scoring: Annotated[Floats, "K + 1", "d + 1"]


LAYOUT = Layout(State)


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether memory holds weights and numbers of users."""
    state = LAYOUT.view(memory, d, K)
    return (
        within(state.live, -MOST_WEIGHT, MOST_WEIGHT)
        and within(state.scoring, -MOST_WEIGHT, MOST_WEIGHT)
        and within(state.seen, 0.0, MOST_SEEN)
    )


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k = f_k - f_0, or the optimistic prior while any arm is in warm-up."""
    fill(spread, 0.0)
    for arm in range(estimator.seen.shape[0]):
        if estimator.seen[arm] < estimator.warm_up:
            fill(effect, estimator.prior_effect)
            return False
    f_0 = sigmoid(row_dot(estimator.scoring, 0, z))
    for k in range(effect.shape[0]):
        effect[k] = sigmoid(row_dot(estimator.scoring, k + 1, z)) - f_0
    return True


@jit
def rate_of(estimator: State, z: Floats, arm: int) -> float:
    """f_a"""
    return sigmoid(row_dot(estimator.scoring, arm, z))


@jit
def learn_estimator(estimator: State, z: Floats, arm: int, a: float, b: float) -> None:
    """One gradient step of the arm's model."""
    w, before = estimator.live[arm], estimator.seen[arm]
    eta = 1.0 / (estimator.alpha * (T0 + before))
    estimator.seen[arm] += b
    gradient = eta * (b * sigmoid(dot(w, z)) - a)
    decay = 1.0 - b * estimator.alpha * eta
    d = z.shape[0] - 1
    for j in range(d):
        w[j] = decay * w[j] - gradient * z[j]
    w[d] -= gradient
    refresh = estimator.refresh  # Numba's // takes ten times as long as a division
    if math.floor(estimator.seen[arm] / refresh) > math.floor(before / refresh):
        copy(estimator.scoring[arm], w)


TWO_MODEL = Component(
    name="two-model",
    about="two-model SGD",
    parameters={
        "alpha": Parameter(
            1e-4,
            1e-12,
            1e3,
            "weight of the L2 penalty, which also sets the step; the paper's default is "
            "scikit-learn's",
        ),
        "refresh": Parameter(
            50.0, 1.0, 1e9, "observations of an arm after which scores use its new weights"
        ),
        "warm_up": Parameter(
            50.0, 0.0, 1e9, "observations that every arm needs before effects are estimated"
        ),
        "prior_effect": Parameter(
            0.002, -1e6, 1e6, "the effect that is assumed until then; above 0 it treats early users"
        ),
    },
    layout=LAYOUT,
    sound=sound,
    reads="raw",
    kernels={"predict": predict, "rate_of": rate_of, "learn_estimator": learn_estimator},
)
STANDARDISED = replace(
    TWO_MODEL,
    name="two-model-standardised",
    about="two-model SGD, standardised",
    reads="standardised",
)
