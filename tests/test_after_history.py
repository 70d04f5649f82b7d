"""What is estimated as caused after history."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bccb
from bccb.after_history import ERROR, Group, Values, corrected
from bccb.data.worlds import make_world, trial_in
from bccb.estimated import Sums, interval_of
from bccb.evaluate.live import live
from bccb.types import Floats

NOTHING = Sums(0.0, 0.0, 0.0)


def group(rates: Floats, a: float, b: float) -> Group:
    return Group(rates, np.ones(len(rates)), a, b)


def sigmoid(score: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-score))


def likelihood(p: float, shift: Floats, a: float, b: float) -> Floats:
    rates = sigmoid(np.log(p / (1.0 - p)) + shift)
    return a * np.log(rates) + (b - a) * np.log(1.0 - rates)


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("b", [2_000.0, 300.0, 20.0, 0.0])
@pytest.mark.parametrize(("seen_alone", "seen"), [(0.1, 0.24), (0.15, 0.27), (0.06, 0.1)])
def test_both_errors_are_those_of_a_grid(
    share: float, b: float, seen_alone: float, seen: float
) -> None:
    """Of users of one kind, who convert at 0.2 if treated and at 0.1 otherwise, history says."""
    m, p_0, p, b_0 = 400, 0.1, 0.2, 5.0 * b
    treated = group(np.full(m, p), seen * b, b)
    alone = group(np.full(m, p_0), seen_alone * b_0, b_0)
    values = Values(np.full(m, 30.0), np.full(m, p_0), np.full(m, 20.0))
    sums = corrected(NOTHING, treated, alone, values, share)
    grid = np.linspace(-1.5, 1.5, 601)
    delta_0, delta = np.meshgrid(grid, grid, indexing="ij")
    logs = likelihood(p_0, delta_0, alone.a, b_0) + likelihood(p, delta_0 + delta, treated.a, b)
    logs -= (delta_0**2 + delta**2) / (2.0 * (share * ERROR) ** 2)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    rates = sigmoid(np.log(p / (1.0 - p)) + delta_0 + delta)
    totals = m * (30.0 * rates - 20.0 * sigmoid(np.log(p_0 / (1.0 - p_0)) + delta_0))
    mean = float((weights * totals).sum())
    spread = np.sqrt(float((weights * (totals - mean) ** 2).sum()))
    assert abs(sums.total - mean) < 0.2 * spread  # the mode, not the mean
    assert np.sqrt(sums.variance) == pytest.approx(spread, rel=0.12)


def test_cells_together_say_what_one_campaign_would() -> None:
    """Each has a quarter of the users, and errors that all have in common."""
    values = Values(np.ones(100), np.full(100, 0.1), np.ones(100))

    def of(parts: int) -> Sums:
        treated = group(np.full(100, 0.2), 250.0 / parts, 1_000.0 / parts)
        alone = group(np.full(100, 0.1), 400.0 / parts, 4_000.0 / parts)
        return corrected(NOTHING, treated, alone, values, 1.0, parts)

    one, cell = of(1), of(4)
    assert cell.total == pytest.approx(one.total)
    # a cell has 250 users, and its sample stands for them; four of them add up to the variance
    assert 4 * 250**2 * cell.variance == pytest.approx(1_000**2 * one.variance)


def test_samples_correct_for_their_own_rates() -> None:
    """Where rates differ, a sample of users with high rates does not make the odds look low."""
    draw, N, m = np.random.default_rng(1), 20_000, 200
    p = draw.uniform(0.05, 0.35, N)
    true, intervals = 0.04 * N, []
    for _ in range(300):
        part, other = (draw.choice(p, m, replace=False) for _ in range(2))
        a, a_0 = (float((draw.random(N) < rates).sum()) for rates in (p, p - 0.04))
        values = Values(np.ones(m), part - 0.04, np.ones(m))
        sums = corrected(NOTHING, group(part, a, N), group(other - 0.04, a_0, N), values, 1.0)
        intervals.append(interval_of(N, m, *sums))
    errors = np.array([each.value - true for each in intervals])
    reach = np.array([each.high - each.value for each in intervals])
    assert np.mean(np.abs(errors) <= reach) >= 0.92
    assert reach.mean() < 2.3 * errors.std()


def test_users_whose_outcome_may_still_come_count_as_far_as_it_is_learned() -> None:
    """Who came late converts more, and nothing is known of them yet."""
    rates, weights = np.repeat([0.05, 0.2], 50), np.repeat([1.0, 0.0], 50)
    values = Values(np.ones(100), 0.5 * rates, np.ones(100))
    alone = Group(0.5 * rates, weights, 25.0, 1_000.0)
    sums = corrected(NOTHING, Group(rates, weights, 50.0, 1_000.0), alone, values, 1.0)
    assert sums.total == pytest.approx(0.5 * rates.sum())


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["pooled-bayes", "hybrid"])
@pytest.mark.parametrize("odds", [0.6, 1.0, 1.6])
def test_the_users_of_today_outweigh_a_history_of_another_time(name: str, odds: float) -> None:
    """Treatments worked then, and do nothing now; the base rate is another one, too."""
    held = []
    for seed in range(3):
        past, world = (make_world("linear", n, seed=n + seed) for n in (20_000, 3_000))
        rate = odds * world.rates[:, 0] / (1.0 - world.rates[:, 0] + odds * world.rates[:, 0])
        policy = bccb.make(name, budget=150, horizon=3_000, features=12, seed=seed)
        policy.learn(trial_in(past, seed))
        run = live(policy, replace(world, rates=np.column_stack((rate, rate))))
        caused, sample = policy.caused(), policy.sample()
        assert run.value == 0.0
        held.append(caused.low < 0.0 < caused.high)
        assert sample is not None
        assert policy.estimate(sample.x, sample.arm, run.treated).low > 0.0  # history alone
    assert sum(held) >= 2


@pytest.mark.compiled
def test_a_base_rate_that_has_changed_is_no_effect() -> None:
    for seed in range(3):
        past, world = (make_world("linear", n, seed=n + seed) for n in (20_000, 5_000))
        odds = 1.5 * world.rates / (1.0 - world.rates)
        policy = bccb.make("pooled-bayes", budget=250, horizon=5_000, features=12, seed=seed)
        policy.learn(trial_in(past, seed))
        run, caused = live(policy, replace(world, rates=odds / (1.0 + odds))), policy.caused()
        assert caused.low < run.value < caused.high


def test_without_history_nothing_is_corrected() -> None:
    policy, draw = bccb.make(budget=300, horizon=500, features=2, seed=1), np.random.default_rng(3)
    for _ in range(500):
        decision = policy.decide(draw.normal(size=2), 0.2 + draw.random())
        policy.observe(decision, float(draw.random() < 0.2))
    sample = policy.sample()
    assert sample is not None
    assert sample.alone[0] == 0.0
    assert policy.estimate(sample.x, sample.arm, policy.treated or 0) == policy.estimated()
