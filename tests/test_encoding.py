"""Encodings: what is made of a value, and a value for what was made."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bccb.encoding import Encoding, Feature

ENCODING = Encoding(
    (
        Feature("visits"),
        Feature("age", fill=41.0),
        Feature("since", "date"),
        Feature("left", "date", fill=18_262.0),
        Feature("plan", "category", ("basic", "plus", "(missing)"), others=True),
        Feature("size", "category", ("1", "2")),
    )
)
NUMBERS = st.floats(-1e6, 1e6)
DATES = st.dates().map(str)
USERS = st.fixed_dictionaries(
    {
        "visits": NUMBERS,
        "age": st.none() | NUMBERS,
        "since": DATES,
        "left": st.none() | DATES,
        "plan": st.none() | st.sampled_from(["basic", "plus", "brand new"]),
        "size": st.sampled_from(["1", "2", "3"]),
    }
)


@given(USERS)
def test_a_user_for_numbers_is_made_into_the_same_numbers(user: dict[str, Any]) -> None:
    row = ENCODING.row(user)
    again = ENCODING.values(row)
    assert ENCODING.row(again) == row
    assert {name: again[name] for name in ("visits", "age", "since", "left")} == {
        name: user[name] for name in ("visits", "age", "since", "left")
    }


def test_a_time_is_given_with_its_zone() -> None:
    feature = Feature("at", "date")
    assert feature.value([0.25]) == "1970-01-01T06:00:00Z"
    assert feature.encoder()("1970-01-01T06:00:00Z") == (0.25,)


def test_some_features_keep_their_encoding() -> None:
    some = ENCODING.only(["size", "visits"])
    assert some.names == ("size", "visits")
    assert some.columns == ("size=2", "visits")


def test_an_encoding_is_kept_in_plain_types() -> None:
    assert Encoding.from_list(ENCODING.to_list()) == ENCODING
    assert not ENCODING.is_plain


@pytest.mark.parametrize("value", ["soon", 3.0, None])
def test_what_is_no_date_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"feature 'since' is .*, but must be a date such as"):
        ENCODING.row({**dict.fromkeys(ENCODING.names, 1.0), "since": value})
