"""Outcomes that are corrected: learned as if they had been right, charged anew, and only once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bccb
from bccb.errors import InputError, StateError
from bccb.kernels import counts as count
from bccb.kernels.amounts import AMOUNTS, unit_of
from bccb.measured import Measure
from bccb.policy import Policy, from_bytes

pytestmark = pytest.mark.plain
WINDOW = 1_000.0


def last_user() -> Any:
    """The features of the last of 200 users."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        x, _, _ = rng.normal(size=2), rng.random(), rng.random()
    return x


def make(name: str = "pooled-bayes", **given: Any) -> Policy:
    settings = {"budget": 50.0, "horizon": 400, "features": 2, "seed": 3, "window": WINDOW}
    return bccb.make(name, **{**settings, **given})


def run(policy: Policy, wrong: dict[int, float], users: int = 200) -> list[bccb.Decision]:
    """Decide and observe; for some users another outcome is reported first, and corrected."""
    rng, made = np.random.default_rng(5), []
    for i in range(users):
        decision = policy.decide(rng.normal(size=2), cost=0.5, at=float(i))
        y = float(rng.random() < 0.3) * (20.0 + 10.0 * rng.random())
        y = y if policy.composition.amounts else float(y > 0.0)
        policy.observe(decision, wrong.get(i, y), at=float(i))
        if i in wrong:
            policy.correct(decision, y, at=float(i))
        made.append(decision)
    return made


@pytest.mark.parametrize("name", ["pooled-bayes", "uplifting-bandit", "budgeted-thompson"])
def test_a_corrected_outcome_is_learned_as_if_it_had_been_right(name: str) -> None:
    """Evidence is additive: exactly where learning is, and nearly where it is approximate."""
    right, corrected, wrong = make(name), make(name), make(name)
    run(right, {}, users=200)
    run(corrected, {199: 1.0}, users=200)  # the right one is 0
    run(wrong, {}, users=199)
    wrong.observe(wrong.decide(last_user(), cost=0.5, at=199.0), 1.0, at=199.0)
    off = np.abs(learned(wrong) - learned(right)).max()
    assert off > 1e-3
    assert np.abs(learned(corrected) - learned(right)).max() < 0.1 * off


def learned(policy: Policy) -> Any:
    """Weights, or the counts of outcomes of a policy without."""
    place = 0 if "learn_estimator" in policy.composition.components[0].kernels else 1
    begin, end = policy.counts[count.AT_ESTIMATOR + place :][:2]
    layout = policy.composition.components[place].layout
    state = layout.view(policy.memory[begin:end], policy.features, policy.treatments)
    return (state.theta if place == 0 else policy.memory[begin:end]).copy()


def test_an_amount_that_came_back_is_taken_out_of_the_moments() -> None:
    policy = make(outcome="amount")
    decision = policy.decide([0.5, -1.0], cost=0.5, at=0.0)
    other = policy.decide([0.1, 0.4], cost=0.5, at=0.0)
    for each in run_amounts(policy):
        assert each.number
    before = moments(policy)
    policy.observe(other, 25.0, at=100.0)
    policy.correct(other, 0.0, at=101.0)
    after = moments(policy)
    np.testing.assert_allclose(after, before, rtol=1e-9)
    policy.observe(decision, 25.0, at=102.0)
    assert moments(policy)[0] == before[0] + 1.0


def run_amounts(policy: Policy) -> list[bccb.Decision]:
    rng, made = np.random.default_rng(8), []
    for i in range(100):
        decision = policy.decide(rng.normal(size=2), cost=0.5, at=float(i))
        policy.observe(decision, 20.0 + 10.0 * rng.random(), at=float(i))
        made.append(decision)
    return made


def moments(policy: Policy) -> Any:
    """The number of amounts, and their moments."""
    at = policy.counts[count.AT_AMOUNTS]
    seen, _, _, weight, squares = policy.memory[at : at + 5]
    return seen, weight, squares


def test_what_it_costs_is_corrected_too_and_never_beyond_the_budget() -> None:
    policy = make("treat-all", charge="conversion", budget=1.0)
    first, second = (policy.decide([0.0, 0.0], cost=0.5, at=0.0) for _ in range(2))
    policy.observe(first, 1, at=1.0)
    policy.observe(second, 0, at=1.0)
    assert (policy.spent, policy.remaining) == (0.5, 0.5)
    policy.correct(first, 0, at=2.0)
    assert (policy.spent, policy.held, policy.remaining) == (0.0, 0.0, 1.0)
    for _ in range(2):
        policy.observe(policy.decide([0.0, 0.0], cost=0.5, at=3.0), 1, at=3.0)
    with pytest.raises(StateError, match=r"costs 0\.5 more, but only 0 is left: add to the budget"):
        policy.correct(second, 1, at=4.0)
    policy.add_budget(1.0)
    policy.correct(second, 1, at=5.0)
    assert policy.spent == 1.5


def test_a_share_of_the_amount_is_charged_anew() -> None:
    policy = make("treat-all", charge="conversion", outcome="amount", share=0.2)
    decision = policy.decide([0.0, 0.0], cost=4.0, at=0.0)
    policy.observe(decision, 15.0, at=1.0)
    assert policy.spent == 3.0
    policy.correct(decision, 5.0, at=1.0)
    assert policy.spent == 1.0


