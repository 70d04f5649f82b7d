"""Evaluations of logs of decisions: against naive loops, known truth, and what must be said."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import bccb
from bccb import Log
from bccb.data import simulate
from bccb.data.simulator import load_model, outcome_rates
from bccb.evaluate import outcome_model
from bccb.evaluate.caused import caused_by
from bccb.evaluate.coverage import simulate_decisions
from bccb.evaluate.estimates import Estimate
from bccb.evaluate.evaluation import (
    SEEDS,
    Evaluation,
    evaluate_log,
    evaluate_policy,
    evaluate_proposals,
    unsuitable,
)
from bccb.evaluate.overlap import OutsideOverlap
from bccb.evaluate.proposals import Proposals, propose_on
from bccb.intervals import Interval
from bccb.types import Ints

LOG = simulate_decisions(4_000, seed=2)
RATES = outcome_model.outcome_rates(LOG)


def naive_weighted(log: Log, proposals: Ints | None = None) -> float:
    """IPW by the book: the log's own treatments, or these proposals."""
    assert log.probabilities is not None
    total = 0.0
    for row in range(log.users):
        a, y, p = int(log.actions[row]), float(log.outcomes[row]), float(log.probabilities[row])
        if proposals is None:
            total += y if a > 0 else -y * (1 - p) / p
        elif proposals[row] > 0:
            total += y / p if a == proposals[row] else (-y / p if a == 0 else 0.0)
    return total


def several(users: int, seed: int) -> Log:
    """A log of decisions between two treatments, with probabilities that features tell."""
    trial = simulate(users, seed=seed, outcome="visit", treatments=2)
    assert trial.effects is not None
    generator = np.random.default_rng(seed)
    alone = 0.3 + 0.4 * (trial.features != load_model().modes).mean(axis=1)
    chances = np.column_stack((alone, 0.6 * (1 - alone), 0.4 * (1 - alone)))
    draw = generator.random(users)[:, None]
    actions = (draw > np.cumsum(chances, axis=1)[:, :2]).sum(axis=1)
    control = outcome_rates(load_model(), trial.features, "visit")[0]
    effects, everyone = np.column_stack((np.zeros(users), trial.effects)), np.arange(users)
    return replace(
        trial,
        actions=actions,
        outcomes=generator.random(users) < control + effects[everyone, actions],
        probabilities=chances[everyone, actions],
        known_shares=None,
    )


def fixed(log: Log, actions: Ints) -> Proposals:
    return Proposals(actions, float(log.costs[actions > 0, 0].sum()), 0)


def test_the_log_itself_is_reported_in_full() -> None:
    result = evaluate_log(LOG, RATES)
    treated = LOG.actions == 1
    assert result.treated == treated.sum()
    assert result.conversions == LOG.outcomes[treated].sum()
    assert result.spend == pytest.approx(LOG.costs[treated].sum())
    assert result.estimates[0].incremental == pytest.approx(naive_weighted(LOG))
    assert [line.method for line in result.estimates] == ["IPW", "SNIPS", "DR"]
    assert LOG.probabilities is not None
    odds = 1 / LOG.probabilities[~treated] - 1
    assert result.effective_users == pytest.approx(odds.sum() ** 2 / (odds**2).sum())
    assert result.outside == OutsideOverlap(0.0, 0.0)
    assert result.warnings == ()


def test_proposals_are_weighted_by_the_probabilities_of_the_log() -> None:
    wanted = (LOG.costs[:, 0] < 0.5).astype(np.int64)
    result = evaluate_proposals("cheap", LOG, RATES, fixed(LOG, wanted))
    assert result.treated == wanted.sum()
    assert result.conversions is None
    assert result.estimates[0].incremental == pytest.approx(naive_weighted(LOG, wanted))


