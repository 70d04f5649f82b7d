"""Features that alone tell the outcome."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from bccb.data import Columns, preset, read_log, simulate
from bccb.data.leakage import area_under_curve, leaks, outcomes_by_value
from bccb.types import Floats, Log


def log_of(features: dict[str, Floats], outcomes: Floats) -> Log:
    n = len(outcomes)
    return Log(
        np.column_stack(list(features.values())),
        np.arange(n) % 2,
        outcomes,
        np.full((n, 1), 500_000),
        tuple(features),
    )


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60))
def test_the_area_is_that_of_scikit_learn_with_ties(rows: list[tuple[int, bool]]) -> None:
    values, outcomes = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    area = area_under_curve(*outcomes_by_value(values, outcomes))
    if 0 < outcomes.sum() < len(outcomes):
        assert area == pytest.approx(roc_auc_score(outcomes, values))
    else:
        assert area == 0.5


def test_a_feature_that_is_the_outcome_in_disguise_is_named() -> None:
    generator = np.random.default_rng(1)
    sale = (generator.random(2_000) < 0.1).astype(np.float64)
    noise = generator.normal(size=(2, 2_000))
    features = {"age": noise[0], "basket": 5 * sale + 0.5 * noise[1], "refusals": -sale}
    result = leaks(log_of(features, sale))
    assert [leak.feature for leak in result] == ["basket", "refusals"]
    assert result[0].area > 0.98
    assert "feature basket alone tells the outcome" in result[0].warning


def test_a_step_that_every_conversion_passes_is_named_though_its_area_is_smaller() -> None:
    generator = np.random.default_rng(2)
    visit = (generator.random(20_000) < 0.2).astype(np.float64)
    sale = visit * (generator.random(20_000) < 0.1)
    (result,) = leaks(log_of({"visit": visit, "age": generator.normal(size=20_000)}, sale))
    assert result.feature == "visit"
    assert result.area < 0.98
    assert f"the outcome is 0 in all {int((visit == 0).sum()):,} rows" in result.warning


def test_a_value_at_which_everybody_converts_is_named() -> None:
    generator = np.random.default_rng(3)
    sale = (generator.random(5_000) < 0.1).astype(np.float64)
    coupon = sale * (generator.random(5_000) < 0.5)
    (result,) = leaks(log_of({"coupon": coupon}, sale))
    assert f"the outcome is 1 in all {int(coupon.sum()):,} rows" in result.warning


def test_a_tail_without_a_conversion_is_no_leak() -> None:
    generator = np.random.default_rng(4)
    sale = (generator.random(20_000) < 0.003).astype(np.float64)
    assert leaks(log_of({"age": generator.normal(size=20_000)}, sale)) == ()


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_where_all_outcomes_are_the_same_no_feature_tells_them(rate: float) -> None:
    assert leaks(log_of({"age": np.arange(500.0)}, np.full(500, rate))) == ()


def test_fractional_outcomes_count_in_part() -> None:
    values, outcomes = np.array([1.0, 2.0]), np.array([0.25, 0.75])
    # Four weighted pairs: 0.75 x 0.75 in order, 0.25 x 0.25 not, 2 x 0.25 x 0.75 tied.
    area = area_under_curve(*outcomes_by_value(values, outcomes))
    assert area == pytest.approx(0.75**2 + 0.25 * 0.75)


def test_the_simulator_has_no_leak_and_is_searched_in_a_second_or_two() -> None:
    log = simulate(200_000)
    start = time.process_time()
    assert leaks(log) == ()
    assert time.process_time() - start < 5  # 0.3 s on an idle core


@pytest.mark.data
@pytest.mark.skipif("BCCB_DATA" not in os.environ, reason="BCCB_DATA names no folder of trials")
def test_the_public_trials_have_no_leak_but_what_came_after_is_named() -> None:
    folder = Path(os.environ["BCCB_DATA"])
    for name, file in (
        ("criteo", "criteo_uplift_200k.parquet"),
        ("hillstrom", "hillstrom.csv.gz"),
        ("starbucks", "starbucks_promotion.parquet"),
    ):
        assert leaks(read_log(folder / file, preset(name))) == (), name
    features = ("visit", "spend", "history")
    after = Columns("segment", "No E-Mail", "conversion", features, cost=1.0)
    result = leaks(read_log(folder / "hillstrom.csv.gz", after))
    assert [leak.feature for leak in result] == ["visit", "spend"]
