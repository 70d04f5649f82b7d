from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

import bccb
from bccb.assembly import assemble
from bccb.composition import Composition
from bccb.estimators.two_model import (
    LAYOUT,
    STANDARDISED,
    TWO_MODEL,
    State,
    learn_estimator,
    predict,
    sound,
)
from bccb.kernels.scaling import SCALER, see, standardise, view_scaler
from bccb.policy import from_bytes
from bccb.spec import Spec
from bccb.types import MOST_FEATURE, Floats, Ints


def fresh(d: int, K: int, **parameters: float) -> State:
    memory = np.zeros(TWO_MODEL.layout.size(d, K))
    defaults = {key: parameter.default for key, parameter in TWO_MODEL.parameters.items()}
    memory[:4] = list({**defaults, **parameters}.values())
    return LAYOUT.view(memory, d, K)


def users(n: int, d: int, K: int, seed: int) -> tuple[Floats, Ints, Floats]:
    """Standardised rows that end in 1, arms and outcomes that depend on both."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(3.0, 2.0, (n, d))
    arms = rng.integers(0, K + 1, n)
    outcomes = (rng.random(n) < 1.0 / (1.0 + np.exp(2.0 - raw[:, 0] + 0.5 * arms))).astype(float)
    scaler, z = view_scaler(np.zeros(SCALER.size(d)), d), np.empty((n, d + 1))
    for i in range(n):
        see(scaler, raw[i])
        standardise(scaler, raw[i], z[i])
    return z, arms, outcomes


def effects_of(state: State, z: Floats, K: int) -> tuple[bool, Floats, Floats]:
    effect, spread = np.full(K, np.nan), np.full(K, np.nan)
    return predict(state, z, effect, spread), effect, spread


@pytest.mark.parametrize(("d", "K"), [(1, 1), (4, 1), (3, 2)])
def test_every_arm_takes_the_steps_of_scikit_learns_sgd(d: int, K: int) -> None:
    state = fresh(d, K)
    models = [SGDClassifier(loss="log_loss", shuffle=False) for _ in range(K + 1)]
    for i, (z, arm, y) in enumerate(zip(*users(600, d, K, seed=d), strict=True)):
        learn_estimator(state, z, int(arm), y, 1.0)
        models[arm].partial_fit(z[None, :d], [y], classes=[0.0, 1.0])
        if i % 50 == 49:
            for live, model in zip(state.live, models, strict=True):
                expected = [*model.coef_[0], model.intercept_[0]]
                np.testing.assert_allclose(live, expected, rtol=1e-10, atol=1e-10)


def test_effect_is_the_difference_of_scikit_learns_probabilities() -> None:
    state = fresh(3, 2)
    rows, arms, outcomes = users(900, 3, 2, seed=5)
    models = [SGDClassifier(loss="log_loss", shuffle=False) for _ in range(3)]
    taken = [0, 0, 0]
    for z, arm, y in zip(rows, arms, outcomes, strict=True):
        if taken[arm] < 250:  # a multiple of 50, so that every scoring copy is fresh
            taken[arm] += 1
            learn_estimator(state, z, int(arm), y, 1.0)
            models[arm].partial_fit(z[None, :3], [y], classes=[0.0, 1.0])
    assert taken == [250, 250, 250]
    for z in rows[:20]:
        ready, effect, spread = effects_of(state, z, 2)
        f_0, f_1, f_2 = (model.predict_proba(z[None, :3])[0, 1] for model in models)
        assert ready
        np.testing.assert_allclose(effect, [f_1 - f_0, f_2 - f_0], rtol=0.0, atol=1e-10)
        assert spread.tolist() == [0.0, 0.0]


def test_scoring_copy_is_refreshed_every_50_observations_of_its_own_arm() -> None:
    state = fresh(2, 1)
    z = np.array([0.5, -1.0, 1.0])
    old = state.scoring.copy()
    for n in range(1, 121):
        learn_estimator(state, z, 1, float(n % 3 == 0), 1.0)
        if n % 50 == 0:
            np.testing.assert_array_equal(state.scoring[1], state.live[1])
            assert not np.array_equal(state.scoring[1], old[1])
            old = state.scoring.copy()
        else:
            np.testing.assert_array_equal(state.scoring, old)
        if n == 60:  # the other arm's 49 observations refresh neither
            for _ in range(49):
                learn_estimator(state, z, 0, 1.0, 1.0)
            np.testing.assert_array_equal(state.scoring, old)
    assert not state.scoring[0].any()
    assert state.seen.tolist() == [49.0, 120.0]


@pytest.mark.parametrize("K", [1, 2])
def test_effect_is_the_optimistic_prior_until_every_arm_has_its_warm_up(K: int) -> None:
    state = fresh(1, K, warm_up=20.0, refresh=5.0)
    z = np.array([1.0, 1.0])
    for arm in range(K, -1, -1):
        for _ in range(20):
            ready, effect, spread = effects_of(state, z, K)
            assert not ready
            assert effect.tolist() == [0.002] * K
            assert spread.tolist() == [0.0] * K
            learn_estimator(state, z, arm, float(arm > 0), 1.0)
    ready, effect, _ = effects_of(state, z, K)
    assert ready
    assert (effect > 0.5).all()


def test_learning_one_arm_leaves_the_others() -> None:
    state = fresh(2, 2)
    learn_estimator(state, np.array([1.0, 2.0, 1.0]), 1, 1.0, 1.0)
    assert not state.live[0].any()
    assert not state.live[2].any()
    assert state.live[1].all()


def test_fractional_outcomes_weigh_the_gradients_of_0_and_1() -> None:
    z = np.array([0.7, -0.2, 1.0])
    steps = []
    for y in (0.0, 0.25, 1.0):
        state = fresh(2, 1)
        learn_estimator(state, z, 0, y, 1.0)
        steps.append(state.live[0].copy())
    np.testing.assert_allclose(steps[1], 0.75 * steps[0] + 0.25 * steps[2], atol=1e-15)


def test_the_papers_methods_read_features_as_they_come() -> None:
    for name in ("hte-greedy", "bccb"):
        assert bccb.policies.spec_of(name).composition.components[0] is TWO_MODEL
    assert (TWO_MODEL.reads, STANDARDISED.reads) == ("raw", "standardised")
    assert TWO_MODEL.kernels == STANDARDISED.kernels


@pytest.mark.parametrize(("estimator", "alike"), [("two-model", False), (STANDARDISED.name, True)])
def test_only_the_standardised_variant_decides_alike_in_other_units(
    estimator: str, alike: bool
) -> None:
    """In units of 1024, which rounding does not show."""
    spec = Spec("one", "", Composition(estimator, "beta-difference", "pace-ratio"))
    plain, scaled = (assemble(spec, budget=1e6, horizon=400, features=2, seed=1) for _ in range(2))
    rng = np.random.default_rng(1)
    same = []
    for x, y in zip(rng.normal(size=(400, 2)), rng.random(400) < 0.3, strict=True):
        one, other = plain.decide(x, 0.01), scaled.decide(1024.0 * x, 0.01)
        same.append(one.score == other.score)
        plain.observe(one, float(y))
        scaled.observe(other, float(y))
    assert all(same) == alike


@pytest.mark.parametrize("size", [1e9, MOST_FEATURE])
def test_features_of_any_size_leave_everything_finite(size: float) -> None:
    """With the largest steps that there are; what comes of them can be saved."""
    state = fresh(2, 1, alpha=TWO_MODEL.parameters["alpha"].least, warm_up=10.0, refresh=1.0)
    rng = np.random.default_rng(2)
    for i in range(2_000):
        z = np.array([*rng.choice([-size, size], 2), 1.0])
        learn_estimator(state, z, i % 2, float(rng.random() < 0.5), 1.0)
        ready, effect, _ = effects_of(state, z, 1)
        assert -1.0 <= effect[0] <= 1.0
    assert ready
    assert abs(state.live).max() > size
    memory = np.concatenate([np.ravel(part) for part in state])
    assert sound(memory, 2, 1)


def test_a_policy_that_saw_the_largest_features_is_saved_and_loaded() -> None:
    policy = bccb.make("bccb", budget=100.0, horizon=300, features=2, seed=3, alpha=1e-12)
    rng = np.random.default_rng(3)
    for _ in range(300):
        decision = policy.decide(rng.choice([-MOST_FEATURE, MOST_FEATURE], 2), 0.1)
        assert np.isfinite(decision.score)
        policy.observe(decision, float(rng.random() < 0.5))
    again = from_bytes(policy.to_bytes())
    assert again.memory.tobytes() == policy.memory.tobytes()
