"""Which field of a body is wrong, and what it must be.

msgspec says whether a body fits its type, and fast, but names neither the key of a mapping nor the
value. Where one does not fit, the same type is walked here again, with the value in hand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, inspect

from bccb import wire
from bccb.policies import DEFAULT

PATTERNS = {  # what text of a pattern is called
    wire.ID: "letters, digits and ._~:@+=-, the first one a letter or digit",
    wire.MONEY: 'decimal text, such as "500.00"',
    wire.NAME: "text without control characters",
    wire.CURRENCY: 'up to 3 letters, such as "EUR"',
}
NEGATIVE, DECIMAL = re.compile(r"-[0-9]+(\.[0-9]+)?"), re.compile(r"[0-9]+(\.[0-9]+)?")
EXAMPLES = {  # of objects in whose place callers often send something simpler
    wire.PolicyRequest: f'{{"name": "{DEFAULT}"}}',
    wire.UsersHorizon: '{"users": 10000}',
    wire.OutcomeTermsRequest: '{"kind": "amount"}',
    wire.FeatureRequest: '{"name": "age", "fill": 40}',
}
CALLED = {wire.in_python(pattern): name for pattern, name in PATTERNS.items()}
Moment = Annotated[datetime, Meta(tz=True)]
TIME = "a time with its zone, such as 2030-01-31T18:00:00Z"


class Fault(NamedTuple):
    """A field that is wrong: where it is, and what it must be; None if it is missing."""

    path: tuple[str, ...]
    value: Any
    allowed: str | None


def first_fault(kind: type, value: Any) -> Fault | None:
    """The first field of a value that does not fit a type.

    >>> first_fault(wire.SettleRequest, {"cost": 1})
    Fault(path=('cost',), value=1, allowed='decimal text, such as "500.00"')
    """
    return next(_faults(inspect.type_info(kind), value, ()), None)


def _faults(kind: inspect.Type, value: Any, path: tuple[str, ...]) -> Iterator[Fault]:
    if isinstance(kind, inspect.Metadata):
        found = _faults(kind.type, value, path)
        if wire.MAY_BE_ZERO in (kind.extra or {}) and _is_negative(value):
            found = (fault._replace(allowed="0 or above") for fault in found)
        yield from found
    elif isinstance(kind, inspect.UnionType):
        others = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        null = len(others) < len(kind.types)
        if value is not None or not null:
            yield from _union_faults(others, null, value, path)
    elif isinstance(kind, inspect.CustomType):
        yield from _faults(inspect.type_info(wire.horizon_type(value)), value, path)
    elif isinstance(kind, inspect.StructType):
        yield from _struct_faults(kind, value, path)
    elif isinstance(kind, inspect.DictType):
        if not isinstance(value, dict):
            yield Fault(path, value, "an object")
        elif not _within(len(value), kind.min_length, kind.max_length):
            yield Fault(path, value, f"an object of at most {kind.max_length:,} entries")
        else:
            for name, each in value.items():
                yield from _faults(kind.value_type, each, (*path, name))
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
        if not isinstance(value, list):
            yield Fault(path, value, "a list")
        elif not _within(len(value), kind.min_length, kind.max_length):
            yield Fault(path, value, _sized("a list of", kind.min_length, kind.max_length))
        else:
            for i, each in enumerate(value):
                yield from _faults(kind.item_type, each, (*path, str(i)))
    else:
        allowed = _leaf(kind, value)
        if allowed is not None:
            yield Fault(path, value, allowed)


def _union_faults(
    kinds: list[inspect.Type], null: bool, value: Any, path: tuple[str, ...]
) -> Iterator[Fault]:
    """The faults of the kind that the value is nearest to; null is allowed where it says so."""
    near = next((each for each in kinds if _is_near(each, value)), None)
    if near is not None or len(kinds) == 1:
        yield from _faults(near or kinds[0], value, path)
        return
    faults = [next(_faults(each, value, path)).allowed or "" for each in kinds]
    yield Fault(path, value, " or ".join([*faults, *(["null"] if null else [])]))


def _is_near(kind: inspect.Type, value: Any) -> bool:
    """Whether a value is of a kind, if perhaps not in its range."""
    match kind:
        case inspect.Metadata():
            return _is_near(kind.type, value)
        case inspect.StructType():
            return isinstance(value, dict)
        case inspect.StrType():
            return isinstance(value, str)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
    return False


def _struct_faults(kind: inspect.StructType, value: Any, path: tuple[str, ...]) -> Iterator[Fault]:
    if not isinstance(value, dict):
        example = EXAMPLES.get(kind.cls)
        yield Fault(path, value, f"an object, such as {example}" if example else "an object")
        return
    for field in kind.fields:
        if field.encode_name in value:
            yield from _faults(field.type, value[field.encode_name], (*path, field.encode_name))
        elif field.required:
            yield Fault((*path, field.encode_name), UNSET, None)
    known = {field.encode_name for field in kind.fields}
    for name in value:
        if kind.forbid_unknown_fields and name not in known:
            yield Fault((*path, name), value[name], "absent: no such field is known")


def _leaf(kind: inspect.Type, value: Any) -> str | None:
    """What a plain value must be, unless it is that."""
    if isinstance(kind, inspect.FloatType | inspect.IntType):
        whole = isinstance(kind, inspect.IntType)
        if (
            (type(value) is int or (type(value) is float and not whole))
            and _finite(value)
            and _within(value, kind.ge, kind.le)
        ):
            return None
        return ("a whole number" if whole else "a number") + _range(kind.ge, kind.le)
    if isinstance(kind, inspect.StrType):
        good = isinstance(value, str) and _within(len(value), kind.min_length, kind.max_length)
        if good and (kind.pattern is None or re.search(kind.pattern, value)):
            return None
        if CALLED.get(kind.pattern or "") == PATTERNS[wire.MONEY] and isinstance(value, str):
            if _is_negative(value):
                return "above 0"
            if DECIMAL.fullmatch(value):
                return "below 10,000,000,000, with at most 12 digits after the point"
        called = CALLED.get(kind.pattern or "", "text")
        if kind.max_length is None:
            return called
        comma = "," if " " in called else ""
        return f"{called}{comma} of at most {kind.max_length:,} characters"
    if isinstance(kind, inspect.BoolType):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(kind, inspect.LiteralType):
        return None if value in kind.values else f"one of {', '.join(map(repr, kind.values))}"
    if isinstance(kind, inspect.DateTimeType):
        try:
            msgspec.convert(value, Moment)
        except msgspec.ValidationError:
            return TIME
    return None


def _is_negative(value: Any) -> bool:
    return isinstance(value, str) and NEGATIVE.fullmatch(value) is not None


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # of a whole number that no float can hold
        return False


def _within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _range(least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return ""
    ends = (int(end) if float(end).is_integer() else end for end in (least, most))  # 0, not 0.0
    return " from {:,} to {:,}".format(*ends)


def _sized(what: str, least: int | None, most: int | None) -> str:
    return f"{what} {least or 0} to {most:,}"
