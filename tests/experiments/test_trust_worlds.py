"""Worlds in ``bccb trust``: every policy in every world, as shares of the oracle's value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bccb
from bccb.data.worlds import ABOUT, make_world
from bccb.evaluate.live import best, live
from bccb.experiments import trust_claims
from bccb.experiments.experiment import Verdict
from bccb.experiments.trust import ORACLE, Setup
from bccb.experiments.trust_worlds import (
    FIRST_SEED,
    NAMES,
    InWorld,
    every_world,
    seeds,
    shares,
    table,
)
from bccb.policies import POLICIES

Rows = list[dict[str, Any]]


def rows_of(world: str = "bump", **values: list[float]) -> Rows:
    """What policies cause with each seed, where the oracle causes 10."""
    given = {ORACLE: [10.0] * len(next(iter(values.values()))), **values}
    return [
        {"world": world, "users": 100, "seed": seed, "policy": name.replace("_", "-"), "value": v}
        for name, of in given.items()
        for seed, v in enumerate(of)
    ]


def test_every_policy_meets_every_world_with_seeds_of_their_own() -> None:
    pieces = [piece for piece in every_world(Setup()) if isinstance(piece, InWorld)]
    assert {piece.world for piece in pieces} == set(ABOUT)
    assert len(pieces) == 4 * len(ABOUT)
    assert set(NAMES) == set(POLICIES) - {ORACLE}
    assert all((piece.sizes, piece.policies) == ((100_000, 20_000), NAMES) for piece in pieces)
    assert list(seeds(Setup())) == [FIRST_SEED + i for i in range(4)]
    assert len(seeds(Setup(seeds=2))) == 1


@pytest.mark.compiled
def test_a_row_is_what_the_policy_does_in_that_world() -> None:
    rows = InWorld("three", 7, (600, 300), 1_500, ("pooled-bayes", "hybrid")).make()
    assert len(rows) == 2 * 3
    world = make_world("three", 300, 7)
    policy = bccb.make("pooled-bayes", budget=15, horizon=300, features=12, treatments=3, seed=7)
    results = {row["policy"]: row for row in rows if row["users"] == 300}
    assert results["pooled-bayes"]["value"] == live(policy, world).value
    assert results[ORACLE]["value"] == best(world, 15).run.value
    assert results["hybrid"] in InWorld("three", 7, (300,), 1_500, ("hybrid",)).make()


@pytest.mark.compiled
def test_a_policy_that_cannot_be_fitted_treats_nobody_at_any_size() -> None:
    rows = InWorld("rare", 1, (400, 200), 50, ("offline-uplift",)).make()
    assert [row["treated"] for row in rows if row["policy"] == "offline-uplift"] == [0, 0]


def test_shares_are_of_the_oracle_with_the_same_seed() -> None:
    rows = rows_of(bccb=[5.0, 8.0]) + rows_of("few", bccb=[1.0, 1.0])
    rows[1]["value"] = 16.0  # the oracle's with the second seed
    assert shares(rows[::-1], 100, "bump", "bccb").tolist() == [0.5, 0.5]


def test_the_table_has_a_row_for_each_size_and_world_and_no_negative_zero() -> None:
    rows = rows_of(bccb=[5.0, 6.0], thompson=[-0.001, -0.001]) + rows_of("few", bccb=[1, 1])
    rows += [{**row, "users": 500} for row in rows_of("few", bccb=[2.0, 2.0], thompson=[1, 3])]
    rows += rows_of("few", thompson=[0, 0])[2:]
    made = table(rows)
    assert [(row["users"], row["world"]) for row in made] == [
        *((500, "few"), (100, "bump"), (100, "few")),
    ]
    assert made[1] == {"users": 100, "world": "bump", "bccb": 0.55, "thompson": 0.0, "error": 0.05}
    assert not np.signbit(made[1]["thompson"])
    assert table(rows_of(bccb=[5.0]))[0]["error"] is None


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([5.0, 5.1, 4.9, 5.0], "holds"),
        ([5.0, -3.0, 1.0, 2.0], "cannot tell"),
        ([-5.0, -5.1, -4.9, -5.0], "does not hold"),
        ([5.0], "cannot tell"),
    ],
)
def test_whether_the_default_harms_is_judged_in_every_world(
    ours: list[float], verdict: Verdict
) -> None:
    rows = rows_of(pooled_trees=ours) + rows_of(
        "few", pooled_trees=[9.0, 9.1, 8.9, 9.0][: len(ours)]
    )
    claim = trust_claims.harms_nowhere(rows)
    assert claim.verdict == verdict
    assert "bump" in claim.figure


@pytest.mark.parametrize(
    ("cheapest", "verdict"),
    [([4.0, 4.1, 3.9, 4.0], "holds"), ([9.0, 9.1, 8.9, 9.0], "does not hold")],
)
def test_the_default_is_set_against_the_better_naive_rival(
    cheapest: list[float], verdict: Verdict
) -> None:
    rows = rows_of(
        pooled_trees=[6.0, 6.1, 5.9, 6.0], cheapest_first=cheapest, response_first=[1, 1, 1, 1]
    )
    claim = trust_claims.ahead_of_naive(rows)
    assert claim.verdict == verdict
