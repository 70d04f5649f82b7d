r"""Boosted trees (offline): one gradient-boosted classifier per arm, fitted on history, then fixed.

Each is scikit-learn's ``HistGradientBoostingClassifier`` on the features as given:

    F_a(x) = b_a + sum_t v_t(leaf of x in tree t),    f_a = 1 / (1 + exp(-F_a)),
    v = -0.1 sum_leaf (f - y) / (l2 + sum_leaf f (1 - f)),    tau_k(x) = f_k(x) - f_0(x).

Where f is small, the sum of f (1 - f) over a leaf is about the number of conversions expected in
it. With scikit-learn's l2 = 0 a leaf of 20 rows with one rare conversion counts in full, and the
model diverges. With l2 = 10 a leaf needs some ten conversions to count, the common rule of ten
events per parameter. Trees are 3 deep, as in scikit-learn's ``GradientBoostingClassifier``. Early
stopping is off: it would hold back a tenth of very few conversions. Everything else is the default.
``docs/decisions`` has the figures.

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

from typing import Annotated, Any, NamedTuple

import numpy as np

from bccb.errors import MissingExtraError
from bccb.estimators.history import by_arm
from bccb.kernels.component import Component
from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import sigmoid
from bccb.kernels.soundness import LARGE, counted, within
from bccb.types import Floats, Log

TREES, DEPTH = 100, 3
LEAVES = 1 << DEPTH
FORKS = LEAVES - 1
place = np.uint64  # an index that is never negative saves Numba a check, a third of the time
ALWAYS_LEFT = float(np.finfo(np.float64).max)  # a threshold that no feature exceeds


class State(NamedTuple):
    """The trees of each arm, all complete: fork i has the children 2 i + 1 and 2 i + 2."""

    start: Annotated[Floats, "K + 1"]  # b_a
    feature: Annotated[Floats, "K + 1", "TREES", "FORKS"]  # the one that is compared
    threshold: Annotated[Floats, "K + 1", "TREES", "FORKS"]  # left if the feature is not above
    leaf: Annotated[Floats, "K + 1", "TREES", "LEAVES"]  # v_t


LAYOUT = Layout(State)


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether memory holds trees on d features."""
    state = LAYOUT.view(memory, d, K)
    grown = counted(state.feature.ravel()) and within(state.feature, 0.0, d)
    return grown and within(state.start, -LARGE, LARGE) and within(state.leaf, -LARGE, LARGE)


@jit
def raw_score(estimator: State, arm: int, z: Floats) -> float:
    """F_a, summed in the order of the trees, as scikit-learn does."""
    feature, threshold = estimator.feature[arm], estimator.threshold[arm]
    score, leaf = estimator.start[arm], estimator.leaf[arm]
    last = place(z.shape[0] - 1)  # even a damaged file must not read outside of z
    for t in range(TREES):
        i = 0
        for _ in range(DEPTH):  # always to the bottom: no branch to predict
            at = place(i)
            which = min(place(int(feature[t, at])), last)
            i = 2 * i + 1 + int(z[which] > threshold[t, at])
        score += leaf[t, place(i - FORKS)]
    return float(score)


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k = f_k - f_0"""
    f_0 = sigmoid(raw_score(estimator, 0, z))
    for k in range(effect.shape[0]):
        effect[k] = sigmoid(raw_score(estimator, k + 1, z)) - f_0
        spread[k] = 0.0
    return True


def fit(memory: Floats, log: Log) -> None:
    """Fit every arm on ``log`` and write its trees; on failure write nothing."""
    models = [classifier(features, outcomes) for features, outcomes in by_arm(log)]
    state = LAYOUT.view(memory, log.features.shape[1], log.treatments)
    for arm, model in enumerate(models):
        state.start[arm] = model._baseline_prediction.item()
        for t, (tree,) in enumerate(model._predictors):
            grow(
                tree.nodes, 0, 0, state.feature[arm, t], state.threshold[arm, t], state.leaf[arm, t]
            )


def classifier(features: Floats, outcomes: Floats) -> Any:
    """The fitted classifier of one arm."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise MissingExtraError("scikit-learn", "lab") from None
    model = HistGradientBoostingClassifier(
        max_iter=TREES,
        max_depth=DEPTH,
        l2_regularization=10.0,
        early_stopping=False,
        random_state=0,  # for the sample of rows that sets the bins, where there are very many
    )
    # One thread: sums in another order round differently and might change a split.
    with threadpool_limits(1):
        return model.fit(features, outcomes)


def grow(nodes: Any, node: int, i: int, feature: Floats, threshold: Floats, leaf: Floats) -> None:
    """Write scikit-learn's subtree from ``node`` at place i of a complete tree.

    A leaf above the bottom is repeated at all places below it.
    """
    source = nodes[node]
    if i >= FORKS:
        leaf[i - FORKS] = source["value"]
        return
    ends = bool(source["is_leaf"])
    feature[i] = 0 if ends else source["feature_idx"]
    threshold[i] = ALWAYS_LEFT if ends else source["num_threshold"]
    for side, child in enumerate(("left", "right")):
        below = node if ends else int(source[child])
        grow(nodes, below, 2 * i + 1 + side, feature, threshold, leaf)


BOOSTED = Component(
    name="boosted",
    about="boosted trees",
    layout=LAYOUT,
    sound=sound,
    reads="raw",
    fit=fit,
    kernels={"predict": predict},
)
