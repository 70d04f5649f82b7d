"""How bodies and answers are read from JSON and written as JSON."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from bccb.wire.fields import Body
from bccb.wire.horizons import horizon_type

T = TypeVar("T")


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Reads JSON as one of these types; what does not fit is a ``msgspec.ValidationError``.

    >>> from bccb.wire import OutcomeAnswer
    >>> decoder(OutcomeAnswer).decode(b'{"decision_id": "a", "value": 1, "status": "recorded"}')
    OutcomeAnswer(decision_id='a', value=1.0, status='recorded')
    """
    return cast("msgspec.json.Decoder[T]", _decoder(cast("Any", kind)))


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    strict = isinstance(kind, type) and issubclass(kind, Body)
    return msgspec.json.Decoder(kind, dec_hook=_strict_horizon if strict else _horizon)


def _strict_horizon(_: type, given: Any) -> Any:
    """Read what msgspec has no type for: one of two objects without a tag."""
    return msgspec.convert(given, horizon_type(given))


def _horizon(_: type, given: Any) -> Any:
    """The same in an answer, where a newer service may say more."""
    kind = horizon_type(given)
    if isinstance(given, dict):
        given = {name: given[name] for name in kind.__struct_fields__ if name in given}
    return msgspec.convert(given, kind)


encode = msgspec.json.Encoder().encode
