"""The cells of a file: which are missing, and which are wrong, named by their column and row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bccb.data.formats import load_polars
from bccb.errors import InputError

if TYPE_CHECKING:
    import polars as pl


def place(column: str, row: int, used: int, of: int) -> str:
    """How a message names a cell: rows are counted from 1, without the header.

    Where only some rows of the file are used, the count is among these.

    >>> place("column 'age'", 5, 300, 300), place("column 'age'", 5, 200, 300)
    ("column 'age' in row 6", "column 'age' in row 6 of the 200 used")
    """
    return f"{column} in row {row + 1:,}" + ("" if used == of else f" of the {used:,} used")


def check_no_stray_text(series: pl.Series, of: int) -> None:
    """Refuse text in a column that holds numbers in most of its rows."""
    polars = load_polars()
    if series.dtype != polars.String:
        return
    numbers = series.str.strip_chars().cast(polars.Float64, strict=False)
    wrong = numbers.is_null() & series.is_not_null()
    count = int(wrong.sum())
    if not 0 < 2 * count < series.len():
        return
    allowed = "a number, as in all other rows: correct it, or remove the row"
    if count > 1:
        allowed = f"a number, as in most rows: correct the {count:,} rows with text, or remove them"
    row = int(wrong.arg_true()[0])
    raise InputError(place(f"column {series.name!r}", row, series.len(), of), series[row], allowed)


def present(series: pl.Series) -> pl.Series:
    """Where a value is neither missing nor, as a number, infinite or NaN."""
    return series.is_finite().fill_null(False) if series.dtype.is_float() else series.is_not_null()


def is_text(series: pl.Series) -> bool:
    """Whether a column holds text."""
    polars = load_polars()
    return series.dtype in (polars.String, polars.Categorical, polars.Enum)


def check_type(series: pl.Series, role: str, text_too: bool) -> None:
    """Refuse a column that holds neither numbers nor true/false nor, where it may, text."""
    polars, kind = load_polars(), series.dtype
    if not ((text_too and is_text(series)) or kind.is_numeric() or kind == polars.Boolean):
        allowed = "numbers, true/false or text" if text_too else "numbers or true/false"
        raise InputError(f"the type of {role} column {series.name!r}", str(kind), allowed)
