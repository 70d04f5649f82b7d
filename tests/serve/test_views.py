"""Campaigns and reports as they are shown."""

from __future__ import annotations

import json

import pytest

from bccb.ledger.moment import as_time
from bccb.wire import Report, decoder
from serve.service import SECOND, Service, user


def test_moments_are_reported_in_utc_to_the_microsecond() -> None:
    assert as_time(1_800_000_000 * SECOND) == "2027-01-15T08:00:00Z"
    assert as_time(1_800_000_000 * SECOND + 1) == "2027-01-15T08:00:00.000001Z"


NOTHING = {
    "estimated": None,
    "measured": None,
    "measured_users": 0,
    "return_on_spend": None,
    "not_measured": None,
    "measurable": False,
    "too_few": None,
}


def test_a_campaign_is_reported_as_it_was_asked_for(service: Service) -> None:
    made = service.open(name="spring ✿", treatments=["email", "call"], features=["age", "size"])
    assert made.pop("id").startswith("c")
    assert made == {
        "name": "spring ✿",
        "status": "running",
        "reason": None,
        "mode": "live",
        "created_at": "2027-01-15T08:00:00Z",
        "horizon": {"users": 100},
        "features": ["age", "size"],
        "treatments": ["email", "call"],
        "policy": {"name": "treat-all", "params": {}},
        "outcome_window_seconds": 60,
        "seed": 1,
        "learned_from": None,
        "budget": "100.00",
        "spent": "0.00",
        "reserved": "0.00",
        "remaining": "100.00",
        "decisions": 0,
        "treated": 0,
        "pending": 0,
        "conversions": 0.0,
        "median_delay_seconds": None,
        "too_late": 0,
        "corrections": 0,
        "caused": NOTHING,
        "fit_due": False,
        "fits": 0,
        "fitted_at": None,
        "alerts": [],
        "needs_history": False,
        "encoding": [],
        "charge": "treatment",
        "cost_cap": None,
        "cap_binds": False,
        "outcome": {"kind": "conversion", "negative": True, "largest": None},
        "share": None,
        "currency": None,
        "value": None,
        "cells": 1,
    }


def test_a_report_before_the_first_user_tells_nothing(service: Service) -> None:
    report = service.get(f"{service.open()['id']}/report").json()
    decoder(Report).decode(json.dumps(report))
    assert [(arm["treatment"], arm["decisions"], arm["rate"]) for arm in report["arms"]] == [
        (None, 0, None),
        ("email", 0, None),
    ]
    assert report["campaign"]["caused"] == NOTHING
    assert report["caused_series"] == {"at": [], "estimated": [], "measured": []}
    assert report["money_ends_at"] is None
    assert report["planned"] == "0.00"
    assert set(map(len, report["series"].values())) == {0}


def test_a_report_tells_rates_money_and_plan(service: Service) -> None:
    campaign = service.open(budget="10.00", horizon={"users": 10})["id"]
    for i in range(4):
        service.decide(campaign, f"d{i}", cost="2.00")
        service.clock.advance(10)
    service.outcome(campaign, "d0", 1)
    service.outcome(campaign, "d1", 0)
    report = service.get(f"{campaign}/report").json()
    treated = report["arms"][1]
    assert (treated["decisions"], treated["outcomes"], treated["conversions"]) == (4, 2, 1.0)
    assert treated["rate"]["low"] < treated["rate"]["value"] == 0.5 < treated["rate"]["high"]
    assert report["planned"] == "4.00"  # four of ten users
    assert report["series"] == {
        "at": [1_800_000_000.0 + 10 * i for i in range(5)],
        "decisions": [1, 2, 3, 4, 4],
        "spent": [2.0, 4.0, 6.0, 8.0, 8.0],  # and as things stand
        "planned": [1.0, 2.0, 3.0, 4.0, 4.0],
        "price": [0.0] * 5,
    }
    assert report["money_ends_at"] is None  # too few to tell
    assert report["now"] == "2027-01-15T08:00:40Z"


def test_a_plan_by_the_clock_goes_with_the_clock(service: Service) -> None:
    campaign = service.open(horizon={"ends_at": "2027-01-15T09:00:00Z"})["id"]
    planned = []
    for _ in range(4):
        planned.append(service.get(f"{campaign}/report").json()["planned"])
        service.clock.advance(1_800)
    assert planned == ["0.00", "50.00", "100.00", "100.00"]


def test_added_money_is_planned_from_then_on(service: Service) -> None:
    campaign = service.open(budget="10.00", horizon={"users": 10})["id"]
    service.done(f"{campaign}/decisions", [user(f"d{i}", cost="1.00") for i in range(5)])
    service.done(f"{campaign}/budget", {"add": "10.00"})
    # 5.00 are out and 15.00 are left for the five users to come
    assert service.get(f"{campaign}/report").json()["planned"] == "5.00"
    service.decide(campaign, "e", cost="1.00")
    assert service.get(f"{campaign}/report").json()["planned"] == "8.00"


@pytest.mark.parametrize("users", [3, 5])
def test_a_report_outlives_the_users_that_were_planned(service: Service, users: int) -> None:
    campaign = service.open(horizon={"users": 3})["id"]
    service.done(f"{campaign}/decisions", [user(f"d{i}") for i in range(users)])
    service.done(f"{campaign}/budget", {"add": "10.00"})
    service.decide(campaign, "e")
    report = service.get(f"{campaign}/report").json()
    decoder(Report).decode(json.dumps(report))
    assert report["planned"] == "110.00"


def test_an_end_of_money_that_nobody_lives_to_see_is_not_told(service: Service) -> None:
    campaign = service.open(budget="9000000000")["id"]
    for i in range(3):
        service.decide(campaign, f"d{i}", cost="0.000001")
        service.clock.advance(3_600)
    assert service.get(f"{campaign}/report").json()["money_ends_at"] is None
    assert service.get("/readyz").status_code == 200
