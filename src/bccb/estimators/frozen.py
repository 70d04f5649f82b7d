r"""Frozen logistic regressions (the offline pipeline): one per arm, fitted on history, then fixed.

Each is scikit-learn's ``LogisticRegression`` with its defaults, on the features as given:

    min_w,b  |w|^2 / 2 + sum_i log(1 + exp(-s_i (w . x_i + b))),  s_i = +1 or -1,

over the rows of its arm. tau_k(x) = f_k(x) - f_0(x).

Users who convert exactly when they are treated and their feature is above zero:

>>> x, actions = np.tile([[-1.0], [1.0]], (100, 1)), np.repeat([0, 1], 100)
>>> log = Log(x, actions, actions * (x[:, 0] > 0), np.full((200, 1), 500_000))
>>> log.outcomes[:2] = 1.0, 0.0  # a model needs both outcomes in every arm
>>> memory, effect = np.zeros(LAYOUT.size(1, 1)), np.zeros(1)
>>> fit(memory, log)
>>> state = LAYOUT.view(memory, 1, 1)
>>> predict(state, np.array([1.0, 1.0]), effect, np.zeros(1)), effect.round(1).tolist()
(True, [1.0])
"""

from __future__ import annotations

import threading
import warnings
from typing import Annotated, NamedTuple

import numpy as np

from bccb.errors import MissingExtraError
from bccb.estimators.history import by_arm
from bccb.estimators.threads import one_thread
from bccb.kernels.component import Component
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import row_dot, sigmoid
from bccb.kernels.soundness import LARGE, within
from bccb.types import Floats, Log

FITTING = threading.Lock()


class State(NamedTuple):
    """The weights of each arm on raw features, the intercept last."""

    weights: Annotated[Floats, "K + 1", "d + 1"]


LAYOUT = Layout(State)


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k = f_k - f_0"""
    f_0 = sigmoid(row_dot(estimator.weights, 0, z))
    for k in range(effect.shape[0]):
        effect[k] = sigmoid(row_dot(estimator.weights, k + 1, z)) - f_0
        spread[k] = 0.0
    return True


@jit
def rate_of(estimator: State, z: Floats, arm: int) -> float:
    """f_a"""
    return sigmoid(row_dot(estimator.weights, arm, z))


def fit(memory: Floats, log: Log) -> None:
    """Fit every arm on ``log`` and write the weights; on failure write nothing."""
    weights = [logistic_regression(features, outcomes) for features, outcomes in by_arm(log)]
    LAYOUT.view(memory, log.features.shape[1], log.treatments).weights[:] = weights


def logistic_regression(features: Floats, outcomes: Floats) -> Floats:
    """The weights of one arm, the intercept last."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtraError("scikit-learn", "lab") from None
    # One thread: with sums in another order the search, which stops before it converges, would stop
    # elsewhere. One fit at a time: warning filters are shared by the whole process.
    with FITTING, one_thread(), warnings.catch_warnings():
        # like the paper's pipeline, the defaults stop at 100 iterations, converged or not
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression().fit(features, outcomes)
    return np.append(model.coef_[0], model.intercept_[0])


FROZEN = Component(
    name="frozen",
    about="frozen logistic",
    layout=LAYOUT,
    sound=lambda memory, d, K: within(memory, -LARGE, LARGE),
    reads="raw",
    fit=fit,
    kernels={"predict": predict, "rate_of": rate_of},
)
