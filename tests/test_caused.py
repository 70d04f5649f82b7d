from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import bccb
from bccb.data.world import simulate_world
from bccb.errors import InputError, StateError
from bccb.evaluate.live import live
from bccb.intervals import Interval
from bccb.measured import Measure
from bccb.policy import Policy, from_bytes
from bccb.types import Floats


def driven(policy: Policy, users: int = 2_000, at: float | None = None) -> None:
    draw = np.random.default_rng(3)
    for _ in range(users):
        at = None if at is None else at + 1.0
        decision = policy.decide(draw.normal(size=2), 0.2 + draw.random(), at=at)
        y = float(draw.random() < (0.3 if decision.action else 0.1))
        if y or at is None:
            policy.observe(decision, y, at=at)


def made(name: str = "pooled-bayes", **more: Any) -> Policy:
    return bccb.make(name, budget=300, horizon=2_000, features=2, seed=1, **more)


def test_both_figures_are_kept_online_and_saved() -> None:
    policy = made()
    driven(policy)
    caused = policy.caused()
    assert caused.estimated is not None
    assert caused.measured is not None
    assert (caused.value, caused.low, caused.high) == (
        caused.estimated.value,
        caused.estimated.low,
        caused.estimated.high,
    )
    assert caused.measured_users == 2_000
    width = caused.high - caused.low
    assert 0.0 < width < caused.measured.high - caused.measured.low
    again = from_bytes(policy.to_bytes())
    assert again.caused() == caused
    driven(policy)
    driven(again)
    assert again.to_bytes() == policy.to_bytes()


def test_asking_changes_nothing() -> None:
    one, other = made(), made()
    driven(one)
    driven(other)
    one.caused()
    assert one.memory.tobytes() == other.memory.tobytes()


def test_measured_is_what_the_decisions_say() -> None:
    policy, draw = made(), np.random.default_rng(4)
    actions, outcomes, alone = [], [], []
    for _ in range(1_500):
        decision = policy.decide(draw.normal(size=2), 0.3)
        outcomes.append(float(draw.random() < 0.2))
        actions.append(decision.action)
        alone.append(decision.probability_of(0))
        policy.observe(decision, outcomes[-1])
    expected = Measure(0.01)
    expected.end_all(np.array(actions), np.array(outcomes), np.array(alone))
    got, want = policy.caused().measured, expected.interval()
    assert got is not None
    for name in ("value", "low", "high"):
        assert getattr(got, name) == pytest.approx(getattr(want, name))


def test_a_list_is_measured_as_one_after_the_other() -> None:
    one, many = made(), made()
    draw = np.random.default_rng(6)
    xs, ys = draw.normal(size=(300, 2)), (draw.random(300) < 0.3).astype(float)
    first, second = one.decide_many(xs, np.full(300, 0.4)), many.decide_many(xs, np.full(300, 0.4))
    for decision, y in zip(first, ys, strict=True):
        one.observe(decision, y)
    many.observe_many(second, ys)
    assert one.caused() == many.caused()


def test_only_users_before_the_first_without_outcome_are_measured() -> None:
    policy = made()
    assert (policy.caused().measured, policy.caused().measured_users) == (None, 0)
    decisions = policy.decide_many(np.zeros((10, 2)), np.full(10, 0.5))
    policy.observe(decisions.pop(), 1)  # the last one, while the others wait
    assert (policy.caused().measured, policy.caused().measured_users) == (None, 0)
    for decision in (*decisions[:3], *decisions[4:]):
        policy.observe(decision, 0)
    assert policy.caused().measured_users == 3
    policy.cancel(decisions[3])
    assert policy.caused().measured_users == 10


def test_a_cancelled_treatment_caused_nothing() -> None:
    policy = made()
    decisions = policy.decide_many(np.zeros((200, 2)), np.full(200, 0.5))
    treated = [decision for decision in decisions if decision.action]
    assert policy.treated == len(treated) > 0
    for decision in treated:
        policy.cancel(decision)
    assert policy.treated == 0
    assert policy.caused().value == 0.0


def test_with_a_window_users_count_when_it_ends() -> None:
    policy = made(window=50.0)
    driven(policy, users=100, at=0.0)
    assert policy.caused().measured_users >= 49
    policy.advance(200.0)
    assert policy.caused().measured_users == 100
    assert from_bytes(policy.to_bytes()).caused() == policy.caused()


