"""Requests that the service must refuse, and that must change nothing."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from bccb.policies import POLICIES
from bench.fuzzing.model import Book
from bench.fuzzing.space import draw_campaign, parameters_of, served_policies
from bench.fuzzing.wire import Call, calling

Draws = random.Random
REFUSALS = {400, 403, 404, 405, 409, 413, 415, 422}
BAD_IDS = ("", "a/b", "é", "-x", ".", "a b", "x" * 129, "a\n", "a\x00", 7, None, ["a"], True)
BAD_MONEY = ("", "-1", "1e3", "NaN", "Infinity", "1,5", " 1", "0x1", "1.", ".5", "٣", "12345678901")
BAD_COSTS: tuple[Any, ...] = (
    *BAD_MONEY,
    "0",
    "0.000000000000",
    "1000000.000001",
    1,
    0.5,
    None,
    True,
    [],
)
BAD_NUMBERS: tuple[Any, ...] = (
    1.1e100,
    -math.inf,
    math.inf,
    math.nan,
    "1",
    None,
    True,
    [],
    {},
    10**400,
)
BAD_VALUES = (-1.1e9, math.nan, math.inf, "1", None, True, [1], 1e308, 1000000001)
BAD_RATES = (-0.1, 1.0000001, 2, -5e-324)  # where outcomes are no amounts
BROKEN = (
    b"",
    b"{",
    b"[" * 100_000,
    b"null",
    b'"text"',
    b"7",
    b"[]",
    b"[[]]",
    b"{}",
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b'{"decision_id": "\xff"}',
    b'{"decision_id": "\\ud800", "features": {}, "costs": {}}',
    b"NaN",
    b"1e999",
    b"{'decision_id': 1}",
    b'{"a": 1,}',
)


def draw(draws: Draws, book: Book) -> Call:
    """A call about this campaign that cannot be served."""
    kinds: list[Callable[[Draws, Book], Call]]
    kinds = [_bad_decision, _bad_decision, _bad_list, _bad_campaign, _bad_campaign, _bad_outcome]
    kinds += [_bad_settlement, _bad_correction, _bad_budget, _bad_path, _bad_body, _bad_body]
    return draws.choice(kinds)(draws, book)


def _path(book: Book, rest: str) -> str:
    return f"/v1/campaigns/{book.id}/{rest}"


def _user(draws: Draws, book: Book) -> dict[str, Any]:
    return {
        "decision_id": f"malformed-{draws.getrandbits(40)}",
        "features": {name: draws.gauss(0, 1) for name in book.request["features"]},
        "costs": dict.fromkeys(book.request["treatments"], "0.01"),
    }


def _spoil_user(draws: Draws, user: dict[str, Any]) -> None:
    costs, features = user["costs"], user["features"]
    treatment = draws.choice(list(costs))
    kinds: list[Callable[[], Any]] = [
        lambda: user.update(decision_id=draws.choice(BAD_IDS)),
        lambda: user.pop(draws.choice(list(user))),
        lambda: user.update(extra=1),
        lambda: user.update(features=draws.choice(([], None, "x", 1))),
        lambda: user.update(costs=draws.choice(([], None, "1", {}))),
        lambda: features.update(unknown=1.0),
        lambda: costs.update(unknown="1"),
        lambda: costs.pop(treatment),
        lambda: costs.update({treatment: draws.choice(BAD_COSTS)}),
    ]
    if features:
        feature = draws.choice(list(features))
        kinds += [
            lambda: features.pop(feature),
            lambda: features.update({feature: draws.choice(BAD_NUMBERS)}),
        ]
    draws.choice(kinds)()


def _bad_decision(draws: Draws, book: Book) -> Call:
    user = _user(draws, book)
    _spoil_user(draws, user)
    return calling("POST", _path(book, "decisions"), user)


def _bad_list(draws: Draws, book: Book) -> Call:
    """One bad user among good ones: nobody may be decided on."""
    users = [_user(draws, book) for _ in range(draws.randint(2, 20))]
    kind = draws.random()
    if kind < 0.2:
        users[-1]["decision_id"] = users[0]["decision_id"]
    elif kind < 0.3:
        users = [{**users[0], "decision_id": f"m{number}"} for number in range(1_001)]
    else:
        _spoil_user(draws, draws.choice(users))
    return calling("POST", _path(book, "decisions"), users)


def _bad_campaign(draws: Draws, book: Book) -> Call:
    asked = draw_campaign(draws, f"malformed-{draws.getrandbits(40)}")
    served = served_policies()
    name = draws.choice([key for key in served if not served[key].after_history])
    choices: dict[str, tuple[Any, ...]] = {
        "name": ("", "x" * 101, "a\x00", 7, None, "tab\t", book.request["name"]),
        "budget": (*BAD_MONEY, 5, "0", "0.0000009", "9000000000.000001", None),
        "horizon": _bad_horizons(draws),
        "features": (["a", "a"], ["at"], ["cost:x", "cost", "price"], [""], ["x" * 101], "a", None),
        "treatments": ([], ["a", "a"], ["control"], [f"t{n}" for n in range(101)], [7], None),
        "policy": (*_bad_policies(draws, name), "bccb", None, {"nome": "bccb"}),
        "outcome_window_seconds": (0, -1, 1.5, 10 * 366 * 86_400 + 1, "60", None, True),
        "seed": (-1, 2**53, 1.5, "1", True),
        "mode": ("Live", "", 1, None),
        "learned_from": ("", "c-nobody", 7, "../x"),
        "charge": ("Conversion", "", 1, None),
        "cost_cap": (*BAD_MONEY, 5, "0", "0.0000009", "9000000000.000001"),
        "outcome": (
            *("amount", None, {"kind": "Amount"}, {"kind": None}, {"kind": "amount", "x": 1}),
            *({"kind": "conversion", "negative": False}, {"kind": "conversion", "largest": "5"}),
            *({"kind": "amount", "negative": 0}, {"kind": "amount", "largest": "0"}),
            *({"kind": "amount", "largest": 5}, {"kind": "amount", "largest": "1000000000.1"}),
        ),
        "share": (0, -0.1, 1.0000011, 4e-7, "0.2", True, math.nan, math.inf),
        "currency": ("", "EURO", "€", 7, "a b"),
        "extra": (1,),
    }
    field = draws.choice(list(choices))
    asked[field] = draws.choice(choices[field])
    if field != "name" and draws.random() < 0.1:
        del asked[draws.choice(("name", "budget", "horizon", "features", "treatments"))]
    return calling("POST", "/v1/campaigns", asked)


def _bad_horizons(draws: Draws) -> tuple[Any, ...]:
    return (
        *({"users": users} for users in (0, -1, 1.5, 10**12 + 1, "7", None, True, math.nan)),
        {"ends_at": "2020-01-01T00:00:00Z"},
        {"ends_at": "2090-01-01T00:00:00"},
        {"ends_at": "9999-12-31T23:59:59Z"},
        {"ends_at": draws.choice((None, 10**30, "soon", {}))},
        {"ends_at": "2090-01-01T00:00:00Z", "expected_users": 0},
        {"ends_at": "2090-01-01T00:00:00Z", "users": 5},
        {},
        None,
        7,
    )


def _bad_policies(draws: Draws, name: str) -> list[Any]:
    found: list[Any] = [
        {"name": key}
        for key, spec in POLICIES.items()
        if key not in served_policies() or spec.after_history
    ]
    found += [{"name": "nobody"}, {"name": name, "params": {"nobody": 1.0}}]
    for key, parameter in parameters_of(POLICIES[name]).items():
        bad: list[Any] = [math.nan, math.inf, -math.inf, "1", None, True]
        if math.isfinite(parameter.least):
            bad.append(math.nextafter(parameter.least, -math.inf))
        if math.isfinite(parameter.most):
            bad.append(math.nextafter(parameter.most, math.inf))
        value = draws.choice(bad)
        found.append({"name": name, "params": {key: value}})
    return found


def _bad_value(draws: Draws, book: Book) -> Any:
    bad = BAD_VALUES if book.amounts else BAD_VALUES + BAD_RATES
    return draws.choice(bad if book.negative else (*bad, -0.01))


def _bad_outcome(draws: Draws, book: Book) -> Call:
    id_ = draws.choice(list(book.rows)) if book.rows and draws.random() < 0.8 else "nobody"
    item: dict[str, Any] = {"decision_id": id_, "value": _bad_value(draws, book)}
    kind = draws.random()
    if kind < 0.2:
        item = {"decision_id": "nobody", "value": 1}
    elif kind < 0.4:
        item["value"] = 1
        item["action" if not book.shadow else "actions"] = None
    elif kind < 0.5:
        item = {"decision_id": draws.choice(BAD_IDS), "value": 0}
    if draws.random() < 0.5 and id_ == item["decision_id"]:
        body = {key: value for key, value in item.items() if key != "decision_id"}
        return calling("PUT", _path(book, f"decisions/{id_}/outcome"), body)
    return calling("POST", _path(book, "outcomes"), [item] * draws.choice((1, 3, 1_001)))


def _bad_settlement(draws: Draws, book: Book) -> Call:
    id_ = draws.choice(list(book.rows)) if book.rows else "nobody"
    cost = draws.choice((*BAD_MONEY, 1, None))
    body: Any = draws.choice(({"cost": cost}, {}, [], {"cost": "1", "x": 1}))
    return calling("POST", _path(book, f"decisions/{id_}/settle"), body)


def _bad_correction(draws: Draws, book: Book) -> Call:
    id_ = draws.choice(list(book.rows)) if book.rows and draws.random() < 0.8 else "nobody"
    bad: list[Any] = [{"value": _bad_value(draws, book)}] * 3
    bad += [{}, [], {"value": 0, "x": 1}, [{"value": 0}], {"value": 0, "action": None}]
    body = {"value": 1} if id_ == "nobody" else draws.choice(bad)
    return calling("POST", _path(book, f"decisions/{id_}/correct"), body)


def _bad_budget(draws: Draws, book: Book) -> Call:
    bad: list[dict[str, Any]] = [{"add": each} for each in (*BAD_MONEY, "0", "9000000000", 5)]
    bad += [{"add": "1", "request_id": each} for each in BAD_IDS if each is not None]
    bad += [{}, {"add": "1", "extra": 1}]
    return calling("POST", _path(book, "budget"), draws.choice(bad))


def _bad_path(draws: Draws, book: Book) -> Call:
    method, path = draws.choice(
        (
            ("GET", "/v1/campaigns/c-nobody"),
            ("GET", "/v1/campaigns/%00"),
            ("GET", f"/v1/campaigns/{'x' * 5_000}/report"),
            ("GET", "/v1/campaigns/c-nobody/log?format=parquet"),
            ("GET", "/v1/nothing"),
            ("GET", "/v1/campaigns/..%2F..%2Fhealthz"),
            ("GET", _path(book, "log?format=csv")),
            ("GET", _path(book, "decisions")),
            ("DELETE", f"/v1/campaigns/{book.id}"),
            ("PATCH", _path(book, "budget")),
            ("POST", _path(book, "decisions/nobody/cancel")),
            ("POST", _path(book, f"decisions/{'x' * 129}/cancel")),
            ("POST", _path(book, "decisions/%F0%9F%99%82/cancel")),
            ("POST", "/v1/campaigns/c-nobody/pause"),
            ("PUT", _path(book, "decisions/nobody/outcome")),
        )
    )
    return Call(method, path, b'{"value": 1}' if method == "PUT" else None)


def _bad_body(draws: Draws, book: Book) -> Call:
    path = draws.choice(("/v1/campaigns", _path(book, "decisions"), _path(book, "outcomes")))
    kind = draws.random()
    if kind < 0.03:
        return Call("POST", _path(book, "decisions"), draws.choice(_long_bodies()))
    if kind < 0.4:
        good = json.dumps(_user(draws, book)).encode()
        kinds = ("text/plain", None, "application/x-www-form-urlencoded", "application/jsonp")
        return Call("POST", _path(book, "decisions"), good, draws.choice(kinds))
    if kind < 0.7:
        good = json.dumps([_user(draws, book)]).encode()
        return Call("POST", _path(book, "decisions"), good[: draws.randrange(1, len(good))])
    return Call("POST", path, draws.choice(BROKEN))


@lru_cache
def _long_bodies() -> tuple[bytes, ...]:
    """As large as the service takes, or a little larger: many keys, many faults, much depth."""
    keys = ", ".join(f'"k{number}": 1' for number in range(500_000)).encode()
    bad = b'"x", ' * 1_000_000
    return (
        b"{" + keys + b"}",
        b'{"decision_id": "a", "costs": {}, "features": {' + keys + b"}}",
        b"[" + bad + b"1]",
        b"[" + b"[]," * 2_000_000 + b"1]",
        b"[" + b"{}," * 2_000_000 + b"{}]",
        b'{"decision_id": "' + b"x" * 7_900_000 + b'"}',
        b" " * 8_000_001,
    )
