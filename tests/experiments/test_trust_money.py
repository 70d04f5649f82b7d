"""Money in ``bccb trust``: charged on conversion, and with a cost cap."""

from __future__ import annotations

import numpy as np
import pytest

import bccb
from bccb.charge import Payment
from bccb.data.worlds import make_world
from bccb.evaluate.live import best, outcomes_in
from bccb.experiments.experiment import Record
from bccb.experiments.trust import Setup
from bccb.experiments.trust_money import (
    BUDGETS,
    CAPPED,
    Capped,
    Charged,
    capped_table,
    charged_table,
    drive_at_whole_cost,
    every_cap,
    every_charge,
    keeps_the_cap,
    reaches_the_oracle,
)
from bccb.policies import DEFAULT
from bccb.report.columns import column

USERS = 600


def fresh() -> bccb.Policy:
    return bccb.make("pooled-bayes", budget=6, horizon=USERS, features=12, seed=5)


def test_the_earlier_rule_pays_in_full_and_has_it_returned_without_a_conversion() -> None:
    world = make_world("common", USERS, 5)
    one, other, actions, outcomes = fresh(), fresh(), [], outcomes_in(world)
    for i in range(USERS):
        if other.remaining_micros < world.micros.min():
            break
        decision = other.decide(world.features[i], world.costs[i])
        y = outcomes[i, decision.action]
        other.observe(decision, y)
        if not y:
            other.refund(round(decision.cost * 1e6))
        actions.append(decision.action)
    driven = drive_at_whole_cost(one, world)
    assert driven[: len(actions)].tolist() == actions
    assert one.spent == other.spent > 0.0
    np.testing.assert_array_equal(one.memory, other.memory)


def test_a_row_is_a_share_of_what_the_oracle_causes() -> None:
    (row,) = Charged("common", 5, USERS, 20.0, ("pooled-bayes",)).make()
    assert 0.0 < row["expected_cost"] < 1.0
    assert 0.0 < row["whole_cost"] < 1.0
    assert 0.5 < row["spend"] <= 1.0
    (capped,) = Capped("common", 5, USERS, 20.0).make()
    oracle = best(make_world("common", USERS, 5), 20.0, Payment(cost_cap=capped["cap"])).run
    assert capped["share"] == pytest.approx(capped["value"] / oracle.value)
    assert oracle.spend / oracle.value < capped["cap"]
    assert capped["left"] == pytest.approx(1.0 - capped["spend"] / 20.0)
    assert oracle.spend < 15.0


def test_every_world_is_met_with_every_seed() -> None:
    setup = Setup(sizes=(50_000,), seeds=36)
    charged, capped = every_charge(setup), every_cap(setup)
    assert len(charged) == 3 * len(BUDGETS)
    assert len(capped) == 3 * len(CAPPED) == 30
    assert isinstance(charged[0], Charged)
    assert (charged[0].world, charged[0].budget) == ("criteo", 30.0)  # 60 for 100,000 users


def charged_rows(**shares: float) -> list[Record]:
    names = {"world": "linear", "policy": DEFAULT, "whole_cost": 0.5, "spend": 1.0}
    return [
        {**names, "world": world, "seed": seed, "expected_cost": share + 0.01 * seed}
        for world, share in shares.items()
        for seed in (-1, 1)
    ]


def test_the_table_has_means_and_errors() -> None:
    (row,) = charged_table(charged_rows(linear=0.9))
    assert (row["expected_cost"], row["whole_cost"], row["spent"]) == (0.9, 0.5, 1.0)
    assert row["expected_cost_se"] == pytest.approx(0.01)
    (line,) = capped_table(
        [
            {"world": "few", "cap": 10.0, "value": 2.0, "spend": 30.0, "left": 0.4, "share": 0.8},
            {"world": "few", "cap": 20.0, "value": 4.0, "spend": 60.0, "left": 0.6, "share": 0.9},
        ]
    )
    assert (line["relative_cost"], line["left"]) == (0.9, 0.5)
    for name in (*row, *line):
        assert column(name).about, name


def test_a_cap_that_bought_nothing_of_worth_is_not_kept() -> None:
    row = {"world": "few", "cap": 10.0, "value": -1.0, "spend": 3.0, "left": 0.9, "share": -1.0}
    (line,) = capped_table([row])
    assert line["relative_cost"] is None
    assert keeps_the_cap([line], 5).verdict == "does not hold"


@pytest.mark.parametrize(
    ("shares", "worlds", "verdict"),
    [
        ({"criteo": 0.9, "linear": 0.88, "against": 0.81}, 5, "holds"),
        ({"criteo": 0.9, "linear": 0.86, "against": 0.81}, 5, "does not hold"),
        ({"criteo": 0.9, "linear": 0.88, "against": 0.81}, 4, "cannot tell"),
    ],
)
def test_verdicts_follow_the_shares(shares: dict[str, float], worlds: int, verdict: str) -> None:
    claim = reaches_the_oracle(charged_table(charged_rows(**shares)), worlds)
    assert claim.verdict == verdict
    assert "90.0 % (criteo)" in claim.figure


@pytest.mark.parametrize(("relative", "verdict"), [(1.09, "holds"), (1.11, "does not hold")])
def test_a_cap_is_kept_within_a_tenth(relative: float, verdict: str) -> None:
    rows = [{"world": "few", "relative_cost": 0.7}, {"world": "many", "relative_cost": relative}]
    claim = keeps_the_cap(rows, 5)
    assert claim.verdict == verdict
    assert f"{relative:.2f} of the cap (many)" in claim.figure