def test_without_posterior_or_random_decisions_it_says_so() -> None:
    policy = made("bccb")
    driven(policy, 100)
    caused = policy.caused()
    assert caused.estimated is None
    assert caused.measured is None
    with pytest.raises(StateError, match="use pooled-trees"):
        _ = caused.value
    measured_only = made(reserve=0.0)
    driven(measured_only, 100)
    assert measured_only.caused().measured is None
    assert measured_only.caused().estimated is not None


def test_in_money_nothing_is_estimated_before_the_first_amount() -> None:
    """A conversion may be worth a cent or a thousand."""
    policy = bccb.make(budget=100, horizon=300, features=2, seed=1, outcome="amount", window=9.0)
    assert policy.caused().estimated == Interval(0.0, 0.0, 0.0)  # nobody was treated
    decisions = policy.decide_many(np.zeros((200, 2)), np.full(200, 0.5), at=1.0)
    treated = [decision for decision in decisions if decision.action]
    for decision in decisions:
        policy.observe(decision, 0.0, at=1.0) if decision is not treated[0] else None
    assert policy.caused().estimated is None
    with pytest.raises(StateError, match="knows no amount yet"):
        policy.explain(np.zeros((200, 2)))
    policy.observe(treated[0], 50.0, at=1.0)
    first = policy.caused().estimated
    assert first is not None
    assert first.low < first.value < first.high
    policy.correct(treated[0], 0.0, at=2.0)  # it was sent back: as before it
    assert policy.caused().estimated is None


def test_a_policy_that_adopts_another_has_treated_nobody() -> None:
    teacher, learner = made(), made()
    driven(teacher)
    learner.adopt(teacher)
    assert learner.treated == 0


def learned(policy: Policy) -> Floats:
    """Evidence of the users left alone, and of the treated ones."""
    sample = policy.sample()
    assert sample is not None
    return sample.learned


def test_evidence_of_users_is_counted_once() -> None:
    """At once, or late and corrected; that of a policy that was adopted is history."""
    policy, late = made(), made(window=50.0)
    seen, kept = np.zeros((2, 2)), np.zeros((2, 2))
    draw = np.random.default_rng(3)
    for at in range(1, 301):
        x, y = draw.normal(size=2), float(draw.random() < 0.3)
        decision = policy.decide(x, 0.5)
        policy.observe(decision, y)
        seen[decision.action] += y, 1.0
        other = late.decide(x, 0.5, at=at)
        if y:
            late.observe(other, 1.0, at=at)
            if at % 2:
                late.correct(other, 0.0, at=at)
        kept[other.action] += y if at % 2 == 0 else 0.0, 1.0
    assert learned(policy).tolist() == seen.tolist()
    late.advance(1_000.0)
    assert learned(late) == pytest.approx(kept)
    learner = made()
    learner.adopt(policy)
    driven(learner, 200)
    sample = learner.sample()
    assert sample is not None
    assert sample.history[0] == seen[1, 1]
    assert sample.learned[1, 1] == learner.treated
    assert sample.learned[0, 1] == sample.alone[0] == 200 - (learner.treated or 0)


def test_a_policy_that_was_driven_measures_no_more() -> None:
    policy = bccb.make(budget=100, horizon=1_000, features=12, seed=1)
    live(policy, simulate_world(1_000, seed=1))
    assert policy.caused().measured is None
    assert from_bytes(policy.to_bytes()).caused().measured is None
    with pytest.raises(StateError, match="made without window"):
        live(bccb.make(budget=9, horizon=9, features=12, window=5.0), simulate_world(9, seed=1))


@pytest.mark.parametrize("window", [None, 50.0])
def test_a_damaged_measurement_is_refused(window: float | None) -> None:
    """Whoever waits has no outcome, and whoever does not has one."""
    policy, at = made(window=window), None if window is None else 1.0
    decisions = policy.decide_many(np.zeros((20, 2)), np.full(20, 0.5), at=at)
    for decision in decisions[5:15]:
        policy.observe(decision, 1.0, at=at)
    kept = policy.to_bytes()
    parts = dict(np.load(io.BytesIO(kept)))
    assert len(parts["states"]) == 15
    assert from_bytes(kept).caused() == policy.caused()

    def damaged(name: str, values: Any) -> bytes:
        file = io.BytesIO()
        np.savez(file, **{**parts, name: values})
        return file.getvalue()

    changed = [("sums", np.empty(0)), ("waiting", parts["waiting"][1:])]
    for i, state in ((0, 1), (3, 2), (9, 0)):
        states = parts["states"].copy()
        states[i] = state
        changed.append(("states", states))
    for name, values in changed:
        with pytest.raises(InputError):
            from_bytes(damaged(name, values))
