"""Logs out of files and frames: CSV, gzipped CSV, JSON lines, Parquet, polars and pandas."""

from __future__ import annotations

from dataclasses import dataclass, field

from bccb.data.cost_check import check_costs
from bccb.data.schema import Columns
from bccb.data.sources import Source
from bccb.data.table import Table, read_table
from bccb.errors import InputError
from bccb.types import Log


def read_log(source: Source, columns: Columns | None = None) -> Log:
    """Read the log of a trial from a .csv, .csv.gz, .parquet, .ndjson or .jsonl file, or from a
    DataFrame of polars or pandas.

    Text and true/false features become one column for each level except the most frequent, such as
    ``channel=Web``, and one for all rare levels; dates become days since 1970. ``log.encoding``
    tells how. Without ``columns`` the file must be one that `write_log` or the service wrote.
    """
    return read_finished(source, columns).log


@dataclass(frozen=True, slots=True)
class Reading:
    """A log, and what to report about how it was read."""

    log: Log
    unfinished: dict[str, int]  # rows left out because they have no outcome, by their status
    outcome_values: dict[str, int]  # which text counts as which outcome; empty for numbers
    notes: tuple[str, ...]  # sentences about what is not as it stands in the file
    missing: dict[str, int] = field(default_factory=dict)  # values by column
    incomplete: int = 0  # rows left out because something is missing in them
    kind_given: bool = False  # what the outcomes are was given, and not found by their values


def read_finished(source: Source, columns: Columns | None = None) -> Reading:
    """Read a log of which nothing is missing except the outcomes of cancelled decisions, and the
    features that are to be filled in.

    Only a log with the status of its rows may have any of the first; otherwise a missing outcome
    is refused. So are decisions that are open.
    """
    table = read_table(source, columns)
    left_out = table.drop_open()
    unfinished = table.drop_unfinished()
    counts = table.missing()
    _refuse_missing(table, {name: counts[name] for name in table.needed() if counts[name]})
    outcome_values = table.number_outcomes()
    log, notes = table.to_log()
    if table.columns.cost_columns:
        cost = table.columns.cost
        check_costs(log, [str(one) for one in (cost if isinstance(cost, tuple) else (cost,))])
    given = bool(table.columns.kind)
    return Reading(log, unfinished, outcome_values, left_out + notes, kind_given=given)


def read_complete_rows(source: Source, columns: Columns | None = None) -> Reading:
    """Read the rows of which nothing is missing that is not filled in, and count the others.

    It is for describing a log: costs need not be named, and then are 1.
    """
    table = read_table(source, columns, free=True)
    left_out = table.drop_open()
    missing = table.missing()
    incomplete = table.drop_incomplete() if any(missing.values()) else 0
    if not table.frame.height:
        where = ", ".join(f"{name!r} ({count})" for name, count in missing.items() if count)
        raise InputError("the number of complete rows", 0, f"at least 1: see columns {where}")
    outcome_values = table.number_outcomes()
    log, notes = table.to_log()
    given = bool(table.columns.kind)
    return Reading(log, {}, outcome_values, left_out + notes, missing, incomplete, given)


def _refuse_missing(table: Table, missing: dict[str, int]) -> None:
    """Refuse values that are missing in columns where they are not filled in."""
    if not missing:
        return
    where = " and ".join(f"column {name!r}" for name in missing)
    what = f"the number of missing or infinite values in {where}"
    allowed = "0: fill them in, or drop these rows"
    if set(missing) <= set(table.features):
        allowed = (
            "0: fill them in with --impute (median or a level of its own, and marked), or leave "
            "columns out with --exclude; in Python Columns(impute=True) or Columns(excluded=...)"
        )
    raise InputError(what, sum(missing.values()), allowed)
