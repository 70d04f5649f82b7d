"""Answers read strictly: JSON as RFC 8259 has it, and numbers that are finite."""

from __future__ import annotations

import json
import math
import re
from typing import Any

LARGE = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{300}")


class NotFiniteError(ValueError):
    """A number is NaN or infinite."""


def parse(raw: bytes) -> Any:
    """The value of a JSON text; ValueError where it is none, NotFiniteError for NaN and the like.

    >>> parse(b'{"price": 0.5}')
    {'price': 0.5}
    >>> parse(b'{"price": 1e999}')
    Traceback (most recent call last):
    bench.fuzzing.strict.NotFiniteError: price is inf
    """
    found = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    if LARGE.search(raw):  # only a large exponent can overflow: nothing else is looked through
        check_finite(found)
    return found


def parse_lines(raw: bytes) -> list[Any]:
    """The values of lines of JSON."""
    return [parse(line) for line in raw.splitlines()]


def check_finite(value: Any, where: str = "") -> None:
    """Refuse a number that is not finite, wherever in a value it is."""
    if _is_finite(value):  # paths are made only where one is needed
        return
    if isinstance(value, float):
        raise NotFiniteError(f"{where or 'the value'} is {value}")
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        check_finite(each, f"{where}.{key}" if where else str(key))


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return all(map(_is_finite, value)) if isinstance(value, list) else True


def check_metrics(text: str) -> None:
    """Refuse figures for Prometheus that are not finite; the bounds of buckets may be."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, number = line.rpartition(" ")
            check_finite(float(number), name)


def _refuse(constant: str) -> Any:
    raise NotFiniteError(f"{constant} in place of a number")
