"""The tally of a campaign: what is added up, and how few points are kept."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bccb.intervals import Interval
from bccb.serve.tally import CAUSED, POINTS, CausedPoint, Point, Reports, Tally


def test_a_rate_is_of_those_whose_outcome_is_known() -> None:
    tally = Tally.empty(1)
    assert tally.rate(1) is None
    for y in (1.0, 0.0, 0.5, 0.5):
        tally.note_outcome(1, y)
    rate = tally.rate(1)
    assert rate is not None
    assert rate.value == 0.5


def test_the_longest_gaps_between_reports_are_kept() -> None:
    tally = Tally.empty(1)
    for at, decisions in ((1_000, 7), (1_010, 8), (1_500, 9), (1_501, 40), (1_600, 41)):
        tally.reports = tally.reports.with_one(at, decisions)
    assert tally.reports == Reports(5, 1_600, 41, 490, 31)


def test_points_stay_few_and_evenly_spread() -> None:
    tally = Tally.empty(1)
    for number in range(1, 10_001):
        if number % tally.every == 0:
            tally.note_point(Point(number, number, number, number, 0.0))
    numbers = [point.decisions for point in tally.points]
    assert POINTS / 2 - 1 <= len(numbers) <= POINTS
    assert set(np.diff(numbers)) == {tally.every}
    assert numbers[-1] > 10_000 - 2 * tally.every


def test_the_end_of_the_money_follows_from_late_spending() -> None:
    tally = Tally.empty(1)
    assert tally.money_ends_at(49, 100) is None
    for i in range(50):  # 1 a tick, and 4 a tick of late
        tally.note_point(Point(i, i, i if i < 30 else 30 + 4 * (i - 30), 0, 0.0))
    assert tally.money_ends_at(49, 400) == pytest.approx(49 + 100, abs=1)
    assert tally.money_ends_at(55, 400) == pytest.approx(55 + 100 * 25 / 19, abs=1)  # it slows down
    assert tally.money_ends_at(90, 400) is None  # nobody comes any more
    assert tally.money_ends_at(49, 0) is None  # it has ended
    tally.note_point(Point(49, 51, 0, 0, 0.0))  # money returned
    assert tally.money_ends_at(49, 400) is None


def test_where_conversions_alone_are_known_no_rates_are_reported() -> None:
    tally = Tally.empty(1)
    for action in (0, 1, 1):
        tally.note_outcome(action, 1.0)
    assert tally.rate(0) is None
    assert tally.rate(1) is None
    tally.note_outcome(0, 0.0)
    assert tally.rate(0) is not None


def test_a_tally_survives_json() -> None:
    tally = Tally.empty(2)
    tally.note_outcome(2, 0.25)
    tally.note_point(Point(1, 2, 3, 4, 0.5))
    tally.reports = tally.reports.with_one(5, 6)
    tally.note_caused(CausedPoint(7, Interval(1.0, -2.0, 3.0), None))
    assert Tally.from_dict(json.loads(json.dumps(tally.to_dict()))) == tally


def test_points_of_what_was_caused_stay_few() -> None:
    tally = Tally.empty(1)
    for number in range(1, 50_001):
        if tally.note_outcome(1, 0.0):
            tally.note_caused(CausedPoint(number, None, Interval(0.0, -1.0, 1.0)))
    times = [point.at for point in tally.caused]
    assert CAUSED / 2 - 1 <= len(times) <= CAUSED
    assert set(np.diff(times)) == {tally.caused_every}


def test_sums_of_older_versions_are_left() -> None:
    kept = Tally.empty(1).to_dict() | {"untold": 3, "wwyy": 1.5}
    del kept["caused"], kept["caused_every"], kept["reports"], kept["offers"], kept["cheapest"]
    assert Tally.from_dict(kept) == Tally.empty(1)


def test_an_amount_that_was_corrected_leaves_nothing_however_large_it_was() -> None:
    tally, never = Tally.empty(1, amounts=True), Tally.empty(1, amounts=True)
    for y in [1.5] * 20 + [0.0] * 180:
        for each in (tally, never):
            each.note_outcome(1, y)
    tally.note_outcome(1, 1e9)
    tally.correct(1, 1e9, 1.0)
    never.note_outcome(1, 1.0)
    assert tally.value_per_user(1) == never.value_per_user(1)
    assert tally.value(1) == 31.0
    again = Tally.from_dict(json.loads(json.dumps(tally.to_dict())))
    assert again == tally


def test_money_that_will_return_is_not_counted_into_the_speed() -> None:
    tally = Tally.empty(1)
    for i in range(20):
        tally.note_point(Point(i, i, 10 * i, 0, 0.0, held=10 * i))
    assert tally.money_ends_at(19, 1_000) == 19 + 100
    assert tally.money_ends_at(19, 1_000, returning=0.75) == 19 + 400
    for i in range(20, 40):  # as much returns as is held: from now on all of the speed is spending
        tally.note_point(Point(i, i, 10 * i, 0, 0.0, held=200))
    assert tally.money_ends_at(39, 1_000, returning=0.75) == 39 + 100
