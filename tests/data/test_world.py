"""Users whose outcome under every action is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bccb.data.simulator import load_model, outcome_rates, simulate
from bccb.data.world import simulate_world


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
