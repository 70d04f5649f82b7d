"""Users whose outcome under every action is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bccb.data.simulator import load_model, outcome_rates, simulate
from bccb.data.world import VARIATION, simulate_world, trial_with_amounts, with_amounts
from bccb.data.worlds import make_world, trial_in


@pytest.mark.parametrize("treatments", [1, 2])
def test_the_users_are_those_of_the_simulated_trial(treatments: int) -> None:
    world = simulate_world(3_000, seed=4, outcome="visit", treatments=treatments)
    log = simulate(3_000, seed=4, outcome="visit", treatments=treatments)
    assert log.effects is not None
    np.testing.assert_array_equal(world.features, log.features)
    np.testing.assert_array_equal(world.costs, log.costs)
    np.testing.assert_allclose(world.effects, log.effects, atol=1e-15)


def test_rates_are_those_of_the_model() -> None:
    world = simulate_world(60_000, seed=4)  # more than one block
    answer = outcome_rates(load_model(), world.features, "conversion")
    np.testing.assert_allclose(world.rates, answer.T, atol=1e-15)


def test_outcomes_come_at_their_rates_and_an_action_that_helps_takes_nothing_away() -> None:
    world = simulate_world(100_000, seed=1, outcome="visit")
    outcomes = world.draws[:, None] < world.rates
    deviations = np.sqrt((world.rates * (1 - world.rates)).sum(axis=0))
    assert (abs((outcomes - world.rates).sum(axis=0)) < 4 * deviations).all()
    helped = world.effects[:, 0] >= 0
    assert not (outcomes[helped, 0] & ~outcomes[helped, 1]).any()


def test_draws_are_not_those_of_the_trial() -> None:
    world, log = simulate_world(50_000, seed=2, outcome="visit"), simulate(50_000, 2, "visit")
    same = (world.draws < world.rates[np.arange(50_000), log.actions]) & (log.outcomes > 0)
    chance = (world.rates[np.arange(50_000), log.actions] * (log.outcomes > 0)).sum()
    assert abs(same.sum() - chance) < 4 * math.sqrt(chance)


def test_a_trial_in_money_brings_what_the_users_of_the_world_bring() -> None:
    log = simulate(2_000, seed=3, outcome="visit")
    made = trial_with_amounts(log, seed=3)
    world = with_amounts(simulate_world(2_000, 3, "visit"), VARIATION, 3)
    assert world.amounts is not None
    assert made.effects is not None
    assert made.amounts
    assert made.outcomes.tolist() == (log.outcomes * world.amounts.drawn).tolist()
    assert made.effects == pytest.approx(world.effects)


def test_features_tell_the_same_of_amounts_in_history() -> None:
    log, past = (trial_in(make_world("additive", 4_000, seed), seed) for seed in (1, 2))
    now, before = trial_with_amounts(log, 5), trial_with_amounts(log, 5, past=(past, 6))
    assert before.features.tolist() == past.features.tolist()
    assert not np.array_equal(now.outcomes, before.outcomes)
    slopes = []
    for one, counted in ((now, log), (before, past)):
        assert one.effects is not None
        assert counted.effects is not None
        logs = np.log(one.effects[:, 0] / counted.effects[:, 0])
        slopes.append(np.linalg.lstsq(np.c_[one.features, np.ones(4_000)], logs, rcond=None)[0])
    assert slopes[1] == pytest.approx(slopes[0], abs=0.02)
    assert np.linalg.norm(slopes[0][:-1]) > 0.4
