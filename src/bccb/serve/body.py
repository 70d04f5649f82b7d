"""Bodies of requests: read within limits, as JSON, each fault named by its field.

Nothing is built of a long body before its size is known: how many items a list has, and how many
bytes and entries each item has at most. So the work on one item is bounded, and between items
others are served. A short list is built at once, which is faster; what is refused of it is the
same.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.json import Decoder
from starlette.requests import ClientDisconnect, Request

from bccb.errors import shown
from bccb.serve.diagnosis import first_fault
from bccb.serve.problem import LONGEST, ProblemError, invalid, missing
from bccb.wire import MOST_BATCH, MOST_FEATURES, MOST_TREATMENTS

T = TypeVar("T")

MOST_BYTES = 8_000_000  # of a body: a thousand users with some two hundred features
MOST_ITEM_BYTES = 2_000_000  # of one user: the most features and costs, with the longest names
# Every key, value, list and object has one of these before it or after it. One user has two for
# each feature and cost; eight more are room for those in their names.
MARKS = (b":", b",", b"[", b"{")
MOST_ENTRIES = MOST_FEATURES + MOST_TREATMENTS
MOST_MARKS = 10 * MOST_ENTRIES
FILE = "application/octet-stream"  # the content type of files
MORE_TIME = "bccb.more_time"  # in the scope of a request: a function that gives a file its time
LENGTH = "the length of the list"
SLICE = 200_000  # bytes of items between which others are served: some milliseconds
# What decoding raises: msgspec does not count the last two as its own
UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
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
    _check_kind(request, "application/json", "not-json")
    return await _read(request, MOST_BYTES)


async def read_file(request: Request, most: int) -> bytes:
    """The body of a request that brings a file, of so many bytes at most."""
    _check_kind(request, FILE, "not-a-file")
    request.scope.get(MORE_TIME, lambda: None)()
    return await _read(request, most)


async def read_whole(request: Request, most: int) -> bytes:
    """The body of a request that is handed on: whatever it is, of so many bytes at most."""
    if request.headers.get("content-type") == FILE:
        request.scope.get(MORE_TIME, lambda: None)()
    return await _read(request, most)


def _check_kind(request: Request, wanted: str, problem: str) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != wanted:
        detail = f"the content type is {kind!r}, but must be {wanted!r}"
        raise ProblemError(415, problem, detail)


async def _read(request: Request, most: int) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise too_large(most)
    except ClientDisconnect:
        raise ProblemError(400, "incomplete", "the body ended before it was whole") from None
    return bytes(body)


def too_large(most: int) -> ProblemError:
    """The body is larger than any such request needs."""
    return ProblemError(413, "too-large", f"the body must have at most {most:,} bytes")


def parse(decoder: Decoder[T], body: bytes, place: str = "") -> T:
    """The body, or what stands at a place in it, as what it must be."""
    body = body.strip()
    _check_size(body, place)
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:  # also where it is JSON, but not what it must be
        raise _problem(decoder.type, body, error, place) from None
    except (RecursionError, UnicodeDecodeError) as error:
        raise unreadable(error) from None


async def parse_list(
    decoder: Decoder[T], body: bytes, entries: Callable[[list[T]], int] = lambda items: 0
) -> list[T]:
    """The body as a list of what its items must be; ``entries`` as for :func:`are_small`."""
    items = decoded(_list_decoder(decoder), body)
    if items and len(items) <= MOST_BATCH and are_small(body, entries(items)):
        return items
    return await parse_items(decoder, body)


@cache
def _list_decoder(decoder: Decoder[T]) -> Decoder[list[T]]:
    return Decoder(list[decoder.type], dec_hook=decoder.dec_hook)  # type: ignore[name-defined]


def decoded(decoder: Decoder[T], body: bytes) -> T | None:
    """A short body as what it must be; None if it is long, or anything is wrong with it."""
    if len(body) > SLICE:
        return None
    try:
        return decoder.decode(body)
    except UNREADABLE:
        return None


def are_small(body: bytes, entries: int) -> bool:
    """Whether surely no item of a list has too many marks, by those of the whole list.

    ``entries`` is how many features and costs its items have together, each at most as many as a
    user may have. Each entry has two marks. So one item has no more marks than the list, without
    two for each entry of the others.
    """
    if len(body) <= MOST_MARKS:
        return True
    given = np.frombuffer(body, np.uint8)  # counting in bytes takes five times as long
    marks = sum(int(np.count_nonzero(given == ord(mark))) for mark in MARKS)
    return marks <= max(MOST_MARKS, MOST_MARKS + 2 * (entries - MOST_ENTRIES))


async def parse_items(decoder: Decoder[T], body: bytes) -> list[T]:
    """The body as a list, item by item: for long lists, and to name what is wrong."""
    parsed_items: list[T] = []
    parsed = 0
    try:
        items = split_list(body)
    except NotNumbersError as error:  # refused in any case; this finds the place for the message
        for i, raw in enumerate(split_list(_quoted(body))):
            parse(decoder, bytes(raw), str(i))
        raise not_json(str(error)) from None
    for i, raw in enumerate(items):
        parsed_items.append(parse(decoder, bytes(raw), str(i)))
        parsed += len(raw)
        if parsed > SLICE:
            parsed = 0
            await asyncio.sleep(0)
    return parsed_items


def split_list(body: bytes) -> list[bytes]:
    """The items of a list, unread; none of them is built."""
    try:
        items = msgspec.structs.astuple(ITEMS.decode(body))
    except msgspec.ValidationError:
        if body.lstrip()[:1] == b"[":
            detail = f"{LENGTH} is more than {MOST_BATCH}, but must be 1 to {MOST_BATCH}"
            raise ProblemError(422, "invalid-field", detail, LENGTH) from None
        given = body[: 4 * LONGEST].decode(errors="replace")[:LONGEST]
        detail = f"the body is {given}: it must be a list"
        raise ProblemError(422, "invalid-field", detail) from None
    except msgspec.DecodeError as error:
        if _quoted(body) != body:
            raise NotNumbersError(str(error)) from None
        raise not_json(str(error)) from None
    except (RecursionError, UnicodeDecodeError) as error:
        raise unreadable(error) from None
    present = [item for item in items if item is not msgspec.UNSET]
    if not present:
        raise invalid(LENGTH, 0, f"1 to {MOST_BATCH}")
    return present


def _quoted(body: bytes) -> bytes:
    """A body that is refused anyway, with each NaN in quotes: the message can name its place."""
    for word in NOT_NUMBERS:
        body = body.replace(word, b':"' + word[1:].strip() + b'"')
    return body


def not_json(reason: str) -> ProblemError:
    """The body cannot be read."""
    return ProblemError(400, "not-json", f"the body is not JSON: {reason}")


def unreadable(error: RecursionError | UnicodeDecodeError) -> ProblemError:
    """The body is nested without end, or is no text: msgspec does not count these as its own."""
    nested = isinstance(error, RecursionError)
    return not_json("it is nested too deeply" if nested else "it must be text in UTF-8")


def _check_size(body: bytes, place: str) -> None:
    field = place or None
    if len(body) > MOST_ITEM_BYTES:
        wrong = f"{_called(place)} must have at most {MOST_ITEM_BYTES:,} bytes"
        raise ProblemError(413, "too-large", wrong, field)
    if len(body) > MOST_MARKS and sum(map(body.count, MARKS)) > MOST_MARKS:
        most = f"{MOST_FEATURES:,} features and {MOST_TREATMENTS} treatments"
        wrong = f"{_called(place)} has more than {most}"
        raise ProblemError(422, "invalid-field", wrong, field)


def _called(place: str) -> str:
    """How a message calls a place in the body."""
    return f"item {place} of the list" if place.isdigit() else place or "the body"


def _problem(kind: Any, body: bytes, error: msgspec.DecodeError, place: str) -> ProblemError:
    """Which field is wrong, and how; if it is none, the body is not JSON."""
    where = f"in {_called(place)}: " if place else ""
    if not isinstance(error, msgspec.ValidationError) and _quoted(body) == body:
        return not_json(f"{where}{error}")
    try:
        value = json.loads(body)  # which also reads NaN and 1e999
    except (ValueError, RecursionError) as reason:
        return not_json(f"{where}{reason}")
    return refusal(kind, value, place) or not_json(f"{where}{error}")


def refusal(kind: Any, value: Any, place: str = "") -> ProblemError | None:
    """What is wrong with a value at a place in the body."""
    fault = first_fault(kind, value)
    if fault is None:
        return None
    field = ".".join(each for each in (place, *fault.path) if each)
    if fault.allowed is None:
        return missing(field)
    if field:
        return invalid(field, fault.value, fault.allowed)
    given = shown(fault.value, LONGEST)
    return ProblemError(422, "invalid-field", f"the body is {given}, but must be {fault.allowed}")
