from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bccb.data.simulator import (
    changed_rates,
    draw_features,
    load_model,
    outcome_rates,
    simulate,
)
from bccb.errors import InputError
from bccb.types import Floats, Log

# Shares of users at the mode of f0..f11, and rates (control, treated), of the trial's sample.
MODAL_SHARES = (0.265, 0.988, 0.523, 0.818, 0.956, 0.947, 0.265, 0.947, 0.523, 0.796, 0.956, 0.985)
RATES = {"visit": (0.0381, 0.0486), "conversion": (0.00184, 0.00309)}
CONCENTRATION = {0.01: 0.56, 0.02: 0.66, 0.05: 0.795, 0.10: 0.87, 0.20: 0.94}


@pytest.fixture(scope="module")
def features() -> Floats:
    return draw_features(load_model(), 500_000, np.random.default_rng(3))


def test_same_seed_gives_the_same_log() -> None:
    one, two = simulate(2_000, seed=5), simulate(2_000, seed=5)
    for field in ("features", "actions", "outcomes", "costs", "effects"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field))


def test_other_seed_gives_other_users() -> None:
    one, two = simulate(2_000, seed=5), simulate(2_000, seed=6)
    assert not np.array_equal(one.features, two.features)
    assert not np.array_equal(one.costs, two.costs)


def test_log_describes_the_trial() -> None:
    log = simulate(50_000)
    assert log.feature_names == tuple(f"f{j}" for j in range(12))
    assert log.shares.tolist() == pytest.approx([0.1496, 0.8504])
    assert log.actions.mean() == pytest.approx(0.8504, abs=0.006)
    assert set(np.unique(log.outcomes)) == {0.0, 1.0}
    assert log.costs.min() >= 0.05
    assert log.costs.max() <= 5.00


def test_one_user_can_be_simulated() -> None:
    assert simulate(1).features.shape == (1, 12)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("users", {"users": 0}),
        ("seed", {"users": 10, "seed": -1}),
        ("outcome", {"users": 10, "outcome": "revenue"}),
        ("treatments", {"users": 10, "treatments": 0}),
    ],
)
def test_bad_input_is_refused_by_name(field: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=field) as refusal:
        simulate(**arguments)
    assert refusal.value.field == field


@pytest.mark.parametrize("outcome", ["visit", "conversion"])
def test_rates_of_each_arm_are_the_trials(
    outcome: Literal["visit", "conversion"], features: Floats
) -> None:
    rates = outcome_rates(load_model(), features, outcome).mean(axis=1)
    np.testing.assert_allclose(rates, RATES[outcome], rtol=0.04)


def test_outcomes_follow_the_true_rates() -> None:
    log = simulate(300_000, seed=11, outcome="visit")
    assert log.effects is not None
    control, treated = outcome_rates(load_model(), log.features, "visit")
    np.testing.assert_allclose(log.effects[:, 0], treated - control)
    for action, truth in ((0, control), (1, treated)):
        rows = log.actions == action
        error = np.sqrt((truth[rows] * (1 - truth[rows])).sum()) / rows.sum()
        assert abs(log.outcomes[rows].mean() - truth[rows].mean()) < 4 * error


def test_no_conversion_without_a_visit() -> None:
    conversions = simulate(50_000, seed=2)
    visits = simulate(50_000, seed=2, outcome="visit")
    np.testing.assert_array_equal(conversions.features, visits.features)
    assert conversions.outcomes.sum() > 0
    assert (conversions.outcomes <= visits.outcomes).all()


def test_costs_tell_nothing_about_users() -> None:
    log = simulate(100_000)
    correlations = np.corrcoef(np.log(log.costs[:, 0]), log.features, rowvar=False)[0, 1:]
    assert np.abs(correlations).max() < 0.015


def test_features_sit_at_their_modes_as_in_the_trial(features: Floats) -> None:
    modal = (features == load_model().modes).mean(axis=0)
    np.testing.assert_allclose(modal, MODAL_SHARES, atol=0.004)


def test_conversions_are_as_concentrated_as_in_the_trial(features: Floats) -> None:
    rates = np.sort(outcome_rates(load_model(), features, "conversion")[1])[::-1]
    reached = np.cumsum(rates) / rates.sum()
    for top, share in CONCENTRATION.items():
        assert reached[int(top * len(rates))] == pytest.approx(share, abs=0.03)


def test_further_treatments_are_weaker_and_cheaper() -> None:
    log = simulate(200_000, seed=4, outcome="visit", treatments=3)
    assert log.effects is not None
    assert log.effects.shape == log.costs.shape == (200_000, 3)
    np.testing.assert_allclose(log.effects[:, 1:], 0.7 * log.effects[:, :-1])
    costs = log.costs.mean(axis=0)
    np.testing.assert_allclose(costs[1:] / costs[:-1], 0.5, rtol=0.02)
    shares = np.bincount(log.actions, minlength=4) / log.users
    np.testing.assert_allclose(shares, [0.1496, 0.2835, 0.2835, 0.2835], atol=0.004)


