"""Boosted trees: the compiled trees are scikit-learn's, and rare outcomes do not blow them up."""

from __future__ import annotations

import numpy as np
import pytest

from bccb.data import simulate
from bccb.errors import FitError
from bccb.estimators.boosted import BOOSTED, DEPTH, LAYOUT, TREES, fit, predict, score_of
from bccb.estimators.trees import ALWAYS_LEFT, classifier
from bccb.types import Floats, Log


def history(n: int, d: int, K: int, seed: int = 0) -> Log:
    rng = np.random.default_rng(seed)
    features, actions = rng.normal(1.0, 2.0, (n, d)), rng.integers(0, K + 1, n)
    features[:, 0] = features[:, 0].round(1)  # ties, which thresholds may fall on
    rates = 1.0 / (1.0 + np.exp(1.5 - np.abs(features[:, 0]) - 0.5 * actions))
    outcomes = (rng.random(n) < rates).astype(float)
    return Log(features, actions, outcomes, np.full((n, K), 500_000))


def memory_for(d: int, K: int) -> Floats:
    return np.full(BOOSTED.layout.size(d, K), 7.0)


@pytest.mark.parametrize(("n", "d", "K"), [(1_000, 1, 1), (3_000, 5, 1), (1_500, 3, 2)])
def test_scores_are_those_of_scikit_learn_bit_for_bit(n: int, d: int, K: int) -> None:
    log, memory = history(n, d, K), memory_for(d, K)
    fit(memory, log)
    state, x = LAYOUT.view(memory, d, K), log.features[:100]
    probabilities = []
    for arm in range(K + 1):
        model = classifier(
            log.features[log.actions == arm], log.outcomes[log.actions == arm], TREES, DEPTH
        )
        raw = [score_of(state, arm, np.append(row, 1.0)) for row in x]
        assert raw == model.decision_function(x).tolist()
        assert len(set(raw)) > 10
        probabilities.append(model.predict_proba(x)[:, 1])
    effect, spread = np.empty(K), np.empty(K)
    for i, row in enumerate(x):
        assert predict(state, np.append(row, 1.0), effect, spread)
        expected = [probabilities[k][i] - probabilities[0][i] for k in range(1, K + 1)]
        np.testing.assert_allclose(effect, expected, rtol=0, atol=1e-15)
        assert not spread.any()


def test_a_user_on_a_threshold_and_users_far_outside_go_where_scikit_learn_sends_them() -> None:
    log, memory = history(2_000, 2, 1), memory_for(2, 1)
    fit(memory, log)
    state = LAYOUT.view(memory, 2, 1)
    rows = log.actions == 0
    model = classifier(log.features[rows], log.outcomes[rows], TREES, DEPTH)
    splits = state.threshold[0][(state.feature[0] == 0) & (state.threshold[0] < ALWAYS_LEFT)]
    assert len(splits)
    edges = np.unique([*splits, *np.nextafter(splits, np.inf), -1e100, 1e100])
    x = np.column_stack((edges, np.zeros(len(edges))))
    raw = [score_of(state, 0, np.append(row, 1.0)) for row in x]
    assert raw == model.decision_function(x).tolist()


def test_another_fit_leaves_nothing_of_the_one_before() -> None:
    once, twice = memory_for(3, 1), memory_for(3, 1)
    fit(twice, history(3_000, 3, 1, seed=1))
    for memory in (once, twice):
        fit(memory, history(200, 3, 1, seed=2))
    assert once.tobytes() == twice.tobytes()


def test_a_model_without_a_split_is_the_rate_of_its_arm() -> None:
    log, memory = history(30, 2, 1), memory_for(2, 1)  # 20 rows a leaf cannot be had twice
    fit(memory, log)
    raw = score_of(LAYOUT.view(memory, 2, 1), 0, np.array([3.0, -3.0, 1.0]))
    assert 1 / (1 + np.exp(-raw)) == pytest.approx(log.outcomes[log.actions == 0].mean())


def test_history_that_cannot_be_fitted_in_one_arm_writes_nothing() -> None:
    log, memory = history(300, 3, 2), memory_for(3, 2)
    barren = np.where(log.actions == 2, 0.0, log.outcomes)
    with pytest.raises(FitError, match="treatment 2 has only outcome 0"):
        fit(memory, Log(log.features, log.actions, barren, log.micros))
    assert (memory == 7.0).all()


@pytest.mark.parametrize("n", [3_000, 20_000])
def test_rare_outcomes_are_predicted_better_than_by_their_mean(n: int) -> None:
    """As scikit-learn's defaults are not: on new users they are far worse than the mean."""
    past, new = simulate(n, seed=900), simulate(60_000, seed=901)
    rows = past.actions == 1
    model = classifier(past.features[rows], past.outcomes[rows], TREES, DEPTH)
    treated = new.actions == 1
    y, p = new.outcomes[treated], model.predict_proba(new.features[treated])[:, 1]
    mean = past.outcomes[rows].mean()
    surprise = -(y * np.log(p) + (1 - y) * np.log1p(-p)).mean()
    assert surprise < 0.9 * -(y * np.log(mean) + (1 - y) * np.log1p(-mean)).mean()


@pytest.mark.compiled
@pytest.mark.parametrize("feature", [-5.0, 3.0, 1e9, 1e300])
def test_a_damaged_file_does_not_lead_outside_of_the_features(feature: float) -> None:
    memory = np.zeros(BOOSTED.layout.size(2, 1))
    state = LAYOUT.view(memory, 2, 1)
    state.feature[:], state.leaf[:] = feature, 0.01
    assert score_of(state, 0, np.array([5.0, 5.0, 1.0])) == pytest.approx(1.0)
