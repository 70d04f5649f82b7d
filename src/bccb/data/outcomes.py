"""Outcomes in words: which of two texts counts as 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bccb.data.cells import check_no_stray_text, place
from bccb.data.formats import load_polars
from bccb.data.schema import quoted
from bccb.errors import InputError

if TYPE_CHECKING:
    import polars as pl

YES = frozenset(
    {"yes", "y", "true", "t", "1", "1.0", "on"}
    | {"converted", "conversion", "bought", "purchased", "purchase", "sold", "sale", "ordered"}
    | {"clicked", "click", "visited", "visit", "opened", "responded", "success", "positive", "won"}
)
NO = frozenset({"no", "n", "false", "f", "0", "0.0", "off"})


def as_numbers(
    series: pl.Series, positive: str | None, rows: int
) -> tuple[pl.Series, dict[str, int]]:
    """A column of outcomes as numbers, and which text counts as which; no text in other columns.

    Texts that differ only in case or in blanks around them are the same. The file has so many rows.
    """
    polars = load_polars()
    if series.dtype == polars.Boolean:
        return series.cast(polars.Float64), {"true": 1, "false": 0}
    if series.dtype not in (polars.String, polars.Categorical, polars.Enum):
        if positive is not None:
            allowed = f"left out, because the outcomes in column {series.name!r} are not text"
            raise InputError("positive", positive, allowed)
        return series, {}
    words = series.cast(polars.String).str.strip_chars().str.to_lowercase()
    present = sorted(words.unique().to_list())
    if len(present) > 2:
        check_no_stray_text(series, rows)
        raise _third_text(series, words, rows)
    one = _positive(series.name, present, positive)
    values = {one: 1} | {word: 0 for word in present if word != one}
    return (words == one).cast(polars.Float64).alias(series.name), values


def _third_text(series: pl.Series, words: pl.Series, rows: int) -> InputError:
    """The error about a column of more than two texts: it names the rarest, and a row with it."""
    counts = words.value_counts(sort=True)
    common = quoted(counts[words.name].head(2).to_list()).replace(", ", " or ")
    row = int((words == counts[words.name][-1]).arg_true()[0])
    where = place(f"outcome column {series.name!r}", row, series.len(), rows)
    allowed = f"{common}, as in the other rows, because an outcome has two values at most"
    if words.n_unique() > 3:
        allowed = f"one of two texts, not of {words.n_unique()}"
    return InputError(where, series[row], f"{allowed}; or the column must hold numbers")


def _positive(name: str, present: list[str], positive: str | None) -> str:
    """The text that counts as 1, which need not be present where the only other one means no."""
    if positive is not None:
        wanted = positive.strip().lower()
        if wanted not in present:
            raise InputError("positive", positive, f"one of {quoted(present)}, as in {name!r}")
        return wanted
    yes = [word for word in present if word in YES]
    if len(yes) == 1:
        return yes[0]
    if len(present) == 1 and present[0] in NO:
        return "yes"
    raise InputError(
        f"outcome column {name!r}",
        " or ".join(present),
        "such that it is clear which text counts as 1: name it with --positive VALUE, or with "
        "Columns(positive=...)",
    )
