r"""Boosted trees (offline): one gradient-boosted classifier per arm, fitted on history, then fixed.

    tau_k(x) = f_k(x) - f_0(x),

where f_a is the classifier of ``trees`` on the rows of arm a, with features as given.

Users who convert exactly when they are treated and their feature is above zero:

>>> import numpy as np
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

from typing import Annotated, NamedTuple

from bccb.estimators import trees
from bccb.estimators.history import by_arm
from bccb.estimators.trees import raw_score
from bccb.kernels.component import Component
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import sigmoid
from bccb.types import Floats, Log

TREES, DEPTH = 100, 3  # as deep as in scikit-learn's GradientBoostingClassifier
LEAVES = 1 << DEPTH
FORKS = LEAVES - 1


class State(NamedTuple):
    """The trees of each arm."""

    start: Annotated[Floats, "K + 1"]  # b_a
    feature: Annotated[Floats, "K + 1", "TREES", "FORKS"]  # the one that is compared
    threshold: Annotated[Floats, "K + 1", "TREES", "FORKS"]  # left if the feature is not above
    leaf: Annotated[Floats, "K + 1", "TREES", "LEAVES"]  # v_t


LAYOUT = Layout(State)


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether memory holds trees on d features."""
    state = LAYOUT.view(memory, d, K)
    return trees.sound(state.start, state.feature, state.leaf, d)


@jit
def score_of(estimator: State, arm: int, z: Floats) -> float:
    """F_a"""
    feature, threshold = estimator.feature[arm], estimator.threshold[arm]
    return raw_score(estimator.start[arm], feature, threshold, estimator.leaf[arm], z, DEPTH)


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k = f_k - f_0"""
    f_0 = sigmoid(score_of(estimator, 0, z))
    for k in range(effect.shape[0]):
        effect[k] = sigmoid(score_of(estimator, k + 1, z)) - f_0
        spread[k] = 0.0
    return True


@jit
def rate_of(estimator: State, z: Floats, arm: int) -> float:
    """f_a"""
    return sigmoid(score_of(estimator, arm, z))


def fit(memory: Floats, log: Log) -> None:
    """Fit every arm on ``log`` and write its trees; on failure write nothing."""
    models = [trees.classifier(*rows, TREES, DEPTH) for rows in by_arm(log)]
    state = LAYOUT.view(memory, log.features.shape[1], log.treatments)
    for arm, model in enumerate(models):
        own = state.feature[arm], state.threshold[arm], state.leaf[arm]
        state.start[arm] = trees.write(model, *own)


BOOSTED = Component(
    name="boosted",
    about="boosted trees",
    layout=LAYOUT,
    sound=sound,
    reads="raw",
    fit=fit,
    kernels={"predict": predict, "rate_of": rate_of},
)
