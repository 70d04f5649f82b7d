"""The default policy, cold, on three real trials: what it must reach on each."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bccb.data import preset, read_log
from bccb.evaluate.compare import PolicyReplay, compare, summarise
from bccb.evaluate.statistics import paired_t
from bccb.evaluate.trials import LoggedTrials
from bccb.policies import DEFAULT
from bccb.types import Log

FOLDER = os.environ.get("BCCB_DATA")
SEEDS = range(42, 62)
FEWER = SEEDS[:10]  # where one replay takes seconds

pytestmark = [
    pytest.mark.data,
    pytest.mark.compiled,
    pytest.mark.slow_first(20),
    pytest.mark.skipif(FOLDER is None, reason="BCCB_DATA does not name the folder of the trials"),
]


def run(
    log: Log, users: int, budget: float, policies: list[str], seeds: range
) -> list[PolicyReplay]:
    return list(compare(LoggedTrials(log, users, 0), policies, [budget], seeds))


def test_criteo_conversions_of_every_budget_are_those_that_the_page_tells() -> None:
    docs = Path(__file__).parents[2] / "docs" / "paper.json"
    online = json.loads(docs.read_text(encoding="utf-8"))["tables"]["online"]
    means = [row["mean"] for row in online if row["policy"] == DEFAULT]
    assert len(means) == 5
    assert all(mean >= least for mean, least in zip(means, (150, 180, 195, 212, 224), strict=True))


@pytest.fixture(scope="module")
def criteo() -> list[PolicyReplay]:
    assert FOLDER is not None
    log = read_log(Path(FOLDER) / "criteo_uplift_200k.parquet", preset("criteo"))
    return run(log, 100_000, 5_000.0, [DEFAULT, "bccb"], SEEDS)  # the page has the other budgets


def test_criteo_conversions_are_reached_and_no_seed_collapses(criteo: list[PolicyReplay]) -> None:
    (line,) = (line for line in summarise(criteo) if line.policy == DEFAULT)
    assert line.conversions >= 212
    assert line.conversions_deviation is not None
    assert line.conversions_deviation <= 14
    ours = [row.result for row in criteo if row.policy == DEFAULT]
    assert min(result.conversions for result in ours) >= 180
    assert all(4_900 <= result.spend <= 5_000 for result in ours)


def test_criteo_incremental_conversions_are_four_times_those_of_the_paper(
    criteo: list[PolicyReplay],
) -> None:
    ours, theirs = (
        [row.result.incremental for row in sorted(criteo, key=lambda row: row.seed)
         if row.policy == name]
        for name in (DEFAULT, "bccb")
    )  # fmt: skip
    assert sum(ours) >= 4 * sum(theirs)
    assert paired_t(ours, theirs) < 0.001


def test_hillstrom_visits_fall_short_with_the_same_defaults() -> None:
    """Expected: at least 1,100. pooled-bayes with prior_strength=5 and optimism=1 reaches 1,116.

    But it causes no more: 376 visits, and 385 with the defaults.
    """
    assert FOLDER is not None
    columns = replace(preset("hillstrom"), treatments=("Womens E-Mail",))
    log = read_log(Path(FOLDER) / "hillstrom.csv.gz", columns)
    (line,) = summarise(run(log, log.users, 2_135.0, [DEFAULT], FEWER))
    assert line.conversions >= 1_040
    assert line.incremental >= 375
    assert line.conversions_deviation is not None
    assert line.conversions_deviation <= 60


def test_starbucks_purchases_are_reached_with_the_same_defaults() -> None:
    assert FOLDER is not None
    log = read_log(Path(FOLDER) / "starbucks_promotion.parquet", preset("starbucks"))
    (line,) = summarise(run(log, log.users, 6_309.0, [DEFAULT], FEWER))
    assert line.conversions >= 370
    assert line.conversions_deviation is not None
    assert line.conversions_deviation <= 18
