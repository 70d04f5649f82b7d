"""A first look at a file: its rows, the profile of each column, and what is found out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from bccb.data.formats import load_polars
from bccb.data.problems import Problem
from bccb.data.profile import Profile, profiled
from bccb.data.roles import Question, Role
from bccb.data.sources import Opened
from bccb.errors import InputError

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

MOST_ROWS = 200_000  # that are looked at: enough for every test here


@dataclass(slots=True)
class Look:
    """What is known while a file is looked at."""

    name: str
    rows: int
    frame: pl.DataFrame  # the rows that are looked at
    columns: list[Profile]
    roles: dict[str, Role] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def rest(self) -> list[Profile]:
        """The columns without a role."""
        return [column for column in self.columns if column.name not in self.roles]

    def take(self, *roles: Role) -> None:
        """Give columns their roles."""
        self.roles |= {role.column: role for role in roles}

    def answer(self, found: T | Question) -> T | None:
        """What was found; a question is kept instead."""
        if not isinstance(found, Question):
            return found
        self.questions.append(found)
        return None

    def warn(self, *texts: str) -> None:
        """Tell what does not stop anybody."""
        self.problems += [Problem(None, text) for text in texts]


def first_look(file: Opened) -> Look:
    """The profiles of all columns, from a random part of a large file."""
    polars = load_polars()
    kinds = file.rows.collect_schema()
    floats = [name for name, kind in kinds.items() if kind.is_float()]
    rows, nulls, odd = polars.collect_all(
        [
            file.rows.select(polars.len()),
            file.rows.select(polars.all().null_count()),
            file.rows.select(polars.col(floats).is_finite().not_().sum()),
        ]
    )
    total = int(rows.item())
    if not total:
        raise InputError(f"the number of rows of {file.name!r}", 0, "at least 1")
    sample = file.rows
    if total > MOST_ROWS:
        # By a hash of the row, and not every n-th: arms may come in turns.
        place = "\0row"
        kept = polars.col(place).hash(0) % total < MOST_ROWS
        sample = file.rows.with_row_index(place).filter(kept).drop(place)
    missing = {name: int(nulls[name][0]) for name in file.present}
    missing |= {name: missing[name] + int(odd[name][0] or 0) for name in floats}
    frame = sample.collect()
    profiles = [profiled(series, missing[series.name]) for series in frame.iter_columns()]
    return Look(file.name, total, frame, profiles)


def set_aside(look: Look, fixed: set[object]) -> None:
    """Columns that can be neither features nor anything else, unless an option names them."""
    for column in look.rest:
        role = None
        if column.name in fixed:
            continue
        if column.is_constant:
            value = f"it is {next(iter(column.levels))!r} in" if column.levels else "nothing in"
            role = Role(column.name, "constant", "clear", f"{value} every row")
        elif column.kind == "nested":
            role = Role(column.name, "unreadable", "clear", "lists or records, not single values")
        elif column.strange:
            role = Role(column.name, "unreadable", "clear", column.strange)
            look.warn(f"{column.name} is left out: {column.strange}.")
        elif column.is_identifier:
            reason = f"{column.distinct:,} different values, which name rows or people"
            role = Role(column.name, "id", "clear" if column.is_unique else "likely", reason)
        elif column.is_split:
            role = Role(column.name, "split", "likely", "it divides the rows, to train and to test")
        if role is not None:
            look.take(role)
