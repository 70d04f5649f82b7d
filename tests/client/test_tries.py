"""Trying again: ids make it safe, pauses grow, and patience ends."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from bccb.client import (
    Outcome,
    ServiceError,
    UnreachableError,
    User,
    calls,
)
from bccb.errors import BccbError
from client.stand_in import USER, Connect, Service

FAILURES = [["drop"], ["503"], ["slow"], ["502", "drop", "504", "slow"]]


@pytest.mark.parametrize("plan", FAILURES, ids="-".join)
def test_a_decision_is_taken_once_whatever_happens_to_the_answer(
    service: Service, connect: Connect, plan: list[str]
) -> None:
    client = connect(timeout=0.5 if "slow" in plan else 60.0)
    service.plan = list(plan)
    answer = client.decide("c1", **USER)
    assert len(service.seen) == len(plan) + 1
    assert len({body["decision_id"] for _, _, body, _ in service.seen}) == 1
    assert list(service.done) == [answer.decision_id]
    assert answer.treatment == "email-0"
    assert answer.remaining == Decimal("9.23")


def test_every_call_that_changes_something_repeats_itself_word_for_word(
    service: Service, connect: Connect
) -> None:
    client, plan = connect(), ["502", "drop", "504", "drop"]
    users = [User({"age": 1}, {"email": 0.5}), User({"age": 2}, {"email": 0.5})]
    several: list[Callable[[], Any]] = [
        lambda: client.create_campaign(
            "summer", budget=10, features=["age"], treatments=["email"], users=100
        ),
        lambda: client.decide_many("c1", users),
        lambda: client.report_outcome("c1", "a", 1),
        lambda: client.report_outcomes("c1", [Outcome("b", 0), Outcome("c", 1, "email")]),
        lambda: client.cancel("c1", "a"),
        lambda: client.correct("c1", "a", 0),
        lambda: client.settle("c1", "a", "0.61"),
        lambda: client.add_budget("c1", 5),
        lambda: client.pause("c1"),
    ]
    for call in several:
        service.plan, service.seen = list(plan), []
        call()
        first, *others = service.seen
        assert others == [first] * len(plan)
    client.add_budget("c1", 5)
    added = [name for name, value in service.done.items() if value == "5.000000"]
    assert len(added) == 2  # with an id of its own each
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in added)


@pytest.mark.parametrize("status", ["400", "401", "404", "409", "422", "500"])
def test_what_is_refused_is_not_tried_again(
    service: Service, connect: Connect, status: str
) -> None:
    service.plan = [status]
    service.problem = {"type": "/problems/x", "detail": "no", "field": "features.age"}
    with pytest.raises(ServiceError, match=rf"answered {status}: no \(features.age\)") as caught:
        connect().decide("c1", **USER)
    assert len(service.seen) == 1
    error = caught.value
    assert (error.status, error.type) == (int(status), "/problems/x")
    assert (error.detail, error.field) == ("no", "features.age")
    assert isinstance(error, BccbError)


def test_patience_ends_and_the_last_error_is_reported(
    service: Service, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: 0.0 if len(service.seen) < 5 else 61.0)
    monkeypatch.setattr("bccb.client.tries.time", clock)
    service.plan = ["503"] * 1_000
    with pytest.raises(ServiceError, match="answered 503: not now"):
        connect(patience=60).campaigns()
    assert len(service.seen) == 5
    service.plan, service.seen = ["drop"] * 1_000, []
    with pytest.raises(UnreachableError, match=f"no answer from {service.url} after 5 tries: "):
        connect(patience=60).campaigns()


def test_a_slow_service_is_given_up_in_time(service: Service, connect: Connect) -> None:
    service.plan = ["slow"] * 10
    with pytest.raises(UnreachableError):
        connect(timeout=0.1, patience=0).campaigns()
    assert service.late == 0  # it has not answered yet


def test_opening_a_campaign_waits_for_its_policy_to_be_compiled(
    service: Service, connect: Connect
) -> None:
    service.plan = ["compiles"]
    client = connect(timeout=0.1, patience=0)
    made = client.create_campaign(
        "summer", budget=10, features=["age"], treatments=["email"], users=100
    )
    assert made.name == "summer"
    assert len(service.seen) == 1


def test_pauses_double_up_to_a_bound_and_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    from bccb.client import tries

    monkeypatch.setattr(tries, "FIRST_PAUSE", 0.1)
    pauses = []
    for _ in range(2):
        one = tries.Tries(calls.campaigns(), "http://h", 1.0, 1_000.0)
        for count in range(1, 9):
            one.count = count
            assert one._try_again()
            pauses.append(one.pause)
            longest = min(2.0, 0.1 * 2 ** (count - 1))
            assert longest / 2 <= one.pause <= longest
    assert len(set(pauses)) == len(pauses)


def test_a_pause_is_as_long_as_the_service_asks(
    service: Service, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.plan, service.retry_after = ["503", "503"], "1"
    began = time.monotonic()
    connect().campaigns()
    assert time.monotonic() - began >= 2.0
    service.plan, service.seen = ["503"], []
    with pytest.raises(ServiceError, match="answered 503"):
        connect(patience=0.5).campaigns()
    assert len(service.seen) == 1  # the service asked for more than there is


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        (" 3 ", 3.0),
        ("86400", 30.0),
        ("", 0.0),
        ("-1", 0.0),
        ("1.5", 0.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
        ("9" * 5_000, 0.0),
    ],
)
def test_retry_after_is_read_in_seconds_up_to_a_bound(header: str, seconds: float) -> None:
    from bccb.client.tries import _retry_after

    assert _retry_after(httpx.Response(503, headers={"Retry-After": header})) == seconds
