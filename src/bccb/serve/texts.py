"""Ids and money of many users, checked together: a pattern for each text takes longer than JSON.

What is wrong with one of them, the decoders of the wire's types tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.json import Decoder

from bccb import wire
from bccb.serve.body import are_small, decoded

LONGEST_PRICE = 23  # characters: ten digits, a point and twelve digits


class UncheckedRequest(wire.PlainDecisionRequest):
    """A user whose id and costs are still to be checked."""

    decision_id: Annotated[str, Meta(max_length=wire.LONGEST_ID)]
    costs: Annotated[
        dict[str, Annotated[str, Meta(max_length=LONGEST_PRICE)]],
        Meta(max_length=wire.MOST_TREATMENTS),
    ]


USERS = Decoder(list[UncheckedRequest])
TEXTS = Decoder(list[Annotated[str, Meta(max_length=wire.LONGEST_ID)]])


def _lines(pattern: str) -> re.Pattern[str]:
    """The pattern of texts that all fit a pattern, one to a line."""
    one = f"(?:{pattern.removeprefix('^').removesuffix('$')})"
    return re.compile(rf"{one}(?:\n{one})*\Z")


IDS, PRICES = _lines(wire.ID), _lines(wire.MONEY)


def _fit(lines: re.Pattern[str], texts: Collection[str]) -> bool:
    # none that fits has a newline: so many lines, so many texts
    together = "\n".join(texts)
    return together.count("\n") == len(texts) - 1 and lines.match(together) is not None


def are_ids(ids: Sequence[str]) -> bool:
    r"""Whether all of these, at least one, are ids.

    >>> are_ids(["order-17", "a"]), are_ids(["order-17", ""]), are_ids(["a\nb"])
    (True, False, False)
    """
    return _fit(IDS, ids)


def are_prices(texts: Iterable[str]) -> bool:
    """Whether all of these are money.

    >>> are_prices(["0.77", "1"]), are_prices(["1."])
    (True, False)
    """
    distinct = set(texts)  # prices repeat
    return not distinct or _fit(PRICES, distinct)


def plain_users(body: bytes) -> list[UncheckedRequest] | None:
    """The users of a short list, with plain features; None if anything is wrong with them."""
    users = decoded(USERS, body)
    if users is None or len(users) > wire.MOST_BATCH:
        return None
    prices = (text for user in users for text in user.costs.values())
    good = are_ids([user.decision_id for user in users]) and are_prices(prices)
    return users if good and are_small(body, entries(users)) else None


def entries(users: Sequence[wire.DecisionRequest | wire.PlainDecisionRequest]) -> int:
    """How many features and costs users have together."""
    return sum([len(user.features) + len(user.costs) for user in users])


def good_texts(column: bytes, are_good: Callable[[list[str]], bool]) -> list[str] | None:
    """The texts of a short column; None if anything is wrong with them."""
    texts = decoded(TEXTS, column)
    return texts if texts is not None and are_good(texts) else None
