"""Logs into files: Parquet and CSV."""

from __future__ import annotations

from bccb import checks
from bccb.data.formats import load_polars, suffix_of
from bccb.data.schema import columns_of, quoted
from bccb.data.sources import FilePath
from bccb.errors import InputError
from bccb.files import written_whole
from bccb.types import Log

WRITTEN = (".parquet", ".csv")


def write_log(log: Log, path: FilePath) -> None:
    """Write a log to a .parquet file, from which `read_log` reads the same log again, or to a .csv
    file, which cannot hold its columns' meaning: `read_log` then needs ``columns_of(log)``.

    The file appears whole or not at all.
    """
    checks.instance("log", log, Log, "a Log")
    polars, target, columns = load_polars(), checks.path("path", path), columns_of(log)
    suffix = suffix_of(target)
    if suffix not in WRITTEN:
        raise InputError("path", str(path), f"a file that ends in {quoted(WRITTEN)}")
    arms = polars.Series([columns.control, *columns.treatments]).gather(log.actions)
    parts = {columns.treatment: arms, columns.outcome: log.outcomes}
    parts |= zip(columns.features, log.features.T, strict=True)
    parts |= zip(columns.cost_columns, log.costs.T, strict=True)
    if log.effects is not None:
        parts |= zip(columns.effects, log.effects.T, strict=True)
    if log.probabilities is not None:
        parts |= zip(columns.probability_columns, [log.probabilities], strict=True)
    parts |= {name: [log.charge] * log.users for name in columns.charge_columns}
    frame = polars.DataFrame(parts)
    with written_whole(target) as draft:
        try:
            if suffix == ".csv":
                frame.write_csv(draft)
            else:
                frame.write_parquet(draft, metadata=columns.metadata())
        except polars.exceptions.PolarsError as error:  # a full disk, say
            raise OSError(str(error)) from None
