"""Fitting again: inside observe, by hand, elsewhere; always the same state."""

from __future__ import annotations

import bccb
from bccb import fitting
from bccb.data.worlds import make_world
from bccb.evaluate.live import live, outcomes_in

USERS = 4_500
WORLD = make_world("bump", USERS, seed=3)
OUTCOMES = outcomes_in(WORLD)


def made() -> bccb.Policy:
    d = WORLD.features.shape[1]
    return bccb.make("pooled-trees", budget=2_000, horizon=2 * USERS, features=d, seed=7)


def lived(policy: bccb.Policy, users: int) -> bccb.Policy:
    """Decide on users, and learn every outcome at once."""
    for _ in range(users):
        i = policy.decisions
        decision = policy.decide(WORLD.features[i], float(WORLD.costs[i, 0]))
        policy.observe(decision, OUTCOMES[i, decision.action])
    return policy


def test_a_fit_within_observe_is_a_fit_by_hand() -> None:
    own, by_hand = lived(made(), 2_100), made()
    by_hand.fits_itself = False
    lived(by_hand, 1_999)
    due = [by_hand.fit_due]
    lived(by_hand, 1)
    due.append(by_hand.fit_due)
    assert by_hand.fit()
    assert [*due, by_hand.fit_due] == [False, True, False]
    lived(by_hand, 100)
    assert own.fits == by_hand.fits == 1
    assert own.memory.tobytes() == by_hand.memory.tobytes()


def test_a_job_that_is_applied_at_once_is_a_fit() -> None:
    one, other = made(), made()
    one.fits_itself = other.fits_itself = False
    lived(one, 2_000)
    lived(other, 2_000)
    one.fit()
    other.apply_fit(fitting.run(other.fit_job()))
    assert one.memory.tobytes() == other.memory.tobytes()


def test_live_decides_as_one_call_after_the_other() -> None:
    policy, driven = made(), made()
    live(driven, WORLD)
    lived(policy, USERS)
    assert policy.fits == driven.fits == 2
    assert policy.memory.tobytes() == driven.memory.tobytes()
