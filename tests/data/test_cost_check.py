"""Costs that were paid are refused; costs that go with users, but not with chance, are not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bccb import InputError, Log
from bccb.data import Columns, read_log, simulate
from bccb.data.cost_check import MOST_ROWS, check_costs
from bccb.data.worlds import ABOUT, make_world, trial_in
from bccb.evaluate.coverage import simulate_decisions
from bccb.types import Floats

TRIAL = simulate(4_000, seed=1, outcome="visit")
NEEDED = "what each treatment would cost for each user, also those left alone"
TINY = 1e-6


def priced(log: Log, costs: Floats) -> Log:
    """The log with other costs, in units of money."""
    return replace(log, micros=np.round(costs * 1e6).astype(np.int64).reshape(log.users, -1))


def test_a_cost_of_nothing_for_the_control_is_refused() -> None:
    paid = np.where(TRIAL.actions > 0, TRIAL.costs[:, 0], TINY)
    with pytest.raises(InputError, match=NEEDED) as refused:
        check_costs(priced(TRIAL, paid), ["paid"])
    assert str(refused.value).startswith(
        "the mean of cost column 'paid' is {'control': 1e-06, 'treatment-1': 0.7"
    )


def test_a_cost_of_the_control_that_was_filled_in_is_refused() -> None:
    """The means are the same, but the control's does not vary."""
    costs = TRIAL.costs[:, 0]
    filled = np.where(TRIAL.actions > 0, costs, np.median(costs))
    with pytest.raises(InputError, match="the deviation of cost column 'paid' is") as refused:
        check_costs(priced(TRIAL, filled), ["paid"])
    assert "'control': 0.0" in str(refused.value)


@pytest.mark.parametrize("redeemed", [1.0, 0.5])
def test_a_cost_paid_on_conversion_is_refused(redeemed: float) -> None:
    """Also if it is so in both arms, and if only a part of the converters redeemed."""
    who = (TRIAL.outcomes > 0) & (np.random.default_rng(0).random(TRIAL.users) < redeemed)
    with pytest.raises(
        InputError, match=f"known before the outcome, which it tells: give {NEEDED}"
    ) as refused:
        check_costs(priced(TRIAL, np.where(who, 0.5, TINY)), ["paid"])
    assert ", 'others': 1e-06}" in str(refused.value)


def test_one_column_for_two_treatments_that_cost_differently_is_refused() -> None:
    log = simulate(4_000, seed=1, outcome="visit", treatments=2)
    paid = np.array([0.3, 0.3, 1.2])[log.actions]
    with pytest.raises(InputError, match="in a column of its own for each treatment"):
        check_costs(priced(log, np.column_stack((paid, paid))), ["paid"])
    check_costs(log, ["c10", "c20"])


def decided_by_cost(seed: int) -> Log:
    """A log of decisions that prefer cheap users, whose cost goes with a feature."""
    log = simulate(4_000, seed=seed, outcome="visit")
    chance = np.where(log.costs[:, 0] < 0.6, 0.95, 0.05)
    actions = (np.random.default_rng(seed).random(log.users) < chance).astype(np.int64)
    probabilities = np.where(actions > 0, chance, 1 - chance)
    return replace(log, actions=actions, probabilities=probabilities, known_shares=None)


def test_decisions_that_looked_at_the_cost_are_tested_given_their_probabilities() -> None:
    log = decided_by_cost(1)
    check_costs(log, ["price"])
    with pytest.raises(InputError, match="needs its probabilities, too"):
        check_costs(replace(log, probabilities=None), ["price"])
    paid = np.where(log.actions > 0, log.costs[:, 0], TINY)
    with pytest.raises(InputError, match="about the same in every arm"):
        check_costs(priced(log, paid), ["price"])


def test_a_cost_that_goes_with_who_converts_is_no_paid_cost() -> None:
    """The cost is the user's own rate, noise aside: as far as a feature can tell the outcome."""
    assert TRIAL.effects is not None
    generator = np.random.default_rng(3)
    costs = 0.2 + TRIAL.features @ generator.random(12) * 0.01 + TRIAL.effects[:, 0]
    check_costs(priced(TRIAL, costs - costs.min() + 0.1), ["price"])


def test_there_is_no_false_alarm_on_simulated_users() -> None:
    for seed in range(15):
        check_costs(simulate(2_000, seed=seed), ["price"])
        check_costs(simulate(2_000, seed=seed, outcome="visit", treatments=3), list("abc"))
        check_costs(simulate_decisions(2_000, seed=seed), ["price"])
        check_costs(decided_by_cost(seed), ["price"])
    for name in ABOUT:
        check_costs(trial_in(make_world(name, 4_000, 1), 1), ["price"])


def test_few_rows_are_not_judged() -> None:
    """Of six users any two groups differ."""
    arms = np.array([0, 0, 0, 1, 1, 1])
    check_costs(Log(np.zeros((6, 1)), arms, np.zeros(6), 1 + 8 * arms[:, None]), ["price"])


def test_more_rows_than_needed_are_sampled() -> None:
    users = MOST_ROWS + 1_000
    actions = np.arange(users) % 2
    log = Log(np.zeros((users, 1)), actions, np.zeros(users), (1 + actions * 9)[:, None])
    with pytest.raises(InputError, match=NEEDED):
        check_costs(log, ["paid"])


def test_the_bound_is_five_standard_errors_of_the_mean_rank() -> None:
    """Costs 1 and 2 in equal numbers: the score is -1 or +1, and z follows from four counts."""
    refused = {}
    for dear in range(500, 600, 5):  # of 1,000 in the treatment; as many others in the control
        costs = np.concatenate((np.full(1000 - dear, 2), np.ones(dear), np.ones(1000 - dear),
                                np.full(dear, 2)))  # fmt: skip
        arms = np.repeat([0, 1], 1000)
        log = Log(np.zeros((2000, 1)), arms, np.zeros(2000), costs[:, None].astype(np.int64))
        z = (2 * dear - 1000) / math.sqrt(2000 * 0.25)
        try:
            check_costs(log, ["price"])
            refused[z] = False
        except InputError:
            refused[z] = True
    assert all(is_refused == (z > 5) for z, is_refused in refused.items())
    assert {True, False} == set(refused.values())


def test_a_file_with_paid_costs_is_refused_when_it_is_read(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "age": TRIAL.features[:, 0],
            "arm": np.where(TRIAL.actions > 0, "mail", "none"),
            "sale": TRIAL.outcomes,
            "paid": np.where(TRIAL.actions > 0, 0.5, 0.01),
            "zero": np.where(TRIAL.actions > 0, 0.5, 0.0),
            "price": TRIAL.costs[:, 0],
        }
    )
    frame.write_csv(tmp_path / "mine.csv")
    columns = Columns("arm", "none", "sale", features=("age",), cost="paid")
    for cost in ("paid", "zero"):
        with pytest.raises(InputError, match=f"cost column '{cost}'.*{NEEDED}"):
            read_log(tmp_path / "mine.csv", replace(columns, cost=cost))
    assert read_log(tmp_path / "mine.csv", replace(columns, cost="price")).users == TRIAL.users
