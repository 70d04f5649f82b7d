"""What is charged on conversion, estimated from a log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bccb
from bccb.charge import Payment
from bccb.data.worlds import make_world, trial_in
from bccb.errors import InputError
from bccb.evaluate.charged import (
    charged_for,
    charged_in_all,
    due_rates,
    expected_charges,
    running_rates,
    seen_in,
)
from bccb.evaluate.compare import compare
from bccb.evaluate.evaluation import evaluate_log, evaluate_proposals, evaluate_with_others
from bccb.evaluate.live_comparison import compare_live
from bccb.evaluate.outcome_model import outcome_rates
from bccb.evaluate.proposals import Proposals, propose_on
from bccb.evaluate.rivals import measure
from bccb.evaluate.trials import LoggedTrials, Trial, WorldTrials
from bccb.money import MICROS
from bccb.types import Log

WORLD = make_world("three", 400, 1)
LOG = trial_in(WORLD, 1)
ON = Payment("conversion")


def test_running_rates_are_those_of_the_users_before() -> None:
    rates = running_rates(LOG)
    for i in range(0, LOG.users, 37):
        for arm in range(LOG.treatments + 1):
            before = LOG.outcomes[:i][LOG.actions[:i] == arm]
            assert rates[i, arm] == pytest.approx((before.sum() + 0.5) / (len(before) + 1))


def test_a_model_says_what_is_charged_where_it_knows_a_rate() -> None:
    rates = np.where(np.arange(400)[:, None] < 100, 0.0, np.full((400, 4), 0.25))
    charges, before = expected_charges(LOG, rates), running_rates(LOG)
    np.testing.assert_array_equal(charges[100:], np.ceil(LOG.micros[100:] * 0.25))
    np.testing.assert_array_equal(charges[:100], np.ceil(LOG.micros[:100] * before[:100, 1:]))
    assert (expected_charges(LOG) <= LOG.micros).all()


@pytest.mark.parametrize("guess", [0.0, 0.05, 0.9])
def test_the_estimate_is_unbiased_whatever_the_model_and_its_interval_holds_the_truth(
    guess: float,
) -> None:
    world = make_world("common", 600, 2)
    rows = np.flatnonzero(world.features[:, 1] < 0.3)
    actions, rates = np.ones(len(rows), np.int64), np.full(len(rows), guess)
    truth = float((world.costs[rows, 0] * world.rates[rows, 1]).sum())
    found = []
    for seed in range(300):
        draws = np.random.default_rng(seed).random(600)
        log = trial_in(replace(world, draws=draws), seed)
        chance = np.full(len(rows), log.shares[1])
        terms = charged_for(log, rows, actions, chance, rates)
        found.append(charged_in_all(terms, seen_in(log, rows, actions, chance)))
    values = np.array([each.value for each in found])
    assert abs(values.mean() - truth) < 3.0 * values.std() / np.sqrt(len(values))
    assert np.mean([each.low <= truth <= each.high for each in found]) > 0.92


@pytest.mark.parametrize(("rate", "treated"), [(0.003, 0.1), (0.008, 0.1), (0.02, 0.5)])
def test_where_few_converted_the_interval_of_what_is_charged_holds_the_truth(
    rate: float, treated: float
) -> None:
    """With a tenth treated, a handful of conversions is seen, or none at all."""
    held, rows = 0, np.arange(2_000)
    for seed in range(400):
        rng = np.random.default_rng(seed)
        actions = (rng.random(2_000) < treated).astype(np.int64)
        costs = np.round(1e6 * rng.lognormal(0.0, 0.5, (2_000, 1))).astype(np.int64)
        converted = (rng.random(2_000) < rate).astype(np.float64)
        log = Log(np.zeros((2_000, 1)), actions, converted, costs)
        wanted, chance = np.ones(2_000, np.int64), np.full(2_000, treated)
        terms = charged_for(log, rows, wanted, chance, np.full(2_000, rate))
        found = charged_in_all(terms, seen_in(log, rows, wanted, chance))
        held += found.low <= rate * log.costs.sum() <= found.high
    assert held >= 0.93 * 400


def test_a_proposal_that_the_log_did_not_follow_is_paid_for_as_expected() -> None:
    policy = bccb.make(
        "treat-all",
        budget=1e6,
        charge="conversion",
        horizon=400,
        features=12,
        treatments=3,
        seed=1,
    )
    rates = np.full((400, 4), 0.125)
    proposals = propose_on(policy, LOG, rates)
    expected, row = 0, np.arange(400)
    for i, action in zip(row, proposals.actions, strict=True):
        cost = LOG.micros[i, action - 1]
        if LOG.actions[i] == action:
            expected += cost if LOG.outcomes[i] else 0
        else:
            expected += int(np.ceil(cost * 0.125))
    assert proposals.spend * MICROS == pytest.approx(expected, abs=0.5)
    assert policy.held == 0.0


def test_what_a_log_paid_is_known_and_what_others_would_pay_is_estimated() -> None:
    log = trial_in(make_world("common", 1_500, 3), 3)
    rates, treated = outcome_rates(log), log.actions > 0
    own = evaluate_log(log, rates, Payment("conversion"))
    assert own.charged is None
    assert own.spend == pytest.approx(log.costs[treated & (log.outcomes > 0), 0].sum())
    wanted = (log.features[:, 0] > 0).astype(np.int64)
    other = evaluate_proposals("some", log, rates, Proposals(wanted, 7.0, 1), Payment("conversion"))
    naive = 0.0
    for i in np.flatnonzero(wanted):
        error = (log.outcomes[i] - rates[i, 1]) / log.shares[1] if log.actions[i] else 0.0
        naive += log.costs[i, 0] * (rates[i, 1] + error)
    assert other.charged is not None
    assert other.spend == other.compared_spend == pytest.approx(naive)
    assert other.charged.low < naive < other.charged.high
    line = other.headline
    assert line is not None
    each = other.cost_per_incremental(line)
    if each is not None:
        assert each.low < other.spend / line.high
        assert each.high > other.spend / line.low
    assert evaluate_proposals("some", log, rates, Proposals(wanted, 7.0, 1)).spend == 7.0


@pytest.mark.parametrize("name", ["cheapest-first", "pooled-bayes"])
def test_a_policy_that_is_measured_spends_its_budget_whether_or_not_it_knows_rates(
    name: str,
) -> None:
    log = trial_in(make_world("common", 6_000, 4), 4)
    trial = Trial(log, np.arange(5_000), log, np.arange(5_000, 6_000))
    ((run, gains),) = measure(trial, [name], 100.0, 1, Payment("conversion"))
    assert 80.0 < run.spend < 120.0
    ((at_once, fewer),) = measure(trial, [name], 100.0, 1)
    assert at_once.spend <= 100.0
    assert len(gains.rows) > 2 * len(fewer.rows)


def test_the_default_budget_of_an_evaluation_is_what_the_log_was_charged() -> None:
    log = trial_in(make_world("common", 1_500, 3), 3)
    own, other = evaluate_with_others(log, ["cheapest-first"], charge="conversion")
    assert own.spend == pytest.approx(LoggedTrials(log, 1_500, 0).spend(Payment("conversion")))
    assert own.spend < LoggedTrials(log, 1_500, 0).spend()
    assert other.spend == pytest.approx(own.spend, rel=0.15)


def test_replays_are_charged_on_conversion() -> None:
    log = trial_in(make_world("common", 1_500, 3), 3)
    trials = LoggedTrials(log, 1_500, 0)
    asked = trials, ["cheapest-first"], [40.0], [1]
    (row,), (at_once,) = compare(*asked, charge="conversion"), compare(*asked)
    assert 39.0 < row.result.spend <= 40.0
    assert row.result.treated > 1.5 * at_once.result.treated
    with pytest.raises(InputError, match="policy is 'oracle'.*charged on conversion"):
        list(compare(trials, ["oracle"], [40.0], [1], charge="conversion"))
    with pytest.raises(InputError, match="cost_cap is 0"):
        list(compare(trials, ["bccb"], [40.0], [1], cost_cap=0.0))


def test_replays_are_charged_as_the_log_says() -> None:
    log = replace(trial_in(make_world("common", 1_500, 3), 3), charge="conversion")
    trials, asked = LoggedTrials(log, 1_500, 0), (["cheapest-first"], [40.0], [1])
    (told,), (given,) = compare(trials, *asked), compare(trials, *asked, charge="conversion")
    for each in ("spend", "treated", "conversions"):
        assert getattr(told.result, each) == getattr(given.result, each)
    other = LoggedTrials(replace(log, charge=""), 1_500, 0)
    (at_once,) = compare(other, *asked)
    assert told.result.treated > 1.5 * at_once.result.treated


def test_live_comparisons_have_the_oracle_of_their_charge_and_cap() -> None:
    trials = WorldTrials("common", 20_000, 0)
    names, rest = ["oracle", "pooled-bayes"], ([600.0], [1])
    for terms in ({"charge": "conversion"}, {"charge": "conversion", "cost_cap": 1.0}):
        oracle, ours = compare_live(trials, None, names, *rest, **terms)
        assert oracle.share == 1.0
        assert 0.3 < ours.share < 1.0
        assert ours.spend <= 600.0
    at_once, _ = compare_live(trials, None, names, *rest)
    charged, _ = compare_live(trials, None, names, *rest, charge="conversion")
    assert oracle.spend < 0.9 * charged.spend
    assert oracle.spend / oracle.incremental < 1.0
    assert at_once.incremental < charged.incremental


def test_an_outcome_between_0_and_1_is_expected_to_be_charged_as_a_conversion() -> None:
    """Its whole cost is due, as the policies and the service charge it."""
    log = trial_in(make_world("common", 4_000, 3), 3)
    halves = replace(log, outcomes=0.5 * log.outcomes)
    rates = outcome_rates(halves)
    due = due_rates(halves, rates, Payment("conversion"))
    np.testing.assert_allclose(due, outcome_rates(log))
    assert due_rates(log, rates, Payment("conversion")) is rates
    assert due_rates(halves, rates, Payment()) is rates
    past, rows = np.arange(3_000, 4_000), np.arange(3_000)
    spends = [
        next(measure(Trial(each, rows, each, past), ["cheapest-first"], 100.0, 1, ON))[0].spend
        for each in (log, halves)
    ]
    assert spends[0] == pytest.approx(spends[1])


def test_what_is_charged_for_users_outside_the_overlap_is_in_the_spend() -> None:
    """As they are among the treated; what each caused conversion costs is of those inside."""
    log = trial_in(make_world("common", 2_000, 3), 3)
    chances = np.where(log.actions > 0, log.shares[1], log.shares[0])
    away = np.arange(2_000) >= 1_500  # who were left alone for sure
    log = replace(
        log,
        actions=np.where(away, 0, log.actions),
        probabilities=np.where(away, 1.0, chances),
    )
    rates, wanted = outcome_rates(log), np.ones(2_000, np.int64)
    other = evaluate_proposals("all", log, rates, Proposals(wanted, 7.0, 1), ON)
    assert other.charged is not None
    assert other.treated == 2_000
    outside = log.costs[away, 0] @ rates[away, 1]
    assert other.spend == pytest.approx(other.charged.value + outside, rel=1e-3)
    assert other.compared_spend == other.charged.value
    assert other.outside is not None
    assert 0.15 < other.outside.spend < 0.35
