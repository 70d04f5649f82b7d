"""What a column of a file holds: its kind, its levels, and how much of it is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from bccb.data.formats import load_polars
from bccb.data.words import IDENTIFIER, SPLIT, SPLIT_VALUES, has
from bccb.encoding import as_text
from bccb.types import Floats, Ints

if TYPE_CHECKING:
    import polars as pl

Kind: TypeAlias = Literal["number", "text", "true/false", "date", "nested", "nothing"]

MOST_ARMS = 12  # a column with more values is no arm
MOST_LISTED = 50  # levels that are counted one by one
NEARLY_ALL = 0.95
MANY = 1_000  # rows, in which whole amounts of money or time are the same here and there
RARE_ROWS, RARE_SHARE = 100, 0.005
ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
OTHER_DATE = r"^\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( .*)?$"
WRITTEN_NUMBER = r"^[^\d\w]?\s*-?\d{1,3}([,.' ]\d{3})*([.,]\d+)?\s*[^\d\w]?$"


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One column, as far as some of its rows tell."""

    name: str
    kind: Kind
    missing: int  # values, in the whole file
    distinct: int  # values that are not missing
    levels: dict[str, int]  # how often each value is there, the most frequent first; few at most
    strange: str | None  # how its numbers or dates are written, where they are read as text
    values: pl.Series  # numbers, days or text; missing ones are null

    @property
    def is_constant(self) -> bool:
        """Whether it tells nothing."""
        return self.distinct < 2 and (not self.missing or self.distinct == 0)

    @property
    def is_number(self) -> bool:
        """Whether its values have an order."""
        return self.kind in ("number", "date")

    @property
    def is_unique(self) -> bool:
        """Whether nearly every row has a value of its own."""
        present = self.values.len() - self.values.null_count()
        return self.distinct >= NEARLY_ALL * present

    @property
    def is_identifier(self) -> bool:
        """Whether it names its row, or a person, and says nothing else."""
        if self.kind not in ("number", "text") or self.distinct <= MOST_LISTED:
            return False
        present, is_named = self.values.drop_nulls(), has(self.name, IDENTIFIER)
        if self.kind == "text":
            return is_named or 2 * self.distinct > present.len()
        whole = bool((present % 1 == 0).all())
        return whole and (is_named or self._counts_rows(present.to_numpy()))

    def _counts_rows(self, numbers: Floats) -> bool:
        """Whether whole numbers are all different, and so many or so dense that amounts are not."""
        if self.distinct < numbers.size:
            return False
        return numbers.size >= MANY or bool(np.ptp(numbers) < 10 * numbers.size)

    @property
    def is_split(self) -> bool:
        """Whether it divides the rows into those to train and those to test on."""
        few = 2 <= self.distinct <= 4
        return few and (
            {level.lower() for level in self.levels} <= SPLIT_VALUES or has(self.name, SPLIT)
        )

    @property
    def is_choice(self) -> bool:
        """Whether it has so few values that it may be the arm."""
        return 2 <= self.distinct <= MOST_ARMS and self.kind not in ("date", "nested")

    @property
    def is_binary(self) -> bool:
        """Whether it may be an outcome: two values, of which numbers are 0 and 1."""
        return self.distinct == 2 and (
            self.kind in ("text", "true/false")
            or (self.kind == "number" and set(self.levels) == {"0", "1"})
        )

    def rare_levels(self) -> tuple[int, float]:
        """How many of its levels are rare, as `bccb.data.features` counts them, and their share
        of the rows.
        """
        counts = self.values.drop_nulls().rename("level").value_counts(name="rows")
        rows = counts["rows"].to_numpy()
        rare = rows[rows < min(RARE_ROWS, RARE_SHARE * rows.sum())]
        return rare.size, float(rare.sum() / rows.sum())

    def codes(self) -> tuple[Ints, list[str]]:
        """For every row the place of its value among the levels, -1 where it is missing."""
        names = list(self.levels)
        places = {name: place for place, name in enumerate(names)}
        by_value = {value: places[as_text(value)] for value in self.values.drop_nulls().unique()}
        codes = self.values.replace_strict(
            by_value, default=None, return_dtype=load_polars().Int64
        ).fill_null(-1)
        return codes.to_numpy(), names

    def numbers(self) -> Floats:
        """Its values as numbers; NaN where they are missing."""
        return np.asarray(self.values.cast(load_polars().Float64).fill_null(np.nan).to_numpy())


def profiled(series: pl.Series, missing: int) -> Profile:
    """The profile of a column of which so many values are missing in the whole file."""
    kind, values, strange = _read(series)
    if kind == "nested":
        return Profile(series.name, kind, missing, values.len(), {}, None, values)
    distinct, levels = values.drop_nulls().n_unique(), {}
    if 0 < distinct <= MOST_LISTED:
        counts = values.drop_nulls().rename("value").value_counts(sort=True, name="rows")
        levels = {as_text(value): rows for value, rows in counts.iter_rows()}
    return Profile(series.name, kind, missing, distinct, levels, strange, values)


def _read(series: pl.Series) -> tuple[Kind, pl.Series, str | None]:
    """The kind of a column, its values, and what is strange about how they are written."""
    polars = load_polars()
    if series.null_count() == series.len():
        return "nothing", series.cast(polars.String, strict=False), None
    if series.dtype == polars.Boolean:
        return "true/false", series, None
    if series.dtype in (polars.Date, polars.Datetime):
        return "date", _days(series), None
    if series.dtype.is_numeric():
        numbers = series.cast(polars.Float64)
        return "number", numbers.set(~numbers.is_finite(), None), None
    if series.dtype not in (polars.String, polars.Categorical, polars.Enum):
        return "nested", series, None
    return _read_text(series.cast(polars.String))


def _read_text(text: pl.Series) -> tuple[Kind, pl.Series, str | None]:
    stripped = text.str.strip_chars()
    if _matches(stripped, ISO, of_all=1.0):
        days = _days(stripped.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False))
        return "date", days, None
    if _matches(stripped, OTHER_DATE):
        return "text", text, f"dates such as {_example(stripped)!r}; write them as 2030-01-31"
    present = stripped.drop_nulls()
    wrong = int(present.cast(load_polars().Float64, strict=False).is_null().sum())
    if not wrong or _matches(stripped, WRITTEN_NUMBER):
        example = _example(stripped)
        return "text", text, f"numbers written as text, such as {example!r}; write them as 1234.5"
    if 2 * wrong < present.len():
        example = _example(stripped)
        reason = f"numbers, but text in {wrong:,} rows, such as {example!r}; leave such cells empty"
        return "text", text, reason
    return "text", text, None


def _example(text: pl.Series) -> str:
    """A value that no program reads as a number, or any if all are numbers."""
    present = text.drop_nulls()
    wrong = present.filter(present.cast(load_polars().Float64, strict=False).is_null())
    return str((wrong if wrong.len() else present)[0])


def _matches(text: pl.Series, pattern: str, of_all: float = NEARLY_ALL) -> bool:
    """Whether nearly all values are written like this."""
    present = text.drop_nulls()
    return int(present.str.contains(pattern).sum()) >= of_all * present.len()


def _days(series: pl.Series) -> pl.Series:
    """Dates as days since 1970."""
    return series.dt.epoch("d").cast(load_polars().Float64)
