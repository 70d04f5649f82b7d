"""Logs come out of files as they went in, and bad files are refused in one sentence."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tables import assert_same, write_csv, write_gzip, write_lines, write_parquet

from bccb.data import lognormal, read_log
from bccb.data.readers import read_complete_rows
from bccb.data.schema import Columns
from bccb.errors import InputError, MissingExtraError

COLUMNS = Columns(treatment="arm", control="none", outcome="sale", cost="price")


TRIAL: dict[str, list[Any]] = {
    "arm": ["none", "mail", "call", "none", "mail", "call"],
    "sale": [0, 1, 0, 0, 1, 1],
    "price": [0.5, 1.0, 2.0, 0.25, 0.5, 1.0],
    "age": [30.0, 41.5, 22.0, 19.0, 65.0, 50.0],
    "city": ["Rome", "Oslo", "Rome", "Rome", "Bern", "Oslo"],
    "loyal": [True, True, False, True, True, False],
}


FORMATS = {
    "t.csv": write_csv,
    "t.csv.gz": write_gzip,
    "t.parquet": write_parquet,
    "t.ndjson": write_lines,
}


@pytest.fixture(params=FORMATS)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """A function that saves the trial with some columns changed, in each of the formats."""

    def save(**changes: list[Any] | pl.Series) -> Path:
        path = tmp_path / str(request.param)
        FORMATS[request.param](pl.DataFrame(TRIAL | changes, strict=False), path)
        return path

    return save


def test_every_format_gives_the_same_log(saved: Callable[..., Path]) -> None:
    log = read_log(saved(), COLUMNS)
    # Treatments sorted: call before mail. References dropped: Rome and true, the most frequent.
    assert log.treatment_names == ("call", "mail")
    assert log.actions.tolist() == [0, 2, 1, 0, 2, 1]
    assert log.outcomes.tolist() == [0, 1, 0, 0, 1, 1]
    assert log.costs.tolist() == [[p, p] for p in TRIAL["price"]]
    assert log.feature_names == ("age", "city=Bern", "city=Oslo", "loyal=false")
    expected = np.array(
        [
            [30.0, 41.5, 22.0, 19.0, 65.0, 50.0],
            [0, 0, 0, 0, 1, 0],
            [0, 1, 0, 0, 0, 1],
            [0, 0, 1, 0, 0, 1],
        ]
    )
    np.testing.assert_array_equal(log.features, expected.T)
    assert log.features.flags.c_contiguous
    assert log.features.dtype == np.float64


def test_selected_treatments_keep_their_order_and_other_rows_are_dropped(
    saved: Callable[..., Path],
) -> None:
    both = read_log(saved(), replace(COLUMNS, treatments=("mail", "call")))
    assert both.treatment_names == ("mail", "call")
    assert both.actions.tolist() == [0, 1, 2, 0, 1, 2]
    mail = read_log(saved(), replace(COLUMNS, treatments=("mail",), features=("age",)))
    assert mail.treatment_names == ("mail",)
    assert mail.actions.tolist() == [0, 1, 0, 1]
    assert mail.features[:, 0].tolist() == [30.0, 41.5, 19.0, 65.0]
    assert mail.costs.tolist() == [[0.5], [1.0], [0.25], [0.5]]


def test_a_missing_value_in_a_dropped_row_does_no_harm(saved: Callable[..., Path]) -> None:
    path = saved(age=[30.0, 41.5, None, 19.0, 65.0, 50.0])  # the third row is a call
    assert read_log(path, replace(COLUMNS, treatments=("mail",))).users == 4


def test_a_row_without_an_arm_is_not_silently_dropped(saved: Callable[..., Path]) -> None:
    path = saved(arm=["none", "mail", "call", None, "mail", "call"])
    with pytest.raises(InputError, match="values in column 'arm' is 1, but must be 0"):
        read_log(path, replace(COLUMNS, treatments=("mail",)))


@pytest.mark.parametrize(
    "arms",
    [[0, 10, 5, 0, 10, 5], [0.0, 10.0, 5.0, 0.0, 10.0, 5.0]],
    ids=["whole numbers", "floats"],
)
def test_arms_that_are_numbers_are_compared_as_text_and_sorted_as_numbers(
    saved: Callable[..., Path], arms: list[Any]
) -> None:
    log = read_log(saved(arm=arms), replace(COLUMNS, control="0"))
    assert log.treatment_names == ("5", "10")
    assert log.actions.tolist() == [0, 2, 1, 0, 2, 1]


def test_arms_may_be_true_and_false(saved: Callable[..., Path]) -> None:
    path = saved(arm=[False, True, True, False, True, True])
    log = read_log(path, replace(COLUMNS, control="false"))
    assert log.treatment_names == ("true",)
    assert log.actions.tolist() == [0, 1, 1, 0, 1, 1]


def test_costs_may_be_constant_by_treatment_or_the_papers(saved: Callable[..., Path]) -> None:
    path = saved(dear=[3.0] * 6)
    constant = read_log(path, replace(COLUMNS, cost=0.75))
    assert constant.costs.tolist() == [[0.75, 0.75]] * 6
    by_treatment = read_log(path, replace(COLUMNS, cost=("price", "dear")))
    assert by_treatment.costs.tolist() == [[price, 3.0] for price in TRIAL["price"]]
    assert "dear" not in by_treatment.feature_names
    np.testing.assert_array_equal(
        read_log(path, replace(COLUMNS, cost=lognormal)).micros, lognormal(6, 2)
    )


def test_a_cost_may_be_a_feature_as_well(saved: Callable[..., Path]) -> None:
    log = read_log(saved(), replace(COLUMNS, features=("price", "age")))
    np.testing.assert_array_equal(log.features[:, 0], log.costs[:, 0])


def test_shares_known_from_the_design_are_kept(saved: Callable[..., Path]) -> None:
    log = read_log(saved(), replace(COLUMNS, shares=(0.5, 0.25, 0.25)))
    assert log.shares.tolist() == [0.5, 0.25, 0.25]


def test_single_precision_and_categorical_columns_are_read(tmp_path: Path) -> None:
    frame = pl.DataFrame(TRIAL).with_columns(
        pl.col("age").cast(pl.Float32),
        pl.col("sale").cast(pl.Boolean),
        pl.col("city").cast(pl.Categorical),
        pl.col("arm").cast(pl.Enum(["none", "mail", "call"])),
    )
    frame.write_parquet(tmp_path / "t.parquet")
    write_csv(pl.DataFrame(TRIAL), tmp_path / "t.csv")
    # The order of an Enum does not count: treatments are sorted in every format.
    assert_same(read_log(tmp_path / "t.parquet", COLUMNS), read_log(tmp_path / "t.csv", COLUMNS))


def test_whole_numbers_that_go_on_as_fractions_are_read(tmp_path: Path) -> None:
    rows = ["none,0,1,1", "mail,1,2,1"] * 10_000 + ["mail,1,2.5,0.5"]
    (tmp_path / "t.csv").write_text("arm,sale,age,price\n" + "\n".join(rows))
    log = read_log(tmp_path / "t.csv", COLUMNS)
    assert log.features[-1].tolist() == [2.5]
    assert log.costs[-1, 0] == 0.5


@pytest.mark.parametrize("column", ["arm", "sale", "price", "age", "city"])
def test_missing_values_are_refused_with_their_column_and_number(
    saved: Callable[..., Path], column: str
) -> None:
    values = [None, *TRIAL[column][1:-1], None]
    message = f"missing or infinite values in column '{column}' is 2, but must be 0: fill them in"
    message += " with --impute" if column in ("age", "city") else ", or drop these rows"
    with pytest.raises(InputError, match=message):
        read_log(saved(**{column: values}), COLUMNS)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_features_that_are_not_finite_are_refused(saved: Callable[..., Path], bad: float) -> None:
    with pytest.raises(InputError, match="values in column 'age' is 1, but must be 0"):
        read_log(saved(age=[1.0, 2.0, bad, 4.0, 5.0, 6.0]), COLUMNS)


def test_na_in_a_csv_file_is_missing_and_not_a_level(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arm,sale,age,price\nnone,0,NA,1\nmail,1,2,1\nmail,0,,1\n")
    with pytest.raises(InputError, match="values in column 'age' is 2, but must be 0"):
        read_log(tmp_path / "t.csv", COLUMNS)


@pytest.mark.parametrize(
    ("mark", "decimal"),
    [(",", "."), (";", "."), (";", ","), ("\t", "."), ("\t", ","), ("|", "."), ("|", ",")],
)
def test_a_csv_file_of_a_spreadsheet_is_read(mark: str, decimal: str, tmp_path: Path) -> None:
    lines = ["arm,sale,fee,town,age,,", "none,yes,1.5,A,N/A,,", "call,no,-20,B,40,,"]
    lines += ["call,yes,1e3,A,n/a,,", "none,no,0.25,B,30,,"]
    text = "\r\n".join(lines).replace(",", mark).replace(".", decimal)
    path = tmp_path / "trial.csv"
    path.write_bytes(text.encode("utf-8-sig"))
    columns = Columns("arm", "none", outcome="sale", cost=1.0, impute=True)
    log = read_log(path, columns)
    assert log.feature_names == ("fee", "town=B", "age", "age is missing")
    assert log.features[:, 0].tolist() == [1.5, -20.0, 1000.0, 0.25]
    assert log.features[:, 2].tolist() == [35.0, 40.0, 35.0, 30.0]
    assert log.outcomes.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_two_decimal_marks_in_one_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trial.csv"
    path.write_text("arm;sale;price;points\nnone;1;19,99;1.234\ncall;0;5,00;2.345\n")
    with pytest.raises(InputError, match="'points' has points, 'price' has commas"):
        read_log(path, Columns("arm", "none", outcome="sale", cost=1.0))


def test_a_comma_in_the_header_of_a_file_with_semicolons_is_text(tmp_path: Path) -> None:
    path = tmp_path / "trial.csv"
    path.write_text("arm;sale;income, monthly\nnone;1;19,99\ncall;0;5,00\n")
    log = read_log(path, Columns("arm", "none", outcome="sale", cost=1.0))
    assert log.feature_names == ("income, monthly",)
    assert log.features[:, 0].tolist() == [19.99, 5.0]


def test_a_semicolon_in_a_file_with_commas_is_text(tmp_path: Path) -> None:
    path = tmp_path / "trial.csv"
    path.write_text("arm,sale,a;b\nnone,1,x;y\ncall,0,z\n")
    log = read_log(path, Columns("arm", "none", outcome="sale", cost=1.0))
    assert log.feature_names == ("a;b=z",)


def test_complete_rows_are_read_and_the_missing_values_counted(saved: Callable[..., Path]) -> None:
    path = saved(age=[None, 41.5, 22.0, 19.0, float("nan"), 50.0], city=[None, *TRIAL["city"][1:]])
    read = read_complete_rows(path, COLUMNS)
    log, missing, incomplete = read.log, read.missing, read.incomplete
    assert missing == {"arm": 0, "sale": 0, "price": 0, "age": 2, "city": 1, "loyal": 0}
    assert incomplete == 2
    assert log.features[:, 0].tolist() == [41.5, 22.0, 19.0, 50.0]
    assert log.actions.tolist() == [2, 1, 0, 1]


def test_a_file_without_complete_rows_is_refused_with_the_columns(
    saved: Callable[..., Path],
) -> None:
    message = r"complete rows is 0, but must be at least 1: see columns 'age' \(6\)"
    with pytest.raises(InputError, match=message):
        read_complete_rows(saved(age=[None] * 6), COLUMNS)


def test_an_arm_without_complete_rows_is_refused(saved: Callable[..., Path]) -> None:
    path = saved(age=[None, 41.5, 22.0, None, 65.0, 50.0])
    with pytest.raises(InputError, match="rows of arm 'none' is 0, but must be at least 1"):
        read_complete_rows(path, COLUMNS)


@pytest.mark.parametrize(
    ("changes", "columns", "message"),
    [
        (
            {"sale": [0, 9, 2, 0, 0, 0]},
            {"kind": "conversion"},
            "outcome column 'sale' in row 2 is 9.0, but must be from 0 to 1",
        ),
        # a mistake in a column of conversions does not make amounts of them
        ({"sale": [0, 1, 2, 0, 0, 0]}, {}, "outcome column 'sale' in row 3 is 2.0, but must be fr"),
        ({"sale": [0, 1, -1, 0, 0, 0]}, {}, "outcome column 'sale' in row 3 is -1.0, but must be"),
        (
            {"sale": [0, 5, -2e9, 0, 0, 0]},
            {},
            "'sale' in row 3 is -2000000000.0, but must be a finite amount from -1,000,000,000 to",
        ),
        ({"price": [1, 1, 0, 1, 1, 1]}, {}, "cost column 'price' in row 3 is 0.0, but must"),
        ({"price": [1, 1, 2e6, 1, 1, 1]}, {}, "cost column 'price' in row 3 is 2000000.0, but"),
        (
            {"sale": list("abcdef")},
            {},
            "outcome column 'sale' in row . is '.', but must be one of two texts, not of 6; or",
        ),
        ({"price": list("abcdef")}, {}, "type of cost column 'price' is 'String', but must be num"),
        (
            {},
            {"control": "nobody"},
            "control is 'nobody', but must be a value of 'arm', one of 'ca",
        ),
        ({}, {"treatments": ("male",)}, "treatment is 'male', but must be .* did you mean 'mail'?"),
        ({"arm": ["none"] * 6}, {}, "rows whose 'arm' is not 'none' is 0, but must be at least 1"),
        ({}, {"outcome": "sales"}, "outcome column is 'sales', but must be one of 'arm', 'sale', "),
        (
            {"chance": [1, 0, 1, 1, 1, 1]},
            {"probability": "chance"},
            "'chance' in row 2 is 0.0, but",
        ),
        (
            {"chance": [1, 2, 1, 1, 1, 1]},
            {"probability": "chance"},
            "'chance' in row 2 is 2.0, but",
        ),
        ({"chance": [1, None, 1, 1, 1, 1]}, {"probability": "chance"}, "missing or infinite .*"),
        ({}, {"probability": "chance"}, "probability column is 'chance', but must be one of 'arm'"),
        ({}, {"cost": ("price",)}, r"cost is \('price',\), but must be 2 values, for the arms"),
    ],
)
def test_values_that_make_no_log_are_refused(
    saved: Callable[..., Path], changes: dict[str, Any], columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_log(saved(**changes), replace(COLUMNS, **columns))


@pytest.mark.parametrize("amounts", [[0, 19.9, 0, 0, 2500, 0], [0, 5, -1, 0, 0, 0]])
def test_numbers_that_are_no_rates_are_amounts_of_money(
    saved: Callable[..., Path], amounts: list[float]
) -> None:
    log = read_log(saved(sale=amounts), COLUMNS)
    assert log.kind == "amount"
    assert log.amounts
    assert log.outcomes.tolist() == amounts


def test_the_kind_of_outcomes_is_what_columns_say(saved: Callable[..., Path]) -> None:
    assert read_log(saved(), COLUMNS).kind == "conversion"
    assert read_log(saved(), replace(COLUMNS, kind="amount")).kind == "amount"
    with pytest.raises(InputError, match='kind is .money., but must be "conversion" or "amount"'):
        replace(COLUMNS, kind="money")


def test_amounts_that_are_infinite_are_refused(saved: Callable[..., Path]) -> None:
    message = "missing or infinite values in column 'sale' is 1, but must be 0"
    with pytest.raises(InputError, match=message):
        read_log(saved(sale=[0, 19.9, float("inf"), 0, 0, 0]), COLUMNS)


def test_too_many_arms_are_refused(tmp_path: Path) -> None:
    frame = pl.DataFrame({"arm": map(str, range(60)), "sale": [0] * 60})
    message = "values of treatment column 'arm' is 60, but must be at most 50"
    with pytest.raises(InputError, match=message):
        read_log(frame, Columns(treatment="arm", control="0", outcome="sale", cost=1.0))


def test_columns_of_other_types_are_refused(tmp_path: Path) -> None:
    frame = pl.DataFrame(TRIAL | {"day": [date(2024, 1, 1)] * 6, "tags": [["a"]] * 6})
    frame.write_parquet(tmp_path / "t.parquet")
    for change, message in (
        ({"features": ("tags",)}, "type of feature column 'tags' is .*List.*, but must be numbers"),
        ({"treatment": "day"}, "type of treatment column 'day' is 'Date', but must be numbers, tr"),
    ):
        with pytest.raises(InputError, match=message):
            read_log(tmp_path / "t.parquet", replace(COLUMNS, **change))


WHOLE = gzip.compress(b"arm,sale,price\n" + b"none,0,1\nmail,1,1\n" * 1000, mtime=0)


GOOD_HEAD = b"arm,sale,age,price\n" + b"none,0,1,1\nmail,1,1,1\n" * 6000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "complete and readable .csv file"),
        ("empty.csv.gz", b"", "complete and readable .csv.gz file"),
        ("empty.parquet", b"", "complete and readable .parquet file"),
        ("empty.ndjson", b"", "complete and readable .ndjson file"),
        ("cut.jsonl", b'{"arm":"none","sa', "complete and readable .jsonl file"),
        ("head.csv", b"arm,sale,price\n", "the number of rows of .*head.csv' is 0, but must be"),
        ("cut.csv.gz", WHOLE[: len(WHOLE) // 2], "complete and readable .csv.gz file"),
        ("tail.csv.gz", WHOLE[:-4], "complete and readable .csv.gz file"),
        ("text.parquet", b"arm,sale,price\nnone,0,1\n", "complete and readable .parquet file"),
        ("latin.csv", "arm,sale,price\né,0,1\n".encode("latin1"), "complete and readable .csv"),
        ("late.csv", GOOD_HEAD + b"mail,1,old,1\n", "readable .csv file .*`old`.*'age'"),
        ("ragged.csv", GOOD_HEAD + b"mail,1,1,1,1\n", "complete and readable .csv file"),
        ("log.xlsx", b"", "a file that ends in '.csv', '.csv.gz', '.parquet'"),
    ],
)
def test_unreadable_files_are_refused_in_one_sentence(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_log(tmp_path / name, COLUMNS)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame(
        {"arm": ["none", "mail"] * 50_000, "sale": np.arange(100_000) % 7 / 7}
    ).write_parquet(path)
    content = path.read_bytes()
    columns = Columns(treatment="arm", control="none", outcome="sale", cost=1.0)
    for damaged in (content[: len(content) // 2], content[:20] + b"\xff" * 200 + content[220:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"complete and readable .parquet file"):
            read_log(path, columns)


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.csv", tmp_path):
        with pytest.raises(InputError, match=r"path is '.*', but must be a file that exists"):
            read_log(path, COLUMNS)


def test_a_name_with_wildcards_is_one_file(tmp_path: Path) -> None:
    write_csv(pl.DataFrame(TRIAL), tmp_path / "trial[1]*.csv")
    assert read_log(tmp_path / "trial[1]*.csv", COLUMNS).users == 6


def test_without_polars_the_extra_is_named(
    saved: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved()
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match=r"polars is not installed: .*bccb\[lab\]"):
        read_log(path, COLUMNS)


def test_polars_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, bccb.data; assert 'polars' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_file_that_does_not_tell_its_columns_needs_them_given(
    saved: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(
        InputError,
        match=r"treatment column of '.*' is None, but must be named: --treatment COL --control V",
    ):
        read_log(saved())
    other = tmp_path / "other.parquet"
    for stored in ('{"treatment": "arm", "colour": 1}', "[]", "no json"):
        pl.DataFrame(TRIAL).write_parquet(other, metadata={"bccb": stored})
        with pytest.raises(InputError, match=r"says of its columns is .*, but must be as this"):
            read_log(other)


def test_a_name_that_stands_twice_in_the_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("x,arm,sale,sale\n1,0,1,1\n2,1,0,0\n")
    with pytest.raises(InputError, match="the header is 'sale', but must be a name that no other"):
        read_log(path, Columns("arm", "0", "sale"))


def test_a_file_in_utf_16_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    path.write_text("x,arm,sale\n1,0,1\n2,1,0\n", encoding="utf-16")
    with pytest.raises(InputError, match="UTF-8 text: save the file again as UTF-8"):
        read_log(path, Columns("arm", "0", "sale", cost=1.0))


def test_probabilities_are_read_and_are_no_feature(saved: Callable[..., Path]) -> None:
    chance = [0.5, 0.25, 0.25, 0.9, 1.0, 0.1]
    log = read_log(saved(chance=chance), replace(COLUMNS, probability="chance"))
    assert log.probabilities is not None
    assert log.probabilities.tolist() == chance
    assert "chance" not in log.feature_names


def test_probabilities_among_all_arms_are_not_read_for_some_of_them(
    saved: Callable[..., Path],
) -> None:
    columns = replace(COLUMNS, treatments=("mail",), probability="chance")
    with pytest.raises(InputError, match="treatments is .*, but must be all values of 'arm'"):
        read_log(saved(chance=[0.5] * 6), columns)
