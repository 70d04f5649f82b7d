"""Replay against a naive loop, its counts, and its incremental estimate against the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bccb
from bccb import InputError, Log, StateError
from bccb.data import simulate
from bccb.evaluate.coverage import simulate_decisions
from bccb.evaluate.proposals import drive
from bccb.evaluate.replay import POINTS, Replay, replay, stream
from bccb.kernels import counts as count
from bccb.money import cost_in_micros
from bccb.policies import POLICIES
from bccb.types import Ints

LOG = {k: simulate(2_000, seed=3, outcome="visit", treatments=k) for k in (1, 2)}


def naive(name: str, log: Log, order: Ints, budget: float) -> dict[str, float]:
    """Replay by hand, through the library's own calls; a skipped treatment is paid back."""
    policy = fresh(name, log, len(order), budget)
    e, least = log.shares, log.costs[order].min()
    answer = dict.fromkeys(("encountered", "proposed", "matched", "treated", "conversions"), 0.0)
    weights = []
    for row in order:
        if policy.remaining < least:
            break
        decision = policy.decide(log.features[row], log.costs[row])
        logged, y = log.actions[row], log.outcomes[row]
        answer["encountered"] += 1
        answer["proposed"] += decision.action > 0
        weight = 0.0
        if decision.action > 0 and logged == decision.action:
            weight = y
        elif decision.action > 0 and logged == 0:
            weight = -y * e[decision.action] / e[0]
        weights.append(weight)
        if decision.action == logged:
            answer["matched"] += 1
            if logged > 0:
                answer["treated"] += 1
                answer["conversions"] += y
            policy.observe(decision, y)
        elif decision.action > 0:
            policy.counts[count.REMAINING] += cost_in_micros(decision.cost)
    answer["spend"] = policy.spent
    answer["incremental"] = sum(weights)
    answer["incremental_se"] = float(np.sqrt(len(weights)) * np.std(weights))
    return answer


def fresh(name: str, log: Log, horizon: int, budget: float) -> bccb.Policy:
    policy = bccb.make(
        name,
        budget=budget,
        horizon=horizon,
        features=log.features.shape[1],
        treatments=log.treatments,
        seed=11,
    )
    if policy.needs_history:
        policy.learn(simulate(4_000, seed=9, outcome="visit", treatments=log.treatments))
    return policy


@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.parametrize("treatments", [1, 2])
def test_replay_equals_a_naive_loop(name: str, treatments: int) -> None:
    log = LOG[treatments]
    if POLICIES[name].needs_effects:
        assert log.effects is not None
        log = replace(log, features=log.effects, feature_names=())
    order, _ = stream(log, seed=4, users=700)
    expected = naive(name, log, order, budget=60.0)
    result = replay(fresh(name, log, 700, 60.0), log, order)
    n = expected["encountered"]
    assert result.encountered == n
    assert result.matched == expected["matched"]
    assert result.treated == expected["treated"]
    assert result.conversions == expected["conversions"]
    assert result.spend == pytest.approx(expected["spend"], abs=1e-9)
    assert result.proposed == pytest.approx(expected["proposed"] / n)
    assert result.realised == pytest.approx(expected["treated"] / max(expected["matched"], 1))
    assert result.incremental == pytest.approx(expected["incremental"])
    assert result.incremental_se == pytest.approx(expected["incremental_se"])


def test_the_run_ends_when_what_is_left_buys_nothing_more() -> None:
    log = LOG[1]
    result = replay(fresh("treat-all", log, log.users, 30.0), log)
    assert result.encountered < log.users
    assert 30.0 - result.spend < log.costs.min()


def test_a_skipped_user_is_not_learned_but_counted_by_the_clock() -> None:
    log = LOG[1]
    others = replace(log, actions=np.zeros(log.users, np.int64))
    policy = fresh("treat-all", others, log.users, 1e6)
    result = replay(policy, others)
    assert (result.matched, result.treated, result.spend) == (0, 0, 0.0)
    assert policy.decisions == result.encountered == log.users


def test_the_trajectory_ends_where_the_run_does_and_never_falls() -> None:
    log = LOG[1]
    result = replay(fresh("bccb", log, log.users, 1e6), log)
    assert result.trajectory.shape == (POINTS, 4)
    assert (np.diff(result.trajectory[:, [0, 1, 3]], axis=0) >= 0).all()
    last = result.trajectory[-1]
    assert last[0] == result.encountered
    assert last[1] == pytest.approx(result.spend)
    assert last[3] == result.conversions


