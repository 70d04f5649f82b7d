"""Trees as arrays: those that scikit-learn grew on bins compare features, to the bit."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from bccb.errors import MissingExtraError
from bccb.estimators.trees import (
    BINS,
    binned,
    check_installed,
    classifier,
    edges_of,
    raw_score,
    sound,
    write,
)

TREES, DEPTH = 12, 3
LEAVES = 1 << DEPTH
FORKS = LEAVES - 1


def test_trees_that_were_grown_on_bins_score_features() -> None:
    draws = np.random.default_rng(1)
    x = draws.normal(size=(3_000, 3))
    x[:, 1] = x[:, 1].round(1)  # few values, on which thresholds may fall
    x[:, 2] = 1e100 * x[:, 2]
    weights = draws.uniform(0.1, 4.0, 3_000)
    y = (draws.random(3_000) < 1.0 / (1.0 + np.exp(1.0 - np.abs(x[:, 0]) - x[:, 1]))).astype(float)
    edges = [edges_of(x[:, j]) for j in range(3)]
    model = classifier(binned(x, edges), y, TREES, DEPTH, weights)
    feature, threshold = np.zeros((TREES, FORKS)), np.zeros((TREES, FORKS))
    leaf = np.zeros((TREES, LEAVES))
    start = write(model, feature, threshold, leaf, edges)
    assert sound(np.array([start]), feature, leaf, 3)
    on_edges = np.array([[edges[0][7], edges[1][3], edges[2][9]]])
    new = np.concatenate((x[:500], on_edges, draws.normal(size=(200, 3)), np.full((1, 3), -1e90)))
    found = [raw_score(start, feature, threshold, leaf, row, DEPTH) for row in new]
    assert found == model.decision_function(binned(new, edges)).tolist()
    assert len(set(found)) > 50


def test_bins_hold_about_as_many_rows_each() -> None:
    values = np.random.default_rng(1).exponential(size=10_000)
    edges = edges_of(values)
    assert len(edges) == BINS - 1
    counts = np.bincount(binned(values[:, None], [edges])[:, 0].astype(int))
    assert len(counts) == BINS
    assert 30 <= counts.min() <= counts.max() <= 50


@pytest.mark.parametrize(
    ("values", "edges"),
    [([3.0], []), ([2.0, 2.0], []), ([0.0, 1.0, 1.0], [0.5]), ([-1.7e308, 1.7e308], [0.0])],
)
def test_few_values_are_cut_between_them(values: list[float], edges: list[float]) -> None:
    assert edges_of(np.array(values)).tolist() == edges


@pytest.mark.parametrize("module", ["sklearn", "threadpoolctl"])
def test_what_is_missing_is_named(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bccb\[lab\]'"):
        check_installed()
    with pytest.raises(MissingExtraError, match=r"pip install 'bccb\[lab\]'"):
        classifier(np.zeros((2, 1)), np.array([0.0, 1.0]), 1, 1)


def test_scikit_learn_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys, bccb, bccb.cli; bccb.make(budget=1, horizon=1, features=1); "
        "assert not {'sklearn', 'threadpoolctl', 'joblib'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
