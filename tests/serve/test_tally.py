"""The tally of a campaign, against the estimators of the lab on the same rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bccb.evaluate.estimates import Estimate, Weighted, estimate_treated
from bccb.serve.tally import LEAST_CHANCE, POINTS, Point, Tally
from bccb.types import Floats
from serve.service import Service


def self_normalised(outcomes: Floats, actions: Floats, alone: Floats) -> Estimate:
    """SNIPS of the lab, where the rate that is expected of a user is the weighted mean."""
    treated = actions > 0
    weights = np.where(treated, 0.0, (1 - alone) / alone)
    rates = np.full(len(outcomes), weights @ outcomes / weights.sum())
    arm = Weighted(weights, rates, (1 - alone) ** 2 / alone)
    results = {each.method: each for each in estimate_treated(outcomes, treated, arm)}
    return results["SNIPS"]


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.5, 0.95])
@pytest.mark.parametrize("seed", range(5))
def test_what_treatments_caused_is_the_labs_estimate(rate: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 400
    alone = rng.uniform(0.01, 0.99, n)
    actions = np.where(rng.random(n) < alone, 0, rng.integers(1, 3, n))
    outcomes = (rng.random(n) < rate * np.where(actions > 0, 1.0, 0.7)).astype(np.float64)
    tally = Tally.empty(2)
    for action, y, chance in zip(actions.tolist(), outcomes.tolist(), alone.tolist(), strict=True):
        tally.note_outcome(action, y, chance)
    expected, result = self_normalised(outcomes, actions, alone), tally.incremental()
    assert result is not None
    treated, converted = int((actions > 0).sum()), float(outcomes[actions > 0].sum())
    assert result.value == pytest.approx(expected.incremental, abs=1e-9)
    assert result.low == pytest.approx(max(expected.low, converted - treated), abs=1e-9)
    assert result.high == pytest.approx(min(expected.high, converted), abs=1e-9)


def test_users_who_were_hardly_ever_left_alone_tell_nothing() -> None:
    tally = Tally.empty(1)
    tally.note_outcome(1, 1.0, LEAST_CHANCE / 2)
    tally.note_outcome(0, 1.0, None)
    assert tally.incremental() is None
    assert (tally.outcomes, tally.conversions) == ([1, 1], [1.0, 1.0])


def test_a_rate_is_of_those_whose_outcome_is_known() -> None:
    tally = Tally.empty(1)
    assert tally.rate(1) is None
    for y in (1.0, 0.0, 0.5, 0.5):
        tally.note_outcome(1, y, 0.5)
    rate = tally.rate(1)
    assert rate is not None
    assert rate.value == 0.5


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
        tally.note_outcome(action, 1.0, 0.5)
    assert tally.rate(0) is None
    assert tally.rate(1) is None
    assert tally.incremental() is None
    tally.note_outcome(0, 0.0, 0.5)
    assert tally.rate(0) is not None
    assert tally.incremental() is not None


def test_a_tally_survives_json() -> None:
    tally = Tally.empty(2)
    tally.note_outcome(2, 0.25, 0.75)
    tally.note_point(Point(1, 2, 3, 4, 0.5))
    assert Tally.from_dict(json.loads(json.dumps(tally.to_dict()))) == tally


def test_a_campaign_tells_the_labs_estimate(service: Service) -> None:
    campaign = service.open(policy={"name": "thompson"}, budget="1000", horizon={"users": 300})
    rng = np.random.default_rng(0)
    rows = []
    for i in range(300):
        answer = service.decide(campaign["id"], f"d{i}")
        y = float(rng.random() < (0.5 if answer["treatment"] else 0.3))
        service.outcome(campaign["id"], f"d{i}", y)
        treated = answer["treatment"] is not None
        chance = answer["probability"]
        rows.append((y, treated, 1 - chance if treated else chance))
    outcomes, actions, alone = np.array(rows, np.float64).T
    reply = alone >= LEAST_CHANCE
    expected = self_normalised(outcomes[reply], actions[reply], alone[reply])
    result = service.get(f"{campaign['id']}/report").json()["incremental"]
    assert result["value"] == pytest.approx(expected.incremental, abs=1e-9)
    assert result["low"] == pytest.approx(expected.low, abs=1e-9)


def test_nothing_is_reported_where_many_treated_had_no_chance_of_being_left_alone() -> None:
    tally = Tally.empty(1)
    for y in (0.0, 1.0) * 50:
        tally.note_outcome(1, y, 0.5)
        tally.note_outcome(0, y, 0.5)
    assert tally.incremental() is not None
    for _ in range(4):
        tally.note_outcome(1, 1.0, 0.001)
    assert tally.incremental() is not None
    for _ in range(4):
        tally.note_outcome(1, 1.0, 0.001)
    assert tally.incremental() is None


def test_what_pooled_bayes_leaves_to_chance_counts_with_any_number_of_treatments() -> None:
    for treatments in range(1, 101):
        even = 1.0
        for _ in range(treatments):
            even -= 0.5 / treatments
        tally = Tally.empty(treatments)
        tally.note_outcome(1, 1.0, 0.01 * even)
        assert tally.incomparable == 0, treatments
