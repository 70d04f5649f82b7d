"""The reserve: a share of decisions drawn at random, so that logs keep some of every action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bccb
from bccb import Decision, Policy
from bccb.kernels import counts as count
from bccb.types import Floats

Sized = Callable[[int, int], int]
D = 2
one_and_two_treatments = pytest.mark.parametrize("treatments", [1, 2])


def fresh(treatments: int = 1, **options: Any) -> Policy:
    settings = {"budget": 100.0, "horizon": 1_000, "features": D, "seed": 3, **options}
    return bccb.make("pooled-bayes", treatments=treatments, **settings)


def users(count: int, treatments: int, seed: int = 7) -> tuple[Floats, Floats, Floats]:
    generator = np.random.default_rng(seed)
    return (
        generator.normal(size=(count, D)),
        generator.lognormal(-0.3, 0.5, (count, treatments)).round(6),
        (generator.random(count) < 0.2).astype(float),
    )


def drive(policy: Policy, count: int, seed: int = 7) -> list[Decision]:
    x, costs, outcomes = users(count, policy.treatments, seed)
    decisions = []
    for i in range(count):
        decisions.append(policy.decide(x[i], costs[i]))
        policy.observe(decisions[-1], outcomes[i])
    return decisions


def chances(decision: Decision, treatments: int) -> Floats:
    return np.array([decision.probability_of(action) for action in range(treatments + 1)])


def shares(policy: Policy, x: Floats, costs: Floats, repeats: int) -> Floats:
    """How often each action is taken on the same user from the same state, over many seeds."""
    counts, memory = policy.counts.copy(), policy.memory.copy()
    taken = np.zeros(policy.treatments + 1)
    for seed in range(repeats):
        policy.counts[:], policy.memory[:] = counts, memory
        policy.counts[count.SEED] = seed
        taken[policy.decide(x, costs).action] += 1
    policy.counts[:], policy.memory[:] = counts, memory
    return taken / repeats


@one_and_two_treatments
@pytest.mark.parametrize("reserve", [0.05, 0.4, 1.0])
def test_probability_is_the_frequency_over_many_seeds(
    treatments: int, reserve: float, sized: Sized
) -> None:
    policy, repeats = fresh(treatments, reserve=reserve, width=1.0), sized(4_000, 150)
    for stage in range(3):
        drive(policy, 60, seed=stage)
        x, costs, _ = users(1, treatments, seed=50 + stage)
        result = shares(policy, x[0], costs[0], repeats)
        expected = chances(policy.decide(x[0], costs[0]), treatments)
        assert expected.sum() == pytest.approx(1.0, abs=1e-9)
        error = np.sqrt(expected * (1 - expected) / repeats)
        assert (np.abs(result - expected) <= 4.5 * error + 1e-9).all()


@one_and_two_treatments
@pytest.mark.parametrize("reserve", [0.01, 0.4])
def test_probability_is_the_frequency_while_the_cap_binds(
    treatments: int, reserve: float, sized: Sized
) -> None:
    policy = fresh(treatments, reserve=reserve, width=1.0, cost_cap=0.3, budget=2_000.0)
    repeats, tried = sized(4_000, 150), 0.0
    for stage in range(4):
        drive(policy, 40, seed=stage)
        x, costs, _ = users(1, treatments, seed=50 + stage)
        for cost in (costs[0], costs[0] / 10.0):
            result = shares(policy, x[0], cost, repeats)
            decision = policy.decide(x[0], cost)
            expected = chances(decision, treatments)
            assert decision.price == pytest.approx(1.0 / 0.3)
            assert expected.sum() == pytest.approx(1.0, abs=1e-9)
            assert expected[0] >= reserve / 2.0 - 1e-12  # whatever is tried, some are left alone
            error = np.sqrt(expected * (1 - expected) / repeats)
            assert (np.abs(result - expected) <= 4.5 * error + 1e-9).all()
            tried = max(tried, expected[1:].sum())
    assert tried > 0.7  # far beyond a small reserve


@one_and_two_treatments
def test_every_affordable_action_keeps_its_share_of_the_reserve(treatments: int) -> None:
    policy, reserve = fresh(treatments, reserve=0.2), 0.2
    x, costs, outcomes = users(300, treatments)
    for i in range(300):
        per_user = policy.remaining / (1_000 - i)
        even = np.minimum(per_user / costs[i], 1.0) / treatments
        even = np.where(costs[i] <= policy.remaining, even, 0.0)
        decision = policy.decide(x[i], costs[i])
        least = reserve * np.append(1.0 - even.sum(), even)
        assert (chances(decision, treatments) >= least - 1e-12).all()
        assert (least > 0).all()
        policy.observe(decision, outcomes[i])


def test_a_reserve_of_1_spends_the_budget_evenly_whoever_comes(sized: Sized) -> None:
    n = sized(4_000, 1_000)
    policy = fresh(reserve=1.0, horizon=n, budget=0.1 * n)
    x, costs, outcomes = users(n, 1)
    actions = np.empty(n)
    for i in range(n):
        decision = policy.decide(x[i], costs[i])
        policy.observe(decision, outcomes[i])
        actions[i] = decision.action
        if i + 1 == n // 2:
            assert policy.spent == pytest.approx(policy.budget / 2, rel=sized(10, 25) / 100)
    assert policy.spent == pytest.approx(policy.budget, rel=0.05)
    assert policy.explored == policy.spent
    for column in x.T:  # nothing but chance and cost decides
        assert abs(np.corrcoef(column, actions)[0, 1]) < 4.5 / np.sqrt(n)


@one_and_two_treatments
def test_without_a_reserve_only_the_best_is_chosen(treatments: int) -> None:
    policy = fresh(treatments, reserve=0.0, width=1.0)
    decisions = drive(policy, 400)
    assert policy.explored == 0
    assert {decision.action > 0 for decision in decisions} == {True, False}
    for decision in decisions:
        assert (decision.action > 0) == (decision.score > 0)


@one_and_two_treatments
def test_explored_is_the_money_of_random_treatments(treatments: int) -> None:
    """All of it where treatments are known to harm, none where there is no reserve."""
    harmful: dict[str, Any] = {
        "lift": -5.0,
        "lift_spread": 1e-3,
        "lift_variation": 1e-3,
        "width": 0.0,
    }
    policy = fresh(treatments, reserve=0.5, **harmful)
    decisions = drive(policy, 600)
    treated = [decision for decision in decisions if decision.action]
    assert policy.explored == policy.spent == pytest.approx(sum(d.cost for d in treated))
    assert all(decision.score < 0 for decision in treated)
    assert policy.spent == pytest.approx(0.5 * policy.budget * 600 / 1_000, rel=0.35)
    unwilling = fresh(treatments, reserve=0.0, **harmful)
    drive(unwilling, 600)
    assert unwilling.spent == unwilling.explored == 0


def share_explored(reserve: float, haste: float, horizon: int) -> float:
    """Of the money spent, where both kinds of decision spend what they aim at.

    A random choice costs what is left per user; haste lets the best one cost more than that.
    """
    left, explored = 1.0, 0.0
    for t in range(1, horizon + 1):
        even = left / (horizon - t + 1)
        best = even * (t + 2.0 * haste) / (t + haste)
        explored += reserve * even
        left = max(left - reserve * even - (1.0 - reserve) * best, 0.0)
    return explored / (1.0 - left)


@pytest.mark.parametrize("haste", [0.0, 2_000.0])
def test_explored_is_the_share_of_the_reserve(haste: float, sized: Sized) -> None:
    n = sized(4_000, 1_000)
    useful: dict[str, Any] = {"lift": 1.0, "lift_spread": 1e-3, "lift_variation": 1e-3}
    policy = fresh(reserve=0.3, horizon=n, budget=0.1 * n, haste=haste, **useful)
    drive(policy, n)
    assert policy.spent > 0.9 * policy.budget
    expected = share_explored(0.3, haste, n)
    assert expected == pytest.approx(0.3) if haste == 0.0 else 0.3 / 1.7 < expected < 0.25
    assert policy.explored == pytest.approx(expected * policy.spent, rel=sized(25, 50) / 100)


@pytest.mark.parametrize("reserve", [0.0, 0.5, 1.0])
def test_what_cannot_be_afforded_is_never_drawn(reserve: float, sized: Sized) -> None:
    policy = fresh(2, reserve=reserve, width=1.0, budget=5.0, horizon=10)
    x = np.zeros(D)
    for costs, never in (([6.0, 1.0], [1]), ([1.0, 6.0], [2]), ([6.0, 5.000001], [1, 2])):
        result = shares(policy, x, np.array(costs), sized(500, 100))
        answer = chances(policy.decide(x, costs), 2)
        policy.counts[count.REMAINING] = policy.counts[count.BUDGET]
        assert not result[never].any()
        assert not answer[never].any()
        assert answer.sum() == pytest.approx(1.0)


def test_the_probability_outlives_being_kept() -> None:
    policy = fresh(2, reserve=0.3, budget=1.0, horizon=10)
    decision = policy.decide(np.zeros(D), [0.5, 2.0])
    again = Decision.from_dict(decision.to_dict())
    assert chances(again, 2).tolist() == chances(decision, 2).tolist()
    assert chances(again, 2)[2] == 0


def test_money_beyond_the_horizon_is_drawn_for_too() -> None:
    policy = fresh(reserve=1.0, budget=50.0, horizon=5)
    decisions = drive(policy, 12)
    assert policy.remaining >= 0
    assert all(0 < decision.probability <= 1 for decision in decisions)
