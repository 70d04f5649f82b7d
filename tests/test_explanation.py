from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import bccb
from bccb.data.world import simulate_world
from bccb.data.worlds import make_world
from bccb.encoding import Encoding, Feature, plain
from bccb.errors import InputError, StateError
from bccb.estimators.pooled_logistic import POOLED_LOGISTIC, write_inputs
from bccb.evaluate.live import live
from bccb.kernels import counts as count
from bccb.kernels.scaling import standardise_robustly, view_scaler
from bccb.policy import Policy
from bccb.segments import segments_of
from bccb.types import Floats


def driven(name: str = "pooled-bayes", users: int = 600, treatments: int = 2) -> Policy:
    more: dict[str, Any] = {"first_fit": 300.0} if name == "pooled-trees" else {}
    policy = bccb.make(
        name, budget=120, horizon=users, features=2, treatments=treatments, seed=1, **more
    )
    draw = np.random.default_rng(3)
    for _ in range(users):
        x = draw.normal(size=2)
        decision = policy.decide(x, [0.5] * treatments)
        policy.observe(
            decision, float(draw.random() < 0.1 + 0.3 * (decision.action > 0) * (x[0] > 0))
        )
    return policy


def sigmoid(score: float) -> float:
    return 1.0 / (1.0 + math.exp(-score))


def test_intervals_are_those_of_a_numerical_gradient() -> None:
    policy, K = driven(), 2
    x = np.random.default_rng(4).normal(size=(90, 2))
    explained = policy.explain(x, names=["age", "income"])
    at, end = policy.counts[count.AT_ESTIMATOR], policy.counts[count.AT_EXPLORER]
    state = POOLED_LOGISTIC.layout.view(policy.memory[at:end].copy(), 2, K)
    scaler, z, inputs = view_scaler(policy.memory[:at], 2), np.zeros(3), []
    for row in x:
        standardise_robustly(scaler, row, z)
        write_inputs(state, z)
        inputs.append((state.u.copy(), state.r.copy()))
    theta, S = state.theta.copy(), state.covariance

    def effects(weights: Floats, k: int) -> Floats:
        found = []
        for u, r in inputs:
            own = len(u) + k * len(r)
            base = weights[: len(u)] @ u
            found.append(sigmoid(base + weights[own : own + len(r)] @ r) - sigmoid(base))
        return np.array(found)

    slopes = np.array([(p := sigmoid(theta[: len(u)] @ u)) * (1 - p) for u, _ in inputs])
    for k, treatment in enumerate(explained.treatments):
        tau = effects(theta, k)
        G = np.array(
            [
                (effects(theta + h, k) - effects(theta - h, k)) / 2e-5
                for h in 1e-5 * np.eye(len(theta))
            ]
        ).T

        def error(weights: Floats, tau: Floats = tau, G: Floats = G) -> float:
            parts = [np.where(weights > 0, weights, 0), np.where(weights < 0, weights, 0)]
            sampling = sum(
                (part**2 * (tau - (part @ tau) / (part.sum() or 1)) ** 2).sum() for part in parts
            )
            g = weights @ G
            return math.sqrt(g @ S @ g + (0.1 * weights @ slopes) ** 2 + sampling)

        whole = np.full(90, 1 / 90)
        assert treatment.average.value == pytest.approx(tau.mean(), rel=1e-9)
        reach = treatment.average.high - treatment.average.value
        assert reach == pytest.approx(1.959964 * error(whole), rel=1e-4)
        for feature in treatment.features:
            column = x[:, ["age", "income"].index(feature.feature)]
            thirds = np.argsort(np.argsort(column)) // 30
            means = [tau[thirds == third].mean() for third in range(3)]
            assert [each.effect.value for each in feature.segments] == pytest.approx(means)
            high, low = int(np.argmax(means)), int(np.argmin(means))
            weights = ((thirds == high) * 1.0 - (thirds == low)) / 30
            difference = feature.difference
            assert difference.value == pytest.approx(means[high] - means[low])
            reach = difference.high - difference.value  # with Bonferroni for three pairs
            assert reach == pytest.approx(2.393980 * error(weights), rel=1e-4)


def test_trees_are_averaged_like_what_was_caused() -> None:
    policy = driven("pooled-trees", treatments=1)
    assert policy.fits > 0
    x = np.random.default_rng(4).normal(size=(90, 2))
    average = policy.explain(x).treatments[0].average
    assert average.value == pytest.approx(policy.estimate(x, np.ones(90), 90).value / 90)


