"""How features become the numbers that a policy reads, in the lab and in the service alike.

A number stays as it is. Where it may be missing, a number stands for it and a second column says
so. A date is the number of days since 1970. A category is one column for each level except the
first, perhaps with one more for all other levels: rare ones, and those that nobody has seen yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import numpy as np

from bccb.errors import InputError

Kind = Literal["number", "date", "category"]
Value = float | str | bool | None  # of a feature; None is missing
KINDS: tuple[Kind, ...] = ("number", "date", "category")
MISSING = "(missing)"  # the level of a category that stands for a missing value
OTHER = "(other)"  # the column of levels without one
DAY = 86_400.0
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature, and how it is encoded.

    >>> Feature("age", fill=41.0).columns
    ('age', 'age is missing')
    >>> Feature("channel", "category", ("Phone", "Web"), others=True).columns
    ('channel=Web', 'channel=(other)')
    """

    name: str
    kind: Kind = "number"
    levels: tuple[str, ...] = ()  # of a category; the first has no column
    others: bool = False  # whether a category has a column for levels that are not listed
    fill: float | None = None  # what stands for a missing number or date; None refuses it

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"the kind of feature {self.name!r}", self.kind, " or ".join(KINDS))
        category = self.kind == "category"
        if category != bool(self.levels):
            allowed = "at least one for a category, and none for a number or a date"
            raise InputError(f"the levels of feature {self.name!r}", self.levels, allowed)
        if len(set(self.levels)) < len(self.levels):
            raise InputError(f"the levels of feature {self.name!r}", self.levels, "all different")
        if self.others and (not category or OTHER in self.levels):
            allowed = f"left out, except for a category without the level {OTHER!r}"
            raise InputError(f"others of feature {self.name!r}", self.others, allowed)
        if self.fill is not None and (category or not np.isfinite(self.fill)):
            allowed = f"a finite number; a category has the level {MISSING!r} instead"
            raise InputError(f"fill of feature {self.name!r}", self.fill, allowed)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        if self.kind != "category":
            indicator = () if self.fill is None else (f"{self.name} is missing",)
            return (self.name, *indicator)
        others = (OTHER,) if self.others else ()
        return tuple(f"{self.name}={level}" for level in (*self.levels[1:], *others))

    def encoder(self) -> Callable[[Value], Sequence[float]]:
        """A function that makes the numbers of its columns from a value."""
        if self.kind == "category":
            return self._levels()
        if self.kind == "number" and self.fill is None:
            return lambda value: (self.number(value),)
        if self.fill is None:
            return lambda value: (self._day(value),)
        read, fill = self._day if self.kind == "date" else self.number, self.fill
        return lambda value: (fill, 1.0) if value is None else (read(value), 0.0)

    def number(self, value: Value) -> float:
        """A number; anything else is refused."""
        if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
            return float(value)
        raise InputError(f"feature {self.name!r}", value, "a number")

    def _day(self, value: Value) -> float:
        try:
            return days(value)
        except (TypeError, ValueError):
            allowed = "a date such as 2030-01-31 or 2030-01-31T18:00:00Z"
            raise InputError(f"feature {self.name!r}", value, allowed) from None

    def value(self, numbers: Sequence[float]) -> Value:
        """A value that :meth:`encoder` would make these numbers of."""
        if self.kind != "category":
            if self.fill is not None and numbers[1] == 1.0:
                return None
            return _date_of(numbers[0]) if self.kind == "date" else float(numbers[0])
        levels = (*self.levels, *((OTHER,) if self.others else ()))
        level = levels[1 + numbers.index(1.0) if 1.0 in numbers else 0]
        return None if level == MISSING else level

    def _levels(self) -> Callable[[Value], Sequence[float]]:
        width = len(self.columns)
        rows = {
            level: tuple(float(place == i) for i in range(1, width + 1))
            for place, level in enumerate(self.levels)
        }
        unknown = tuple(float(self.others and i == width) for i in range(1, width + 1))

        def encode(value: Value) -> Sequence[float]:
            if value is None and MISSING not in rows:
                raise InputError(f"feature {self.name!r}", None, "given: it must not be missing")
            return rows.get(MISSING if value is None else as_text(value), unknown)

        return encode


@dataclass(frozen=True, slots=True)
class Encoding:
    """The features of users, and how they are encoded.

    >>> encoding = Encoding((Feature("age", fill=41.0), Feature("plan", "category", ("a", "b"))))
    >>> encoding.row({"age": None, "plan": "b"})
    [41.0, 1.0, 1.0]
    """

    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        columns = self.columns
        if len(set(columns)) < len(columns):
            twice = next(name for name in columns if columns.count(name) > 1)
            raise InputError("the column of features", twice, "named once")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(feature.name for feature in self.features)

    def only(self, names: Sequence[str]) -> Encoding:
        """The encoding of these features, in this order."""
        by_name = {feature.name: feature for feature in self.features}
        return Encoding(tuple(by_name[name] for name in names))

    @property
    def is_plain(self) -> bool:
        """Whether all features are numbers that are never missing: nothing is to be encoded."""
        return all(feature == Feature(feature.name) for feature in self.features)

    def row(self, values: Mapping[str, Value]) -> list[float]:
        """The numbers of one user."""
        return [
            number
            for feature in self.features
            for number in feature.encoder()(values[feature.name])
        ]

    def values(self, row: Sequence[float]) -> dict[str, Value]:
        """A user whom :meth:`row` would make these numbers of.

        >>> Encoding((Feature("age"), Feature("plan", "category", ("a", "b")))).values([41.0, 1.0])
        {'age': 41.0, 'plan': 'b'}
        """
        values, at = {}, 0
        for feature in self.features:
            end = at + len(feature.columns)
            values[feature.name], at = feature.value(row[at:end]), end
        return values

    def to_list(self) -> list[dict[str, Any]]:
        """In plain types, without what is as usual."""
        return [dict(_kept(feature)) for feature in self.features]

    @classmethod
    def from_list(cls, kept: Sequence[Mapping[str, Any]]) -> Encoding:
        """What :meth:`to_list` gave."""
        return cls(
            tuple(Feature(**{**one, "levels": tuple(one.get("levels", ()))}) for one in kept)
        )


def plain(names: Sequence[str]) -> Encoding:
    """The encoding of numbers that are never missing."""
    return Encoding(tuple(Feature(name) for name in names))


def days(value: object) -> float:
    """The days since 1970 of a date or a time, or of its text; a time without a zone is in UTC.

    >>> days("1970-01-02"), days("1970-01-01T06:00:00Z")
    (1.0, 0.25)
    """
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return aware.timestamp() / DAY
    if isinstance(moment, date):
        return float((moment - EPOCH).days)
    raise TypeError("not a date")


def _date_of(number: float) -> str:
    """The text of a date, or of a time in UTC, so many days after 1970."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=number)
    whole = float(number).is_integer()
    return moment.date().isoformat() if whole else moment.isoformat().replace("+00:00", "Z")


def as_text(value: object) -> str:
    """A value of an arm or a level, as text: true, 1, 2.5, Web.

    >>> as_text(True), as_text(1.0), as_text("Web")
    ('true', '1', 'Web')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _kept(feature: Feature) -> Iterator[tuple[str, Any]]:
    usual = Feature(feature.name, feature.kind, feature.levels)
    yield "name", feature.name
    if feature.kind != "number":
        yield "kind", feature.kind
    if feature.levels:
        yield "levels", list(feature.levels)
    for field in ("others", "fill"):
        if getattr(feature, field) != getattr(usual, field):
            yield field, getattr(feature, field)
