"""The requests of the load: whole bytes, except for the ids, which are added when they are sent."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

from bench.service.wire import HOST, json_part, request_bytes

FEATURES = [f"f{number}" for number in range(12)]
TREATMENT = "offer"
USERS = 64  # different requests of a kind
PLACE = "%012d"  # an id's place: all are equally long, hence all lengths are known beforehand


def campaign_request(name: str) -> dict[str, Any]:
    """A campaign that does not run out of money while the load lasts."""
    return {
        "name": name,
        "budget": "1000000",
        "horizon": {"users": 20_000_000},
        "features": FEATURES,
        "treatments": [TREATMENT],
        "seed": 42,
    }


class Campaigns:
    """Campaigns in turn; ids that were decided on wait here for their outcomes."""

    def __init__(self, ids: list[str], first: int = 0) -> None:
        self.turn = cycle(ids)
        self.number = first  # of the next id
        self.decided: deque[tuple[str, int, int]] = deque()  # campaign, first id, how many

    def draw(self, size: int) -> tuple[str, int]:
        """The next campaign, and the first of as many new ids."""
        campaign, first = next(self.turn), self.number
        self.number += size
        self.decided.append((campaign, first, size))
        return campaign, first


def empty() -> Iterator[bytes]:
    """The empty endpoint."""
    request = request_bytes("GET", "/healthz")
    while True:
        yield request


def decisions(campaigns: Campaigns, size: int) -> Iterator[bytes]:
    """Decisions with new ids; a single one is no list."""
    return _asked(campaigns, size, "decisions", _decision_tails(size))


def columns(campaigns: Campaigns, size: int) -> Iterator[bytes]:
    """The same decisions in columns."""
    return _asked(campaigns, size, "decisions/columns", _column_tails(size))


def _asked(campaigns: Campaigns, size: int, path: str, tails: Iterator[bytes]) -> Iterator[bytes]:
    heads: dict[str, bytes] = {}
    while True:
        campaign, first = campaigns.draw(size)
        head = heads.get(campaign)
        if head is None:
            head = heads[campaign] = _head("POST", campaign, path)
        yield head + next(tails) % tuple(range(first, first + size))


def outcomes(campaigns: Campaigns, size: int) -> Iterator[bytes]:
    """Outcomes of what was decided, each once; single ones or lists of ``size``."""
    tails = _outcome_tails(size)
    while campaigns.decided:
        campaign, first, many = campaigns.decided.popleft()
        if size == 1:
            for number in range(first, first + many):
                head = _head("PUT", campaign, f"decisions/{PLACE % number}/outcome")
                yield head + next(tails)
        elif many == size:
            head = _head("POST", campaign, "outcomes")
            yield head + next(tails) % tuple(range(first, first + size))


def _head(method: str, campaign: str, rest: str) -> bytes:
    return f"{method} /v1/campaigns/{campaign}/{rest} HTTP/1.1\r\nHost: {HOST}\r\n".encode()


def _decision_tails(size: int) -> Iterator[bytes]:
    lists = _decision_lists(size)
    return _tails([users if size > 1 else users[0] for users in lists])


def _column_tails(size: int) -> Iterator[bytes]:
    return _tails([_in_columns(users) for users in _decision_lists(size)])


def _decision_lists(size: int) -> list[list[dict[str, Any]]]:
    draws = random.Random(42)
    return [[_decision(draws) for _ in range(size)] for _ in range(_kinds(size))]


def _in_columns(users: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "decision_ids": [user["decision_id"] for user in users],
        "features": {name: [user["features"][name] for user in users] for name in FEATURES},
        "costs": {TREATMENT: [user["costs"][TREATMENT] for user in users]},
    }


def _decision(draws: random.Random) -> dict[str, Any]:
    features = {name: round(draws.gauss(0.0, 1.0), 4) for name in FEATURES}
    cost = f"{draws.uniform(0.5, 1.0):.2f}"
    return {"decision_id": PLACE, "features": features, "costs": {TREATMENT: cost}}


def _outcome_tails(size: int) -> Iterator[bytes]:
    draws = random.Random(42)
    values = [[int(draws.random() < 0.05) for _ in range(size)] for _ in range(_kinds(size))]
    if size == 1:
        return cycle([json_part(json.dumps({"value": value}).encode()) for (value,) in values])
    return _tails([[{"decision_id": PLACE, "value": v} for v in row] for row in values])


def _kinds(size: int) -> int:
    return max(USERS // size, 4)


def _tails(bodies: Sequence[Any]) -> Iterator[bytes]:
    """The bodies, with the length that they have once the ids are in them."""
    found = []
    for body in bodies:
        text = json.dumps(body, separators=(",", ":"))
        filled = len(text.replace(PLACE, PLACE % 0))
        head = f"Content-Type: application/json\r\nContent-Length: {filled}\r\n\r\n"
        found.append((head + text).encode())
    return cycle(found)
