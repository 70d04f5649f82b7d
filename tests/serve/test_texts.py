"""Ids and prices that are checked together: no other ones pass than one by one."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bccb import wire
from bccb.serve.body import SLICE
from bccb.serve.routes import PLAIN_DECISIONS
from bccb.serve.texts import are_ids, are_prices, good_texts, plain_users
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
    ],
)
def test_a_list_with_a_wrong_user_is_left_to_those_who_say_what_is_wrong(
    wrong: dict[str, Any],
) -> None:
    assert plain_users(json.dumps([user("a"), user("b") | wrong]).encode()) is None


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
