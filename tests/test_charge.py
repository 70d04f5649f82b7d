"""Costs that are charged on conversion, and the cost cap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bccb
from bccb.assembly import assemble_for
from bccb.charge import Payment
from bccb.data import simulate
from bccb.data.worlds import make_world
from bccb.errors import InputError
from bccb.evaluate.late import exponential_delays
from bccb.evaluate.live import best, live, outcomes_in, value_of
from bccb.evaluate.proposals import propose_on
from bccb.kernels import counts as count
from bccb.kernels.trace import view_trace
from bccb.money import MICROS
from bccb.pacers.budget_forecast import exhausting_price
from bccb.policies import spec_of
from bccb.policy import Policy, from_bytes

POLICIES = ("pooled-bayes", "bccb", "uplifting-bandit", "cheapest-first")


def made(name: str = "pooled-bayes", budget: float = 20.0, **more: Any) -> Policy:
    """A policy for 300 users with 12 features."""
    size: dict[str, Any] = {"horizon": 300, "features": 12, "seed": 3, "charge": "conversion"}
    return bccb.make(name, budget=budget, **{**size, **more})


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("budget", [3.0, 40.0])
def test_money_is_held_until_the_outcome_and_never_more_than_there_is(
    name: str, budget: float
) -> None:
    policy, world, draw = made(name, budget), make_world("common", 300, 1), np.random.default_rng(1)
    outcomes, waiting, charged, treated = outcomes_in(world), [], 0, 0
    for i in range(300):
        decision = policy.decide(world.features[i], cost=world.costs[i])
        treated += decision.action > 0
        waiting.append((i, decision))
        while len(waiting) > draw.integers(0, 30):
            row, other = waiting.pop(draw.integers(len(waiting)))
            y = outcomes[row, other.action]
            policy.observe(other, y)
            charged += round(other.cost * MICROS) if y else 0
        held = sum(round(other.cost * MICROS) for _, other in waiting)
        assert held == round(policy.held * MICROS)
        assert policy.remaining_micros == round(budget * MICROS) - held - charged >= 0
    assert treated > 10
    for _, other in waiting:
        policy.cancel(other)
    assert policy.held == 0.0
    assert policy.spent * MICROS == pytest.approx(charged, abs=0.1)


def test_windows_that_end_return_what_was_held() -> None:
    policy = made(window=10.0)
    decisions = [policy.decide(np.zeros(12), cost=0.2, at=float(day)) for day in range(9)]
    treated = [decision for decision in decisions if decision.action]
    assert treated
    assert policy.held == pytest.approx(0.2 * len(treated))
    policy.observe(treated[0], 1, at=9.0)
    policy.advance(40.0)
    assert (policy.held, policy.waiting) == (0.0, 0)
    assert policy.spent == pytest.approx(0.2)


def test_a_list_of_outcomes_settles_each() -> None:
    one, many = made(), made()
    x, outcomes = np.random.default_rng(2).normal(size=(40, 12)), np.arange(40) % 3 == 0
    for decision, y in zip(one.decide_many(x, np.full(40, 0.1)), outcomes, strict=True):
        one.observe(decision, float(y))
    many.observe_many(many.decide_many(x, np.full(40, 0.1)), outcomes.astype(float))
    assert one.spent == many.spent > 0.0
    assert one.held == many.held == 0.0


def test_the_rule_compares_the_effect_with_the_expected_cost() -> None:
    policy, world = made(budget=4.0, reserve=0.0), make_world("common", 300, 2)
    outcomes, seen = outcomes_in(world), 0
    for i in range(300):
        memory, counts = policy.memory.copy(), policy.counts.copy()
        decision = policy.decide(world.features[i], cost=world.costs[i])
        trace = view_trace(decision._trace, 12, 1, count.explorer_size(counts))
        free = Policy("free", policy.composition, counts, memory, "x", {})
        free.counts[count.CHARGE] = count.ON_TREATMENT
        whole = free.decide(world.features[i], cost=world.costs[i])
        full = view_trace(whole._trace, 12, 1, count.explorer_size(counts))
        if np.isfinite(trace.margin[0]) and decision.price > 0.0:
            # effect - l c P and effect - l c, at the same price: P follows
            rate = 1.0 - (trace.margin[0] - full.margin[0]) / decision.price / world.costs[i, 0]
            assert 0.0 < rate < 1.0
            seen += 1
        policy.observe(decision, outcomes[i, decision.action])
    assert seen > 50


def test_a_saved_policy_goes_on_with_what_is_held() -> None:
    policy = made()
    decision = next(d for d in (policy.decide(np.zeros(12), 0.5) for _ in range(20)) if d.action)
    again = from_bytes(policy.to_bytes())
    assert again.held == policy.held > 0.0
    again.observe(decision, 0.0)
    assert again.held == pytest.approx(policy.held - 0.5)
    damaged = from_bytes(policy.to_bytes())
    damaged.counts[count.HELD] -= 1
    with pytest.raises(InputError, match="what waits in a saved policy"):
        from_bytes(damaged.to_bytes())


def test_live_runs_are_those_of_a_loop() -> None:
    world = make_world("common", 300, 4)
    outcomes, loop, actions = outcomes_in(world), made(), []
    for i in range(300):
        if loop.remaining_micros < world.micros.min():
            break
        decision = loop.decide(world.features[i], cost=world.costs[i])
        loop.observe(decision, outcomes[i, decision.action])
        actions.append(decision.action)
    run = live(made(), world)
    assert run.value == pytest.approx(value_of(np.array(actions), world))
    assert run.spend == pytest.approx(loop.spent)


def test_late_outcomes_return_money_when_windows_end() -> None:
    world, policy = make_world("common", 1_000, 4), made(budget=10.0, horizon=1_000)
    run = live(policy, world, exponential_delays(1_000, 20.0, 1), 60.0)
    assert run.treated * world.costs.min() + 10.0 < run.treated * 0.5  # most of it has returned
    assert policy.spent + policy.held <= 10.0


def test_the_oracle_stays_below_the_bound_and_its_budget() -> None:
    world = make_world("linear", 20_000, 1)
    oracle = best(world, 100.0, Payment("conversion"))
    assert 99.0 < oracle.run.spend <= 100.0
    assert 0.99 * oracle.bound < oracle.run.value <= oracle.bound
    assert best(world, 100.0).run.value < oracle.run.value


@pytest.mark.parametrize("cap", [1e9, 1e3])
def test_a_cap_that_does_not_bind_changes_nothing(cap: float) -> None:
    world = make_world("common", 300, 5)
    free, capped = (made(charge="treatment", budget=9.0, cost_cap=most) for most in (None, cap))
    for policy in (free, capped):
        live(policy, world)
    same = np.delete(np.arange(count.COUNTS), count.CAP)
    np.testing.assert_array_equal(free.counts[same], capped.counts[same])
    np.testing.assert_array_equal(free.memory, capped.memory)


def test_with_a_cap_nothing_dearer_is_bought_and_money_is_left() -> None:
    world, cap = make_world("common", 3_000, 6), 2.0
    policy = made(charge="treatment", budget=300.0, horizon=3_000, cost_cap=cap, reserve=0.0)
    outcomes = outcomes_in(world)
    for i in range(3_000):
        decision = policy.decide(world.features[i], cost=world.costs[i])
        assert decision.price >= 1.0 / cap
        policy.observe(decision, outcomes[i, decision.action])
    assert policy.cost_cap == cap
    assert 0.0 < policy.spent < 250.0


@pytest.mark.parametrize("name", ["pooled-bayes", "pooled-trees"])
@pytest.mark.parametrize("charge", ["treatment", "conversion"])
def test_where_nothing_is_worth_the_cap_learning_that_costs_little(name: str, charge: str) -> None:
    world = make_world("common", 2_000, 6)
    given: dict[str, Any] = {"charge": charge, "budget": 600.0, "horizon": 2_000}
    capped = made(name, **given, cost_cap=1e-4)
    live(capped, world)
    assert capped.spent <= 0.01 * 600.0 + world.costs.max()
    assert capped.explored > 0.002 * 600.0  # and it did try


def test_while_the_cap_binds_the_cheapest_are_tried() -> None:
    world, n = make_world("common", 10_000, 6), 10_000
    policy = made(charge="treatment", budget=500.0, horizon=n, cost_cap=1e-4)
    outcomes, paid = outcomes_in(world), []
    for i in range(n):
        decision = policy.decide(world.features[i], cost=world.costs[i])
        policy.observe(decision, outcomes[i, decision.action])
        paid += [decision.cost] if decision.action else []
    assert len(paid) > 30
    assert np.mean(paid) < np.quantile(world.costs, 0.05)


@pytest.mark.parametrize(("kind", "most"), [("against", 4.0), ("additive", 1.1), ("linear", 1.1)])
def test_a_caused_conversion_costs_about_what_the_cap_allows(kind: str, most: float) -> None:
    """In *against* it was 12 times that while nobody was tried: nothing was learned."""
    spend = worth = 0.0
    for seed in (1, 2, 3):
        world = make_world(kind, 100_000, seed)
        cap = 0.5 / exhausting_price(world.effects, world.costs, 0.05)
        given: dict[str, Any] = {"charge": "treatment", "horizon": 100_000, "seed": seed}
        run = live(made(budget=5_000.0, cost_cap=round(cap, 6), **given), world)
        spend, worth = spend + run.spend, worth + cap * run.value
    assert spend <= most * worth


@pytest.mark.parametrize("cap", [0.0, -1.0, float("nan"), 1e12])
def test_a_cap_that_cannot_be_is_refused(cap: float) -> None:
    with pytest.raises(InputError, match="cost_cap is"):
        made(cost_cap=cap)


@pytest.mark.parametrize("charge", ["", "outcome", None, 1])
def test_a_charge_that_cannot_be_is_refused(charge: object) -> None:
    with pytest.raises(InputError, match='charge is .*, but must be "treatment" or "conversion"'):
        made(charge=charge)


@pytest.mark.parametrize("name", ["treat-all", "cheapest-first", "thompson", "hte-greedy"])
def test_a_cap_for_a_policy_without_effects_per_cost_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cost_cap is 0.5.*no cap applies to a policy that"):
        made(name, cost_cap=0.5)


@pytest.mark.parametrize("name", ["treat-all", "cheapest-first"])
def test_policies_that_no_cap_applies_to_are_compared_without_one(name: str) -> None:
    log = simulate(200, seed=1)
    size: dict[str, Any] = {"budget": 50.0, "horizon": 200}
    free = assemble_for(spec_of(name), log, **size)
    capped = assemble_for(spec_of(name), log, **size, payment=Payment(cost_cap=0.5))
    assert capped.cost_cap is None
    assert propose_on(capped, log).spend == propose_on(free, log).spend > 0.0
