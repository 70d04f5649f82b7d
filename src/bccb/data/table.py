"""The columns of a file that a log needs, and the log that is made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bccb import outcome
from bccb.charge import payment_in
from bccb.data import costs
from bccb.data import outcomes as texts
from bccb.data.arms import actions_of, select_arms
from bccb.data.cells import check_no_stray_text, check_type, place, present
from bccb.data.cost_check import NEEDED
from bccb.data.encodings import encode_by
from bccb.data.features import encode
from bccb.data.formats import load_polars
from bccb.data.schema import Columns
from bccb.data.sources import Source, opened
from bccb.encoding import Encoding, as_text
from bccb.errors import InputError
from bccb.money import COST_RANGE, LEAST_COST, MICROS, MOST_COST, cost_micros
from bccb.outcome import DecisionStatus
from bccb.types import LEAST_PROBABILITY, PROBABILITY_RANGE, Floats, Ints, Log

if TYPE_CHECKING:
    import polars as pl

OPEN: DecisionStatus = "open"
COST = (
    "given, as what treating a user costs, also where nobody was treated: a column, a number, or "
    "one of them for each treatment. On the command line --cost COL, --cost 0.5, --cost COL,COL or "
    "--cost 0.5,1.2, in Python Columns(cost=...)"
)


@dataclass(slots=True)
class Table:
    """The columns of a file that a log needs, and the values of its arms 0..K."""

    frame: pl.DataFrame
    columns: Columns
    features: tuple[str, ...]
    arms: list[Any]
    rows: int  # of the file
    stored: Encoding | None = None  # of the features, where the file tells it

    def missing(self) -> dict[str, int]:
        """How many values of each column are missing, not numbers or infinite."""
        return {
            series.name: series.len() - int(present(series).sum())
            for series in self.frame.iter_columns()
        }

    def needed(self) -> list[str]:
        """The columns in which nothing may be missing.

        A file that tells how its features are encoded also tells which may be missing.
        """
        filled = self.features if self.columns.impute or self._is_described() else ()
        return [name for name in self.frame.columns if name not in filled]

    def _is_described(self) -> bool:
        """Whether the file tells how all its features are encoded."""
        return self.stored is not None and set(self.features) <= set(self.stored.names)

    def drop_incomplete(self) -> int:
        """Drop the rows in which anything is missing that is needed; how many there were."""
        before = self.frame.height
        for name in self.needed():
            self.frame = self.frame.filter(present(self.frame[name]))
        return before - self.frame.height

    def drop_open(self) -> tuple[str, ...]:
        """Keep the decisions before the oldest that is open, if that is asked for; a note of it.

        Otherwise open decisions are refused. Those whose outcome is known before their window ends
        are the ones that converted, so a log without the open ones converts too often.
        """
        polars, columns = load_polars(), self.columns
        if columns.status is None:
            return ()
        is_open = (self.frame[columns.status].cast(polars.String) == OPEN).fill_null(False)
        is_open &= self.frame[columns.outcome].is_null()
        count, rows = int(is_open.sum()), self.frame.height
        if not count:
            return ()
        before = int(is_open.arg_true()[0])
        if not columns.closed or not before:
            allowed = (
                "0: conversions are known sooner than their absence, so what is known now converts "
                "too often. Read the log again when no decision is open"
            )
            if before:
                allowed += (
                    f", or read only the {before:,} of {rows:,} decisions before the oldest open "
                    "one with --closed, or Columns(closed=True)"
                )
            raise InputError("the number of open decisions", count, allowed)
        self.frame = self.frame.head(before)
        late = rows - before
        return (f"left out: {late:,} of {rows:,} decisions, from the oldest open one on",)

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

    def to_log(self) -> tuple[Log, tuple[str, ...]]:
        """The log, checked, and notes about its features.

        It takes columns out of the frame, so as to hold them once.
        """
        arm = self.frame.drop_in_place(self.columns.treatment)
        charge = ""
        if self.columns.charge is not None:
            charge = self._charge(self.columns.charge)
        actions = actions_of(arm, self.arms, may_be_absent=self.columns.probability is not None)
        micros = self._micros()
        effects = [self._numbers("effect", name) for name in self.columns.effects]
        kind, outcomes = self._outcomes()
        probabilities = [
            self._within("probability", name, LEAST_PROBABILITY, 1.0, PROBABILITY_RANGE)
            for name in self.columns.probability_columns
        ]
        notes: tuple[str, ...] = ()
        if self.stored is not None and self._is_described():
            encoding = self.stored.only(self.features)
            features = encode_by(encoding, self.frame)
        else:
            features, encoding, notes = encode(self.frame, self.features, self.rows)
        log = Log(
            features=features,
            actions=actions,
            outcomes=outcomes,
            micros=micros,
            encoding=encoding,
            treatment_names=tuple(as_text(value) for value in self.arms[1:]),
            known_shares=np.array(self.columns.shares) if self.columns.shares else None,
            effects=np.column_stack(effects) if effects else None,
            probabilities=probabilities[0] if probabilities else None,
            kind=kind,
            charge=charge,
        )
        return log, notes

    def _charge(self, name: str) -> str:
        """How treatments were charged, which each row says."""
        said = self.frame.drop_in_place(name).unique().sort()
        found = [as_text(value) for value in said.to_list()]
        if len(found) > 1:
            allowed = "the same in all rows: evaluate campaigns one by one"
            raise InputError(f"column {name!r}", ", ".join(found), allowed)
        return payment_in(found[0], f"column {name!r}").text

    def _outcomes(self) -> tuple[str, Floats]:
        """The kind of outcomes, as given or as the numbers say, and the outcomes."""
        name, kind = self.columns.outcome, self.columns.kind
        found = kind or outcome.kind_by_values(self._numbers("outcome", name))
        least, most, allowed = outcome.range_of(found)
        if not kind and found == outcome.Kind.CONVERSION:
            allowed += "; if these are amounts of money, say so with --kind amount, or with "
            allowed += 'Columns(kind="amount")'
        return found, self._within("outcome", name, least, most, allowed)

    def _micros(self) -> Ints:
        users, treatments, cost = self.frame.height, len(self.arms) - 1, self.columns.cost
        assert cost is not None
        if callable(cost):
            return cost(users, treatments)
        each = (cost,) * treatments if isinstance(cost, str | float | int) else cost
        return np.column_stack([self._price(one) for one in each])

    def _price(self, cost: str | float) -> Ints:
        """What one treatment costs each user, in micros."""
        if not isinstance(cost, str):
            return costs.constant(self.frame.height, 1, cost)[:, 0]
        least, most = LEAST_COST / MICROS, MOST_COST / MICROS
        return cost_micros(self._within("cost", cost, least, most, f"{COST_RANGE}, {NEEDED}"))

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
        check_type(series, role, text_too=False)
        return np.asarray(series.cast(load_polars().Float64).to_numpy())


def read_table(source: Source, given: Columns | None, free: bool = False) -> Table:
    """The rows of a file or a frame that belong to the arms of interest.

    Costs must be named, except where treatments may count as ``free``: they then cost 1.
    """
    with opened(source) as found:
        columns = found.columns(given)
        if free and columns.cost is None:
            columns = replace(columns, cost=1.0)
        _check_complete(columns, found.name)
        features = columns.features_among(found.present)
        named = (columns.treatment, columns.outcome, *columns.cost_columns, *columns.effects)
        named += columns.probability_columns + columns.status_columns + columns.charge_columns
        wanted = dict.fromkeys((*named, *features))
        frame = found.rows.select(*wanted).collect(engine="streaming")
    if not frame.height:
        raise InputError(f"the number of rows of {found.name!r}", 0, "at least 1")
    rows = frame.height
    frame, arms = select_arms(frame, columns)
    return Table(frame, columns, features, arms, rows, found.encoding)


def _check_complete(columns: Columns, name: str) -> None:
    """Refuse what the columns of this file leave open."""
    if columns.cost is None:
        raise InputError(f"the cost of a treatment in {name!r}", None, COST)
    if columns.closed and columns.status is None:
        allowed = "left out, because the log does not say which decisions are open"
        raise InputError("closed", columns.closed, allowed)
