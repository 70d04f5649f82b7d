"""JSON into the dataclasses of ``answers``, by their annotations.

A field that is missing or of another type is refused; one that is not known is left aside, so that
a newer service may tell more.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import is_dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import (
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")
Parse: TypeAlias = Callable[[Any], Any]


def parse_as(kind: type[T]) -> Callable[[Any], T]:
    """A function that makes a ``kind`` of JSON, or raises a TypeError or ValueError.

    >>> from bccb.client.answers import OutcomeAnswer
    >>> parse_as(OutcomeAnswer)({"decision_id": "a", "value": 1, "status": "recorded"})
    OutcomeAnswer(decision_id='a', value=1.0, status='recorded')
    """
    return cast("Callable[[Any], T]", _parser(cast("Any", kind)))


@cache
def _parser(kind: Any) -> Parse:
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _fields(cast("type[Any]", kind))
    if origin in (Union, types.UnionType):
        return _first_of([_parser(each) for each in inner])
    if origin is tuple:
        item = _parser(inner[0])
        return lambda value: tuple(item(each) for each in _check(value, list))
    if origin is dict:
        item = _parser(inner[1])
        return lambda value: {key: item(each) for key, each in _check(value, dict).items()}
    if origin is Literal:
        return lambda value: inner[inner.index(value)]
    return PLAIN[kind]


def _fields(kind: type[Any]) -> Parse:
    parsers = {name: _parser(hint) for name, hint in get_type_hints(kind).items()}

    def parse(value: Any) -> Any:
        given = _check(value, dict)
        missing = [name for name in parsers if name not in given]
        if missing:
            raise ValueError(f"{kind.__name__} without {missing[0]!r}")
        return kind(**{name: parser(given[name]) for name, parser in parsers.items()})

    return parse


def _first_of(parsers: list[Parse]) -> Parse:
    def parse(value: Any) -> Any:
        for parser in parsers[:-1]:
            try:
                return parser(value)
            except (TypeError, ValueError):
                continue
        return parsers[-1](value)

    return parse


def _check(value: Any, *kinds: type) -> Any:
    """The value, where it is of exactly one of these types: True is no number."""
    if type(value) not in kinds:
        raise TypeError(f"{value!r:.100} where {' or '.join(kind.__name__ for kind in kinds)} is")
    return value


def _money(value: Any) -> Decimal:
    try:
        return Decimal(_check(value, str))
    except InvalidOperation:
        raise ValueError(f"{value!r:.100} where money is") from None


PLAIN: dict[Any, Parse] = {
    str: lambda value: _check(value, str),
    bool: lambda value: _check(value, bool),
    int: lambda value: _check(value, int),
    float: lambda value: float(_check(value, int, float)),
    Decimal: _money,
    datetime: lambda value: datetime.fromisoformat(_check(value, str)),
    type(None): lambda value: _check(value, type(None)),
}
