"""Tables as files of every format."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl

from bccb.types import ROWS, Log


def write_csv(frame: pl.DataFrame, path: Path) -> None:
    frame.write_csv(path)


def write_gzip(frame: pl.DataFrame, path: Path) -> None:
    path.write_bytes(gzip.compress(frame.write_csv().encode()))


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    frame.write_parquet(path)


def write_lines(frame: pl.DataFrame, path: Path) -> None:
    frame.write_ndjson(path)


def assert_same(one: Log, other: Log) -> None:
    for field in (*ROWS, "known_shares"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field), err_msg=field)
    assert one.feature_names == other.feature_names
    assert one.treatment_names == other.treatment_names
    assert (one.kind, one.charge) == (other.kind, other.charge)
