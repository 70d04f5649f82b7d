"""What a policy says that it caused, in ``bccb trust``: who is asked, when, and about whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bccb
from bccb.caused import Caused
from bccb.data.world import simulate_world
from bccb.evaluate.late import drive_late as drive_late_compiled
from bccb.evaluate.late import exponential_delays
from bccb.evaluate.live import live, outcomes_in, value_of
from bccb.experiments.trust import QUICK, Setup
from bccb.experiments.trust_caused import (
    CELLS,
    LOOKS,
    Cell,
    Told,
    drive_at_once,
    drive_late,
    every_cell,
    holds,
    looks_over,
)
from bccb.experiments.trust_tables import caused as caused_table
from bccb.intervals import Interval

USERS = 600


def fresh(window: float | None = None, treatments: int = 1) -> bccb.Policy:
    return bccb.make(
        budget=30, horizon=USERS, features=12, treatments=treatments, seed=5_000, window=window
    )


@pytest.mark.compiled
@pytest.mark.parametrize("treatments", [1, 2])
def test_a_row_has_the_truth_and_what_the_policy_says_at_the_end(treatments: int) -> None:
    (row,) = Told(5_000, USERS, Cell("visit", treatments, "at once")).make()
    world = simulate_world(USERS, 5_000, "visit", treatments)
    policy, outcomes, value = fresh(treatments=treatments), outcomes_in(world), 0.0
    for x, costs, ys, rates in zip(world.features, world.costs, outcomes, world.rates, strict=True):
        decision = policy.decide(x, costs)
        policy.observe(decision, ys[decision.action])
        value += rates[decision.action] - rates[0]
    figures = policy.caused()
    assert figures.estimated is not None
    assert figures.measured is not None
    assert row["truth"] == pytest.approx(value)
    assert row["truth"] == live(fresh(treatments=treatments), world).value
    assert Interval(**row["estimated"]) == figures.estimated
    assert Interval(**row["measured"]) == figures.measured
    assert (row["outcome"], row["treatments"], row["reports"]) == ("visit", treatments, "at once")


@pytest.mark.compiled
def test_late_conversions_are_reported_as_in_the_lab_until_all_is_known() -> None:
    world = simulate_world(USERS, 5_000, "visit")
    delays = np.ceil(np.random.default_rng(1).exponential(60.0, USERS)) + 1.0
    outcomes = outcomes_in(world) * (delays <= 250.0)[:, None]
    actions, policy = np.zeros(USERS, np.int64), fresh(window=250.0)
    steps = sum(1 for _ in drive_late(policy, world, outcomes, delays, 250.0, actions))
    expected = drive_late_compiled(
        fresh(), world.features, world.micros, outcomes_in(world), delays, 250.0
    )
    assert actions.tolist() == expected.tolist()
    assert actions.any()
    assert steps == USERS + 251
    assert (policy.waiting, policy.too_late) == (0, 0)
    assert policy.caused().measured_users == USERS


@pytest.mark.compiled
def test_a_late_row_is_what_the_policy_says_when_all_is_known() -> None:
    (row,) = Told(5_000, USERS, Cell("visit", 1, "late")).make()
    world, window = simulate_world(USERS, 5_000, "visit"), 0.5 * USERS
    delays = np.maximum(np.ceil(exponential_delays(USERS, 0.1 * USERS, 5_000)), 1.0)
    outcomes = outcomes_in(world) * (delays <= window)[:, None]
    actions, policy = np.zeros(USERS, np.int64), fresh(window)
    list(drive_late(policy, world, outcomes, delays, window, actions))
    figures = policy.caused()
    assert figures.estimated == Interval(**row["estimated"])
    assert figures.measured == Interval(**row["measured"])
    assert row["truth"] == value_of(actions, world)
    assert row["reports"] == "late"


def figures(low: float, high: float, users: int) -> Caused:
    return Caused(None, Interval(0.0, low, high), users)


def test_measured_is_set_against_the_outcomes_of_the_users_who_count() -> None:
    outcomes = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    actions = np.array([1, 0, 1, 1, 1])
    assert holds(figures(1.0, 1.0, 1), outcomes, actions)
    assert holds(figures(1.0, 1.0, 3), outcomes, actions)  # would have anyway: nothing
    assert not holds(figures(1.0, 1.5, 4), outcomes, actions)
    assert not holds(figures(2.5, 9.0, 4), outcomes, actions)
    assert holds(figures(3.0 + 1e-12, 9.0, 5), outcomes, actions)
    assert holds(Caused(None, None, 0), outcomes, actions)  # nothing is said yet


@pytest.mark.compiled
def test_one_look_that_misses_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def missed_at(number: int) -> Any:
        def look(policy: bccb.Policy) -> Caused:
            asked.append(policy.decisions)
            return Caused(
                Interval(0.0, 0.0, 0.0),
                Interval(0.0, 9e9, 9e9) if len(asked) == number else Interval(0.0, -9e9, 9e9),
                policy.decisions,
            )

        return look

    for number, held in ((1, False), (LOOKS, False), (LOOKS + 1, True)):  # the last is the row's
        asked.clear()
        monkeypatch.setattr(bccb.Policy, "caused", missed_at(number))
        (row,) = Told(5_000, USERS, Cell("visit", 1, "at once")).make()
        assert row["held"] is held
    assert asked == [*range(10, USERS + 1, 10), USERS]


def test_looks_are_evenly_spaced_and_end_with_the_campaign() -> None:
    looks = looks_over(30_001)
    assert len(set(looks)) == LOOKS
    assert looks[-1] == 30_001
    assert set(np.diff(looks)) <= {500, 501}


def test_a_driver_says_who_was_treated_after_each_user() -> None:
    world = simulate_world(50, 5_000, "visit")
    actions = np.full(50, -1)
    steps = drive_at_once(fresh(), world, outcomes_in(world), actions)
    next(steps)
    assert (actions >= 0).sum() == 1


def test_every_world_is_met_once() -> None:
    pieces = [piece for piece in every_cell(Setup()) if isinstance(piece, Told)]
    assert sorted(piece.world for piece in pieces) == list(range(5_000, 5_450))
    at_once = [piece for piece in pieces if piece.cell.reports == "at once"]
    assert len(at_once) == 300
    assert {(piece.cell.outcome, piece.users) for piece in pieces} == {
        ("conversion", 100_000),
        ("visit", 20_000),
    }
    assert {cell.treatments for cell in CELLS} == {1, 2}
    assert len(every_cell(QUICK)) == 7 * len(CELLS)
    assert len(every_cell(replace(QUICK, seeds=2))) == 2 * len(CELLS)


def test_the_table_has_shares_and_mean_widths_of_each_kind() -> None:
    kinds = [Cell("visit", 1, "at once"), Cell("visit", 2, "at once")]
    rows = [
        {
            **kind._asdict(),
            "truth": truth,
            "held": truth < 12.0,
            "estimated": {"value": 9.0, "low": 9.0 - reach, "high": 9.0 + reach},
            "measured": {"value": 9.0, "low": -10.0 * truth, "high": 20.0},
        }
        for kind in kinds
        for truth, reach in ((10.0, 2.0), (11.0, 1.0), (12.0, 3.0))
    ]
    row, other = caused_table(rows)
    assert (row["outcome"], row["treatments"], row["reports"]) == ("visit", 1, "at once")
    assert other["treatments"] == 2
    assert (row["worlds"], row["truth"]) == (3, pytest.approx(11.0))
    assert (row["bias"], row["bias_se"]) == (pytest.approx(-2.0), pytest.approx(1 / np.sqrt(3)))
    assert row["covered"] == pytest.approx(2 / 3)  # the ends belong to it
    assert row["held"] == pytest.approx(2 / 3)
    assert (row["width"], row["measured_width"]) == (pytest.approx(4.0), pytest.approx(130.0))
    assert (row["measured_low"], row["measured_high"]) == (-110.0, 20.0)
    ratio = 4.0 / 130.0
    assert row["relative_width"] == pytest.approx(ratio)
    rests = np.array([4.0, 2.0, 6.0]) - ratio * np.array([120.0, 130.0, 140.0])
    error = rests.std(ddof=1) / np.sqrt(3) / 130.0
    assert row["relative_width_se"] == pytest.approx(error)
