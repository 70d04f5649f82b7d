"""Bodies of requests: read within limits, as JSON, each fault named by its field.

Nothing is built of a body before its size is known: how many items a list has, and how many bytes
and entries each item has at most. So the work on one item is bounded, and between items others are
served.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request

from bccb.errors import shown
from bccb.serve.problem import LONGEST, ProblemError, invalid
from bccb.serve.schemas import BY_TIME, BY_USERS, MOST_BATCH, MOST_FEATURES, MOST_TREATMENTS

T = TypeVar("T")

MOST_BYTES = 8_000_000  # of a body: a thousand users with some two hundred features
MOST_ITEM_BYTES = 2_000_000  # of one user: the most features and costs, with the longest names
# Every key, value, list and object has one of these before it or after it. One user has two for
# each feature and cost; eight more are room for those in their names.
MARKS = (b":", b",", b"[", b"{")
MOST_MARKS = 10 * (MOST_FEATURES + MOST_TREATMENTS)
LENGTH = "the length of the list"
SLICE = 200_000  # bytes of items between which others are served: some milliseconds
# What many programs write instead of a number, which JSON does not know
NOT_NUMBERS = (b": NaN", b":NaN", b": Infinity", b":Infinity", b": -Infinity", b":-Infinity")

# A list with places for the most items: to decode one more fails at once, whereas a plain list
# would be built whole
ITEMS = msgspec.json.Decoder(
    msgspec.defstruct(
        "Items",
        [(f"i{i}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for i in range(MOST_BATCH)],
        array_like=True,
        forbid_unknown_fields=True,
    )
)


class NotNumbersError(Exception):
    """The body holds NaN or Infinity, which many programs write and JSON does not know."""


async def read(request: Request) -> bytes:
    """The body of a request, if it is JSON and not too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        told = f"the content type is {kind!r}, but must be 'application/json'"
        raise ProblemError(415, "not-json", told)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise too_large()
    except ClientDisconnect:
        raise ProblemError(400, "incomplete", "the body ended before it was whole") from None
    return bytes(body)


def too_large() -> ProblemError:
    """The body is larger than any request needs."""
    return ProblemError(413, "too-large", f"the body must have at most {MOST_BYTES:,} bytes")


def parse(adapter: TypeAdapter[T], body: bytes, item: int | None = None) -> T:
    """The body, or an item of the list in it, as what it must be."""
    body = body.strip()
    _check_size(body, item)
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise _problem(error, item) from None


async def parse_list(adapter: TypeAdapter[T], body: bytes) -> list[T]:
    """The body as a list of what its items must be."""
    found: list[T] = []
    parsed = 0
    try:
        items = _split(body)
    except NotNumbersError as error:  # refused whatever it holds; the place is in the message
        for i, raw in enumerate(_split(_quoted(body))):
            parse(adapter, bytes(raw), i)
        raise not_json(str(error)) from None
    for i, raw in enumerate(items):
        found.append(parse(adapter, bytes(raw), i))
        parsed += len(raw)
        if parsed > SLICE:
            parsed = 0
            await asyncio.sleep(0)
    return found


def _split(body: bytes) -> list[bytes]:
    """The items of a list, unread."""
    try:
        items = msgspec.structs.astuple(ITEMS.decode(body))
    except msgspec.ValidationError:
        if body.lstrip()[:1] == b"[":
            told = f"{LENGTH} is more than {MOST_BATCH}, but must be 1 to {MOST_BATCH}"
            raise ProblemError(422, "invalid-field", told, LENGTH) from None
        given = body[: 4 * LONGEST].decode(errors="replace")[:LONGEST]
        told = f"the body is {given}: it must be a list"
        raise ProblemError(422, "invalid-field", told) from None
    except msgspec.DecodeError as error:
        if _quoted(body) != body:
            raise NotNumbersError(str(error)) from None
        raise not_json(str(error)) from None
    except RecursionError:
        raise not_json("it is nested too deeply") from None
    found = [item for item in items if item is not msgspec.UNSET]
    if not found:
        raise invalid(LENGTH, 0, f"1 to {MOST_BATCH}")
    return found


def _quoted(body: bytes) -> bytes:
    """A body that is refused anyway, with its NaN in quotes, so that their place can be told."""
    for word in NOT_NUMBERS:
        body = body.replace(word, b':"' + word[1:].strip() + b'"')
    return body


def not_json(reason: str) -> ProblemError:
    """The body cannot be read."""
    return ProblemError(400, "not-json", f"the body is not JSON: {reason}")


def _check_size(body: bytes, item: int | None) -> None:
    place = "the body" if item is None else f"item {item} of the list"
    field = None if item is None else str(item)
    if len(body) > MOST_ITEM_BYTES:
        told = f"{place} must have at most {MOST_ITEM_BYTES:,} bytes"
        raise ProblemError(413, "too-large", told, field)
    if len(body) > MOST_MARKS and sum(map(body.count, MARKS)) > MOST_MARKS:
        most = f"{MOST_FEATURES:,} features and {MOST_TREATMENTS} treatments"
        raise ProblemError(422, "invalid-field", f"{place} has more than {most}", field)


def _problem(error: ValidationError, item: int | None) -> ProblemError:
    first: Any = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        where = "" if item is None else f"in item {item} of the list: "
        return not_json(f"{where}{first['msg']}")
    tags = (BY_USERS, BY_TIME, "[key]")
    place = [str(part) for part in first["loc"] if part not in tags]
    field = ".".join(place if item is None else [str(item), *place])
    reason = first["msg"].removeprefix("Value error, ")
    money = bool(first["loc"]) and _is_money(first["loc"])
    if first["type"] in ("string_type", "string_pattern_mismatch") and money:
        reason = 'it must be decimal text, such as "500.00"'
    if first["type"] == "missing":
        told = f"{field or 'the body'} is missing"
    else:
        given, why = shown(first["input"], LONGEST), f"{reason[:1].lower()}{reason[1:]}"
        told = f"{field or 'the body'} is {given}: {why}"
    return ProblemError(422, "invalid-field", told, field or None)


def _is_money(place: tuple[object, ...]) -> bool:
    return place[-1] in ("budget", "add", "cost") or (len(place) > 1 and place[-2] == "costs")
