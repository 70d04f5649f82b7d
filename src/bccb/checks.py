"""Checks of what comes from outside. Each error names the field, the value and what is allowed."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np

from bccb.errors import InputError
from bccb.types import Floats, as_floats


def number(field: str, value: Any) -> float:
    """A finite number."""
    if isinstance(value, str | bytes | bool):
        raise InputError(field, value, "a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(field, value, "a number") from None
    if not math.isfinite(number):
        raise InputError(field, value, "a finite number")
    return number


def whole(field: str, value: Any, least: int, most: int) -> int:
    """A whole number within a range."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise InputError(field, value, f"a whole number from {least} to {most}")
    return int(value)


def seeds(values: Sequence[int]) -> None:
    """At least one seed, and none twice: a copy would pass for one more run.

    >>> seeds([1, 2, 1])
    Traceback (most recent call last):
    bccb.errors.InputError: seeds is [1, 2, 1], but must be different ones, at least one
    """
    if not len(values) or len(set(values)) < len(values):
        raise InputError("seeds", list(values), "different ones, at least one")


def path(field: str, value: Any) -> Path:
    """The name of a file."""
    try:
        name = Path(value)
        os.fsencode(name)
    except (TypeError, ValueError):
        raise InputError(field, value, "the name of a file") from None
    if "\0" in str(name):
        raise InputError(field, value, "the name of a file")
    return name


def instance(field: str, value: Any, kind: type | UnionType, allowed: str) -> None:
    """An object of this class."""
    if not isinstance(value, kind):
        raise InputError(field, value, allowed)


def matrix(field: str, values: Any, columns: int) -> Floats:
    """A new matrix with one row per user and this many columns."""
    matrix = np.array(as_floats(field, values), order="C")
    if matrix.ndim != 2 or matrix.shape[1] != columns:
        raise InputError(f"the shape of {field}", matrix.shape, f"(users, {columns})")
    return matrix
