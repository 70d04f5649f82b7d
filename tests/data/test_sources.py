"""Logs are read from frames as from files, and a file's own columns are changed one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tables import assert_same

from bccb.data import Columns, describe_file, lognormal, read_log, simulate, write_log
from bccb.errors import InputError

COLUMNS = Columns("arm", "none", "sale", cost="price")
FRAME = pl.DataFrame(
    {
        "arm": ["none", "mail", "call", "none", "mail", "call"],
        "sale": ["no", "yes", "no", "no", "yes", "yes"],
        "price": [0.5, 1.0, 2.0, 0.25, 0.5, 1.0],
        "age": [30.0, 41.5, 22.0, 19.0, 65.0, 50.0],
        "city": ["Rome", "Oslo", "Rome", "Rome", "Bern", "Oslo"],
    }
)


def test_a_frame_is_read_as_the_file_with_its_rows(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "t.parquet")
    assert_same(read_log(FRAME, COLUMNS), read_log(tmp_path / "t.parquet", COLUMNS))
    assert FRAME.width == 5, "the frame of the caller stays as it is"
    assert describe_file(FRAME, COLUMNS).users == 6


def test_a_frame_of_pandas_is_read_too() -> None:
    pandas = pytest.importorskip("pandas")
    plain = {name: FRAME[name].to_list() for name in FRAME.columns}
    assert_same(read_log(pandas.DataFrame(plain), COLUMNS), read_log(FRAME, COLUMNS))
    days = pandas.date_range("1970-01-02", periods=6, tz="UTC")
    odd = pandas.DataFrame(plain | {"day": days}).assign(
        city=pandas.Categorical(["Rome", None, "Rome", "Rome", "Bern", "Oslo"]),
        visits=pandas.array([1, None, 3, 4, 5, 6], dtype="Int64"),
    )
    log = read_log(odd, replace(COLUMNS, impute=True))
    names = ("age", "city=Bern", "city=Oslo", "city=(missing)", "day", "visits")
    assert log.feature_names == (*names, "visits is missing")
    assert log.features[1].tolist() == [41.5, 0, 0, 1, 2, 4, 1]


def test_a_frame_that_does_not_tell_its_columns_needs_them_given() -> None:
    with pytest.raises(InputError, match="treatment column of 'the frame' is None, but must be na"):
        read_log(FRAME)
    with pytest.raises(InputError, match="outcome column of 'the frame' is None, but must be name"):
        read_log(FRAME, Columns("arm", "none"))


def test_costs_must_be_named_for_a_log_of_ones_own() -> None:
    unnamed = replace(COLUMNS, cost=None)
    message = "cost of a treatment in 'the frame' is None, but must be given, .*--cost COL,COL"
    with pytest.raises(InputError, match=message):
        read_log(FRAME, unnamed)
    assert describe_file(FRAME, unnamed).users == 6, "a description needs none"
    assert (read_log(FRAME, replace(COLUMNS, cost=lognormal)).micros == lognormal(6, 2)).all()


@pytest.mark.parametrize("cost", [("price", "price2"), ["price", "price2"]])
def test_each_treatment_has_a_cost_of_its_own(cost: list[str]) -> None:
    frame = FRAME.with_columns(price2=pl.col("price") * 2)
    log = read_log(frame, replace(COLUMNS, cost=cost))
    assert log.costs.tolist() == [[price, 2 * price] for price in FRAME["price"]]


@pytest.mark.parametrize("cost", [(0.5, 1.2), [0.5, 1.2]])
def test_numbers_are_a_cost_for_each_treatment(cost: list[float]) -> None:
    assert read_log(FRAME, replace(COLUMNS, cost=cost)).costs.tolist() == [[0.5, 1.2]] * 6
    mixed = read_log(FRAME, replace(COLUMNS, cost=["price", 3])).costs
    assert mixed.tolist() == [[price, 3.0] for price in FRAME["price"]]
    with pytest.raises(InputError, match="cost is .*, but must be 2 values, for the arms"):
        read_log(FRAME, replace(COLUMNS, cost=[0.5]))


def test_what_is_not_named_is_as_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_log(simulate(200, seed=1, treatments=2), path)
    whole = read_log(path)
    dear = read_log(path, Columns(cost=[1.0, 2.0]))
    assert dear.costs.tolist() == [[1.0, 2.0]] * 200
    assert dear.feature_names == whole.feature_names
    assert_same(read_log(path, Columns(impute=True)), whole)
    fewer = read_log(path, Columns(excluded=("f3",)))
    assert fewer.feature_names == tuple(name for name in whole.feature_names if name != "f3")


def test_names_that_two_columns_have_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["none", 0, 1], ["mail", 1, 2]], columns=["arm", "sale", "sale"])
    with pytest.raises(InputError, match="the header is 'sale', but must be a name that no other"):
        read_log(frame, COLUMNS)