@pytest.fixture(scope="module")
def drifting() -> tuple[Log, Log]:
    """The same users without and with drift."""
    return simulate(120_000, seed=8), simulate(120_000, seed=8, drift=True)


def test_drift_changes_only_how_the_second_half_responds(drifting: tuple[Log, Log]) -> None:
    steady, drifted = drifting
    for field in ("features", "actions", "costs"):
        np.testing.assert_array_equal(getattr(steady, field), getattr(drifted, field))
    assert steady.effects is not None
    assert drifted.effects is not None
    first, second = slice(0, 60_000), slice(60_000, None)
    for before, after in ((steady.effects, drifted.effects), (steady.outcomes, drifted.outcomes)):
        np.testing.assert_array_equal(before[first], after[first])
        assert not np.array_equal(before[second], after[second])
    np.testing.assert_array_equal(
        np.sort(steady.effects[second, 0]), np.sort(drifted.effects[second, 0])
    )


def test_outcomes_follow_the_rates_after_the_drift() -> None:
    log = simulate(300_000, seed=11, outcome="visit", drift=True)
    half = slice(150_000, None)
    rates = outcome_rates(load_model(), log.features[half], "visit")
    changed = changed_rates(load_model(), log.features[half], rates, "visit")
    assert log.effects is not None
    np.testing.assert_allclose(log.effects[half, 0], changed[1] - changed[0], atol=1e-12)
    responders = changed[1] > np.quantile(changed[1], 0.9)
    for arm in (0, 1):
        rows = (log.actions[half] == arm) & responders
        truth = changed[arm, rows]
        error = np.sqrt((truth * (1 - truth)).sum()) / rows.sum()
        assert abs(log.outcomes[half][rows].mean() - truth.mean()) < 4 * error


def test_after_a_drift_old_models_miss_the_effects_and_new_ones_find_them(
    drifting: tuple[Log, Log],
) -> None:
    """The share of all effects among the tenth of users that a logistic regression likes best."""
    _, log = drifting
    assert log.effects is not None
    z = (log.features - log.features.mean(axis=0)) / log.features.std(axis=0)
    halves = slice(0, 60_000), slice(60_000, None)
    models = [LogisticRegression().fit(z[half], log.outcomes[half]) for half in halves]

    def share_of_effects(model: LogisticRegression, half: slice) -> float:
        effects = log.effects[half, 0] if log.effects is not None else np.empty(0)
        best = np.argsort(-model.decision_function(z[half]))[: len(effects) // 10]
        return float(effects[best].sum() / effects.sum())

    assert share_of_effects(models[0], halves[0]) > 0.7
    assert share_of_effects(models[0], halves[1]) < 0.2
    assert share_of_effects(models[1], halves[1]) > 0.7


@pytest.fixture(scope="module")
def trial() -> dict[str, Floats]:
    folder = os.environ.get("BCCB_DATA")
    if folder is None:
        pytest.skip("BCCB_DATA does not name the folder of criteo_uplift_200k.parquet")
    polars = pytest.importorskip("polars")
    table = polars.read_parquet(Path(folder) / "criteo_uplift_200k.parquet")
    return {name: table[name].to_numpy().astype(np.float64) for name in table.columns}


@pytest.mark.data
def test_features_match_the_trial(features: Floats, trial: dict[str, Floats]) -> None:
    real = np.column_stack([trial[name] for name in load_model().names])
    deviations = real.std(axis=0)
    np.testing.assert_allclose(features.std(axis=0) / deviations, 1, atol=0.05)
    np.testing.assert_allclose(
        (features - real.mean(axis=0)).mean(axis=0) / deviations, 0, atol=0.02
    )
    gap = np.corrcoef(features, rowvar=False) - np.corrcoef(real, rowvar=False)
    assert np.abs(gap).max() < 0.03


@pytest.mark.data
@pytest.mark.parametrize("outcome", ["visit", "conversion"])
def test_rates_by_active_feature_match_the_trial(
    outcome: Literal["visit", "conversion"], features: Floats, trial: dict[str, Floats]
) -> None:
    model = load_model()
    rates = outcome_rates(model, features, outcome)
    for feature, (name, mode) in enumerate(zip(model.names, model.modes, strict=True)):
        active = np.abs(trial[name] - mode) > 1e-5
        for arm in (0, 1):
            for side in (False, True):
                real = trial[outcome][(trial["treatment"] == arm) & (active == side)]
                simulated = rates[arm, (features[:, feature] != mode) == side].mean()
                error = np.sqrt(simulated / len(real))
                assert abs(simulated - real.mean()) < 3.5 * error + 0.03 * simulated
