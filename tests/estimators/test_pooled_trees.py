"""Pooled trees: scores of trees that did not see a row, and the pooled model on top of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bccb.errors import FitError
from bccb.estimators import pooled_trees
from bccb.estimators.pooled_logistic import POOLED_LOGISTIC
from bccb.estimators.pooled_trees import DEPTH, FOLDS, POOLED_TREES, RATE, TREES, refit
from bccb.estimators.trees import binned, classifier, edges_of
from bccb.kernels.scaling import SCALER, see_robustly, standardise_and_keep, view_scaler
from bccb.kernels.store import Rows
from bccb.types import Floats

D, K, N = 3, 2, 240


def rows_of(n: int = N, seed: int = 1) -> Rows:
    draws = np.random.default_rng(seed)
    x, arm = draws.normal(size=(n, D)), draws.integers(0, K + 1, n)
    y = (draws.random(n) < 0.2 + 0.3 * (arm > 0) * (np.abs(x[:, 0]) < 0.7)).astype(float)
    b = draws.choice([0.5, 1.0, 2.0], n)
    number = np.arange(1, n + 1)
    return Rows(number, np.zeros(n, np.int64), x, arm, y * b, b)


def scaler_of(rows: Rows) -> Floats:
    memory = np.zeros(SCALER.size(D))
    for x in rows.x:
        see_robustly(view_scaler(memory, D), x)
    return memory


def fresh(**parameters: float) -> Floats:
    memory = np.zeros(POOLED_TREES.layout.size(D, K))
    POOLED_TREES.begin(memory, D, K, parameters)
    return memory


def view(memory: Floats) -> Any:
    return POOLED_TREES.layout.view(memory, D, K)


def test_a_refit_learns_all_rows_with_scores_by_trees_that_did_not_see_them() -> None:
    rows = rows_of()
    scaler = scaler_of(rows)
    state = view(refit(fresh(lift=0.2), scaler, D, K, rows))
    inputs: Floats = np.column_stack((rows.x, rows.arm.astype(np.float64)))
    edges = [edges_of(inputs[:, j]) for j in range(D + 1)]
    scores, models = np.empty((N, K + 1)), []
    for fold in range(FOLDS):
        own = rows.number % FOLDS == fold
        y, x, weights = pooled_trees.labelled(binned(inputs, edges), rows, ~own)
        models.append(classifier(x, y, TREES, DEPTH, weights, RATE))
        scores[own] = predicted(models[-1], rows.x[own], edges)
    naive = view(fresh(lift=0.2))
    naive.centre[:] = np.average(scores, axis=0, weights=rows.b)
    z = np.empty(2 * D + 1)
    for i in range(N):
        standardise_and_keep(view_scaler(scaler, D), rows.x[i], z)
        naive.scores[:] = scores[i]
        pooled_trees.learn_given(naive, z, rows.arm[i], rows.a[i], rows.b[i])
    np.testing.assert_allclose(state.centre, naive.centre, atol=1e-12)
    np.testing.assert_allclose(state.theta, naive.theta, atol=1e-9)
    np.testing.assert_allclose(state.covariance, naive.covariance, atol=1e-9)
    assert state.base[0] == pytest.approx(rows.b.sum())
    # a new user has the average of all trees
    standardise_and_keep(view_scaler(scaler, D), np.array([0.1, -2.0, 9.0]), z)
    effect, spread = np.empty(K), np.empty(K)
    POOLED_TREES.kernels["predict"](state, z, effect, spread)
    expected = np.mean([predicted(model, z[None, D + 1 :], edges) for model in models], axis=0)
    np.testing.assert_allclose(state.scores, expected[0], atol=1e-12)


def predicted(model: Any, x: Floats, edges: list[Floats]) -> Floats:
    """The base score and the lift scores."""
    raw = [
        model.decision_function(binned(np.column_stack((x, np.full(len(x), arm))), edges))
        for arm in range(K + 1)
    ]
    return np.column_stack([raw[0], *(raw[k] - raw[0] for k in range(1, K + 1))])


def test_before_the_first_fit_it_is_the_pooled_model() -> None:
    rows, z = rows_of(), np.empty(2 * D + 1)
    scaler, trees, plain = scaler_of(rows), view(fresh()), POOLED_LOGISTIC.fresh(D, K)
    found = np.empty((2, K))
    for i in range(N):
        standardise_and_keep(view_scaler(scaler, D), rows.x[i], z)
        POOLED_TREES.kernels["learn_estimator"](trees, z, rows.arm[i], rows.a[i], rows.b[i])
        POOLED_LOGISTIC.kernels["learn_estimator"](
            plain, z[: D + 1], rows.arm[i], rows.a[i], rows.b[i]
        )
        POOLED_TREES.kernels["predict"](trees, z, found[0], np.empty(K))
        POOLED_LOGISTIC.kernels["predict"](plain, z[: D + 1], found[1], np.empty(K))
        np.testing.assert_allclose(found[0], found[1], atol=1e-12)


def test_what_it_learns_is_sound_at_every_step() -> None:
    rows = rows_of(1_200)
    memory, z = refit(fresh(), scaler_of(rows), D, K, rows), np.empty(2 * D + 1)
    following = set()
    for i in range(700):
        standardise_and_keep(view_scaler(scaler_of(rows_of(20)), D), rows.x[i], z)
        POOLED_TREES.kernels["learn_estimator"](view(memory), z, rows.arm[i], rows.a[i], rows.b[i])
        if i % 50 == 0:
            POOLED_TREES.check(memory, D, K)
        following.add(float(view(memory).step[0]))
    assert following == {K * (D + 2.0)}  # a small model follows its prior at once
    POOLED_TREES.check(memory, D, K)
    view(memory).leaf[0, 0, 0] = 1e200
    with pytest.raises(ValueError, match="what pooled-trees has learned is 'damaged'"):
        POOLED_TREES.check(memory, D, K)


def test_all_prior_variances_are_learned() -> None:
    rows = rows_of(1_200)
    state = view(refit(fresh(prior_strength=0.1), scaler_of(rows), D, K, rows))
    of_features = [state.lift_variation**2 / D] * D
    first = [*of_features, state.lift_slope**2, state.lift_score_spread**2]
    assert not np.isclose(state.variances, first, rtol=1e-3).any()


def test_rows_that_do_not_allow_a_fit_are_refused() -> None:
    rows = rows_of()
    for wrong, message in (
        (rows._replace(arm=np.minimum(rows.arm, 1)), "no user in arm 2"),
        (rows._replace(a=np.zeros(N)), "all users have the same outcome"),
        (rows._replace(a=rows.b), "all users have the same outcome"),
    ):
        with pytest.raises(FitError, match=message):
            refit(fresh(), scaler_of(rows), D, K, wrong)
    with pytest.raises(FitError, match="there are no features"):
        refit(fresh(), scaler_of(rows), 0, K, rows._replace(x=np.empty((N, 0))))
