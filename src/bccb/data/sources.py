"""Where logs come from: files, and frames of polars and pandas."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from bccb import checks
from bccb.data import service_log
from bccb.data.encodings import stored_encoding
from bccb.data.formats import ONCE, check_header, load_polars, readable, scan_file, suffix_of
from bccb.data.schema import METADATA_KEY, Columns
from bccb.encoding import Encoding
from bccb.errors import InputError

if TYPE_CHECKING:
    import polars as pl

FilePath: TypeAlias = str | os.PathLike[str]
NAMED = {
    "treatment": "treatment column",
    "control": "control value",
    "outcome": "outcome column",
}


class PandasFrame(Protocol):
    """What is used of a pandas DataFrame, which bccb does not import."""

    columns: Any

    def __getitem__(self, name: Any, /) -> Any: ...


Source: TypeAlias = "FilePath | pl.DataFrame | PandasFrame"


@dataclass(frozen=True, slots=True)
class Opened:
    """Rows that are not read yet, what they are called, and what they say of their columns."""

    rows: pl.LazyFrame
    name: str
    stored: Columns | None  # the file's metadata, or the columns of a campaign's log
    present: list[str]  # the columns
    encoding: Encoding | None = None  # of the features, where the file tells it

    def columns(self, given: Columns | None) -> Columns:
        """The roles that are given, and for the rest those that the source tells."""
        checks.instance("columns", given, Columns | None, "Columns, such as preset gives")
        columns = merged(given or Columns(), self.stored)
        for field, role in NAMED.items():
            if not getattr(columns, field):
                allowed = (
                    "named: --treatment COL --control VALUE --outcome COL on the command line, "
                    "Columns(...) in Python"
                )
                raise InputError(f"the {role} of {self.name!r}", None, allowed)
        return columns


@contextmanager
def opened(source: Source) -> Iterator[Opened]:
    """Open a file or a frame; while it is open, errors say in one sentence what is wrong."""
    frame = _frame(source)
    if frame is not None:
        present = frame.collect_schema().names()
        yield Opened(frame, "the frame", service_log.recognised(present), present)
        return
    path = checks.path("path", source)
    with readable(path):
        rows, stored = scan_file(path), _stored_columns(path)
        present = rows.collect_schema().names()
        check_header(present)
        known = stored or service_log.recognised(present)
        yield Opened(rows, path.name, known, present, stored_encoding(path))


def _frame(source: Source) -> pl.LazyFrame | None:
    """The rows of a frame; None if it is none."""
    for module in ("polars", "pandas"):  # who has a frame has imported its library
        library = sys.modules.get(module)
        if library is None or not hasattr(library, "DataFrame"):
            continue
        if isinstance(source, library.DataFrame):
            frame: Any = source
            return _from_pandas(frame) if module == "pandas" else cast("pl.LazyFrame", frame.lazy())
    return None


def _from_pandas(frame: PandasFrame) -> pl.LazyFrame:
    """Column by column, because polars would need pyarrow for all of them at once."""
    polars = load_polars()
    names = [str(name) for name in frame.columns]
    check_twice(names)
    series = []
    for name, original in zip(names, frame.columns, strict=True):
        column = frame[original]
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biufM":
            values = column.to_numpy()
        else:
            values = column.astype(object).where(column.notna(), None).tolist()
        try:
            series.append(polars.Series(name, values))
        except (TypeError, polars.exceptions.PolarsError) as error:
            reason = str(error).partition("\n")[0]
            allowed = f"all of one type ({reason})"
            raise InputError(f"the values of column {name!r}", column.dtype, allowed) from None
    lazy: pl.LazyFrame = polars.DataFrame(series).lazy()
    return lazy


def check_twice(names: list[str]) -> None:
    """Refuse a name that two columns have."""
    for name in names:
        if names.count(name) > 1:
            raise InputError("the header", name, ONCE)


def merged(given: Columns, stored: Columns | None) -> Columns:
    """The columns given, and for what they leave open those that the file tells.

    Stored probabilities stay those of the stored arms: without them a log of decisions would pass
    for a randomised trial. So does the status of stored outcomes.
    """
    if stored is None:
        return given
    taken = {given.treatment, given.outcome, given.probability}
    taken |= {*given.status_columns, *given.charge_columns}
    taken |= {*given.cost_columns, *given.effects, *given.excluded}
    kept: dict[str, Any] = {"features": tuple(f for f in stored.features if f not in taken)}
    if given.treatment in ("", stored.treatment):
        kept |= {"treatment": stored.treatment, "probability": stored.probability}
        kept |= {"control": stored.control}
        same_control = given.control in ("", stored.control)
        if same_control and given.treatments in ((), stored.treatments):
            kept |= {name: getattr(stored, name) for name in ("treatments", "shares", "cost")}
            kept |= {"effects": stored.effects}
    if stored.charge is not None and given.outcome not in ("", stored.outcome):
        allowed = f"{stored.outcome!r}: the treatments of this log were charged by that"
        raise InputError("outcome", given.outcome, allowed)
    if given.outcome in ("", stored.outcome):
        kept |= {"outcome": stored.outcome, "status": stored.status, "positive": stored.positive}
        kept |= {"kind": stored.kind, "charge": stored.charge}
    kept = {name: value for name, value in kept.items() if getattr(given, name) in ("", (), None)}
    columns = replace(given, **kept)
    known = (*stored.cost_columns, *stored.effects, *stored.probability_columns, *stored.excluded)
    roles = (*columns.features, *columns.excluded, *columns.effects, *columns.probability_columns)
    roles += (columns.treatment, columns.outcome)
    hidden = [name for name in known if name not in roles]
    return replace(columns, excluded=(*columns.excluded, *dict.fromkeys(hidden)))


def _stored_columns(path: Path) -> Columns | None:
    """The columns that `write_log` or the service put into a file."""
    is_parquet = suffix_of(path) == ".parquet"
    stored = load_polars().read_parquet_metadata(path).get(METADATA_KEY) if is_parquet else None
    if stored is None:
        return None
    try:
        fields: dict[str, Any] = json.loads(stored)
        return Columns(**fields)
    except (AttributeError, TypeError, ValueError):
        allowed = "as this version of bccb writes them"
        raise InputError(f"what {str(path)!r} says of its columns", stored, allowed) from None
