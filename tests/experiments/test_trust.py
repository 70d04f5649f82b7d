"""The pieces of ``bccb trust``: who is met by whom, what is stored, what each makes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bccb
from bccb import InputError
from bccb.data.world import simulate_world
from bccb.data.worlds import ABOUT
from bccb.evaluate.coverage import try_once
from bccb.evaluate.live import best, live
from bccb.experiments.plan import source_of
from bccb.experiments.store import Store
from bccb.experiments.trust import (
    ENTRANTS,
    ORACLE,
    SIZES,
    UNRESERVED,
    Copies,
    Entrant,
    Estimates,
    Lives,
    Setup,
    copies,
    estimates,
    execute,
    lives,
)
from bccb.experiments.trust_caused import CELLS, every_cell
from bccb.experiments.trust_late import LEARNERS, every_learner
from bccb.experiments.trust_study import TRUST, beside, intro, rows_of
from bccb.experiments.trust_worlds import NAMES, every_world
from bccb.policies import DEFAULT, POLICIES

SMALL = Setup((200, 400, 800), seeds=2, history=1_000, repetitions=2, comparisons=2)


def test_every_size_has_its_seeds_and_no_two_worlds_share_one() -> None:
    setup = Setup()
    planned = [piece for piece in lives(setup) if isinstance(piece, Lives)]
    worlds = [world for piece in planned for world in piece.sizes]
    assert len({seed for _, seed in worlds}) == len(worlds)
    counts = [sum(users == size for users, _ in worlds) for size in SIZES]
    assert counts == [100, 100, 100, 67, 20, 7, 5] == [setup.seeds_at(size) for size in SIZES]


def test_all_repetitions_and_comparisons_are_planned_once() -> None:
    setup = replace(Setup(), repetitions=60, comparisons=26)
    pieces = [*estimates(setup), *copies(setup)]
    for kind, total in ((Estimates, 60), (Copies, 26)):
        own = [piece for piece in pieces if isinstance(piece, kind)]
        numbers = [n for piece in own for n in range(piece.first, piece.first + piece.count)]
        assert numbers == list(range(total))


@pytest.mark.compiled
def test_a_live_row_is_what_the_policy_does_in_that_world() -> None:
    rows = Lives(3, ((1_000, 77), (500, 78)), history=20_000).make()
    assert len(rows) == 2 * (len(ENTRANTS) + 1)
    names = {row["policy"] for row in rows}
    assert names == {*POLICIES, UNRESERVED}
    world = simulate_world(500, 78)
    policy = bccb.make(budget=25, horizon=500, features=12, seed=3, reserve=0)
    results = {row["policy"]: row for row in rows if row["users"] == 500}
    assert results[UNRESERVED]["value"] == live(policy, world).value
    assert results[ORACLE]["bound"] == best(world, 25).bound
    assert all(row["value"] <= results[ORACLE]["bound"] for row in results.values())
    assert min(row["spend"] for row in results.values()) > 0


@pytest.mark.compiled
def test_history_taken_over_is_history_learned() -> None:
    """The second size takes over what was learned at the first."""
    both = Lives(3, ((300, 5), (600, 6)), history=20_000).make()
    alone = Lives(3, ((600, 6),), history=20_000).make()
    assert [row for row in both if row["users"] == 600] == alone


@pytest.mark.compiled
def test_a_policy_that_cannot_be_fitted_treats_nobody() -> None:
    rows = Lives(0, ((200, 1),), history=50).make()
    (row,) = (row for row in rows if row["policy"] == "offline-uplift")
    assert (row["value"], row["spend"], row["treated"]) == (0.0, 0.0, 0)


def test_estimates_are_those_of_the_seeds() -> None:
    rows = Estimates(5, 2, users=1_000).make()
    expected = [one for seed in (5, 6) for one in try_once(1_000, seed)]
    assert [row["estimate"]["incremental"] for row in rows] == [
        one.estimate.incremental for one in expected
    ]
    assert [row["truth"] for row in rows] == [one.truth for one in expected]


@pytest.mark.compiled
def test_copies_of_a_policy_seldom_differ() -> None:
    """Of 40 comparisons at a level of 5 %, more than 8 differ once in 5,000 times."""
    rows = Copies(0, 40, pairs=20, users=500).make()
    for policy in ("bccb", DEFAULT):
        for figure in ("conversions", "incremental"):
            own = [row for row in rows if (row["policy"], row["figure"]) == (policy, figure)]
            assert len(own) == 40
            assert sum(row["p"] < 0.05 for row in own) <= 8
            assert sum(row["bootstrap"] for row in own) <= 11
            assert len({row["p"] for row in own}) > 20  # they are not the same run twice


@pytest.mark.compiled
def test_other_policies_do_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can tell: one copy with all the money, one with a tenth."""

    def fresh(entrant: Entrant, users: int, seed: int) -> bccb.Policy:
        budget = users * (0.05 if seed % 2 else 0.005)
        return bccb.make(entrant.policy, budget=budget, horizon=users, features=12, seed=seed)

    monkeypatch.setattr(Entrant, "fresh", fresh)
    rows = Copies(0, 5, users=1_000).make()
    assert np.mean([row["p"] < 0.05 for row in rows if row["figure"] == "conversions"]) == 1.0