def test_the_trajectory_has_the_end_of_a_run_that_ends_early() -> None:
    log = LOG[1]
    result = replay(fresh("treat-all", log, log.users, 30.0), log)
    assert result.encountered < log.users
    assert result.trajectory[-1, 0] == result.encountered
    assert result.trajectory[-1, 1] == pytest.approx(result.spend)
    assert (np.diff(result.trajectory[:, 0]) > 0).all()


def test_a_policy_without_its_history_is_refused() -> None:
    policy = bccb.make("offline-uplift", budget=1, horizon=10, features=12)
    with pytest.raises(StateError, match="learned nothing"):
        replay(policy, LOG[1])


def test_a_stream_and_its_rest_are_every_row_once() -> None:
    order, rest = stream(LOG[1], seed=1, users=1_500)
    assert sorted([*order, *rest]) == list(range(2_000))
    again, _ = stream(LOG[1], seed=1, users=1_500)
    assert order.tolist() == again.tolist()
    assert order.tolist() != stream(LOG[1], seed=2, users=1_500)[0].tolist()


@pytest.mark.parametrize("users", [0, 2_001])
def test_a_stream_longer_than_the_log_is_refused(users: int) -> None:
    with pytest.raises(InputError, match=f"users is {users}, but must be from 1 to 2000"):
        stream(LOG[1], seed=1, users=users)


def test_logs_that_do_not_fit_the_policy_are_refused() -> None:
    policy = bccb.make("bccb", budget=1, horizon=10, features=3)
    with pytest.raises(InputError, match="the number of features in the log is 12, but must be 3"):
        replay(policy, LOG[1])
    policy = bccb.make("bccb", budget=1, horizon=10, features=12)
    with pytest.raises(InputError, match="the number of treatments in the log is 2, but must be 1"):
        replay(policy, LOG[2])
    all_treated = replace(LOG[1], actions=np.ones(2_000, np.int64), known_shares=None)
    with pytest.raises(InputError, match="the share of arm 0 in the log is 0, but must be above 0"):
        replay(policy, all_treated)


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "treatments"), [("bccb", 1), ("cheapest-first", 2)])
def test_the_incremental_estimate_is_unbiased_and_its_error_honest(
    name: str, treatments: int
) -> None:
    """Against the sum of the true effects on the users who were treated and paid for.

    On average over the runs: where few controls convert, an estimate that is too high also has too
    small an error, so that single ratios are skewed.
    """
    errors, squares = [], []
    for seed in range(200):
        log = simulate(3_000, seed=1_000 + seed, outcome="visit", treatments=treatments)
        result, truth = replay_with_truth(name, log)
        errors.append(result.incremental - truth)
        squares.append(result.incremental_se**2)
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(200)
    assert 0.85 < np.std(errors) / np.sqrt(np.mean(squares)) < 1.15


def replay_with_truth(name: str, log: Log) -> tuple[Replay, float]:
    """A replay, and e_k times the true effects of all proposals, summed."""
    assert log.effects is not None
    result = replay(fresh(name, log, log.users, 300.0), log)
    order, outcomes = np.arange(log.users), log.outcomes[:, None]
    twin = fresh(name, log, log.users, 300.0)
    course = drive(twin, order, log.features, log.micros, log.actions, outcomes, pays_all=False)
    assert course.users == result.encountered
    rows = np.flatnonzero(course.actions)
    chosen = course.actions[rows]
    return result, float((log.shares[chosen] * log.effects[rows, chosen - 1]).sum())


def test_a_log_of_decisions_is_weighted_by_the_odds_of_each_user() -> None:
    log = simulate_decisions(2_000, seed=4)
    order, _ = stream(log, seed=4, users=1_500)
    result = replay(fresh("treat-all", log, 1_500, 1e6), log, order)
    assert log.probabilities is not None
    total = 0.0
    for row in order:
        p = log.probabilities[row]
        total += log.outcomes[row] * (1 if log.actions[row] else -(1 - p) / p)
    assert result.incremental == pytest.approx(total)
    assert result.incremental != pytest.approx(
        replay(
            fresh("treat-all", log, 1_500, 1e6), replace(log, probabilities=None), order
        ).incremental
    )


def test_decisions_between_several_treatments_are_left_to_evaluate() -> None:
    log = replace(LOG[2], probabilities=np.full(2_000, 0.3))
    message = "the number of treatments is 2, but must be 1 where .*: use bccb evaluate"
    with pytest.raises(InputError, match=message):
        replay(fresh("bccb", log, 700, 60.0), log)
