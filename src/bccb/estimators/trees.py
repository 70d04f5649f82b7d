r"""Boosted trees as arrays: scikit-learn grows them, a kernel goes down.

Trees are complete: fork i has the children 2 i + 1 and 2 i + 2. The classifier is
scikit-learn's ``HistGradientBoostingClassifier``:

    F(x) = start + sum_t v_t(leaf of x in tree t),    f = 1 / (1 + exp(-F)),
    v = -rate sum_leaf (f - y) / (l2 + sum_leaf f (1 - f)).

Where f is small, the sum of f (1 - f) over a leaf is about the number of conversions expected in
it. With scikit-learn's l2 = 0 a leaf of 20 rows with one rare conversion counts in full, and the
model diverges. With l2 = 10 a leaf needs some ten conversions to count, the common rule of ten
events per parameter. Early stopping is off: it would hold back a tenth of very few conversions.
Everything else is the default.
``docs/decisions`` has the figures.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from bccb.errors import MissingExtraError
from bccb.estimators.threads import one_thread
from bccb.kernels.jit import jit
from bccb.kernels.soundness import LARGE, counted, within
from bccb.types import Floats

place = np.uint64  # an index that is never negative saves Numba a check, a third of the time
BINS = 255  # of scikit-learn at most
ALWAYS_LEFT = float(np.finfo(np.float64).max)  # a threshold that no feature exceeds


@jit
def value_of(
    t: int, feature: Floats, threshold: Floats, leaf: Floats, x: Floats, depth: int
) -> float:
    """v_t of the leaf of x in tree t."""
    last = place(x.shape[0] - 1)  # even a damaged file must not read outside of x
    i = 0
    for _ in range(depth):  # always to the bottom: no branch to predict
        at = place(i)
        which = min(place(int(feature[t, at])), last)
        i = 2 * i + 1 + int(x[which] > threshold[t, at])
    return float(leaf[t, place(i - feature.shape[1])])


@jit
def raw_score(
    start: float, feature: Floats, threshold: Floats, leaf: Floats, x: Floats, depth: int
) -> float:
    """F(x) of trees, one per row, summed in their order, as scikit-learn does."""
    score = start
    for t in range(feature.shape[0]):
        score += value_of(t, feature, threshold, leaf, x, depth)
    return float(score)


def classifier(
    features: Floats,
    outcomes: Floats,
    trees: int,
    depth: int,
    weights: Floats | None = None,
    rate: float = 0.1,
) -> Any:
    """A fitted classifier."""
    check_installed()
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=trees,
        max_depth=depth,
        learning_rate=rate,
        l2_regularization=10.0,
        early_stopping=False,
        random_state=0,  # for the sample of rows that sets the bins, where there are very many
    )
    # One thread: sums in another order round differently and might change a split.
    with one_thread():
        return model.fit(features, outcomes, weights)


def check_installed() -> None:
    """Say what to install where trees cannot be grown."""
    if not (find_spec("sklearn") and find_spec("threadpoolctl")):
        raise MissingExtraError("scikit-learn", "lab")


def edges_of(values: Floats) -> Floats:
    """Where to cut the values of a feature into bins with about as many rows each.

    scikit-learn cuts, too, but takes seconds for that where rows have weights.

    >>> edges_of(np.array([1.0, 3.0, 3.0, 7.0])).tolist()
    [2.0, 5.0]
    """
    distinct = np.unique(values)
    if len(distinct) > BINS:
        shares = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
        return np.unique(np.quantile(values, shares, method="closest_observation"))
    return 0.5 * distinct[:-1] + 0.5 * distinct[1:]  # the sum might overflow


def binned(columns: Floats, edges: list[Floats]) -> Floats:
    """The number of the bin of each value: how many edges are below it."""
    bins = np.empty(columns.shape)
    for j, cuts in enumerate(edges):
        bins[:, j] = np.searchsorted(cuts, columns[:, j], side="left")
    return bins


def write(
    model: Any,
    feature: Floats,
    threshold: Floats,
    leaf: Floats,
    edges: list[Floats] | None = None,
) -> float:
    """Write the trees of a classifier, one per row; return the score that they start from.

    With ``edges`` it was fitted on bins; the trees that are written compare features.
    """
    for t, (tree,) in enumerate(model._predictors):
        grow(tree.nodes, 0, 0, feature[t], threshold[t], leaf[t])
    if edges is not None:
        for t, i in np.argwhere(threshold != ALWAYS_LEFT).tolist():
            threshold[t, i] = edges[int(feature[t, i])][int(threshold[t, i])]
    return float(model._baseline_prediction.item())


def grow(nodes: Any, node: int, i: int, feature: Floats, threshold: Floats, leaf: Floats) -> None:
    """Write scikit-learn's subtree from ``node`` at place i of a complete tree.

    A leaf above the bottom is repeated at all places below it.
    """
    source, forks = nodes[node], len(feature)
    if i >= forks:
        leaf[i - forks] = source["value"]
        return
    ends = bool(source["is_leaf"])
    feature[i] = 0 if ends else source["feature_idx"]
    threshold[i] = ALWAYS_LEFT if ends else source["num_threshold"]
    for side, child in enumerate(("left", "right")):
        below = node if ends else int(source[child])
        grow(nodes, below, 2 * i + 1 + side, feature, threshold, leaf)


def sound(start: Floats, feature: Floats, leaf: Floats, features: int) -> bool:
    """Whether these can be trees on so many features."""
    grown = counted(feature.ravel()) and within(feature, 0.0, features)
    return grown and within(start, -LARGE, LARGE) and within(leaf, -LARGE, LARGE)
