"""Ids and prices that are checked together: no other ones pass than one by one."""

from __future__ import annotations

import asyncio
import json
import re
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import Decoder

from bccb import wire
from bccb.serve.body import MOST_MARKS, SLICE, parse_list
from bccb.serve.problem import ProblemError
from bccb.serve.routes import DECISIONS, PLAIN_DECISIONS
from bccb.serve.texts import are_ids, are_prices, entries, good_texts, plain_users
from serve.service import user

ids = st.from_regex(wire.in_python(wire.ID)) | st.text(max_size=4) | st.just("a\nb")
prices = st.from_regex(wire.in_python(wire.MONEY)) | st.text("0123456789.\n", max_size=4)


def fit(pattern: str, texts: list[str]) -> bool:
    return all(re.match(wire.in_python(pattern), text) for text in texts)


@given(st.lists(ids, min_size=1, max_size=4))
def test_ids_pass_together_where_each_of_them_does(texts: list[str]) -> None:
    assert are_ids(texts) == fit(wire.ID, texts)


@given(st.lists(prices, max_size=4))
def test_prices_pass_together_where_each_of_them_does(texts: list[str]) -> None:
    assert are_prices(texts) == fit(wire.MONEY, texts)


def test_a_list_of_users_is_read_as_one_by_one() -> None:
    bodies = [user(f"u{i}", f"0.{i}") for i in range(1, 4)]
    users = plain_users(json.dumps(bodies).encode())
    assert users is not None
    for body, read in zip(bodies, users, strict=True):
        one = PLAIN_DECISIONS.decode(json.dumps(body))
        assert (read.decision_id, read.features, read.costs) == (
            *(one.decision_id, one.features, one.costs),
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"decision_id": "a b"},
        {"decision_id": ""},
        {"decision_id": "a\n"},
        {"decision_id": "a" * (wire.LONGEST_ID + 1)},
        {"decision_id": 7},
        {"costs": {"email": "1."}},
        {"costs": {"email": "-1"}},
        {"costs": {"email": 1}},
        {"features": {"age": "old"}},
        {"more": 1},
        {"costs": {"email": "1" * 24}},
        {"costs": {"email": "1234567890.1234567890123"}},
        {"costs": {f"t{i}": "1" for i in range(wire.MOST_TREATMENTS + 1)}},
        {"features": {f"f{i}": 1.0 for i in range(wire.MOST_FEATURES + 1)}},
    ],
)
def test_a_list_with_a_wrong_user_is_left_to_those_who_say_what_is_wrong(
    wrong: dict[str, Any],
) -> None:
    assert plain_users(json.dumps([user("a"), user("b") | wrong]).encode()) is None


@pytest.mark.parametrize("field", ["decision_id", "features", "costs"])
def test_so_is_one_with_a_missing_field(field: str) -> None:
    wrong = user("b")
    del wrong[field]
    assert plain_users(json.dumps([user("a"), wrong]).encode()) is None


def test_of_a_repeated_key_the_last_one_counts_as_one_by_one() -> None:
    one = '{"decision_id":"a","decision_id":"b","features":{"age":1,"age":2},"costs":{"email":"1"}}'
    users = plain_users(f"[{one}]".encode())
    alone = PLAIN_DECISIONS.decode(one)
    assert users is not None
    assert (users[0].decision_id, users[0].features) == (alone.decision_id, alone.features)
    assert (alone.decision_id, alone.features) == ("b", {"age": 2.0})


@pytest.mark.parametrize("decoder", [PLAIN_DECISIONS, DECISIONS])
@pytest.mark.parametrize(
    "features",
    [
        ",".join('"age":1' for _ in range(MOST_MARKS // 2)),
        ",".join(f'"{i}[[[[[[[[[[":1' for i in range(wire.MOST_FEATURES)),
    ],
)
def test_a_user_with_too_many_marks_is_refused_in_any_list(
    decoder: Decoder[Any], features: str
) -> None:
    wrong = f'{{"decision_id":"b","features":{{{features}}},"costs":{{"email":"1"}}}}'
    assert len(wrong) < SLICE // 2
    for others in (0, 1, 500):
        body = json.dumps([user(f"u{i}") for i in range(others)])[:-1] + ", " * (others > 0)
        written = f"{body}{wrong}]".encode()
        assert plain_users(written) is None
        with pytest.raises(ProblemError, match=f"item {others} of the list has more than 1,000"):
            asyncio.run(parse_list(decoder, written, entries))


@pytest.mark.parametrize("features", [1, 3, 8])
def test_lists_of_plain_users_are_read_in_one_go_however_many_marks_they_have(
    features: int,
) -> None:
    given = {f"f{i}": 1.0 for i in range(features)}
    for users in (1, 10, 100, wire.MOST_BATCH):
        body = [{**user(f"u{i}"), "features": given} for i in range(users)]
        assert len(plain_users(msgspec.json.encode(body)) or []) == users


def test_the_longest_price_is_read() -> None:
    assert plain_users(json.dumps([user("a", "1234567890.123456789012")]).encode()) is not None


def test_prices_that_are_refused_are_not_kept() -> None:
    tracemalloc.start()
    try:
        for i in range(20):
            body = json.dumps([user("a", f"{i}" + "x" * 150_000)]).encode()
            assert plain_users(body) is None
            assert not are_prices([f"{i}" + "x" * 150_000])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


@pytest.mark.parametrize("body", ["", "[]", "{}", "[NaN]", "[" * 1_000, '["\udcff"]', "[1, 2"])
def test_so_is_what_is_no_list(body: str) -> None:
    written = body.encode(errors="surrogateescape")
    assert plain_users(written) is None
    assert good_texts(written, are_ids) is None


def test_so_are_long_lists() -> None:
    many = [user(f"u{i}") for i in range(wire.MOST_BATCH + 1)]
    assert plain_users(json.dumps(many).encode()) is None
    assert plain_users(json.dumps(many[:-1]).encode()) is not None
    assert plain_users(json.dumps(many[:2]).encode() + b" " * SLICE) is None
    assert good_texts(b'["a"]' + b" " * SLICE, are_ids) is None
