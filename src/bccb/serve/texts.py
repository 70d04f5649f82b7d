"""Ids and money of many users, checked together: a pattern for each text takes longer than JSON.

What is wrong with one of them, the decoders of the wire's types tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.json import Decoder

from bccb import wire
from bccb.serve.body import SLICE

ID = wire.ID.removeprefix("^").removesuffix("$")
IDS = re.compile(rf"{ID}(?:\n{ID})*\Z")
PRICE = re.compile(wire.in_python(wire.MONEY))


class UncheckedRequest(wire.PlainDecisionRequest):
    """A user whose id and costs are still to be checked."""

    decision_id: Annotated[str, Meta(max_length=wire.LONGEST_ID)]
    costs: Annotated[dict[str, str], Meta(max_length=wire.MOST_TREATMENTS)]


USERS = Decoder(list[UncheckedRequest])
TEXTS = Decoder(list[Annotated[str, Meta(max_length=wire.LONGEST_ID)]])
UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def are_ids(ids: Sequence[str]) -> bool:
    r"""Whether all of these, at least one, are ids.

    >>> are_ids(["order-17", "a"]), are_ids(["order-17", ""]), are_ids(["a\nb"])
    (True, False, False)
    """
    # an id has no newline: so many parts, so many ids
    together = "\n".join(ids)
    return together.count("\n") == len(ids) - 1 and IDS.match(together) is not None


def are_prices(texts: Iterable[str]) -> bool:
    """Whether all of these are money.

    >>> are_prices(["0.77", "1"]), are_prices(["1."])
    (True, False)
    """
    return all(map(_is_price, set(texts)))


@lru_cache(10_000)  # prices repeat
def _is_price(text: str) -> bool:
    return PRICE.match(text) is not None


def plain_users(body: bytes) -> list[UncheckedRequest] | None:
    """The users of a short list, with plain features; None if anything is wrong with them."""
    if len(body) > SLICE:
        return None
    try:
        users = USERS.decode(body)
    except UNREADABLE:
        return None
    prices = (text for user in users for text in user.costs.values())
    good = are_ids([user.decision_id for user in users]) and are_prices(prices)
    return users if good and len(users) <= wire.MOST_BATCH else None


def good_texts(column: bytes, are_good: Callable[[list[str]], bool]) -> list[str] | None:
    """The texts of a short column; None if anything is wrong with them."""
    if len(column) > SLICE:
        return None
    try:
        texts = TEXTS.decode(column)
    except UNREADABLE:
        return None
    return texts if are_good(texts) else None