def test_the_feature_on_which_the_effect_depends_comes_first() -> None:
    explained = driven("pooled-trees", 1_500, 1).explain(names=["age", "income"])
    first, second = explained.treatments[0].features
    assert first.feature == "age"
    assert (first.least, first.most) == (first.segments[0].name, first.segments[2].name)
    assert first.is_clear
    assert not second.is_clear
    assert explained.figures()["treatments"][0]["features"][0]["is_clear"]
    json.dumps(explained.figures())
    text = str(explained)
    assert f"age: most for {first.most}, least for {first.least}" in text
    assert "No clear difference by income" in text


def test_the_shares_of_treated_users_hold_the_truth() -> None:
    world = make_world("few", 5_000, seed=3)
    policy = bccb.make(budget=500, horizon=5_000, features=1, seed=3)
    treated = []
    for row, costs, rates, draw in zip(
        world.features, world.costs, world.rates, world.draws, strict=True
    ):
        decision = policy.decide(row, costs[0])
        policy.observe(decision, float(draw < rates[decision.action]))
        treated.append(decision.action > 0)
    explained = policy.explain()
    assert explained.treated == sum(treated)
    thirds = np.argsort(np.argsort(world.features[:, 0])) * 3 // 5_000
    (feature,) = explained.treatments[0].features
    for third, segment in enumerate(feature.segments):
        share = np.mean(np.array(treated)[thirds == third])
        assert segment.treated is not None
        assert segment.treated.low <= share <= segment.treated.high
        assert segment.share == pytest.approx(1 / 3, abs=0.001)


@pytest.mark.compiled
def test_the_truth_is_inside_in_most_worlds() -> None:
    inside = []
    for seed in range(8):
        world = simulate_world(10_000, seed=seed, outcome="visit")
        policy = bccb.make(budget=1_000, horizon=10_000, features=12, seed=seed)
        live(policy, world)
        explained = policy.explain(world.features).treatments[0].features
        encoding = plain([f"x{j}" for j in range(12)])
        places = {
            each.feature: each.places(world.features)
            for each in segments_of(world.features, encoding)
        }
        for feature in explained:
            for place, segment in enumerate(feature.segments):
                effect = world.effects[places[feature.feature] == place, 0].mean()
                inside.append(segment.effect.low <= effect <= segment.effect.high)
    assert np.mean(inside) > 0.85


def test_categories_are_explained_by_level() -> None:
    encoding = Encoding((Feature("plan", "category", ("a", "b", "c")),))
    policy = bccb.make("pooled-bayes", budget=100, horizon=900, features=2, seed=1)
    rows = np.array([encoding.row({"plan": "abc"[i % 3]}) for i in range(900)])
    for row in rows:
        decision = policy.decide(row, 0.3)
        policy.observe(decision, float(decision.action and row[0]))
    (feature,) = policy.explain(rows, encoding).treatments[0].features
    assert [segment.name for segment in feature.segments] == ["a", "b", "c"]
    assert feature.most == "b"
    assert feature.is_clear


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bccb", "bccb cannot tell what it has learned: .*use pooled-trees"),
        ("uplifting-bandit", "cannot tell what it has learned"),
        ("treat-all", "cannot tell what it has learned"),
        ("response-first", "takes the effect of a treatment as given"),
        ("pooled-bayes", "keeps no users to average effects over: give rows"),
        ("pooled-trees", "has learned 0 outcomes, of 100 needed"),
    ],
)
def test_policies_that_cannot_tell_say_why(name: str, message: str) -> None:
    policy = bccb.make(name, budget=10, horizon=10, features=2)
    with pytest.raises(StateError, match=message):
        policy.explain()


def test_rows_must_be_those_of_the_policy() -> None:
    policy = driven()
    with pytest.raises(InputError, match="the shape of rows"):
        policy.explain(np.zeros((5, 3)))
    with pytest.raises(InputError, match="the number of rows is 0"):
        policy.explain(np.zeros((0, 2)))


def test_explaining_changes_nothing() -> None:
    policy = driven("pooled-trees", treatments=1)
    before = policy.to_bytes()
    policy.explain()
    assert policy.to_bytes() == before
