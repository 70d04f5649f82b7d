"""What each rival causes on a stream: the truth of simulated users, estimates of others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bccb
from bccb.data import simulate
from bccb.evaluate.proposals import propose_on
from bccb.evaluate.rivals import gains_of, measure, rival_of, rivals_of
from bccb.evaluate.trials import SimulatedTrials, Trial
from bccb.policies import POLICIES


def test_without_history_only_policies_that_need_none_are_rivals() -> None:
    cold, warm = rivals_of(0), rivals_of(1)
    assert "pooled-bayes" in cold
    assert set(warm) - set(cold) == {n for n, spec in POLICIES.items() if spec.needs_history}
    assert "oracle" not in warm


def test_of_simulated_users_the_true_effects_of_all_proposals_are_summed() -> None:
    trial = SimulatedTrials(600, 0)(3)
    ((run, gains),) = measure(trial, ["cheapest-first"], 30.0, 3)
    policy = bccb.make("cheapest-first", budget=30, horizon=600, features=12, seed=3)
    result = propose_on(policy, trial.log)
    assert trial.log.effects is not None
    expected = sum(trial.log.effects[i, 0] for i in range(600) if result.actions[i] == 1)
    assert run.incremental == pytest.approx(expected)
    assert run.spend == pytest.approx(result.spend)
    assert gains.rows.tolist() == np.flatnonzero(result.actions).tolist()


def test_estimates_have_the_mean_of_the_truth_whatever_the_rates() -> None:
    drawn = simulate(400, seed=1, outcome="visit", treatments=2)
    users, actions = np.arange(400), np.resize([1, 2], 400)
    chances = np.random.default_rng(0).uniform(0.02, 0.3, (400, 3))
    truth = sum(chances[i, actions[i]] - chances[i, 0] for i in range(400))
    generator, rates = np.random.default_rng(1), np.tile([0.02, 0.1, 0.05], (400, 1))
    results = []
    for _ in range(2_000):
        logged = generator.choice(3, 400, p=drawn.shares)
        outcomes = (generator.random(400) < chances[users, logged]).astype(np.float64)
        log = replace(drawn, actions=logged, outcomes=outcomes, effects=None)
        results.append(gains_of(log, users, actions, rates).sum())
    assert abs(np.mean(results) - truth) < 4 * np.std(results) / 2_000**0.5


def test_the_outcome_model_of_a_trial_never_sees_the_stream() -> None:
    """Estimates are then linear in the outcomes of the stream, for proposals that stay the same."""
    log = replace(simulate(2_000, seed=5, outcome="visit"), effects=None)
    order, history = np.arange(1_000), np.arange(1_000, 2_000)
    results = []
    for stream in (log.outcomes[order], 1 - log.outcomes[order], np.full(1_000, 0.5)):
        other = replace(log, outcomes=np.concatenate((stream, log.outcomes[history])))
        ((run, gains),) = measure(Trial(other, order, other, history), ["treat-all"], 1e6, 1)
        assert len(gains.rows) == 1_000
        results.append(run.incremental)
    assert (results[0] + results[1]) / 2 == pytest.approx(results[2])


def test_a_policy_that_cannot_be_fitted_causes_nothing_and_says_why() -> None:
    trial = SimulatedTrials(300, 20)(1)
    ((run, gains),) = measure(trial, ["offline-uplift"], 10.0, 1)
    assert (run.incremental, run.spend, len(gains.rows)) == (0, 0, 0)
    assert run.note.startswith("treats nobody: history of")


def test_response_first_learns_from_history_where_there_is_some() -> None:
    """So that it differs from hybrid in what it thinks of effects alone."""
    log = simulate(2_000, seed=5, outcome="visit")
    order, rows = np.arange(600), np.arange(600, 2_000)
    runs = [
        next(measure(Trial(log, order, log, history), ["response-first"], 30.0, 1))[1]
        for history in (rows, rows[:0])
    ]
    picks = [gains.rows.tolist() for gains in runs]
    assert picks[0] != picks[1]
    assert rival_of("response-first", 0).needs_history is False
    assert rival_of("cheapest-first", 9).needs_history is False
