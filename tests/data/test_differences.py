"""Tests between groups agree with SciPy's, and a column that tells the outcome is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from bccb.data.differences import between_levels, between_ranks, difference, tells
from bccb.data.profile import Profile, profiled
from bccb.types import Floats


def column(values: Any, name: str = "x") -> Profile:
    series = pl.Series(name, values)
    return profiled(series, series.null_count())


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("step", [0.0, 1.0])  # without and with ties
def test_ranks_agree_with_kruskal_and_wallis(groups: int, step: float) -> None:
    draw = np.random.default_rng(groups)
    group = draw.integers(0, groups, 500)
    values: Floats = draw.standard_cauchy(500) + 0.3 * group
    values = np.round(values, 0) if step else values
    expected = stats.kruskal(*(values[group == one] for one in range(groups)))
    assert between_ranks(values, group).p_value == pytest.approx(expected.pvalue, rel=1e-9)


def test_levels_agree_with_the_chi_square_test() -> None:
    draw = np.random.default_rng(1)
    group, level = draw.integers(0, 3, 900), draw.integers(0, 4, 900)
    table = np.zeros((4, 3))
    np.add.at(table, (level, group), 1)
    expected = stats.chi2_contingency(table, correction=False).pvalue
    assert between_levels(level, group).p_value == pytest.approx(expected, rel=1e-9)


def test_rare_levels_do_not_cry_wolf() -> None:
    """A name in each row: every level is in one arm alone, which means nothing."""
    group = np.random.default_rng(2).integers(0, 2, 400)
    assert between_levels(np.arange(400), group).p_value == 1.0


def test_the_size_is_in_standard_deviations() -> None:
    draw = np.random.default_rng(3)
    group = np.repeat([0, 1], 20_000)
    found = difference(column(draw.normal(size=40_000) + 0.3 * group), group)
    assert found.size == pytest.approx(0.3, abs=0.04)
    assert found.p_value < 1e-9


def test_a_heavy_tail_does_not_cry_wolf() -> None:
    draw = np.random.default_rng(4)
    found = [
        difference(column(draw.standard_cauchy(2_000)), draw.integers(0, 2, 2_000)).p_value
        for _ in range(200)
    ]
    assert np.mean(np.array(found) < 0.05) < 0.12  # two tests each: of values, of what is missing


def test_values_that_are_missing_in_one_arm_differ() -> None:
    group = np.tile([0, 1], 500)
    values = [None if arm and row % 3 else 1.0 * row for row, arm in enumerate(group)]
    assert difference(column(values), group).p_value < 1e-9
    group[:] = -1
    assert difference(column(values), group).p_value == 1.0


@pytest.mark.parametrize(
    "values",
    [
        lambda y: y * 9.5,
        lambda y: -y,
        lambda y: [None if one == 0 else 3.0 for one in y],
        lambda y: np.where(y > 0, "paid", "open"),
        lambda y: [
            date if one else None for one, date in zip(y, ["2024-01-01"] * 400, strict=True)
        ],
    ],
)
def test_a_column_that_tells_the_outcome_is_found(values: object) -> None:
    y = (np.arange(400) % 4 == 0).astype(float)
    assert callable(values)
    assert tells(column(values(y)), y) is not None


def test_what_says_little_or_is_seldom_there_does_not_tell_the_outcome() -> None:
    draw = np.random.default_rng(5)
    y = (draw.random(2_000) < 0.3).astype(float)
    assert tells(column(draw.normal(size=2_000) + y), y) is None
    assert tells(column(draw.choice(["a", "b", "c"], 2_000)), y) is None
    assert tells(column([None] * 2_000), y) is None
    assert tells(column([1.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0])) is None  # chance