def test_several_treatments_are_weighted_by_the_probability_of_the_one_taken() -> None:
    log = several(3_000, seed=1)
    rates = outcome_model.outcome_rates(log)
    own = evaluate_log(log, rates)
    assert own.estimates[0].incremental == pytest.approx(naive_weighted(log))
    assert own.outside is None
    wanted = np.arange(log.users) % 3
    result = evaluate_proposals("by turns", log, rates, fixed(log, wanted))
    assert result.estimates[0].incremental == pytest.approx(naive_weighted(log, wanted))


def test_with_several_treatments_estimates_are_unbiased_and_intervals_honest() -> None:
    errors, within = [], []
    for seed in range(60):
        log = several(4_000, seed=500 + seed)
        assert log.effects is not None
        effects = np.column_stack((np.zeros(log.users), log.effects))
        everyone, wanted = np.arange(log.users), np.arange(log.users) % 3
        rates = outcome_model.outcome_rates(log)
        for result, actions in (
            (evaluate_log(log, rates), log.actions),
            (evaluate_proposals("by turns", log, rates, fixed(log, wanted)), wanted),
        ):
            truth = float(effects[everyone, actions].sum())
            errors.append([(line.incremental - truth) / line.se for line in result.estimates])
            within.append([line.low <= truth <= line.high for line in result.estimates])
    assert (np.abs(np.mean(errors, axis=0)) < 4 / np.sqrt(120)).all()
    assert (np.mean(within, axis=0) > 0.87).all()


@pytest.mark.compiled
def test_decisions_of_a_policy_that_learns_are_evaluated_without_bias() -> None:
    """Its probabilities depend on the outcomes so far, and so do those of the policy compared."""
    errors, within = [], []
    for seed in range(60):
        log = decided("thompson", simulate(1_500, seed=seed, outcome="visit"), seed)
        assert log.effects is not None
        rates = outcome_model.outcome_rates(log)
        policy = bccb.make("thompson", budget=9_999, horizon=1_500, features=12, seed=SEEDS + seed)
        proposals = propose_on(policy, log)
        for result, actions in (
            (evaluate_log(log, rates), log.actions),
            (evaluate_proposals("again", log, rates, proposals), proposals.actions),
        ):
            answer = judged_rows(log)
            truth = float(log.effects[(actions > 0) & answer].sum())
            errors.append([line.incremental - truth for line in result.estimates])
            within.append([line.low <= truth <= line.high for line in result.estimates])
    assert len(errors) == 120
    bound = 4 * np.std(errors, axis=0) / np.sqrt(60)  # both evaluations share the users
    assert (np.abs(np.mean(errors, axis=0)) < bound).all()
    assert (np.mean(within, axis=0) > 0.87).all()


def judged_rows(log: Log) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """The rows with a chance of at least one in a hundred of either action."""
    assert log.probabilities is not None
    return np.minimum(log.probabilities, 1 - log.probabilities) >= 0.01


def decided(name: str, trial: Log, seed: int) -> Log:
    """The log of a policy that decides on the users of a simulated trial, and learns."""
    policy = bccb.make(name, budget=9_999, horizon=trial.users, features=12, seed=seed)
    rates = outcome_rates(load_model(), trial.features, "visit")
    uniform = np.random.default_rng((seed, 7)).random(trial.users)
    actions, outcomes = np.zeros(trial.users, np.int64), np.zeros(trial.users)
    probabilities = np.zeros(trial.users)
    for row in range(trial.users):
        decision = policy.decide(trial.features[row], trial.costs[row])
        actions[row], probabilities[row] = decision.action, decision.probability
        outcomes[row] = uniform[row] < rates[decision.action, row]
        policy.observe(decision, outcomes[row])
    return replace(
        trial, actions=actions, outcomes=outcomes, probabilities=probabilities, known_shares=None
    )


@pytest.mark.compiled
def test_a_policy_driven_by_the_draws_that_made_the_log_is_noticed() -> None:
    log = decided("thompson", simulate(2_000, seed=3, outcome="visit"), seed=3)
    policy = bccb.make("thompson", budget=9_999, horizon=2_000, features=12, seed=3)
    result = evaluate_proposals(
        "same", log, outcome_model.outcome_rates(log), propose_on(policy, log)
    )
    assert result.estimates == ()  # no user whom it would treat was left alone
    assert result.withheld.startswith("This log cannot tell")


