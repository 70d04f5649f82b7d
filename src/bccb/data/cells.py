"""Single cells of a file that are wrong, named by their column and row."""

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
