"""Driving a policy over users whose conversions are reported late."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import bccb
from bccb import InputError
from bccb.data.world import World, simulate_world
from bccb.evaluate.live import live
from bccb.policies import POLICIES

USERS, WINDOW = 1_500, 500.0
LEARNERS = [name for name, spec in POLICIES.items() if not spec.needs_history]


def world() -> World:
    return simulate_world(USERS, seed=4, outcome="visit")


def make(
    name: str, window: float | None = None, charge: str = "treatment", budget: float = 75.0
) -> bccb.Policy:
    size: dict[str, Any] = {"budget": budget, "horizon": USERS, "features": 12, "seed": 3}
    return bccb.make(name, **size, window=window, charge=charge)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["pooled-bayes", "bccb", "thompson", "uplifting-bandit"])
def test_the_kernel_does_what_the_policy_does_call_by_call(name: str) -> None:
    users, policy, other = world(), make(name), make(name, WINDOW)
    delays = np.random.default_rng(5).exponential(150.0, USERS)
    result = live(policy, users, delays=delays, window=WINDOW)
    due: dict[int, list[bccb.Decision]] = defaultdict(list)
    treated = 0
    for i in range(USERS):
        other.advance(float(i))
        for decision in due[i]:
            other.observe(decision, 1, at=float(i))
        if other.remaining_micros < users.micros.min():
            break
        decision = other.decide(users.features[i], cost=users.costs[i], at=float(i))
        treated += decision.action > 0
        if users.draws[i] < users.rates[i, decision.action]:
            reported = max(math.ceil(i + delays[i]), i + 1)
            if reported - i <= WINDOW:
                due[reported].append(decision)
    assert treated == result.treated
    np.testing.assert_array_equal(policy.memory, other.memory)
    np.testing.assert_array_equal(policy.counts, other.counts)


@pytest.mark.compiled
def test_what_is_held_returns_and_is_spent_on_those_who_come_later() -> None:
    """The money is all held after a tenth of the users: call by call it goes on, and so does this.

    At the end those who wait are charged if their conversion comes within the window.
    """
    users = world()
    policy = make("pooled-bayes", charge="conversion", budget=8.0)
    other = make("pooled-bayes", WINDOW / 5, "conversion", budget=8.0)
    delays = np.random.default_rng(5).exponential(30.0, USERS)
    result = live(policy, users, delays=delays, window=WINDOW / 5)
    due: dict[int, list[bccb.Decision]] = defaultdict(list)
    actions = []
    for i in range(USERS + int(WINDOW / 5) + 1):  # until the last window has ended
        other.advance(float(i))
        for decision in due[i]:
            other.observe(decision, 1, at=float(i))
        if i >= USERS:
            continue
        decision = other.decide(users.features[i], cost=users.costs[i], at=float(i))
        actions.append(decision.action)
        if users.draws[i] < users.rates[i, decision.action]:
            reported = max(math.ceil(i + delays[i]), i + 1)
            if reported - i <= WINDOW / 5:
                due[reported].append(decision)
    assert np.flatnonzero(actions)[-1] > USERS / 2
    assert result.treated == np.count_nonzero(actions)
    assert policy.held == other.held == 0.0
    assert result.spend == pytest.approx(other.spent)
    assert 0.0 < result.spend <= 8.0


@pytest.mark.compiled
def test_who_is_reported_between_two_users_counts_with_the_later_one_to_the_end() -> None:
    """A delay of 2.2 users ends with the third one: for a window of 2.5 that is too late."""
    policy = make("treat-all", charge="conversion", budget=1e6)
    late = live(policy, world(), delays=np.full(USERS, 2.2), window=2.5)
    assert late.treated > 0
    assert late.spend == 0.0
    policy = make("treat-all", charge="conversion", budget=1e6)
    assert live(policy, world(), delays=np.full(USERS, 2.2), window=3.0).spend > 0.0


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["pooled-bayes", "thompson"])
def test_what_is_never_reported_counts_as_no_conversion(name: str) -> None:
    users = world()
    never = live(make(name), users, delays=np.full(USERS, math.inf), window=10.0)
    none = World(users.features, users.micros, np.zeros_like(users.rates), users.draws)
    assert never.treated == live(make(name), none, delays=np.zeros(USERS), window=10.0).treated


@pytest.mark.compiled
def test_delays_may_depend_on_the_action() -> None:
    users = world()
    delays = np.random.default_rng(5).exponential(150.0, USERS)
    same = live(make("pooled-bayes"), users, delays=np.tile(delays[:, None], 2), window=WINDOW)
    assert same == live(make("pooled-bayes"), users, delays=delays, window=WINDOW)


@pytest.mark.parametrize(
    ("delays", "window", "message"),
    [
        (np.zeros(3), 5.0, "the shape of delays"),
        (np.full(USERS, -1.0), 5.0, "delays is -1.0"),
        (np.full(USERS, math.nan), 5.0, "delays is nan"),
        (np.zeros(USERS), 0.0, "window is 0.0"),
        (np.zeros(USERS), None, "window is None, but must be given together with delays"),
        (None, 5.0, "window is 5.0, but must be given together with delays"),
    ],
)
def test_delays_that_cannot_be_are_refused(delays: object, window: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        live(make("pooled-bayes"), world(), delays=delays, window=window)  # type: ignore[arg-type]