def test_users_who_were_sure_to_be_treated_are_left_out_and_told() -> None:
    """Counted in, all of their conversions would pass for caused ones."""
    sure = np.arange(LOG.users) < 1_000
    assert LOG.probabilities is not None
    log = replace(
        LOG,
        actions=np.where(sure, 1, LOG.actions),
        outcomes=np.where(sure, 1.0, LOG.outcomes),
        probabilities=np.where(sure, 1.0, LOG.probabilities),
    )
    result = evaluate_log(log, RATES)
    rest = LOG.take(np.flatnonzero(~sure))
    assert result.estimates == evaluate_log(rest, RATES[~sure]).estimates
    treated = log.actions == 1
    assert result.outside is not None
    assert result.outside.users == pytest.approx(1_000 / treated.sum())
    assert result.outside.spend == pytest.approx(log.costs[sure].sum() / log.costs[treated].sum())
    assert "there is nobody to compare them with" in result.warnings[0]
    each = result.cost_per_incremental(replace(result.estimates[0], low=1.0, high=2.0))
    spend = float(log.costs[treated & ~sure].sum())
    assert each is not None
    assert (each.low, each.high) == pytest.approx((spend / 2, spend))


def test_a_log_that_left_nobody_to_chance_tells_nothing() -> None:
    log = replace(LOG, probabilities=np.ones(LOG.users))
    own = evaluate_log(log, RATES)
    assert own.estimates == ()
    assert own.withheld.startswith("This log cannot tell what these treatments cause")
    result = evaluate_proposals("all", log, RATES, fixed(log, np.ones(log.users, np.int64)))
    assert result.estimates == ()
    assert result.outside == OutsideOverlap(1.0, 1.0)


def test_what_a_log_does_not_tell_is_not_measured() -> None:
    """With two treatments nobody knows that hardly any of the first half were left alone."""
    sure = np.arange(400) < 200
    actions = np.where(sure, 1, np.arange(400) % 2 * 2)
    log = Log(
        np.zeros((400, 1)),
        actions,
        sure.astype(float),
        np.full((400, 2), 1_000_000),
        probabilities=np.where(sure, 0.9999, 0.5),
    )
    caused = caused_by(log)
    assert caused.measured is None
    assert caused.estimated is not None
    one = Log(
        log.features,
        np.minimum(actions, 1),
        log.outcomes,
        log.micros[:, :1],
        probabilities=log.probabilities,
    )
    measured = caused_by(one).measured
    assert measured is not None
    assert measured.low <= 0.0  # all of the first half may convert by themselves


def test_wrong_probabilities_are_noticed() -> None:
    result = evaluate_log(replace(LOG, probabilities=np.full(LOG.users, 0.5)), RATES)
    assert result.headline is None
    assert "The users left alone stand for" in result.withheld


def test_what_users_without_a_chance_would_have_done_is_withheld_with_the_reason() -> None:
    """As where a cost cap held money back. With two treatments no probability tells of it."""
    log = several(3_000, seed=1)
    assert log.probabilities is not None
    never = np.arange(log.users) % 2 == 0
    log = replace(
        log,
        actions=np.where(never, 0, log.actions),
        probabilities=np.where(never, 1.0, log.probabilities),
    )
    rates = outcome_model.outcome_rates(log)
    assert evaluate_log(log, rates).withheld == ""
    result = evaluate_proposals("all", log, rates, fixed(log, np.ones(log.users, np.int64)))
    assert result.headline is None
    assert not result.figures()["estimates"]
    assert re.match(
        r"The users treated as proposed stand for 1,\d\d\d users by their probabilities, but should"
        r" for 3,000: .* many users had no chance of that action\. The weights do not add up",
        result.withheld,
    )
    among = np.where(never, 0, 1)
    others = evaluate_proposals("others", log, rates, fixed(log, among))
    assert others.headline is not None


