"""Live runs against a loop through the library's own calls, and against the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bccb
from bccb import InputError, StateError
from bccb.data import simulate
from bccb.data.world import World, simulate_world
from bccb.evaluate.live import best, live
from bccb.policies import POLICIES

USERS = 600
WORLD = {k: simulate_world(USERS, seed=3, outcome="visit", treatments=k) for k in (1, 2)}
COLD = [
    name for name, spec in POLICIES.items() if not spec.needs_history and not spec.needs_effects
]


def fresh(name: str, world: World, budget: float = 60.0, **parameters: Any) -> bccb.Policy:
    K = world.costs.shape[1]
    d, n = world.features.shape[1], world.users
    return bccb.make(
        name, budget=budget, horizon=n, features=d, treatments=K, seed=11, **parameters
    )


def naive(policy: bccb.Policy, world: World) -> tuple[float, float, int]:
    value, conversions, treated = 0.0, 0.0, 0
    for row in range(world.users):
        if policy.remaining < world.costs.min():
            break
        decision = policy.decide(world.features[row], world.costs[row])
        rate = world.rates[row, decision.action]
        outcome = float(world.draws[row] < rate)
        policy.observe(decision, outcome)
        if decision.action > 0:
            value += rate - world.rates[row, 0]
            conversions += outcome
            treated += 1
    return value, conversions, treated


@pytest.mark.parametrize("name", COLD)
@pytest.mark.parametrize("treatments", [1, 2])
def test_a_live_run_equals_a_loop_of_decide_and_observe(name: str, treatments: int) -> None:
    world = WORLD[treatments]
    one, other = fresh(name, world), fresh(name, world)
    answer = naive(one, world)
    result = live(other, world)
    assert (result.value, result.conversions, result.treated) == answer
    assert result.spend == one.spent
    np.testing.assert_array_equal(one.memory, other.memory)
    np.testing.assert_array_equal(one.counts, other.counts)


def test_a_policy_after_history_equals_the_loop_too() -> None:
    past = simulate(2_000, seed=9, outcome="visit")
    one, other = fresh("hybrid", WORLD[1]), fresh("hybrid", WORLD[1])
    for policy in (one, other):
        policy.learn(past)
    value, _, treated = naive(one, WORLD[1])
    result = live(other, WORLD[1])
    assert (result.value, result.treated) == (value, treated)


def test_the_oracle_treats_those_with_the_largest_effect_for_their_cost() -> None:
    world, budget = WORLD[1], 40.0
    effects, costs = world.effects[:, 0], world.costs[:, 0]
    left, value, treated = budget, 0.0, 0
    for row in np.argsort(-effects / costs):
        if costs[row] > left or effects[row] <= 0:
            break
        left, value, treated = left - costs[row], value + effects[row], treated + 1
    result = best(world, budget)
    assert result.run.value == pytest.approx(value, abs=1e-12)
    assert result.run.treated == treated
    assert result.run.value <= result.bound <= value + effects.max()


@pytest.mark.parametrize("treatments", [1, 2])
def test_the_oracle_with_money_for_all_takes_each_users_best_effect(treatments: int) -> None:
    world = WORLD[treatments]
    result = best(world, 1e6)
    expected = np.maximum(world.effects.max(axis=1), 0).sum()
    assert result.run.value == pytest.approx(expected, abs=1e-9)
    assert result.bound == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", COLD)
def test_no_policy_causes_more_than_the_oracle(name: str, sized: Callable[[int, int], int]) -> None:
    users = sized(20_000, 1_000)
    for seed in range(sized(3, 1)):
        world = simulate_world(users, seed)
        oracle = best(world, 0.05 * users)
        result = live(fresh(name, world, 0.05 * users), world)
        assert result.spend <= 0.05 * users
        assert result.value <= oracle.run.value <= oracle.bound


@pytest.mark.compiled
def test_pooled_bayes_causes_more_than_the_papers_method() -> None:
    for seed in range(3):
        world = simulate_world(50_000, seed)
        ours, theirs = (
            live(fresh(name, world, 2_500), world).value for name in ("pooled-bayes", "bccb")
        )
        assert ours > 1.5 * theirs


def test_what_does_not_fit_the_world_is_refused() -> None:
    with pytest.raises(InputError, match="of treatments in the world is 2, but must be 1, as the"):
        live(fresh("bccb", WORLD[1]), WORLD[2])
    with pytest.raises(StateError, match="offline-uplift has learned nothing"):
        live(fresh("offline-uplift", WORLD[1]), WORLD[1])
