"""Columns as PostgreSQL's binary arrays: one parameter each, however many events there are.

A statement with one parameter per value takes three times as long, most of it in this process.
Numbers go without NULL, which would break the fixed layout: :data:`NO_NUMBER` and NaN stand for it.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from psycopg import adapt, postgres, pq

from bccb.ledger.event import Event

NO_NUMBER = -(2**63)
_HEADER = struct.Struct(">iiIii")  # dimensions, whether there are NULLs, type, length, first index
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_NUMBER = np.dtype([("length", ">i4"), ("value", ">i8")])
_FLOAT = np.dtype([("length", ">i4"), ("value", ">f8")])


class Column(bytes):
    """An array, ready to be sent."""


class NumberColumn(Column):
    """Of bigint."""


class FloatColumn(Column):
    """Of double precision."""


class TextColumn(Column):
    """Of text."""


class BytesColumn(Column):
    """Of bytea."""


def numbers(values: Iterable[int]) -> NumberColumn:
    """Whole numbers; anything else raises ``TypeError`` or ``OverflowError``."""
    return NumberColumn(_fixed(_NUMBER, "int8", array("q", values)))


def numbers_or_none(values: Iterable[int | None]) -> NumberColumn:
    """The same, where some may be missing."""
    return numbers([NO_NUMBER if value is None else value for value in values])


def floats(values: Iterable[float | None]) -> FloatColumn:
    """Numbers, to the bit."""
    given = array("d", [np.nan if value is None else value for value in values])
    return FloatColumn(_fixed(_FLOAT, "float8", given))


def texts(values: Sequence[str | None]) -> TextColumn:
    """Text."""
    encoded = [None if value is None else value.encode() for value in values]
    return TextColumn(_varying("text", encoded))


def contents(values: Sequence[bytes | None]) -> BytesColumn:
    """Bytes."""
    return BytesColumn(_varying("bytea", values))


def columns(events: Sequence[Event]) -> list[Column]:
    """All columns of some events."""
    by_field = zip(*events, strict=True)
    return [encode(values) for encode, values in zip(ENCODERS, by_field, strict=True)]


ENCODERS: tuple[Callable[[Any], Column], ...] = (
    *(numbers, numbers, numbers, texts, texts, numbers_or_none, numbers_or_none, numbers),
    *(floats, floats, floats, numbers, contents, numbers),
)


def register(adapters: adapt.AdaptersMap) -> None:
    """Let a connection send columns."""
    for kind, name in (
        (NumberColumn, "int8"),
        (FloatColumn, "float8"),
        (TextColumn, "text"),
        (BytesColumn, "bytea"),
    ):
        adapters.register_dumper(kind, _dumper(postgres.types[name].array_oid))


def _dumper(array_oid: int) -> type[adapt.Dumper]:
    class ColumnDumper(adapt.Dumper):
        format = pq.Format.BINARY
        oid = array_oid

        def dump(self, obj: bytes) -> bytes:
            return obj

    return ColumnDumper


def _header(name: str, length: int, nulls: bool) -> bytes:
    return _HEADER.pack(1, nulls, postgres.types[name].oid, length, 1)


def _fixed(layout: np.dtype[np.void], name: str, given: array[Any]) -> bytes:
    column = np.empty(len(given), layout)
    column["length"], column["value"] = 8, given
    return _header(name, len(given), nulls=False) + column.tobytes()


def _varying(name: str, values: Sequence[bytes | None]) -> bytes:
    parts = [_header(name, len(values), nulls=True)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_LENGTH.pack(len(value)), value)
    return b"".join(parts)
