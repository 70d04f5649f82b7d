"""Columns of a file as features: numbers, dates and categories, with what is missing in them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from bccb.data.cells import check_no_stray_text, check_type, is_text, present
from bccb.data.formats import load_polars
from bccb.encoding import DAY, EPOCH, MISSING, OTHER, Encoding, Feature, as_text, days
from bccb.errors import InputError
from bccb.types import Floats

if TYPE_CHECKING:
    import polars as pl

MOST_LEVELS = 50  # of a category that have columns of their own
RARE_ROWS = 100  # a level with fewer rows tells nothing about an effect,
RARE_SHARE = 0.005  # but in a small file it may be a good part of all rows
ISO_DATE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$"
LEAVE_OUT = "leave it out with --exclude, or with Columns(excluded=...)"


def encode(
    frame: pl.DataFrame, names: tuple[str, ...], rows: int
) -> tuple[Floats, Encoding, tuple[str, ...]]:
    """The matrix of features, how they are encoded, and notes about what is not as in the file.

    A missing number or date becomes the median, and a second column says so; a missing category is
    a level of its own. The features are taken out of the frame. The file has so many rows.
    """
    features, notes = [], []
    for name in names:
        series, is_date = _dates_as_days(frame[name])
        frame.replace_column(frame.get_column_index(name), series)
        feature = _feature(series, is_date, rows)
        features.append(feature)
        notes += _notes(series, feature)
    encoding = Encoding(tuple(features))
    matrix, at = np.empty((frame.height, len(encoding.columns))), 0
    for feature in features:
        # Out of the frame at once: with 14 million rows each column counts.
        series, width = frame.drop_in_place(feature.name), len(feature.columns)
        fill = _fill_levels if feature.kind == "category" else _fill_numbers
        fill(matrix[:, at : at + width], series, feature)
        at += width
    return matrix, encoding, tuple(notes)


def _dates_as_days(series: pl.Series) -> tuple[pl.Series, bool]:
    """Dates, times and texts that all are one of them as days since 1970; whether it was so."""
    polars = load_polars()
    if series.dtype == polars.Date:
        return series.cast(polars.Int32).cast(polars.Float64), True
    if series.dtype == polars.Datetime:
        return series.dt.epoch("us") / 1e6 / DAY, True
    if series.dtype != polars.String:
        return series, False
    texts = series.drop_nulls()
    if not texts.len() or not texts.str.contains(ISO_DATE).all():
        return series, False
    try:
        known = {text: days(text) for text in texts.unique()}
    except ValueError:  # a 31st of February is text
        return series, False
    return series.replace_strict(known, default=None, return_dtype=polars.Float64), True


def _feature(series: pl.Series, is_date: bool, rows: int) -> Feature:
    """How a feature is encoded."""
    check_type(series, "feature", text_too=True)
    known = present(series)
    if not known.any():
        what = f"the number of values of feature {series.name!r}"
        raise InputError(what, 0, f"at least 1: {LEAVE_OUT}")
    if not series.dtype.is_numeric():
        return _category(series, rows)
    fill = None if known.all() else np.median(series.filter(known).to_numpy()).item()
    return Feature(series.name, "date" if is_date else "number", fill=fill)


def _category(series: pl.Series, rows: int) -> Feature:
    """The most frequent level first, then the others that are not rare, in their order."""
    counts = {as_text(level): count for level, count in series.drop_nulls().value_counts().rows()}
    levels = sorted(counts, key=lambda level: (-counts[level], level))
    if is_text(series):
        levels = _frequent(series, levels, counts, rows)
    others = len(levels) < len(counts) and levels != [OTHER]
    reference, *rest = (level for level in levels if not (others and level == OTHER))
    missing = [MISSING] if series.null_count() and MISSING not in levels else []
    listed = (reference, *sorted(rest), *missing)
    return Feature(series.name, "category", listed, others=others)


def _frequent(series: pl.Series, levels: list[str], counts: dict[str, int], rows: int) -> list[str]:
    """The levels that are not rare, at most 50 of them; text of which none can be is refused."""
    total = sum(counts.values())
    least = min(RARE_ROWS, RARE_SHARE * total)
    frequent = [level for level in levels if counts[level] >= least][:MOST_LEVELS]
    if len(levels) > MOST_LEVELS:
        check_no_stray_text(series, rows)
        if not frequent or 2 * len(levels) > total:
            what = f"the number of different texts in feature {series.name!r}"
            allowed = f"far below the {total:,} rows, unlike those of an id or a name: {LEAVE_OUT}"
            raise InputError(what, len(levels), allowed)
    return frequent


def _fill_numbers(matrix: Floats, series: pl.Series, feature: Feature) -> None:
    values = series.cast(load_polars().Float64).to_numpy()
    matrix[:, 0] = values
    if feature.fill is not None:
        missing = ~np.isfinite(values)
        matrix[missing, 0] = feature.fill
        matrix[:, 1] = missing


def _fill_levels(matrix: Floats, series: pl.Series, feature: Feature) -> None:
    texts = series.cast(load_polars().String).fill_null(MISSING)
    for column, level in enumerate(feature.levels[1:]):
        matrix[:, column] = (texts == level).to_numpy()
    if feature.others:
        matrix[:, -1] = ~texts.is_in(feature.levels).to_numpy()


def _notes(series: pl.Series, feature: Feature) -> list[str]:
    """What a reader should know about how this feature was made."""
    notes = []
    if feature.kind == "date":
        notes.append(f"{series.name}: dates, as days since 1970")
    missing = series.len() - int(present(series).sum())
    if missing and feature.fill is not None:
        median = f"{feature.fill:,.6g}"
        if feature.kind == "date":
            median = (EPOCH + timedelta(days=feature.fill)).isoformat()
        notes.append(
            f"{series.name}: {_count(missing, 'missing value')} filled with the median, {median}; "
            f"the column '{feature.columns[1]}' says where"
        )
    elif missing:
        notes.append(f"{series.name}: {_count(missing, 'missing value')} as the level '{MISSING}'")
    if feature.others:
        rare = series.cast(load_polars().String).drop_nulls()
        rare = rare.filter(~rare.is_in(feature.levels))
        levels = _count(rare.n_unique(), "rare level")
        notes.append(f"{series.name}: {levels} with {_count(rare.len(), 'row')} as '{OTHER}'")
    return notes


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
