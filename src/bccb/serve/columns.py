"""Users in columns: read within limits, each fault named by its field and place.

As for lists, nothing is built of a body before its size is known: how many columns there may be,
and how many values each has. So the work on one column is bounded, and between columns others are
served.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw
from msgspec.json import Decoder

from bccb import wire
from bccb.encoding import Value
from bccb.serve.body import MOST_MARKS, SLICE, not_json, parse, refusal, unreadable
from bccb.serve.problem import ProblemError, invalid
from bccb.serve.texts import are_ids, are_prices, good_texts
from bccb.serve.users import UserColumns

T = TypeVar("T")


class Unread(wire.Body):
    """The columns of a body, as they came."""

    decision_ids: Raw
    features: Annotated[dict[str, Raw], Meta(max_length=wire.MOST_FEATURES)]
    costs: Annotated[dict[str, Raw], Meta(max_length=wire.MOST_TREATMENTS)]


UNREAD = Decoder(Unread)
FIELDS = Decoder(dict[str, Raw])
IDS = Decoder(list[wire.DecisionId])
NUMBERS = Decoder(list[float])
VALUES = Decoder(list[wire.FeatureValue])
MONEY = Decoder(list[wire.MoneyText])
# Stand for columns that are not looked at
SOUND: dict[str, tuple[bytes, Any]] = {
    "decision_ids": (b"[", ["a"]),
    "features": (b"{", {}),
    "costs": (b"{", {}),
}


async def parse_columns(body: bytes, plain: bool) -> UserColumns:
    """The body as users in columns; ``plain`` says that all features are numbers."""
    unread = split_columns(body)
    ids = _texts(IDS, are_ids, unread.decision_ids, "decision_ids")
    if not ids:
        raise invalid("decision_ids", [], f"a list of 1 to {wire.MOST_BATCH:,}")
    values: Decoder[Any] = NUMBERS if plain else VALUES
    features: dict[str, list[Value]] = {}
    costs: dict[str, list[str]] = {}
    parsed = 0
    for field, column in _columns(unread):
        group, _, name = field.partition(".")
        parsed += len(bytes(column))
        if parsed > SLICE:
            parsed = 0
            await asyncio.sleep(0)
        if group == "features":
            features[name] = _same_length(_column(values, column, field), field, len(ids))
        else:
            texts = _texts(MONEY, are_prices, column, field)
            costs[name] = _same_length(texts, field, len(ids))
    return UserColumns(ids, features, costs)


def _columns(unread: Unread) -> list[tuple[str, Raw]]:
    return [
        (f"{group}.{name}", column)
        for group, columns in (("features", unread.features), ("costs", unread.costs))
        for name, column in columns.items()
    ]


def split_columns(body: bytes) -> Unread:
    """The columns of a body, unread."""
    if body.count(b":") > MOST_MARKS or body.count(b"{") > MOST_MARKS:
        most = f"{wire.MOST_FEATURES:,} features and {wire.MOST_TREATMENTS} treatments"
        raise ProblemError(422, "invalid-field", f"the body has more than {most}")
    try:
        return UNREAD.decode(body)
    except msgspec.ValidationError as error:
        raise _shape_problem(body, error) from None
    except msgspec.DecodeError as error:
        raise not_json(str(error)) from None
    except (RecursionError, UnicodeDecodeError) as error:
        raise unreadable(error) from None


def _shape_problem(body: bytes, error: msgspec.ValidationError) -> ProblemError:
    """What is wrong with a body, apart from the values in its columns."""
    try:
        problem = refusal(wire.DecisionColumns, _outline(body.strip()))
    except (ValueError, RecursionError) as reason:  # what came first was no more than wrong
        return not_json(str(reason))
    return problem or ProblemError(422, "invalid-field", f"the body does not fit: {error}")


def _outline(body: bytes) -> Any:
    """The body, with sound columns instead of its own where they are of the right kind."""
    if body[:1] != b"{":
        return _plain(body)
    value: dict[str, Any] = {}
    for name, raw in FIELDS.decode(body).items():
        opening, sound = SOUND.get(name, (b"", None))
        value[name] = sound if bytes(raw)[:1] == opening else _plain(bytes(raw))
    return value


def _plain(raw: bytes) -> Any:
    """A value for a message; lists and objects may be large and are not built."""
    if raw[:1] in (b"[", b"{"):
        return [] if raw[:1] == b"[" else {}
    return json.loads(raw)


def _texts(
    decoder: Decoder[list[str]], are_good: Callable[[list[str]], bool], raw: Raw, field: str
) -> list[str]:
    """A column of text, checked as a whole; where that fails, the decoder says what is wrong."""
    column = bytes(raw)
    texts = good_texts(column, are_good) if column.count(b",") < wire.MOST_BATCH else None
    return texts if texts is not None else _column(decoder, raw, field)


def _column(decoder: Decoder[list[T]], raw: Raw, field: str) -> list[T]:
    column = bytes(raw)
    if column.count(b",") >= wire.MOST_BATCH:
        wrong = f"the length of {field} is more than {wire.MOST_BATCH}"
        allowed = f"but must be 1 to {wire.MOST_BATCH}"
        raise ProblemError(422, "invalid-field", f"{wrong}, {allowed}", field)
    return parse(decoder, column, field)


def _same_length(column: list[T], field: str, ids: int) -> list[T]:
    if len(column) != ids:
        raise invalid(f"the length of {field}", len(column), f"that of decision_ids, {ids}")
    return column
