"""Features of a file become numbers in the way that the service's encoding repeats."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from bccb.data import Columns, read_log
from bccb.data.readers import read_complete_rows, read_finished
from bccb.encoding import Encoding
from bccb.errors import InputError

COLUMNS = Columns(treatment="arm", control="a", outcome="sale", cost=1.0)
FILLED = replace(COLUMNS, impute=True)


def trial(rows: int = 6, **features: Any) -> pl.DataFrame:
    arms = {"arm": ["a", "b"] * (rows // 2), "sale": [0, 1] * (rows // 2)}
    return pl.DataFrame(arms | features, strict=False)


def assert_repeated(frame: pl.DataFrame, columns: Columns) -> Encoding:
    """The encoding makes the same numbers from the raw values, user by user."""
    log = read_log(frame, columns)
    assert log.encoding is not None
    rows = frame.select(feature.name for feature in log.encoding.features).to_dicts()
    values = [
        {name: None if value != value else value for name, value in row.items()} for row in rows
    ]
    np.testing.assert_array_equal(log.features, [log.encoding.row(row) for row in values])
    return log.encoding


def test_missing_numbers_become_the_median_and_are_marked() -> None:
    frame = trial(age=[30.0, None, 20.0, float("nan"), 25.0, 80.0])
    read = read_finished(frame, FILLED)
    assert read.log.feature_names == ("age", "age is missing")
    assert read.log.features[:, 0].tolist() == [30.0, 27.5, 20.0, 27.5, 25.0, 80.0]
    assert read.log.features[:, 1].tolist() == [0, 1, 0, 1, 0, 0]
    assert read.notes == (
        "age: 2 missing values filled with the median, 27.5; "
        "the column 'age is missing' says where",
    )
    assert_repeated(frame, FILLED)


def test_missing_categories_are_a_level_of_their_own() -> None:
    frame = trial(city=["Rome", None, "Oslo", "Rome", None, "Rome"], loyal=[True, None] * 3)
    read = read_finished(frame, FILLED)
    names = ("city=Oslo", "city=(missing)", "loyal=(missing)")
    assert read.log.feature_names == names
    assert read.log.features[:, 1].tolist() == [0, 1, 0, 0, 1, 0]
    assert read.notes[0] == "city: 2 missing values as the level '(missing)'"
    assert_repeated(frame, FILLED)


def test_nothing_is_marked_where_nothing_is_missing() -> None:
    frame = trial(age=[1, 2, 3, 4, 5, 6])
    assert read_finished(frame, FILLED).notes == ()
    assert read_log(frame, FILLED).feature_names == ("age",)


def test_without_impute_a_missing_value_is_refused_with_what_to_do() -> None:
    frame = trial(age=[30.0, None, 20.0, 41.0, 25.0, 80.0])
    with pytest.raises(InputError, match=r"column 'age' is 1, .* with --impute .*impute=True"):
        read_log(frame, COLUMNS)


@pytest.mark.parametrize("column", ["arm", "sale"])
def test_arms_and_outcomes_are_never_filled_in(column: str) -> None:
    frame = trial(age=[1, 2, 3, 4, 5, 6]).with_columns(
        pl.when(pl.col("age") > 2).then(pl.col(column)).alias(column)
    )
    with pytest.raises(InputError, match=f"values in column '{column}' is 2, but must be 0: fill"):
        read_log(frame, FILLED)


def test_a_column_without_any_value_is_to_be_excluded() -> None:
    frame = trial(age=pl.Series([None] * 6, dtype=pl.Float64))
    with pytest.raises(InputError, match="values of feature 'age' is 0, .* leave it out with --ex"):
        read_log(frame, FILLED)
    assert read_log(frame, replace(COLUMNS, excluded=("age",))).features.shape == (6, 0)


def test_filled_rows_are_complete() -> None:
    frame = trial(age=[30.0, None, 20.0, 41.0, 25.0, 80.0])
    assert read_complete_rows(frame, COLUMNS).incomplete == 1
    read = read_complete_rows(frame, FILLED)
    assert (read.log.users, read.incomplete, read.missing["age"]) == (6, 0, 1)


def test_dates_and_times_become_days_since_1970() -> None:
    day, noon = date(1970, 1, 11), datetime(1970, 1, 2, 12)
    eastern = "1970-01-02T13:00:00+01:00"
    frame = trial(
        joined=[day] * 6,
        seen=[noon] * 6,
        zoned=[noon.replace(tzinfo=UTC)] * 6,
        text=["1970-01-11"] * 5 + [eastern],
    )
    read = read_finished(frame, COLUMNS)
    assert read.log.features[0].tolist() == [10.0, 1.5, 1.5, 10.0]
    assert read.log.features[5, 3] == 1.5
    assert read.notes[0] == "joined: dates, as days since 1970"
    encoding = assert_repeated(frame, COLUMNS)
    assert {feature.kind for feature in encoding.features} == {"date"}


def test_missing_dates_become_the_median_day() -> None:
    days = [date(2024, 3, 1) + timedelta(days=n) for n in (0, 2, 4)]
    read = read_finished(trial(joined=[*days, None, None, None]), FILLED)
    assert read.log.feature_names == ("joined", "joined is missing")
    assert "joined: 3 missing values filled with the median, 2024-03-03;" in read.notes[1]


@pytest.mark.parametrize("odd", ["2024-02-31", "soon", "20240101", "2024-01-01 or so"])
def test_text_that_is_not_always_a_date_stays_text(odd: str) -> None:
    log = read_log(trial(day=["2024-01-01"] * 5 + [odd]), COLUMNS)
    assert log.feature_names == (f"day={odd}",)


def test_rare_levels_go_together() -> None:
    frequent = ["Rome"] * 500 + ["Oslo"] * 400
    cities = frequent + [f"village {n}" for n in range(50)] * 2
    frame = trial(1000, city=cities)
    read = read_finished(frame, COLUMNS)
    assert read.log.feature_names == ("city=Oslo", "city=(other)")
    assert read.log.features.sum(axis=0).tolist() == [400, 100]
    assert read.notes == ("city: 50 rare levels with 100 rows as '(other)'",)
    assert_repeated(frame, COLUMNS)


def test_a_level_is_rare_below_half_a_percent_and_below_100_rows() -> None:
    def levels(rows: int, count: int) -> tuple[str, ...]:
        frame = trial(rows, city=["Rome"] * (rows - count) + ["Oslo"] * count)
        return read_log(frame, COLUMNS).feature_names

    assert levels(2_000, 10) == ("city=Oslo",)
    assert levels(2_000, 9) == ("city=(other)",)
    assert levels(40_000, 100) == ("city=Oslo",)
    assert levels(40_000, 99) == ("city=(other)",)


def test_only_the_most_frequent_50_levels_have_columns() -> None:
    codes = [f"{n:02}x" for n in range(60) for _ in range(4)] + ["00x"] * 10
    read = read_finished(trial(250, code=codes), COLUMNS)
    assert len(read.log.feature_names) == 50  # 49 beside the reference, and one for the others
    assert read.notes == ("code: 10 rare levels with 40 rows as '(other)'",)


def test_a_level_named_as_the_others_is_among_them() -> None:
    frame = trial(1000, city=["Rome"] * 600 + ["(other)"] * 398 + ["Oslo", "Bern"])
    read = read_finished(frame, COLUMNS)
    assert read.log.feature_names == ("city=(other)",)
    assert read.log.features.sum() == 400


def test_a_file_of_others_alone_can_be_read() -> None:
    frame = trial(1000, city=["(other)"] * 998 + ["Oslo", "Bern"], age=[1.0] * 1000)
    assert read_log(frame, COLUMNS).feature_names == ("age",)  # all cities are the others
    assert_repeated(frame, COLUMNS)


def test_true_and_false_are_never_rare() -> None:
    log = read_log(trial(1000, loyal=[True] + [False] * 999), COLUMNS)
    assert log.feature_names == ("loyal=true",)


@pytest.mark.parametrize(("rows", "different"), [(60, 60), (1_000, 600), (100_000, 2_000)])
def test_an_id_or_a_name_is_refused_with_what_to_do(rows: int, different: int) -> None:
    frame = trial(rows, name=[f"user {n % different}" for n in range(rows)])
    message = f"texts in feature 'name' is {different}, .* id or a name: leave it out with --exclud"
    with pytest.raises(InputError, match=message):
        read_log(frame, COLUMNS)
