"""The terms of a campaign: its horizon, by users or by the clock, and pacing over it."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import pytest

from bccb.errors import InputError
from bccb.serve.terms import Terms
from serve.service import SECOND, Service, refused, user

HOUR = 3_600
END = "2027-01-15T18:00:00Z"  # ten hours after the clock of tests begins

TERMS = Terms(
    name="spring",
    budget=5_000_000,
    users=None,
    ends_at=1_000,
    expected_users=None,
    features=("age", "size"),
    treatments=("email", "call"),
    policy="bccb",
    parameters={"eta": 0.2},
    window=60 * SECOND,
    seed=3,
    shadow=False,
    learned_from=None,
    opened_at=0,
    version="1.0",
    asked="{}",
)


def test_terms_survive_json() -> None:
    assert Terms.from_json(TERMS.to_json()) == TERMS


def test_terms_make_the_policy_that_was_agreed() -> None:
    machine = TERMS.machine()
    assert (machine.name, machine.features, machine.treatments) == ("bccb", 2, 2)
    assert machine.parameters["eta"] == 0.2
    assert machine.remaining_micros == 5_000_000


@pytest.mark.parametrize("budget", [1, 10**15 + 1, 9 * 10**15 - 1, 9 * 10**15])
def test_the_policy_has_the_budget_to_the_micro(budget: int) -> None:
    assert dataclasses.replace(TERMS, budget=budget).machine().remaining_micros == budget


def test_a_campaign_ends_at_its_time_and_not_before() -> None:
    assert [TERMS.ended(at) for at in (0, 999, 1_000)] == [False, False, True]
    assert not dataclasses.replace(TERMS, users=10, ends_at=None).ended(10**18)


def test_traffic_without_a_forecast_is_expected_to_go_on_as_it_came() -> None:
    # 20 users in a quarter of the time, and the one who is here: three times as many are to come
    assert TERMS.users_to_come(250, 20) == 63
    assert TERMS.users_to_come(1_000, 20) == 1  # at least the one who is here


def test_a_forecast_gives_way_to_the_traffic_that_comes() -> None:
    terms = dataclasses.replace(TERMS, expected_users=1_000)
    assert terms.users_to_come(0, 0) == 1_000
    assert terms.users_to_come(500, 500) == 500  # as forecast
    assert terms.users_to_come(500, 50) == 125  # a tenth of it: (50 + 100) / 0.6 x 0.5


def run_hours(
    service: Service, campaign: str, hours: int, rate: int = 40, cost: str = "1.00"
) -> list[float]:
    """What is out after each hour, in which users came evenly."""
    out = []
    for hour in range(hours):
        for i in range(rate):
            service.clock.advance(HOUR / rate / 2)
            service.done(f"{campaign}/decisions", user(f"u{hour}-{i}", cost))
            service.clock.advance(HOUR / rate / 2)
        service.done(
            f"{campaign}/outcomes",
            [{"decision_id": f"u{hour}-{i}", "value": i % 2} for i in range(rate)],
        )
        out.append(100 - float(service.money(campaign)[2]))
    return out


@pytest.mark.parametrize("expected", [None, 400, 100])
def test_money_is_spent_evenly_until_the_end(service: Service, expected: int | None) -> None:
    horizon: dict[str, Any] = {"ends_at": END, "expected_users": expected}
    campaign = service.open(
        horizon=horizon,
        policy={"name": "cheapest-first"},
        budget="100.00",
        outcome_window_seconds=10 * HOUR,
    )["id"]
    out = run_hours(service, campaign, 10)
    # 400 users at 1.00 for 100: all prices are the same, but the forecast must find the price
    assert out[-1] == pytest.approx(100, abs=2)
    if expected != 100:  # a forecast of a quarter of the traffic spends too fast at first
        assert max(abs(spent - 10 * (i + 1)) for i, spent in enumerate(out)) < 15


def test_nobody_is_treated_after_the_end(service: Service) -> None:
    campaign = service.open(horizon={"ends_at": END})["id"]
    answer = service.decide(campaign, "a")
    service.clock.advance(10 * HOUR)
    refused(service.post(f"{campaign}/decisions", user("b")), 409, kind="campaign-ended")
    refused(service.post(f"{campaign}/budget", {"add": "1"}), 409)
    assert service.decide(campaign, "a") == answer
    service.clock.advance(-HOUR)  # the clock may run back, but the end stays
    assert service.decide(campaign, "c")["treatment"] == "email"


def test_a_time_horizon_is_reported_in_utc(service: Service) -> None:
    campaign = service.open(horizon={"ends_at": "2027-01-15T20:00:00+02:00"})
    assert campaign["horizon"] == {"ends_at": END, "expected_users": None}


def test_a_campaign_whose_learning_would_hold_up_others_is_refused() -> None:
    features = tuple(f"f{i}" for i in range(1_000))
    treatments = tuple(f"t{i}" for i in range(50))
    wide = dataclasses.replace(
        TERMS, features=features, treatments=treatments, policy="pooled-bayes", parameters={}
    )
    with pytest.raises(InputError, match="features x treatments is '1,000 x 50'"):
        wide.machine()


def test_a_policy_that_is_too_large_is_refused_before_it_takes_memory() -> None:
    features = tuple(f"f{i}" for i in range(93))
    treatments = tuple(f"t{i}" for i in range(85))
    wide = dataclasses.replace(
        TERMS, features=features, treatments=treatments, policy="pooled-trees", parameters={}
    )
    wide = dataclasses.replace(wide, outcome="amount")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="at most 2,000,000 numbers, not 70,286,374"):
            wide.machine()
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # bytes; the policy takes 592 MB
    finally:
        tracemalloc.stop()
