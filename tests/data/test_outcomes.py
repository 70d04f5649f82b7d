"""Outcomes in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from bccb.data import Columns, read_log
from bccb.data.outcomes import as_numbers
from bccb.data.readers import read_complete_rows, read_finished
from bccb.errors import InputError


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["yes", "no", "no"], {"yes": 1, "no": 0}),
        ([" Yes", "NO", "no "], {"yes": 1, "no": 0}),
        (["f", "t", "f"], {"t": 1, "f": 0}),
        (["0", "1", "0"], {"1": 1, "0": 0}),
        (["not converted", "converted"], {"converted": 1, "not converted": 0}),
        (["bought", "left"], {"bought": 1, "left": 0}),
        (["no", "no"], {"yes": 1, "no": 0}),
        (["true"], {"true": 1}),
    ],
)
@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_the_word_that_means_yes_counts_as_1(
    words: list[str], values: dict[str, int], kind: type[pl.DataType]
) -> None:
    numbers, meaning = as_numbers(pl.Series("sale", words, dtype=kind), None, 3)
    assert meaning == values
    assert numbers.to_list() == [values[word.strip().lower()] for word in words]
    assert numbers.name == "sale"


def test_true_counts_as_1() -> None:
    numbers, meaning = as_numbers(pl.Series("sale", [True, False]), None, 2)
    assert numbers.to_list() == [1.0, 0.0]
    assert meaning == {"true": 1, "false": 0}


def test_numbers_stay_what_they_are() -> None:
    numbers, meaning = as_numbers(pl.Series("sale", [0.25, 1.0]), None, 2)
    assert numbers.to_list() == [0.25, 1.0]
    assert meaning == {}


def test_the_text_that_counts_as_1_can_be_named() -> None:
    numbers, meaning = as_numbers(pl.Series("plan", ["Gold", "none", "gold"]), "GOLD", 3)
    assert numbers.to_list() == [1.0, 0.0, 1.0]
    assert meaning == {"gold": 1, "none": 0}


@pytest.mark.parametrize(
    ("values", "positive", "message"),
    [
        (["gold", "silver"], None, "which text counts as 1: name it with --positive VALUE"),
        (["yes", "bought"], None, "is 'bought or yes', but must be such that it is clear"),
        (["maybe"], None, "name it with --positive VALUE"),
        (["gold", "silver"], "bronze", "positive is 'bronze', but must be one of 'gold', 'silver'"),
        (["a", "b", "c"], "a", "outcome column 'sale' in row . is '[abc]', but must be '"),
        ([0, 1], "yes", "positive is 'yes', but must be left out, because the outcomes in column"),
    ],
)
def test_what_is_not_clear_is_refused(
    values: list[object], positive: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        as_numbers(pl.Series("sale", values), positive, len(values))


def test_a_file_with_outcomes_in_words_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("age,arm,sale\n20,a,Yes\n30,b,no\n40,a,no\n50,b,yes\n")
    columns = Columns("arm", "a", "sale", cost=1.0)
    assert read_log(path, columns).outcomes.tolist() == [1, 0, 0, 1]
    assert read_finished(path, columns).outcome_values == {"yes": 1, "no": 0}
    assert read_complete_rows(path, columns).outcome_values == {"yes": 1, "no": 0}


def test_a_missing_word_is_missing_and_not_a_no(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("age,arm,sale\n20,a,yes\n30,b,\n40,a,no\n50,b,yes\n")
    columns = Columns("arm", "a", "sale", cost=1.0)
    with pytest.raises(InputError, match="missing or infinite values in column 'sale' is 1"):
        read_log(path, columns)
    assert read_complete_rows(path, columns).incomplete == 1


def test_amounts_that_look_like_conversions_are_read_as_told() -> None:
    rows = {
        "arm": ["a", "b"] * 4,
        "paid": [0.0, 0.5, 1.0, 1.0, 1.0, 0.0, 0.0, 0.9],
        "age": [1.0] * 8,
    }
    frame, columns = pl.DataFrame(rows), Columns("arm", "a", "paid", cost=1.0)
    assert not read_log(frame, columns).amounts
    assert read_log(frame, replace(columns, kind="amount")).amounts
    mixed = frame.with_columns(paid=pl.Series([0.0, 2.5, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0]))
    with pytest.raises(InputError, match="from 0 to 1; if these are amounts .* --kind amount"):
        read_log(mixed, columns)
    assert read_log(mixed, replace(columns, kind="amount")).amounts
