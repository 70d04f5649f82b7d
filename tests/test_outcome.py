"""Outcomes: one range and one list of ends, wherever they are checked or stored."""

from __future__ import annotations

import re
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bccb import outcome
from bccb.errors import InputError
from bccb.ledger.event import Kind
from bccb.ledger.sqlite.connection import SQL
from bccb.ledger.statements import queries, schema
from bccb.outcome import STATUS_AFTER, End, check_outcomes, is_allowed, variance_bound


@given(st.lists(st.floats(outcome.LEAST, outcome.MOST), min_size=1))
def test_no_outcomes_vary_more_than_the_bound(values: list[float]) -> None:
    assert np.var(values) <= variance_bound(float(np.mean(values))) + 1e-12


def test_the_bound_is_reached_at_the_ends_of_the_range() -> None:
    values = [outcome.LEAST, outcome.MOST, outcome.MOST, outcome.MOST]
    assert np.var(values) == variance_bound(float(np.mean(values)))


def test_the_first_outcome_out_of_range_is_named() -> None:
    with pytest.raises(InputError, match="outcome 2 is nan, but must be from 0 to 1"):
        check_outcomes(np.array([0.0, 1.0, np.nan, 7.0]))


def test_an_outcome_that_was_not_reported_is_an_outcome() -> None:
    assert is_allowed(outcome.NOT_REPORTED)


def test_every_end_is_an_event_and_has_a_status_of_its_own() -> None:
    assert list(STATUS_AFTER) == list(End)
    assert {end.value for end in End} <= {kind.value for kind in Kind}
    assert tuple(STATUS_AFTER.values()) == get_args(outcome.EndStatus)


def test_the_ledger_lets_a_decision_end_once_in_each_of_these_ways() -> None:
    ends = ", ".join(f"'{end}'" for end in End)
    listed = re.findall(r"kind IN \(([^)]*)\) THEN 'end'", schema(SQL) + queries(SQL)["resolved"])
    assert listed == [ends] * 3


def test_the_ledger_has_the_same_range() -> None:
    ranges = re.findall(r"\bvalue BETWEEN (\S+) AND ([^\s,)]+)", schema(SQL))
    assert [tuple(map(float, each)) for each in ranges] == [
        (-outcome.MOST_AMOUNT, outcome.MOST_AMOUNT)
    ] * 3
    assert f"coalesce(NEW.value = {outcome.NOT_REPORTED:g}, 0)" in schema(SQL)
