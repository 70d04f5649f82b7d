"""Late outcomes in ``bccb trust``: who learns, from what, and by which rule."""

from __future__ import annotations

import math

import numpy as np
import pytest

import bccb
from bccb.data.world import World, simulate_world
from bccb.evaluate.live import best, live, value_of
from bccb.experiments.trust import Setup
from bccb.experiments.trust_late import (
    CASES,
    LEARNERS,
    Late,
    drive_by_the_earlier_rule,
    every_case,
    every_learner,
)
from bccb.experiments.trust_tables import delays as delay_table
from bccb.experiments.trust_tables import late as late_table
from bccb.types import Floats

USERS = 600


def fresh(name: str = "pooled-bayes") -> bccb.Policy:
    return bccb.make(name, budget=30, horizon=USERS, features=12, seed=700)


def by_hand(policy: bccb.Policy, world: World, delays: Floats, window: float) -> list[int]:
    """The earlier rule as a service would follow it: at each time zeros, then conversions."""
    made: list[bccb.Decision] = []
    ends: list[tuple[int, float]] = []  # when the outcome is learned, and what it is
    for t in range(world.users):
        for value in (0.0, 1.0):
            for decision, end in zip(made, ends, strict=True):
                if end == (t, value):
                    policy.observe(decision, value)
        if policy.remaining_micros < world.micros.min():
            break
        made.append(policy.decide(world.features[t], world.costs[t]))
        action = made[-1].action
        reported = max(math.ceil(t + delays[t, action]), t + 1)
        known = world.draws[t] < world.rates[t, action] and reported <= t + window
        ends.append((reported, 1.0) if known else (t + math.floor(window) + 1, 0.0))
    return [decision.action for decision in made]


def test_the_learners_are_those_that_learn_from_outcomes() -> None:
    assert (
        *("thompson", "budgeted-thompson", "hte-greedy", "uplifting-bandit", "bccb"),
        *("response-first", "pooled-bayes", "pooled-trees", "hybrid"),
    ) == LEARNERS


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["pooled-bayes", "bccb"])
def test_the_earlier_rule_learns_conversions_when_reported_and_zeros_at_the_end(name: str) -> None:
    world = simulate_world(USERS, 700, "visit")
    delays = CASES["treated half as fast"].draw(np.random.default_rng(1), USERS) * 40.0
    one, other = fresh(name), fresh(name)
    actions = drive_by_the_earlier_rule(one, world, delays, 100.0)
    chosen = by_hand(other, world, delays, 100.0)
    assert actions[: len(chosen)].tolist() == chosen
    assert not actions[len(chosen) :].any()
    np.testing.assert_array_equal(one.memory, other.memory)


@pytest.mark.compiled
def test_a_row_has_the_share_of_each_way_to_learn() -> None:
    piece = Late(700, USERS, "visit", "exponential", ("pooled-bayes",), history=1_000)
    (row,) = piece.make()
    world = simulate_world(USERS, 700, "visit")
    most = best(world, 30).run.value
    delays = np.random.default_rng((700, 4)).exponential(size=USERS) * 0.1 * USERS
    late = live(fresh(), world, delays, window=0.5 * USERS).value
    assert row["at_once"] == live(fresh(), world).value / most
    assert row["ageing"] == pytest.approx(late / most)
    both = np.tile(delays[:, None], 2)
    actions = drive_by_the_earlier_rule(fresh(), world, both, 0.5 * USERS)
    assert row["earlier"] == pytest.approx(value_of(actions, world) / most)
    assert len({row["at_once"], row["ageing"], row["earlier"]}) == 3


def test_delays_have_the_mean_that_they_say() -> None:
    for name, case in CASES.items():
        drawn = case.draw(np.random.default_rng(2), 400_000).mean(axis=0)
        faster = {"treated twice as fast": 0.5, "treated half as fast": 2.0}.get(name, 1.0)
        np.testing.assert_allclose(drawn, [1.0, faster], rtol=0.05)


def test_every_world_is_planned_once_and_few_seeds_have_few_worlds() -> None:
    pieces = [piece for piece in every_learner(Setup()) if isinstance(piece, Late)]
    assert {(piece.outcome, piece.users) for piece in pieces} == {
        ("conversion", 100_000),
        ("visit", 20_000),
    }
    assert sorted({piece.world for piece in pieces}) == list(range(700, 712))
    assert len(pieces) == 24
    assert len(every_case(Setup())) == 12 * 2 * (len(CASES) - 1)
    assert len(every_learner(Setup(seeds=2))) == 4


def test_tables_are_means_over_worlds_with_the_error_of_the_difference() -> None:
    rows = [
        {"outcome": "visit", "policy": "bccb", "delays": "slow", "world": world}
        | {"at_once": 0.8, "earlier": 0.1 * world, "ageing": 0.1 * world + gain}
        for world, gain in ((1, 0.2), (2, 0.2), (3, 0.5))
    ]
    (row,) = late_table(rows)
    assert (row["outcome"], row["policy"]) == ("visit", "bccb")
    assert row["earlier"] == pytest.approx(0.2)
    assert (row["gain"], row["gain_se"]) == (pytest.approx(0.3), pytest.approx(0.1))
    (row,) = delay_table(rows)
    assert (row["outcome"], row["delays"]) == ("visit", "slow")
    assert row["kept"] == pytest.approx(np.mean([0.3, 0.4, 0.8]) / 0.8)
