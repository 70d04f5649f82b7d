"""The seal of an event: no column of its row can change without it."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bccb.ledger.event import FIELDS, Event, Kind, seal_of, sealed_decisions

whole = st.integers(-(2**63), 2**63 - 1)
real = st.floats(allow_nan=False)
columns: dict[str, st.SearchStrategy[Any]] = {
    "campaign": whole,
    "sequence": whole,
    "at": whole,
    "kind": st.sampled_from([kind.value for kind in Kind]) | st.text(max_size=10),
    "decision": st.none() | st.text(max_size=10),
    "number": st.none() | whole,
    "action": st.none() | whole,
    "money": whole,
    "value": st.none() | real,
    "price": st.none() | real,
    "probability": st.none() | real,
    "remaining": whole,
    "detail": st.none() | st.binary(max_size=20),
}
rows = st.tuples(*columns.values())


def test_every_column_but_the_seal_is_sealed() -> None:
    assert (*columns, "seal") == FIELDS


@given(rows, st.integers(0, 2**32 - 1), st.data())
def test_a_change_of_any_column_changes_the_seal(
    row: tuple[Any, ...], before: int, data: st.DataObject
) -> None:
    seal = seal_of(row, before)
    for at, (name, strategy) in enumerate(columns.items()):
        other = data.draw(strategy, label=name)
        same = seal_of((*row[:at], other, *row[at + 1 :]), before) == seal
        assert same == (_bits(other) == _bits(row[at])), name


@given(rows, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_the_seal_before_it_is_sealed_too(row: tuple[Any, ...], one: int, other: int) -> None:
    assert (seal_of(row, one) == seal_of(row, other)) == (one == other)


@given(rows, st.integers(0, 2**32 - 1))
def test_the_seal_itself_is_no_part_of_it(row: tuple[Any, ...], before: int) -> None:
    assert seal_of((*row, 7), before) == seal_of(row, before)


def test_text_does_not_move_between_columns_unseen() -> None:
    row = (1, 1, 1, "ab", "cd", None, None, 0, None, None, None, 0, b"ef")
    for kind, decision, detail in (
        ("a", "bcd", b"ef"),
        ("ab\nc", "d", b"ef"),
        ("ab", "cde", b"f"),
        ("ab", "c", b"def"),
    ):
        moved = (*row[:3], kind, decision, *row[5:12], detail)
        assert seal_of(moved, 0) != seal_of(row, 0)


decisions = st.tuples(
    *(whole, st.text(max_size=10), st.integers(0, 100), whole, real, real, whole),
    st.binary(max_size=20),
)


@given(st.lists(decisions, min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_decisions_are_sealed_together_as_one_after_the_other(
    users: list[tuple[Any, ...]], before: int
) -> None:
    events = sealed_decisions(7, 41, 12, zip(*users, strict=True), before)
    for i, (made, user) in enumerate(zip(events, users, strict=True)):
        at, id_, action, money, price, probability, remaining, detail = user
        row = (7, 41 + i, at, "decision", id_, 12 + i, action, money, None, price, probability)
        before = seal_of((*row, remaining, detail), before)
        assert made == Event(*row, remaining, detail, before)


def test_seals_stay_what_they_are() -> None:
    """A ledger of today is read tomorrow: another seal would refuse it."""
    row = (1, 2, 1_700_000_000_000_000, "decision", "order-17", 3, 1, 770_000, None, 0.25, 0.5)
    assert seal_of((*row, 4_230_000, bytes(range(16))), 12345) == 3481812997


def _bits(value: object) -> object:
    return struct.pack("<d", value) if isinstance(value, float) else value
