"""Amounts in ``bccb trust``."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bccb.data.world import simulate_world, with_amounts
from bccb.evaluate.live import best, outcomes_in, value_of
from bccb.experiments.experiment import Record
from bccb.experiments.trust import Setup
from bccb.experiments.trust_amounts import (
    HUGE,
    STREAMS,
    USUAL,
    WITH_HUGE,
    Stream,
    ToldInMoney,
    Valued,
    amounts_table,
    by_rates,
    covers_in_money,
    every_stream,
    every_told,
    never_worse,
    stands_a_huge_order,
    takes_what_differs,
    with_huge_order,
)
from bccb.experiments.trust_tables import caused
from bccb.report.columns import column

USERS = 400
WORLD = with_amounts(simulate_world(USERS, 3, "visit"), 1.0, 3)


def test_one_user_orders_for_a_fortune_whatever_is_done() -> None:
    changed = outcomes_in(with_huge_order(WORLD))
    before = outcomes_in(WORLD)
    (row,) = np.flatnonzero((changed != before).any(axis=1))
    assert changed[row].tolist() == [HUGE, HUGE]
    assert value_of(np.ones(USERS, np.int64), with_huge_order(WORLD)) == pytest.approx(
        value_of(np.ones(USERS, np.int64), WORLD)
    )


def test_the_oracle_of_rates_is_below_the_oracle() -> None:
    actions = by_rates(WORLD, 20.0)
    assert WORLD.costs[actions > 0, 0].sum() <= 20.0
    assert 0.0 < value_of(actions, WORLD) < best(WORLD, 20.0).run.value


def test_a_row_holds_shares_of_what_the_oracle_causes() -> None:
    (row,) = Valued(3, USERS, Stream("visit", 1, 1.0), "pooled-bayes").make()
    assert json.dumps(row)
    assert 0.0 < row["amounts"] < 1.0
    assert 0.0 < row["rates"] < 1.0
    assert 0.0 < row["ceiling"] < 1.0
    (hit,) = Valued(3, USERS, Stream("visit", 1, 1.0, WITH_HUGE), "pooled-bayes").make()
    assert hit["rates"] == row["rates"]


def test_what_is_told_in_money_can_be_stored() -> None:
    (row,) = ToldInMoney(3, USERS, 0.5).make()
    assert json.dumps(row)
    assert row["held"] is True
    assert row["estimated"]["low"] < row["estimated"]["high"]
    assert row["measured"]["low"] < row["measured"]["high"]


def test_every_kind_of_users_is_planned() -> None:
    setup = Setup(sizes=(1_000,), seeds=8)
    pieces = every_stream(setup)
    assert len(pieces) == 2 * len(STREAMS)
    told = every_told(setup)
    assert len({piece.world for piece in told}) == len(told) == 15  # type: ignore[attr-defined]


def line(variation: float, gain: float, orders: str = USUAL, amounts: float = 0.9) -> Record:
    row: Record = {"outcome": "visit", "users": 10, "variation": variation, "orders": orders}
    row |= {"amounts": amounts, "rates": 0.9, "gain": gain, "gain_se": 0.001}
    return {**row, "ceiling": 0.7}


def test_rows_are_means_over_seeds() -> None:
    own = {"outcome": "visit", "users": 10, "variation": 0.5, "orders": USUAL}
    rows = [
        {**own, "amounts": 0.8, "rates": 0.7, "ceiling": 0.9},
        {**own, "amounts": 0.6, "rates": 0.7, "ceiling": 0.7},
    ]
    (made,) = amounts_table(rows)
    assert (made["amounts"], made["rates"], made["ceiling"]) == pytest.approx((0.7, 0.7, 0.8))
    assert made["gain"] == pytest.approx(0.0)
    assert made["gain_se"] == pytest.approx(np.std([0.1, -0.1], ddof=1) / np.sqrt(2))
    for name in made:
        assert column(name.removesuffix("_se")).about


def test_claims_are_judged_by_their_limits() -> None:
    table = [line(0.0, 0.0), line(1.0, 0.15), line(0.0, 0.0, WITH_HUGE, amounts=0.89)]
    for judge in (never_worse, takes_what_differs, stands_a_huge_order):
        assert judge(table, 8).verdict == "holds"
        assert judge(table, 2).verdict == "cannot tell"
    assert never_worse([line(0.0, -0.02)], 8).verdict == "does not hold"
    assert takes_what_differs([line(1.0, 0.05)], 8).verdict == "does not hold"
    assert takes_what_differs([line(1.0, 0.0995)], 8).verdict == "cannot tell"
    lost = [line(0.0, 0.0), line(0.0, 0.0, WITH_HUGE, amounts=0.85)]
    assert stands_a_huge_order(lost, 8).verdict == "does not hold"


@pytest.mark.parametrize(
    ("share", "verdict"), [(1.0, "holds"), (0.95, "cannot tell"), (0.8, "does not hold")]
)
def test_coverage_in_money_is_judged_by_all_worlds(share: float, verdict: str) -> None:
    table = [{"worlds": 100, "covered": share, "held": share} for _ in range(2)]
    for name in ("covered", "held"):
        assert covers_in_money(table, name).verdict == verdict


def test_the_table_of_what_is_told_has_a_row_for_each_variation() -> None:
    interval = {"value": 9.0, "low": 5.0, "high": 12.0}
    rows = [
        {"variation": variation, "truth": 10.0, "held": True, "estimated": interval}
        | {"measured": {"value": 8.0, "low": -10.0, "high": 20.0}}
        for variation in (0.0, 0.0, 1.0, 1.0)
    ]
    made = caused(rows, by=("variation",))
    assert [(row["variation"], row["covered"], row["held"]) for row in made] == [
        (0.0, 1.0, 1.0),
        (1.0, 1.0, 1.0),
    ]
