"""Segments: the users of each feature in a few groups, such as thirds, or the levels of a category.

Every user is in exactly one segment of each feature. A number with few values has a segment for
each of them; another is cut where it divides the users into thirds, as far as ties allow. Those
whose value is missing are a segment of their own.

>>> x = np.column_stack((np.arange(9.0), np.arange(9) % 2))
>>> for each in segments_of(x, plain(["age", "member"])):
...     print(each.feature, each.labels, each.places(x).tolist())
age ('up to 2', '2 to 5', 'above 5') [0, 0, 0, 1, 1, 1, 2, 2, 2]
member ('0', '1') [0, 1, 0, 1, 0, 1, 0, 1, 0]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import numpy as np

from bccb.encoding import EPOCH, MISSING, OTHER, Encoding, Feature, Kind, plain
from bccb.errors import InputError
from bccb.types import Floats, Ints

FEW_VALUES = 4  # of a number: each is a segment
SHARES = (1.0 / 3.0, 2.0 / 3.0)  # where other numbers are cut
DIGITS = (3, 4, 6, 10)  # of the numbers in labels: as few as tell them apart


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of one feature; those without any user are left out."""

    feature: str
    kind: Kind
    labels: tuple[str, ...]
    columns: slice  # of its feature
    cuts: tuple[float, ...]  # of a number: a segment ends with each, the last has no end
    levels: tuple[int, ...]  # of a category, and of what is missing: 0 has no column, then in order

    def places(self, x: Floats) -> Ints:
        """Which segment each user is in; -1 for a level that no user had before."""
        if self.kind == "category":
            found = np.full(1 + self.columns.stop - self.columns.start, -1)
            found[list(self.levels)] = np.arange(len(self.levels))
            return np.asarray(found[_level(x[:, self.columns])])
        own = x[:, self.columns]
        places = np.searchsorted(self.cuts, own[:, 0]).astype(np.int64)
        if self.levels:  # the last segment: those whose value is missing
            places[own[:, 1] > 0.0] = len(self.labels) - 1
        return places


def segments_of(x: Floats, encoding: Encoding, weights: Floats | None = None) -> list[Segments]:
    """The segments of all features that differ between users ``x``, who count by their weights."""
    if len(encoding.columns) != x.shape[1]:
        raise InputError("the number of feature names", len(encoding.columns), f"{x.shape[1]}")
    counted = np.ones(len(x)) if weights is None else weights
    found = [_segments(x, feature, columns, counted) for feature, columns in _places(encoding)]
    return [each for each in found if len(each.labels) > 1]


def _places(encoding: Encoding) -> Iterator[tuple[Feature, slice]]:
    """The features, and where their columns are."""
    first = 0
    for feature in encoding.features:
        end = first + len(feature.columns)
        yield feature, slice(first, end)
        first = end


def _segments(x: Floats, feature: Feature, columns: slice, weights: Floats) -> Segments:
    own = x[:, columns]
    if feature.kind == "category":
        present = np.unique(_level(own)).tolist()
        names = (*feature.levels, OTHER)
        labels = tuple(names[level] for level in present)
        return Segments(feature.name, feature.kind, labels, columns, (), tuple(present))
    missing = np.zeros(len(x), bool) if feature.fill is None else own[:, 1] > 0.0
    known = own[~missing, 0]
    cuts = _cuts(known, weights[~missing])
    labels = _labels(feature.kind, cuts, known)
    if missing.any():
        labels = (*labels, MISSING)
    absent = (1,) if missing.any() else ()
    return Segments(feature.name, feature.kind, labels, columns, cuts, absent)


def _level(columns: Floats) -> Ints:
    """0 where no column is set, otherwise its place from 1 on."""
    if not columns.shape[1]:
        return np.zeros(len(columns), np.int64)
    return np.asarray(np.where((columns > 0.0).any(axis=1), columns.argmax(axis=1) + 1, 0))


def _cuts(values: Floats, weights: Floats) -> tuple[float, ...]:
    """The values with which segments end, except the last one."""
    order = np.argsort(values, kind="stable")
    distinct = np.unique(values)
    if len(distinct) <= FEW_VALUES:
        return tuple(distinct[:-1].tolist())
    shares = np.cumsum(weights[order])
    ends = values[order][np.searchsorted(shares, np.array(SHARES) * shares[-1] * (1 - 1e-12))]
    # where most users have the largest value, the others are a segment
    return tuple(np.unique(np.minimum(ends, distinct[-2])).tolist())


def _labels(kind: Kind, cuts: Sequence[float], values: Floats) -> tuple[str, ...]:
    if not len(values):
        return ()
    distinct = np.unique(values)
    if len(distinct) <= FEW_VALUES:
        return _texts(kind, distinct.tolist())
    ends = _texts(kind, cuts)
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    return f"up to {ends[0]}", *between, f"above {ends[-1]}"


def _texts(kind: Kind, values: Sequence[float]) -> tuple[str, ...]:
    """Numbers as text, with as many digits as tell them apart; dates as dates."""
    if kind == "date":
        return tuple(str(EPOCH + timedelta(days=int(value // 1))) for value in values)
    for digits in DIGITS:
        texts = tuple(_text(value, digits) for value in values)
        if len(set(texts)) == len(values):
            break
    return texts


def _text(value: float, digits: int) -> str:
    """A number with so many digits, or all whole ones.

    >>> _text(12345.6, 3), _text(0.012345, 3), _text(-0.0, 3)
    ('12,346', '0.0123', '0')
    """
    whole = 10.0 ** (digits - 1) <= abs(value) < 1e15
    return f"{value:,.0f}" if whole else f"{value + 0.0:,.{digits}g}"


def named(names: Encoding | Sequence[str] | None, features: int) -> Encoding:
    """An encoding from the names of columns, which are x0, x1 and so on if none are given."""
    if isinstance(names, Encoding):
        return names
    if isinstance(names, str):
        raise InputError("names", names, "a list of names, or an Encoding")
    return plain([f"x{j}" for j in range(features)] if names is None else list(names))
