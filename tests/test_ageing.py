"""Policies with a window: what is learned of users whose outcome is reported late, or never."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bccb
from bccb import Decision, InputError, Policy, StateError
from bccb.explorers.beta_difference import LAYOUT
from bccb.kernels import counts as count
from bccb.kernels.delay import AGES, ARM_STRENGTH, MEANS, PRIOR_MEAN, RATIO, STRENGTH
from bccb.policy import from_bytes

WINDOW = 30.0


def late(name: str = "thompson", **options: Any) -> Policy:
    given = {"budget": 1e6, "horizon": 100, "features": 1, "seed": 1, "window": WINDOW}
    return bccb.make(name, **{**given, **options})


def counted(policy: Policy) -> tuple[list[float], list[float]]:
    """The conversions and the non-conversions of each arm that Thompson sampling has learned."""
    places = policy.counts[[count.AT_EXPLORER, count.AT_PACER]]
    state = LAYOUT.view(policy.memory[slice(*places.tolist())], policy.features, policy.treatments)
    return (state.alpha - 1.0).tolist(), (state.beta - 1.0).tolist()


class Reference:
    """The rule in plain Python: one dictionary per user, one pass over all of them per call."""

    def __init__(self, arms: int, window: float) -> None:
        self.ages = [window * RATIO ** (j - AGES + 1) for j in range(AGES)]
        self.window, self.users = window, list[dict[str, Any]]()
        self.events, self.risk = np.zeros((arms, AGES)), np.zeros((arms, AGES))
        self.gain, self.weight = np.zeros(arms), np.zeros(arms)
        self.mean, self.counted = 0.0, 0.0
        self.fit()

    def share(self, arm: int, j: int) -> float:
        """F at age j, from the product over the later bins."""
        prior = [math.expm1(-a / self.window / self.mean) for a in self.ages]
        product = 1.0
        for i in range(j + 1, AGES):
            q0 = 1.0 - prior[i - 1] / prior[i]
            pooled = (self.events[:, i].sum() + STRENGTH * q0) / (self.risk[:, i].sum() + STRENGTH)
            own = self.events[arm, i] + ARM_STRENGTH * pooled
            product *= 1.0 - own / (self.risk[arm, i] + ARM_STRENGTH)
        return product

    def fit(self) -> None:
        """Choose the mean that the binomial likelihood and the prior make most probable."""
        if self.risk.sum() < 1.1 * self.counted:
            return
        self.counted, means = self.risk.sum(), [2.0 / 2**i for i in range(MEANS)]
        ages = np.array(self.ages) / self.window
        chances = []
        for mean in means:
            q = 1.0 - np.expm1(-ages[:-1] / mean) / np.expm1(-ages[1:] / mean)
            q = np.clip(q, 1e-12, 1.0 - 1e-12)
            likelihood = np.sum(stats.binom.logpmf(self.events[:, 1:], self.risk[:, 1:], q))
            chances.append(likelihood + stats.norm.logpdf(np.log(mean / PRIOR_MEAN), 0, 1.5))
        self.mean = means[int(np.argmax(chances))]

    def learn(self, user: dict[str, Any], a: float, b: float) -> None:
        self.gain[user["arm"]] += a
        self.weight[user["arm"]] += b
        user["b"] += b

    def advance(self, at: float) -> None:
        shares = [[self.share(arm, j) for j in range(AGES)] for arm in range(len(self.gain))]
        changed = False
        for j in reversed(range(AGES)):
            for user in self.users:
                if user["passed"][j] or at - user["at"] <= self.ages[j]:
                    continue
                changed = changed or (user["bin"] is not None and user["bin"] <= j)
                user["passed"][j] = True
                if user["bin"] is not None:
                    self.risk[user["arm"], j] += user["bin"] <= j
                    self.events[user["arm"], j] += user["bin"] == j
                elif not user["ended"]:
                    known = shares[user["arm"]]
                    target = 1.0 if j == AGES - 1 else (known[j] + known[j + 1]) / 2
                    if target - user["b"] >= 0.1 or (j == AGES - 1 and target > user["b"]):
                        self.learn(user, 0.0, target - user["b"])
        if changed:
            self.fit()

    def decide(self, arm: int, at: float) -> None:
        self.advance(at)
        start = {"arm": arm, "at": at, "b": 0.0, "bin": None, "ended": False}
        self.users.append({**start, "passed": [False] * AGES})

    def observe(self, i: int, y: float, at: float) -> None:
        self.advance(at)
        user = self.users[i]
        self.learn(user, y, 1.0 - user["b"])
        user["ended"] = True
        if y > 0:
            user["bin"] = next(j for j in range(AGES) if at - user["at"] <= self.ages[j])


@pytest.mark.parametrize("treatments", [1, 2])
def test_evidence_ages_as_the_rule_says(treatments: int, sized: Callable[[int, int], int]) -> None:
    rng = np.random.default_rng(3)
    policy, reference = late(treatments=treatments), Reference(treatments + 1, WINDOW)
    decisions: list[Decision] = []
    reports: list[tuple[float, int, float]] = []
    at = 0.0
    for i in range(sized(300, 120)):
        at += rng.exponential(0.4)
        for due in sorted(each for each in reports if each[0] <= at):
            reports.remove(due)
            policy.observe(decisions[due[1]], due[2], at=due[0])
            reference.observe(due[1], due[2], due[0])
        decision = policy.decide([rng.normal()], cost=[0.5] * treatments, at=at)
        decisions.append(decision)
        reference.decide(decision.action, at)
        if rng.random() < 0.4:
            delay = rng.exponential(8.0 if decision.action else 4.0)
            if delay < WINDOW:
                reports.append((at + delay, i, float(rng.random() < 0.8)))
        if i % 20 == 0:
            gains, others = counted(policy)
            np.testing.assert_allclose(gains, reference.gain, rtol=1e-9)
            np.testing.assert_allclose(others, reference.weight - reference.gain, rtol=1e-9)
    assert policy.pending is not None
    ages, shares = policy.pending.curve()
    np.testing.assert_allclose(ages, reference.ages)
    expected = [[reference.share(k, j) for j in range(AGES)] for k in range(treatments + 1)]
    np.testing.assert_allclose(shares, expected, rtol=1e-9)
    assert reference.risk.sum() > sized(100, 20)


@pytest.mark.compiled
def test_when_all_windows_have_ended_everybody_counts_once() -> None:
    rng = np.random.default_rng(4)
    policy = late()
    bought, arms = [0, 0], [0, 0]
    for i in range(3_000):  # more than the ring has places at first
        decision = policy.decide([0.0], cost=0.5, at=i * 0.01)
        arms[decision.action] += 1
        if rng.random() < 0.1:
            policy.observe(decision, 1, at=i * 0.01)
            bought[decision.action] += 1
    assert policy.waiting == 3_000 - sum(bought)
    policy.advance(1_000.0)
    gains, others = counted(policy)
    assert gains == pytest.approx(bought)
    assert others == pytest.approx(np.subtract(arms, bought))
    assert policy.waiting == 0


@pytest.mark.compiled
def test_shares_are_those_of_the_delays_though_the_slow_ones_are_not_in_yet() -> None:
    """After 20 days delays with a mean of 10 days are seen cut short; after 300 they are known."""
    rng, window = np.random.default_rng(5), 60.0
    policy = late(window=window, horizon=6_000)
    reports: list[tuple[float, Any]] = []
    for i in range(6_000):
        at = i * 0.05
        while reports and reports[0][0] <= at:
            _, decision = reports.pop(0)
            policy.observe(decision, 1, at=at)
        delay = float(rng.exponential(10.0))
        decision = policy.decide([0.0], cost=0.5, at=at)
        if delay < window:
            reports = sorted([*reports, (at + delay, decision)], key=lambda each: each[0])
        if i == 400:
            early = policy.pending.curve() if policy.pending else None
    assert policy.pending is not None
    assert early is not None
    truth = -np.expm1(-early[0] / 10.0) / -np.expm1(-window / 10.0)
    assert np.abs(early[1] - truth).max() < 0.25
    np.testing.assert_allclose(policy.pending.curve()[1], np.tile(truth, (2, 1)), atol=0.03)


@pytest.mark.compiled
def test_an_arm_has_its_own_curve_where_its_data_say_so() -> None:
    policy = late(name="cheapest-first", effect=1.0, horizon=4_000, budget=500.0)
    for i in range(4_000):
        decision = policy.decide([0.0], cost=0.1 if i % 2 else 1e4, at=float(i))
        policy.observe(decision, 1, at=float(i) + (0.1 if decision.action else 0.9))
    assert policy.pending is not None
    ages, shares = policy.pending.curve()
    middle = int(np.searchsorted(ages, 0.5))
    assert shares[1, middle] > 0.95
    assert shares[0, middle] < 0.15


def test_a_zero_that_is_reported_early_counts_at_once() -> None:
    policy = late()
    decision = policy.decide([0.0], cost=0.5, at=0.0)
    policy.observe(decision, 0, at=1.0)
    assert counted(policy)[1][decision.action] == pytest.approx(1.0)
    policy.advance(100.0)
    assert counted(policy)[1][decision.action] == pytest.approx(1.0)


def test_a_conversion_after_the_window_is_counted_and_not_learned() -> None:
    policy = late()
    decision = policy.decide([0.0], cost=0.5, at=0.0)
    policy.observe(decision, 1, at=WINDOW + 0.001)
    assert policy.too_late == 1
    assert sum(counted(policy)[0]) == 0.0
    assert sum(counted(policy)[1]) == pytest.approx(1.0)
    on_time = policy.decide([0.0], cost=0.5, at=40.0)
    policy.observe(on_time, 1, at=40.0 + WINDOW)
    assert sum(counted(policy)[0]) == pytest.approx(1.0)
    assert policy.too_late == 1


def test_a_cancelled_decision_is_paid_back_and_ages_no_more() -> None:
    policy = late(name="treat-all")
    decision = policy.decide([0.0], cost=0.5, at=0.0)
    assert policy.spent == 0.5
    policy.cancel(decision, at=0.001)
    policy.advance(100.0)
    assert policy.spent == 0.0
    with pytest.raises(StateError, match="observed or cancelled already"):
        policy.cancel(decision, at=100.0)
    kept = policy.decide([0.0], cost=0.5, at=100.0)
    with pytest.raises(StateError, match="the window of decision 2 has ended"):
        policy.cancel(kept, at=131.0)


def test_a_saved_policy_continues_bit_for_bit() -> None:
    rng, policy = np.random.default_rng(6), late("pooled-bayes")
    decisions = [policy.decide([rng.normal()], cost=0.5, at=0.5 * i) for i in range(40)]
    for i in range(0, 30, 7):
        policy.observe(decisions[i], 1, at=20.0)
    other = from_bytes(policy.to_bytes())
    for each in (policy, other):
        each.observe(decisions[33], 1, at=25.0)
        each.decide([0.3], cost=0.5, at=29.0)
        each.advance(60.0)
    assert other.to_bytes() == policy.to_bytes()


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_refused_or_works(seed: int) -> None:
    rng, policy = np.random.default_rng(seed), late("pooled-bayes")
    for i in range(20):
        policy.decide([rng.normal()], cost=0.5, at=float(i))
    assert policy.pending is not None
    policy.pending.delay[rng.integers(len(policy.pending.delay))] = rng.choice([-1.0, 1e300, 0.5])
    policy.pending.ring.arm[rng.integers(1, 21)] = rng.choice([-2, 0, 1, 5])
    try:
        other = from_bytes(policy.to_bytes())
    except InputError:
        return
    other.advance(1e6)
    assert np.isfinite(other.memory).all()


@pytest.mark.parametrize("window", [0.0, -1.0, math.nan, math.inf, 1e300, "long", True])
def test_a_window_that_cannot_be_is_refused(window: Any) -> None:
    with pytest.raises(InputError, match="window is"):
        late(window=window)


def test_times_that_cannot_be_are_refused_and_change_nothing() -> None:
    policy = late()
    first = policy.decide([0.0], cost=0.5, at=5.0)
    before = policy.to_bytes()
    for at in (4.999, -1.0, math.nan, math.inf, "noon", None, True):
        for call in (
            lambda at=at: policy.decide([0.0], cost=0.5, at=at),
            lambda at=at: policy.decide_many([[0.0]], [0.5], at=at),
            lambda at=at: policy.observe(first, 1, at=at),
            lambda at=at: policy.observe_many([first], [1], at=at),
            lambda at=at: policy.cancel(first, at=at),
            lambda at=at: policy.advance(at),
        ):
            with pytest.raises(InputError, match="at is"):
                call()
    assert policy.to_bytes() == before


def test_without_a_window_there_is_no_time() -> None:
    policy = bccb.make(budget=10, horizon=100, features=1)
    decision = policy.decide([0.0], cost=0.5)
    for call in (
        lambda: policy.advance(1.0),
        lambda: policy.decide([0.0], cost=0.5, at=1.0),
        lambda: policy.observe(decision, 1, at=1.0),
    ):
        with pytest.raises(InputError, match="made without a window"):
            call()
    policy.observe(decision, 1)


def test_lists_are_as_one_after_the_other() -> None:
    one, many = late("pooled-bayes"), late("pooled-bayes")
    x = np.random.default_rng(8).normal(size=(50, 1))
    first = [one.decide(row, cost=0.5, at=2.0) for row in x]
    second = many.decide_many(x, np.full(50, 0.5), at=2.0)
    for decision in first[:20]:
        one.observe(decision, 1, at=9.0)
    many.observe_many(second[:20], [1] * 20, at=9.0)
    np.testing.assert_array_equal(one.memory, many.memory)
    assert one.waiting == many.waiting == 30


@pytest.mark.parametrize("number", ["x", None, 1.5, [1], 2**70])
def test_a_decision_whose_number_was_changed_is_refused(number: Any) -> None:
    policy = late()
    decision = policy.decide([0.5], 1.0, at=1.0)
    decision.number = number
    with pytest.raises(StateError, match="was not made by this policy"):
        policy.observe(decision, 1, at=2.0)