def test_a_policy_that_treats_nobody_is_reported_as_such() -> None:
    result = evaluate_proposals("none", LOG, RATES, fixed(LOG, np.zeros(LOG.users, np.int64)))
    assert result.estimates == ()
    assert result.withheld == "It would treat nobody on this log."


def hardly_left_alone(users: int = 436, alone: int = 5) -> Log:
    """Nearly all users treated and converted; one of those left alone was by far the least likely
    to be, and stands for nearly everybody.
    """
    actions = (np.arange(users) >= alone).astype(np.int64)
    chance = np.full(users, 0.5)
    chance[0] = 0.005  # of being left alone
    probabilities = np.where(actions > 0, 0.995, chance)
    outcomes = (actions > 0) * (np.arange(users) % 20 != 0)
    return Log(
        np.zeros((users, 1)), actions, outcomes, np.full((users, 1), 10**6),
        probabilities=probabilities,
    )  # fmt: skip


def test_estimates_that_rest_on_one_user_are_withheld_with_the_reason() -> None:
    log = hardly_left_alone()
    result = evaluate_log(log, outcome_model.outcome_rates(log))
    assert result.effective_users == pytest.approx(1.04, abs=0.01)
    assert result.withheld.startswith(
        "The users left alone tell as much as 1.0 users with equal chances (of 30 needed): so few"
    )
    assert (result.shown, result.headline) == ((), None)
    assert not result.figures()["estimates"]
    wanted = np.ones(log.users, np.int64)
    other = evaluate_proposals("all", log, np.zeros((log.users, 2)), fixed(log, wanted))
    assert "The users left alone tell as much as" in other.withheld
    assert other.headline is None


def test_intervals_are_cut_to_what_is_possible() -> None:
    log = hardly_left_alone()
    treated, rates = log.actions > 0, outcome_model.outcome_rates(log)
    conversions = float(log.outcomes[treated].sum())
    for line in evaluate_log(log, rates).estimates:
        assert conversions - treated.sum() <= line.low <= line.incremental <= line.high
        assert line.high <= conversions
    wanted = np.ones(log.users, np.int64)
    every = evaluate_proposals("all", log, rates, fixed(log, wanted)).estimates
    for line in every:
        assert -log.users <= line.low <= line.incremental <= line.high <= log.users
    assert every[0].high == log.users  # it would be above


def test_the_headline_is_doubly_robust() -> None:
    result = evaluate_log(LOG, RATES)
    assert result.headline == result.estimates[2]
    assert result.shown == result.estimates


def test_the_cost_of_a_caused_conversion_is_not_known_where_there_may_be_none() -> None:
    result = Evaluation("p", 9, 5, None, None, 100.0, (), 1.0, None, ())
    sure, doubtful = Estimate("DR", 10, 2, 5.0, 20.0), Estimate("DR", 1, 2, -3.0, 5.0)
    assert result.cost_per_incremental(sure) == Interval(10.0, 5.0, 20.0)
    assert result.cost_per_incremental(doubtful) is None


def test_policies_are_driven_within_the_budget_with_draws_of_their_own() -> None:
    result = evaluate_policy(LOG, RATES, "thompson", budget=50.0, seed=4)
    policy = bccb.make("thompson", budget=50.0, horizon=4_000, features=12, seed=SEEDS + 4)
    expected = propose_on(policy, LOG)
    assert result.spend == expected.spend <= 50.0
    assert result.learned == expected.learned
    assert result.treated == (expected.actions > 0).sum()
    assert result.estimates[0].method == "IPW"
    assert "treated" in result.withheld  # so few were treated that nothing is shown
    assert result.figures()["estimates"] == ()


def test_policies_that_need_what_a_log_does_not_have_are_named() -> None:
    assert "needs the true effects" in unsuitable("oracle")
    assert "needs history" in unsuitable("offline-uplift")
    assert "needs history" in unsuitable("hybrid")
    assert unsuitable("bccb") == ""