@pytest.mark.compiled
def test_what_is_stored_is_not_made_again(tmp_path: Path) -> None:
    store, pieces = Store(tmp_path / "trust.jsonl"), TRUST.tasks(SMALL, TRUST.names)
    assert len(list(execute(pieces[:1], store))) == 1
    assert len(list(execute(pieces, store, jobs=2))) == len(pieces) - 1
    assert list(execute(pieces, store)) == []
    plans = {"lives": lives, "estimates": estimates, "twins": copies, "late": every_learner}
    plans |= {"caused": every_cell, "worlds": every_world}
    rows = {
        kind: rows_of(plan(SMALL), lambda piece: store.get(source_of(piece)) or {})
        for kind, plan in plans.items()
    }
    assert rows["lives"] == [row for piece in pieces[:2] for row in piece.make()]
    assert {kind: len(result) for kind, result in rows.items()} == {
        "lives": 2 * 3 * (len(ENTRANTS) + 1),
        "estimates": 2 * 9,
        "twins": 2 * 4,
        "late": 2 * 2 * len(LEARNERS),
        "caused": 2 * len(CELLS),
        "worlds": len(ABOUT) * 2 * (len(NAMES) + 1),
    }
    store.close()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seeds": 1}, "seeds is 1, but must be from 2 to 10,000"),
        ({"sizes": (50,)}, r"users is \[50\], but must be from 100 to 10,000,000"),
        ({"comparisons": 0}, "comparisons is 0, but must be from 2"),
    ],
)
def test_a_setup_that_tells_nothing_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Setup(**changed)


def report_of(seeds: int, *names: str) -> dict[str, Any]:
    setup = {"seeds": seeds, "middle": 100, "money": 0.05, "history": 9}
    claims = [{"experiment": name, "text": f"{name} of {seeds}"} for name in names]
    return {"setup": setup, "claims": claims, "tables": {name: [{"n": seeds}] for name in names}}


def test_tables_that_were_not_run_again_stay_in_the_report(tmp_path: Path) -> None:
    fresh = report_of(100, "charged", "twins")
    assert beside(fresh, None) == beside(fresh, tmp_path) == fresh  # there is none yet
    kept = tmp_path / "trust.json"
    kept.write_text(json.dumps(report_of(8, "values", "twins", "late")))
    merged = beside(fresh, tmp_path)
    assert {name: rows[0]["n"] for name, rows in merged["tables"].items()} == {
        "values": 8,
        "late": 8,
        "charged": 100,
        "twins": 100,
    }
    assert list(merged["tables"]) == ["values", "late", "charged", "twins"]  # as in the study
    claimed = [claim["text"] for claim in merged["claims"]]
    assert claimed == ["values of 8", "late of 8", "charged of 100", "twins of 100"]
    assert merged["setup"]["seeds"] == 8
    assert {name: setup["seeds"] for name, setup in merged["apart"].items()} == {
        "charged": 100,
        "twins": 100,
    }
    apart = intro(merged)[1]
    assert apart.startswith("Run apart, with `--seeds 100` and up to 100 users: *When costs are")
    kept.write_text(json.dumps(merged))
    again = beside(report_of(8, "twins"), tmp_path)
    assert list(again["apart"]) == ["charged"]
    assert beside(report_of(2, *merged["tables"]), tmp_path) == report_of(2, *merged["tables"])


@pytest.mark.parametrize(
    "text", ["", "[]", '{"tables": {"values": []}, "claims": [{"text": "x"}]}']
)
def test_a_report_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "trust.json").write_text(text)
    with pytest.raises(InputError, match=r"trust\.json is .*: delete the file"):
        beside(report_of(2, "twins"), tmp_path)
