"""Files of rows: which formats there are, and how they are opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from bccb.data.schema import quoted
from bccb.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".ndjson", ".jsonl")
ROWS_FOR_TYPES = 10_000  # of CSV, from which the types of its columns are inferred
NOT_A_NUMBER = ["NA", "NaN", "nan", "null", "NULL", "inf", "-inf"]  # missing values in CSV


def scan_file(path: Path) -> pl.LazyFrame:
    """The rows of a file, not yet read."""
    polars, suffix = load_polars(), suffix_of(path)
    table: pl.LazyFrame
    if suffix == ".parquet":
        table = polars.scan_parquet(path, glob=False)
    elif suffix in (".ndjson", ".jsonl"):
        # From all rows: the first ones may have no outcome yet, and a path is no pattern.
        table = polars.scan_ndjson(path.read_bytes(), infer_schema_length=None)
    else:
        scan = partial(polars.scan_csv, path, glob=False, null_values=NOT_A_NUMBER)
        types = scan(infer_schema_length=ROWS_FOR_TYPES).collect_schema()
        # Whole numbers in the first rows may go on as fractions.
        wider = {name: polars.Float64 for name, kind in types.items() if kind.is_integer()}
        table = scan(schema_overrides={**types, **wider})
    return table


def check_header(present: list[str]) -> None:
    """Refuse a CSV header that has a name twice, of which polars renames the second, and one that
    is written in UTF-16, as spreadsheets do.
    """
    for name in present:
        if "\0" in name:
            raise InputError("the header", name, "UTF-8 text: save the file again as UTF-8")
        original, mark, number = name.rpartition("_duplicated_")
        if mark and number.isdigit() and original in present:
            raise InputError("the header", original, "a name that no other column has")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Tell in one sentence what is wrong with a file."""
    if not path.is_file():
        raise InputError("path", str(path), "a file that exists")
    polars = load_polars()
    try:
        yield
    except (OSError, polars.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        allowed = f"a complete and readable {suffix_of(path)} file ({reason})"
        raise InputError("path", str(path), allowed) from None


def suffix_of(path: Path) -> str:
    """Of those that are known; any other is refused."""
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise InputError("path", str(path), f"a file that ends in {quoted(SUFFIXES)}")


def load_polars() -> ModuleType:
    """Only where it is used: the core of bccb does without it, and importing it takes long."""
    try:
        import polars
    except ImportError:
        raise MissingExtraError("polars", "lab") from None
    return polars