@pytest.mark.parametrize(
    ("settled", "y", "spent"), [(0.3, 0.0, 0.0), (0.3, 1.0, 0.2), (0.3, 9.0, 0.3), (0.0, 9.0, 0.0)]
)
def test_a_settled_cost_is_lowered_and_never_raised(settled: float, y: float, spent: float) -> None:
    policy = make("treat-all", charge="conversion", outcome="amount", share=0.2, budget=1.0)
    policy.observe(policy.decide([0.0, 0.0], cost=1.0, at=0.0), 2.5, at=1.0)
    micros = round(settled * 1e6)
    policy.repay(500_000 - micros)
    changed = policy.recharge(1_000_000, 2.5, y, micros)
    assert changed == round(spent * 1e6) - micros
    assert (policy.spent, policy.remaining) == (spent, 1.0 - spent)


def test_a_correction_returns_no_more_than_was_spent() -> None:
    policy = make("treat-all", charge="conversion", budget=1.0)
    decision = policy.decide([0.0, 0.0], cost=0.5, at=0.0)
    policy.observe(decision, 1, at=1.0)
    policy.repay(250_000)
    with pytest.raises(
        InputError, match=r"a refund is 0\.5, but must be from 0 to the 0\.25 spent"
    ):
        policy.correct(decision, 0, at=2.0)
    assert (policy.spent, policy.remaining) == (0.25, 0.75)
    assert from_bytes(policy.to_bytes()).remaining == 0.75


def test_once_within_the_window_and_only_what_has_an_outcome() -> None:
    policy = make()
    first, second = (policy.decide([0.0, 0.0], cost=0.5, at=0.0) for _ in range(2))
    with pytest.raises(StateError, match="decision 1 has no outcome yet: observe it"):
        policy.correct(first, 0, at=1.0)
    policy.observe(first, 1, at=1.0)
    with pytest.raises(InputError, match="from 0 to 1"):
        policy.correct(first, 20.0, at=1.0)
    policy.correct(first, 0, at=1.0)
    with pytest.raises(StateError, match="decision 1 was cancelled or corrected already"):
        policy.correct(first, 1, at=1.0)
    policy.observe(second, 1, at=1.0)
    with pytest.raises(StateError, match="the window of decision 2 has ended"):
        policy.correct(second, 0, at=2_000.0)
    with pytest.raises(StateError, match="without a window"):
        make(window=None).correct(first, 0)


def test_outcomes_can_still_be_corrected_after_saving() -> None:
    policy = make(outcome="amount", charge="conversion", share=0.5, largest=100.0)
    decisions = run(policy, {})
    again = from_bytes(policy.to_bytes())
    for each in (policy, again):
        each.correct(decisions[-1], 3.0, at=300.0)
    assert again.to_bytes() == policy.to_bytes()
    policy.advance(5_000.0)
    assert not policy._observed
    assert not policy._outcomes


def test_what_was_measured_is_corrected_to_the_last_digits() -> None:
    right, corrected = Measure(0.2, 50.0), Measure(0.2, 50.0)
    users = [(1, True, 30.0), (2, False, 20.0), (3, False, 0.0), (4, True, 70.0)]
    for number, treated, y in users:
        right.end(number, treated, y, 0.4)
        corrected.end(number, treated, 10.0, 0.4)
    for number, treated, y in users:
        corrected.correct(number, treated, 10.0, y, 0.4)
    for end in ("value", "low", "high"):
        assert getattr(corrected.interval(), end) == pytest.approx(getattr(right.interval(), end))
    late = Measure(0.2, 50.0)
    late.end(2, False, 10.0, 0.4)  # the first user is open: nobody counts yet
    late.correct(2, False, 10.0, 0.0, 0.4)
    late.end(1, True, 30.0, 0.4)
    assert (late.users, late.without, late.conversions) == (2, 0.0, 30.0 / 50.0)


@pytest.mark.parametrize("outcome", ["conversion", "amount"])
def test_a_policy_whose_outcomes_were_all_taken_back_can_be_kept(outcome: str) -> None:
    """Sums from which as much was taken as was added may be below 0 by rounding."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        policy = make(seed=seed, outcome=outcome, reserve=0.2)
        size = 20.0 if outcome == "amount" else 1.0
        made = [policy.decide(rng.normal(size=2), cost=0.5, at=0.0) for _ in range(60)]
        for decision in made:
            policy.observe(decision, size * rng.random(), at=1.0)
        for decision in made:
            policy.correct(decision, 0.0, at=2.0)
        again = from_bytes(policy.to_bytes())
        assert again.to_bytes() == policy.to_bytes()
        assert again.caused() == policy.caused()


def test_amounts_that_were_corrected_are_worth_what_they_are() -> None:
    """Those who report twice the amount at first end where others are."""
    values = []
    for factor in (1.0, 2.0):
        rng, policy = np.random.default_rng(1), make(outcome="amount", budget=500.0)
        made = [(policy.decide(rng.normal(size=2), cost=0.5, at=0.0), i) for i in range(60)]
        amounts = rng.uniform(40.0, 60.0, 60)
        for decision, i in made:
            policy.observe(decision, factor * amounts[i], at=1.0)
        for decision, i in made if factor != 1.0 else ():
            policy.correct(decision, amounts[i], at=2.0)
        for _ in range(60):
            decision = policy.decide(rng.normal(size=2), cost=0.5, at=3.0)
            policy.observe(decision, rng.uniform(40.0, 60.0), at=3.0)
        values.append(unit(policy))
    assert values[1] == pytest.approx(values[0], rel=0.1)


def unit(policy: Policy) -> float:
    """The typical amount, as the policy has learned it."""
    begin = policy.counts[count.AT_AMOUNTS]
    memory = policy.memory[begin : policy.counts[count.END]]
    return unit_of(AMOUNTS.view(memory, policy.features, policy.treatments))
