"""Bodies of requests: read within limits, as JSON, each fault named by its field."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request

from bccb.errors import shown
from bccb.serve.problem import LONGEST, ProblemError, invalid
from bccb.serve.schemas import BY_TIME, BY_USERS, MOST_BATCH

T = TypeVar("T")

MOST_BYTES = 8_000_000  # of a body: a thousand users with some two hundred features


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


def parse(adapter: TypeAdapter[T], body: bytes) -> T:
    """The body as what it must be."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise _problem(error) from None


def _problem(error: ValidationError) -> ProblemError:
    first: Any = error.errors(include_url=False)[0]
    if first["type"] in ("too_long", "too_short") and not first["loc"]:
        return invalid(
            "the length of the list", first["ctx"]["actual_length"], f"1 to {MOST_BATCH}"
        )
    if first["type"] == "json_invalid":
        return ProblemError(400, "not-json", f"the body is not JSON: {first['msg']}")
    tags = (BY_USERS, BY_TIME)
    field = ".".join(str(part) for part in first["loc"] if part not in tags and part != "[key]")
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] in ("string_type", "string_pattern_mismatch") and _is_money(first["loc"]):
        reason = 'it must be decimal text, such as "500.00"'
    if first["type"] == "missing":
        told = f"{field or 'the body'} is missing"
    else:
        given, why = shown(first["input"], LONGEST), f"{reason[:1].lower()}{reason[1:]}"
        told = f"{field or 'the body'} is {given}: {why}"
    return ProblemError(422, "invalid-field", told, field or None)


def _is_money(place: tuple[object, ...]) -> bool:
    return place[-1] in ("budget", "add", "cost") or (len(place) > 1 and place[-2] == "costs")
