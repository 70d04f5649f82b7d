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
NOT_A_NUMBER = ["NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "inf", "-inf"]  # missing
SEPARATORS = ",;\t|"  # of CSV; where a comma is the decimal mark, spreadsheets write semicolons
ONCE = "a name that no other column has: rename one of the two columns, or remove it"


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
        table = _scan_csv(path)
    return table


def _scan_csv(path: Path) -> pl.LazyFrame:
    """The rows of a CSV file, however its values are separated, without columns that have no name.

    Such columns are the index that pandas writes, or blank ones at the end of a spreadsheet.
    """
    polars = load_polars()
    mark = _separator(path)
    plain = partial(polars.scan_csv, path, separator=mark, glob=False, null_values=NOT_A_NUMBER)
    scans = [plain] if mark == "," else [plain, partial(plain, decimal_comma=True)]
    kinds = [scan(infer_schema_length=ROWS_FOR_TYPES).collect_schema() for scan in scans]
    # The decimal mark is the one with which more columns hold numbers.
    numbers = [{name for name, kind in types.items() if kind.is_numeric()} for types in kinds]
    chosen = 1 if len(numbers[-1]) > len(numbers[0]) else 0
    if numbers[0] - numbers[-1] and numbers[-1] - numbers[0]:
        point, comma = min(numbers[0] - numbers[-1]), min(numbers[-1] - numbers[0])
        allowed = f"the same in all columns: {point!r} has points, {comma!r} has commas"
        raise InputError("the decimal mark", path.name, allowed)
    # Whole numbers in the first rows may go on as fractions.
    wider = {name: polars.Float64 for name, kind in kinds[chosen].items() if kind.is_integer()}
    table: pl.LazyFrame = scans[chosen](schema_overrides={**kinds[chosen], **wider})
    return table.drop([name for name in kinds[chosen] if not _original(name)])


def _separator(path: Path) -> str:
    """What separates the names in the header of a CSV file: the mark that gives most of them.

    The others may stand within names.
    """
    scan = partial(load_polars().scan_csv, path, glob=False, infer_schema_length=0)
    return max(SEPARATORS, key=lambda mark: len(scan(separator=mark).collect_schema()))


def _original(name: str) -> str:
    """A name as the header has it; where it has one twice, polars renames the second."""
    original, mark, number = name.rpartition("_duplicated_")
    return original if mark and number.isdigit() else name


def check_header(present: list[str]) -> None:
    """Refuse a CSV header that has a name twice, or is in UTF-16, as some spreadsheets write it."""
    for name in present:
        if "\0" in name:
            raise InputError("the header", name, "UTF-8 text: save the file again as UTF-8")
        if (original := _original(name)) != name and original in present:
            raise InputError("the header", original, ONCE)


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
