"""Logs in files: CSV, gzipped CSV, JSON lines and Parquet in, Parquet and CSV out."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bccb import checks, outcome
from bccb.data import costs
from bccb.data import outcomes as texts
from bccb.data.cells import check_no_stray_text, place
from bccb.data.encodings import encode_by, stored_encoding
from bccb.data.formats import check_header, load_polars, readable, scan_file, suffix_of
from bccb.data.schema import METADATA_KEY, Columns, columns_of, one_of, quoted
from bccb.encoding import Encoding, Feature, as_text
from bccb.errors import InputError
from bccb.files import written_whole
from bccb.money import COST_RANGE, LEAST_COST, MICROS, MOST_COST, cost_micros
from bccb.types import (
    LEAST_PROBABILITY,
    PROBABILITY_RANGE,
    Floats,
    Ints,
    Log,
)

if TYPE_CHECKING:
    import polars as pl

FilePath: TypeAlias = str | os.PathLike[str]

WRITTEN = (".parquet", ".csv")
MOST_LEVELS = 50  # of a categorical feature, and of the treatment column


def read_log(path: FilePath, columns: Columns | None = None) -> Log:
    """Read the log of a trial from a .csv, .csv.gz, .parquet, .ndjson or .jsonl file.

    Text and true/false features become one column for each level except the most frequent, such as
    ``channel=Web``. Without ``columns`` the file must be one that `write_log` or the service wrote.
    """
    return read_finished(path, columns).log


@dataclass(frozen=True, slots=True)
class Reading:
    """A log from a file, and what to report about how it was read."""

    log: Log
    unfinished: dict[str, int]  # rows left out because they have no outcome yet, by their status
    outcome_values: dict[str, int]  # which text counts as which outcome; empty for numbers
    missing: dict[str, int] = field(default_factory=dict)  # values by column
    incomplete: int = 0  # rows left out because something is missing in them


def read_finished(path: FilePath, columns: Columns | None = None) -> Reading:
    """Read a log of which nothing is missing except the outcomes of unfinished decisions.

    Only a log with the status of its rows may have any; otherwise a missing outcome is refused.
    """
    table = _read_table(checks.path("path", path), columns)
    unfinished = table.drop_unfinished()
    missing = {name: count for name, count in table.missing().items() if count}
    if missing:
        where = " and ".join(f"column {name!r}" for name in missing)
        what = f"the number of missing or infinite values in {where}"
        total = sum(missing.values())
        raise InputError(what, total, "0: fill them in, or drop these rows or columns")
    outcome_values = table.number_outcomes()
    return Reading(table.to_log(), unfinished, outcome_values)


def read_complete_rows(path: FilePath, columns: Columns | None = None) -> Reading:
    """Read the rows of which nothing is missing, and count the others."""
    table = _read_table(checks.path("path", path), columns)
    missing = table.missing()
    incomplete = table.drop_incomplete() if any(missing.values()) else 0
    if not table.frame.height:
        where = ", ".join(f"{name!r} ({count})" for name, count in missing.items() if count)
        raise InputError("the number of complete rows", 0, f"at least 1: see columns {where}")
    outcome_values = table.number_outcomes()
    return Reading(table.to_log(), {}, outcome_values, missing, incomplete)


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
    frame = polars.DataFrame(parts)
    with written_whole(target) as draft:
        try:
            if suffix == ".csv":
                frame.write_csv(draft)
            else:
                frame.write_parquet(draft, metadata=columns.metadata())
        except polars.exceptions.PolarsError as error:  # a full disk, say
            raise OSError(str(error)) from None


@dataclass(slots=True)
class _Table:
    """The columns of a file that a log needs, and the values of its arms 0..K."""

    frame: pl.DataFrame
    columns: Columns
    features: tuple[str, ...]
    arms: list[Any]
    rows: int  # of the file
    stored: Encoding | None = None  # of the features, where the file tells it

    def missing(self) -> dict[str, int]:
        """How many values of each column are missing, not numbers or infinite.

        Where the file tells how features are encoded, it also tells which may be missing.
        """
        told = () if self.stored is None else self.stored.names
        return {
            series.name: series.len() - int(_present(series).sum())
            for series in self.frame.iter_columns()
            if series.name not in told
        }

    def drop_incomplete(self) -> int:
        """Drop the rows in which anything is missing; how many there were."""
        before = self.frame.height
        for name in self.frame.columns:
            self.frame = self.frame.filter(_present(self.frame[name]))
        return before - self.frame.height

    def drop_unfinished(self) -> dict[str, int]:
        """Drop the rows without an outcome, where the file says why; how many of each status."""
        if self.columns.status is None:
            return {}
        status = self.frame.drop_in_place(self.columns.status)
        known = self.frame[self.columns.outcome].is_not_null()
        self.frame = self.frame.filter(known)
        if not self.frame.height:
            raise InputError("the number of decisions whose outcome is known", 0, "at least 1")
        counts = (
            status.filter(~known).cast(load_polars().String).fill_null("unknown").value_counts()
        )
        return dict(sorted(counts.iter_rows()))

    def number_outcomes(self) -> dict[str, int]:
        """Replace outcomes in words by 0 and 1; which word became which."""
        name = self.columns.outcome
        series, values = texts.as_numbers(self.frame[name], self.columns.positive, self.rows)
        self.frame = self.frame.with_columns(series)
        return values

    def to_log(self) -> Log:
        """The log, checked. It takes columns out of the frame, so as to hold them once."""
        actions, micros = self._actions(), self._micros()
        effects = [self._numbers("effect", name) for name in self.columns.effects]
        outcomes = self._within(
            "outcome", self.columns.outcome, outcome.LEAST, outcome.MOST, outcome.RANGE
        )
        probabilities = [
            self._within("probability", name, LEAST_PROBABILITY, 1.0, PROBABILITY_RANGE)
            for name in self.columns.probability_columns
        ]
        if self.stored is not None and set(self.features) <= set(self.stored.names):
            encoding = self.stored.only(self.features)
            features = encode_by(encoding, self.frame)
        else:
            features, encoding = _encode(self.frame, self.features, self.rows)
        return Log(
            features=features,
            actions=actions,
            outcomes=outcomes,
            micros=micros,
            encoding=encoding,
            treatment_names=tuple(as_text(value) for value in self.arms[1:]),
            known_shares=np.array(self.columns.shares) if self.columns.shares else None,
            effects=np.column_stack(effects) if effects else None,
            probabilities=probabilities[0] if probabilities else None,
        )

    def _actions(self) -> Ints:
        arm = self.frame.drop_in_place(self.columns.treatment)
        actions, present = np.zeros(arm.len(), dtype=np.int64), set(arm.unique())
        for action, value in enumerate(self.arms):
            if value in present:
                actions[(arm == value).to_numpy()] = action
            elif self.columns.probability is None:
                raise InputError(f"the number of rows of arm {as_text(value)!r}", 0, "at least 1")
        return actions

    def _micros(self) -> Ints:
        users, treatments, cost = self.frame.height, len(self.arms) - 1, self.columns.cost
        if cost is None:
            return costs.lognormal(users, treatments)
        if isinstance(cost, (int, float)):
            return costs.constant(users, treatments, cost)
        names = (cost,) * treatments if isinstance(cost, str) else cost
        least, most = LEAST_COST / MICROS, MOST_COST / MICROS
        prices = [self._within("cost", name, least, most, COST_RANGE) for name in names]
        return cost_micros(np.column_stack(prices))

    def _within(self, role: str, name: str, least: float, most: float, allowed: str) -> Floats:
        """A column of numbers, refused where one of them is out of range."""
        values = self._numbers(role, name)
        good = (values >= least) & (values <= most)
        if not good.all():
            row = int(good.argmin())
            where = place(f"{role} column {name!r}", row, self.frame.height, self.rows)
            raise InputError(where, values[row].item(), allowed)
        return values

    def _numbers(self, role: str, name: str) -> Floats:
        series = self.frame[name]
        check_no_stray_text(series, self.rows)
        _check_type(series, role, text_too=False)
        return np.asarray(series.cast(load_polars().Float64).to_numpy())


def _read_table(path: Path, columns: Columns | None) -> _Table:
    checks.instance("columns", columns, Columns | None, "Columns, such as preset gives")
    with readable(path):
        lazy = scan_file(path)
        stored = _stored_columns(path)
        if columns is None and stored is None:
            allowed = (
                "named: --treatment COL --control VALUE --outcome COL on the command line, "
                "Columns(...) in Python"
            )
            raise InputError(f"the treatment column of {path.name!r}", None, allowed)
        columns = _merged(columns, stored)
        present = lazy.collect_schema().names()
        check_header(present)
        features = columns.features_among(present)
        named = (columns.treatment, columns.outcome, *columns.cost_columns, *columns.effects)
        named += columns.probability_columns + columns.status_columns
        wanted = dict.fromkeys((*named, *features))
        frame = lazy.select(*wanted).collect(engine="streaming")
    if not frame.height:
        raise InputError(f"the number of rows of {str(path)!r}", 0, "at least 1")
    rows = frame.height
    frame, arms = _select_arms(frame, columns)
    columns.check_arms([as_text(value) for value in arms])
    return _Table(frame, columns, features, arms, rows, stored_encoding(path))


def _select_arms(frame: pl.DataFrame, columns: Columns) -> tuple[pl.DataFrame, list[Any]]:
    """The rows of the arms of interest, or without an arm, and the values of the arms 0..K.

    In a log of decisions an arm may have no row yet: its probabilities are what counts.
    """
    arm = frame[columns.treatment]
    _check_type(arm, "treatment", text_too=True)
    values = arm.filter(_present(arm)).unique().to_list()
    if len(values) > MOST_LEVELS:
        what = f"the number of values of treatment column {arm.name!r}"
        raise InputError(what, len(values), f"at most {MOST_LEVELS}")
    named = {as_text(value): value for value in sorted(values)}
    spelled_out = set(named) <= {columns.control, *columns.treatments}
    for role, names in (("control", (columns.control,)), ("treatment", columns.treatments)):
        for name in names:
            if name not in named and not (spelled_out and columns.probability):
                raise InputError(role, name, f"a value of {arm.name!r}, {one_of(name, named)}")
    treatments = columns.treatments or [name for name in named if name != columns.control]
    if not treatments:
        what = f"the number of rows whose {arm.name!r} is not {columns.control!r}"
        raise InputError(what, 0, "at least 1")
    arms = [named.pop(name, name) for name in (columns.control, *treatments)]
    if named:  # what is left there are the arms that nobody asked for
        if columns.probability is not None:
            allowed = f"all values of {arm.name!r}, because the probabilities are of one among all"
            raise InputError("treatments", columns.treatments, allowed)
        frame = frame.filter(~arm.is_in(list(named.values())).fill_null(False))
    return frame, arms


def _encode(frame: pl.DataFrame, features: tuple[str, ...], rows: int) -> tuple[Floats, Encoding]:
    """The matrix of features, and how they are encoded; the file has so many rows."""
    encoding = Encoding(tuple(_feature(frame[name], rows) for name in features))
    matrix, at = np.empty((frame.height, len(encoding.columns))), 0
    for feature in encoding.features:
        # Out of the frame at once: with 14 million rows each column counts.
        series = frame.drop_in_place(feature.name)
        if feature.kind == "category":
            levels = {as_text(level): level for level in series.unique().to_list()}
            for i, level in enumerate(feature.levels[1:]):
                matrix[:, at + i] = (series == levels[level]).to_numpy()
        else:
            matrix[:, at] = series.cast(load_polars().Float64).to_numpy()
        at += len(feature.columns)
    return matrix, encoding


def _feature(series: pl.Series, rows: int) -> Feature:
    """How a feature is encoded: a category has its most frequent level first."""
    _check_type(series, "feature", text_too=True)
    if series.dtype.is_numeric():
        return Feature(series.name)
    levels = sorted(series.unique().to_list())
    if len(levels) > MOST_LEVELS:
        check_no_stray_text(series, rows)
        what = f"the number of levels of feature {series.name!r}"
        allowed = f"at most {MOST_LEVELS}: group the rare ones, or leave the feature out"
        raise InputError(what, len(levels), allowed)
    reference = max(levels, key=lambda level: int((series == level).sum()))
    others = [level for level in levels if level != reference]
    return Feature(series.name, "category", tuple(map(as_text, (reference, *others))))


def _check_type(series: pl.Series, role: str, text_too: bool) -> None:
    polars, kind = load_polars(), series.dtype
    text = text_too and kind in (polars.String, polars.Categorical, polars.Enum)
    if not (text or kind.is_numeric() or kind == polars.Boolean):
        allowed = "numbers, true/false or text" if text_too else "numbers or true/false"
        raise InputError(f"the type of {role} column {series.name!r}", str(kind), allowed)


def _present(series: pl.Series) -> pl.Series:
    """Where a value is neither missing nor, as a number, infinite or NaN."""
    return series.is_finite().fill_null(False) if series.dtype.is_float() else series.is_not_null()


def _merged(given: Columns | None, stored: Columns | None) -> Columns:
    """The columns given, which must not take as features what is stored as something else.

    Stored probabilities stay those of the stored arms: without them a log of decisions would pass
    for a randomised trial. So does the status of stored outcomes.
    """
    if given is None or stored is None:
        columns = given or stored
        assert columns is not None
        return columns
    if given.probability is None and given.treatment == stored.treatment:
        given = replace(given, probability=stored.probability)
    if given.status is None and given.outcome == stored.outcome:
        given = replace(given, status=stored.status)
    known = (*stored.cost_columns, *stored.effects, *stored.probability_columns, *stored.excluded)
    hidden = [name for name in known if name not in (*given.features, *given.excluded)]
    return replace(given, excluded=(*given.excluded, *dict.fromkeys(hidden)))


def _stored_columns(path: Path) -> Columns | None:
    """The columns that `write_log` put into a file, if it wrote the file."""
    is_parquet = suffix_of(path) == ".parquet"
    stored = load_polars().read_parquet_metadata(path).get(METADATA_KEY) if is_parquet else None
    if stored is None:
        return None
    try:
        fields: dict[str, Any] = json.loads(stored)
        for name, value in fields.items():
            fields[name] = tuple(value) if isinstance(value, list) else value
        return Columns(**fields)
    except (AttributeError, TypeError, ValueError):
        allowed = "as this version of bccb writes them"
        raise InputError(f"what {str(path)!r} says of its columns", stored, allowed) from None
