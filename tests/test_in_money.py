"""Policies that decide by amounts of money."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bccb
from bccb.charge import Payment
from bccb.data.world import Amounts, simulate_world, with_amounts
from bccb.errors import InputError
from bccb.evaluate.late import exponential_delays
from bccb.evaluate.live import best, charged_on_conversion, live
from bccb.kernels import counts as count
from bccb.kernels.amounts import AMOUNTS, USER
from bccb.policies import POLICIES
from bccb.policy import Policy, from_bytes
from bccb.types import Log

pytestmark = pytest.mark.plain
USERS = 1_000
VISITS = simulate_world(USERS, seed=4, outcome="visit")
SHARE_RANGE = "at least 0.000001 and at most 1"
LARGEST_RANGE = "at least 0.000001 and at most 1,000,000,000"


def make(name: str = "pooled-bayes", **given: Any) -> Policy:
    settings = {"budget": 50.0, "horizon": USERS, "features": 12, "seed": 4, "outcome": "amount"}
    return bccb.make(name, **{**settings, **given})


def equal(amount: float) -> Any:
    """The visits, each of which is worth the same."""
    worth = np.full(VISITS.users, amount)
    return replace(VISITS, amounts=Amounts(worth, worth, 1e-9))


def test_with_equal_amounts_it_decides_as_one_that_counts_conversions() -> None:
    counting, in_money = make(outcome="conversion"), make()
    plain, valued = live(counting, VISITS), live(in_money, equal(20.0))
    assert (valued.spend, valued.treated) == (plain.spend, plain.treated)
    assert valued.value == pytest.approx(20.0 * plain.value)


@pytest.mark.parametrize("name", ["pooled-bayes", "response-first"])
def test_the_currency_does_not_matter(name: str) -> None:
    world = with_amounts(VISITS, 1.0, seed=4)
    assert world.amounts is not None
    yen = replace(world, amounts=world.amounts._replace(drawn=100.0 * world.amounts.drawn))
    first, second = live(make(name), world), live(make(name), yen)
    assert first.treated == pytest.approx(second.treated, rel=0.05)


def test_prices_scores_and_what_was_caused_are_in_currency() -> None:
    policies = make(outcome="conversion"), make(largest=40.0)
    for policy, worth in zip(policies, (1.0, 20.0), strict=True):
        rng = np.random.default_rng(1)
        for _ in range(800):
            decision = policy.decide(rng.normal(size=12), cost=0.5)
            y = float(rng.random() < (0.4 if decision.action else 0.1))
            policy.observe(decision, worth * y)
    plain, valued = (policy.decide(np.zeros(12), cost=0.5) for policy in policies)
    assert valued.action == plain.action
    assert valued.price == pytest.approx(20.0 * plain.price, rel=0.1)
    assert valued.score == pytest.approx(20.0 * plain.score, rel=0.1)
    counted, caused = (policy.caused() for policy in policies)
    assert counted.estimated is not None
    assert caused.estimated is not None
    assert caused.estimated.value == pytest.approx(20.0 * counted.estimated.value, rel=0.1)
    assert counted.measured is not None
    assert caused.measured is not None
    assert caused.measured.value == pytest.approx(20.0 * counted.measured.value, rel=1e-3)
    assert caused.measured.low < 20.0 * counted.measured.low  # the bound is twice as large


def test_nothing_is_measured_without_a_largest_amount() -> None:
    policy = make()
    policy.observe(policy.decide(np.zeros(12), cost=0.5), 20.0)
    assert policy.caused().measured is None
    assert policy.caused().estimated is not None


def test_it_prefers_users_whose_conversions_are_worth_more() -> None:
    rng = np.random.default_rng(2)
    policy = make(budget=300.0, horizon=3_000, features=1)
    treated = [0, 0]
    for i in range(3_000):
        rich = int(rng.random() < 0.5)
        decision = policy.decide([rich], cost=0.5)
        converts = rng.random() < (0.3 if decision.action else 0.2)
        policy.observe(decision, (50.0 if rich else 5.0) * float(converts))
        treated[rich] += i >= 1_000 and decision.action > 0
    assert treated[1] > 3 * treated[0]


def test_late_amounts_are_learned() -> None:
    world = with_amounts(VISITS, 0.5, seed=4)
    delays = exponential_delays(USERS, mean=100.0, seed=4)
    policy = make()
    run = live(policy, world, delays, window=500.0)
    at = policy.counts[count.AT_AMOUNTS]
    assert 10 < policy.memory[at] < (np.asarray(world.draws) < world.rates.max(axis=1)).sum()
    assert run.spend <= 50.0


def test_a_share_of_the_amount_is_charged_at_most_the_cost() -> None:
    policy = make("treat-all", charge="conversion", share=0.2, budget=20.0)
    for amount, charged in ((15.0, 3.0), (1_000.0, 4.0), (0.0, 0.0), (-30.0, 0.0)):
        before = policy.spent
        decision = policy.decide(np.zeros(12), cost=4.0)
        assert policy.held == 4.0
        policy.observe(decision, amount)
        assert policy.spent - before == charged
        assert policy.held == 0.0


def test_the_oracle_knows_what_a_share_costs() -> None:
    world = with_amounts(VISITS, 0.5, seed=4)
    assert world.amounts is not None
    share, n = 0.2, 20_000
    logs = np.log(world.amounts.worth[:5]) - 0.5 * world.amounts.spread**2
    noise = world.amounts.spread * np.random.default_rng(3).normal(size=(n, 1))
    drawn = np.minimum(share * np.exp(logs + noise), world.costs[:5, 0]).mean(axis=0)
    expected = charged_on_conversion(world, share)[:5, 0]
    np.testing.assert_allclose(expected, drawn, rtol=0.02)
    payment = Payment("conversion", share=share)
    oracle = best(world, 20.0, payment).run
    policy = make(budget=20.0, charge="conversion", share=share)
    run = live(policy, world)
    assert run.spend <= 20.0
    assert 0.1 * oracle.value < run.value


def test_a_cap_is_on_the_cost_of_one_unit_of_value() -> None:
    capped = make(cost_cap=0.02)
    live(capped, equal(20.0))
    decision = capped.decide(np.zeros(12), cost=0.5)
    assert decision.price >= 1.0 / 0.02 - 1e-9
    assert capped.spent < 0.9 * 50.0


def test_saved_and_loaded_it_goes_on_to_the_bit() -> None:
    policy = make(charge="conversion", share=0.3, largest=200.0)
    rng = np.random.default_rng(6)
    for _ in range(200):
        decision = policy.decide(rng.normal(size=12), cost=0.5)
        policy.observe(decision, 30.0 * float(rng.random() < 0.3))
    again = from_bytes(policy.to_bytes())
    assert again.to_bytes() == policy.to_bytes()
    other = make(charge="conversion", share=0.3, largest=200.0)
    other.restore(policy.snapshot())
    assert other.snapshot() == policy.snapshot()
    x = rng.normal(size=12)
    assert again.decide(x, cost=0.5).score == policy.decide(x, cost=0.5).score


def test_history_in_money_is_learned() -> None:
    rng = np.random.default_rng(7)
    n = 500
    actions = rng.integers(2, size=n)
    outcomes = np.where(rng.random(n) < 0.3, 25.0, 0.0)
    log = Log(rng.normal(size=(n, 12)), actions, outcomes, np.full((n, 1), 500_000), kind="amount")
    policy = make()
    policy.learn(log)
    at = policy.counts[count.AT_AMOUNTS]
    assert policy.memory[at] == (outcomes > 0.0).sum()
    with pytest.raises(InputError, match=r"outcome of row .* is 25\.0, but must be from 0 to 1"):
        replace(log, kind="conversion")


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_takes_amounts_or_says_that_it_cannot(name: str) -> None:
    if POLICIES[name].composition.takes_amounts:
        assert make(name).composition.amounts
    else:
        with pytest.raises(InputError, match=f"{name} learns rates only; use pooled-trees"):
            make(name)


def test_those_that_cannot_are_these() -> None:
    refused = {name for name in POLICIES if not POLICIES[name].composition.takes_amounts}
    assert refused == {
        *("thompson", "budgeted-thompson", "hte-greedy", "bccb"),
        *("offline-uplift", "offline-forecast", "offline-boosted"),
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"outcome": "revenue"}, 'outcome is \'revenue\', but must be "conversion" or "amount"'),
        (
            {"share": 0.2},
            'share is 0.2, but must be left out: a share .* needs charge="conversion"',
        ),
        ({"share": 1.5, "charge": "conversion"}, f"share is 1.5, but must be {SHARE_RANGE}"),
        ({"share": 0.0, "charge": "conversion"}, f"share is 0.0, but must be {SHARE_RANGE}"),
        ({"share": 1e-7, "charge": "conversion"}, f"share is 1e-07, but must be {SHARE_RANGE}"),
        ({"largest": 0.0}, f"largest is 0.0, but must be {LARGEST_RANGE}"),
        ({"largest": 9e-7}, f"largest is 9e-07, but must be {LARGEST_RANGE}"),
        ({"largest": 1.1e9}, f"largest is 1100000000.0, but must be {LARGEST_RANGE}"),
        ({"largest": math.inf}, "largest is inf, but must be a finite number"),
        (
            {"outcome": "conversion", "share": 0.2, "charge": "conversion"},
            'share is 0.2, but must be left out: it is about amounts, with outcome="amount"',
        ),
        ({"outcome": "conversion", "largest": 9.0}, "largest is 9.0, but must be left out"),
    ],
)
def test_terms_that_cannot_be_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**given)


def test_the_least_share_and_the_largest_amount_that_are_said_are_taken() -> None:
    policy = make(charge="conversion", share=1e-6, largest=1e9)
    assert from_bytes(policy.to_bytes()).to_bytes() == policy.to_bytes()
    make(charge="conversion", share=1.0, largest=1e-6)


def test_returns_that_no_treatment_causes_stop_none() -> None:
    """One conversion in five comes back, treated or not; a third more convert if treated."""
    few = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        policy = make(features=1, seed=seed, budget=0.3 * USERS, window=None)
        for _ in range(USERS):
            decision = policy.decide(rng.normal(size=1), cost=1.0)
            rate = 0.2 if decision.action == 0 else 0.3
            worth = -20.0 if rng.random() < 0.2 else 20.0
            policy.observe(decision, worth if rng.random() < rate else 0.0)
        few += policy.remaining > 0.15 * USERS
    assert few <= 1  # with a balance of each arm alone, three


@pytest.mark.parametrize("amount", [math.nan, math.inf, -math.inf, 1.1e9, -1.1e9])
def test_amounts_that_cannot_be_are_refused(amount: float) -> None:
    policy = make()
    decision = policy.decide(np.zeros(12), cost=0.5)
    before = policy.to_bytes()
    with pytest.raises(InputError, match="a finite amount from -1,000,000,000 to 1,000,000,000"):
        policy.observe(decision, amount)
    with pytest.raises(InputError, match="outcome 0 is"):
        policy.observe_many([decision], [amount])
    assert policy.to_bytes() == before


@pytest.mark.parametrize("name", ["treat-all", "cheapest-first", "pooled-bayes"])
def test_what_another_one_learned_is_adopted_without_its_users(name: str) -> None:
    """Their numbers mean nothing here: a correction must not be of one of them."""
    source, policy = make(name, window=9.0), make(name, window=9.0)
    decision = source.decide([0.5] * source.features, cost=0.5, at=0.0)
    source.observe(decision, 25.0, at=1.0)
    policy.adopt(source)
    if policy.composition.learns_amounts:
        begin, end = policy.counts[count.AT_AMOUNTS], policy.counts[count.END]
        amounts = AMOUNTS.view(policy.memory[begin:end], policy.features, policy.treatments)
        assert amounts.seen[0] == 1.0
        assert not amounts.recent[:, USER].any()
