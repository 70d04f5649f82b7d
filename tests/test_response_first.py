"""response-first ranks by the predicted response per cost, whatever treatments do."""

from __future__ import annotations

import numpy as np
import pytest

import bccb
from bccb.composition import Composition
from bccb.data import simulate
from bccb.data.worlds import make_world
from bccb.estimators.pooled_prior import LAYOUT
from bccb.evaluate.live import best, live
from bccb.evaluate.replay import replay
from bccb.kernels import counts as count
from bccb.policies import POLICIES


def fresh(name: str, users: int, features: int, seed: int = 1) -> bccb.Policy:
    return bccb.make(name, budget=0.05 * users, horizon=users, features=features, seed=seed)


@pytest.mark.compiled
def test_no_outcome_changes_what_it_thinks_of_effects() -> None:
    world = make_world("harm", 20_000, seed=3)
    policy = fresh("response-first", 20_000, 12)
    live(policy, world)
    at, end = (int(policy.counts[place]) for place in (count.AT_ESTIMATOR, count.AT_EXPLORER))
    state = LAYOUT.view(policy.memory[at:end], 12, 1)
    lifts = state.theta[len(state.u) :]
    np.testing.assert_allclose(lifts, [*[0.0] * 13, 0.3], atol=1e-6)
    assert abs(state.theta[: len(state.u) - 1]).max() > 0.1  # but it learns who responds at all


@pytest.mark.compiled
def test_it_treats_whom_it_expects_to_convert_and_draws_nothing() -> None:
    world = make_world("against", 20_000, seed=4)
    runs = [live(fresh("response-first", 20_000, 12, seed), world) for seed in (1, 2)]
    assert runs[0] == runs[1]
    rate = runs[0].conversions / runs[0].treated
    assert rate > 1.5 * world.rates.mean()
    assert runs[0].value < 0.3 * best(world, 1_000.0).run.value  # those respond the least


@pytest.mark.compiled
def test_where_lifts_are_alike_it_is_as_good_as_learning_them() -> None:
    log = simulate(30_000, seed=5, outcome="visit")
    naive, ours = (replay(fresh(n, 30_000, 12), log) for n in ("response-first", "pooled-bayes"))
    assert naive.conversions == pytest.approx(ours.conversions, rel=0.1)


def test_it_is_pooled_bayes_with_a_fixed_lift() -> None:
    spec = POLICIES["response-first"]
    assert spec.composition == POLICIES["pooled-bayes"].composition
    assert isinstance(spec.composition, Composition)
    assert not spec.is_like(POLICIES["pooled-bayes"])
    assert POLICIES["hybrid"].is_like(POLICIES["pooled-trees"])
