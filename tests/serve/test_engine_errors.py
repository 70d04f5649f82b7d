"""An error inside the engine: it concerns who asked, and the campaign is as the ledger has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from bccb.ledger.event import Kind
from bccb.ledger.port import LedgerError
from bccb.machine import Machine
from bccb.serve import engine as engines
from bccb.serve.books import Books
from bccb.serve.problem import ProblemError
from serve.commits import as_the_ledger_has_it, events_on_disk, post
from serve.service import NEVER, Service, refused, user


def broken(books: Books, at: int) -> None:
    raise ZeroDivisionError


def against_the_rules(books: Books, at: int) -> None:
    """An event that the campaign would never make, which the schema refuses."""
    campaign = next(iter(books))
    event = campaign.turning(at, Kind.PAUSED)
    books.record(campaign, event._replace(kind="decision", decision="x"))


@pytest.mark.parametrize("wrong", [broken, against_the_rules])
def test_an_unexpected_error_concerns_only_who_asked(
    service: Service, caplog: pytest.LogCaptureFixture, wrong: Callable[[Books, int], None]
) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "before")

    async def ask() -> tuple[list[httpx.Response], Any]:
        asked = [post(service, campaign, "a")]
        while not service.engine._jobs:
            await asyncio.sleep(0)
        bad = asyncio.create_task(service.engine.do(wrong))
        asked.append(post(service, campaign, "b"))
        with pytest.raises(ProblemError) as result:
            await bad
        return [await each for each in asked], result.value

    responses, problem = service.run(ask())
    assert [each.status_code for each in responses] == [200, 200]
    assert (problem.status, problem.kind) == (500, "internal")
    assert "nothing was done" in caplog.text
    assert service.get("/readyz").json() == {"status": "ok"}
    assert as_the_ledger_has_it(service, campaign)
    assert service.campaign(campaign)["decisions"] == 3
    assert service.campaign(campaign)["status"] == "running"


def test_a_stop_after_an_error_keeps_what_the_ledger_has(service: Service) -> None:
    campaign = service.open()["id"]

    def half_way(books: Books, at: int) -> None:
        books.campaign(campaign).turning(at, Kind.PAUSED)
        raise ZeroDivisionError

    with pytest.raises(ProblemError):
        service.run(service.engine.do(half_way))
    service.restart()
    assert service.campaign(campaign)["status"] == "running"
    assert as_the_ledger_has_it(service, campaign)


BAD_NUMBERS = {
    "probabilities": [float("nan"), float("inf"), -0.1, 1.1],
    "prices": [float("nan"), float("inf"), -float("inf")],
}


@pytest.mark.parametrize(
    ("what", "value"), [(what, value) for what, all_ in BAD_NUMBERS.items() for value in all_]
)
def test_nothing_that_is_not_finite_and_in_range_is_committed_or_answered(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    what: str,
    value: float,
) -> None:
    bad, good = service.open()["id"], service.open()["id"]
    service.decide(bad, "before")
    before = events_on_disk(service.place)

    def spoil(machine: Machine, result: Any) -> Any:
        if machine.decisions and service.books.campaign(bad).machine is machine:
            return np.full_like(result, value)
        return result

    steps, probabilities = Machine.steps, Machine.probabilities
    with monkeypatch.context() as patch:
        if what == "prices":

            def spoiled(self: Machine, *given: Any) -> Any:
                made = steps(self, *given)
                return made._replace(prices=spoil(self, made.prices))

            patch.setattr(Machine, "steps", spoiled)
        else:
            patch.setattr(Machine, what, lambda s, *given: spoil(s, probabilities(s, *given)))
        for _ in range(3):
            message = refused(service.post(f"{bad}/decisions", user("a")), 500, kind="internal")
            assert "nothing was done" in message
        assert f"campaign {bad} made an impossible decision: pr" in caplog.text  # not the schema
        assert service.get("/readyz").status_code == 200
        assert events_on_disk(service.place) == before
        assert service.decide(good, "a")["treatment"] == "email"
    assert service.decide(bad, "a")["remaining"] == "98.00"
    assert as_the_ledger_has_it(service, bad)


@pytest.mark.parametrize(("result", "answer"), [(1.0 + 1e-12, 1.0), (-1e-17, 1e-9), (0.0, 1e-9)])
def test_a_probability_beside_its_range_by_rounding_is_put_into_it(
    service: Service, monkeypatch: pytest.MonkeyPatch, result: float, answer: float
) -> None:
    campaign = service.open()["id"]
    monkeypatch.setattr(Machine, "probabilities", lambda self, t, a: np.full(len(t), result))
    assert service.decide(campaign, "a")["probability"] == answer
    assert as_the_ledger_has_it(service, campaign)


def test_a_price_has_no_sign_of_zero(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = service.open(policy={"name": "budgeted-thompson", "params": {"threshold": -0.0}})
    first = service.post(f"{campaign['id']}/decisions", user("a")).text
    assert '"price":0.0' in first
    assert service.post(f"{campaign['id']}/decisions", user("a")).text == first
    assert as_the_ledger_has_it(service, campaign["id"])


def test_errors_that_come_again_and_again_make_nobody_fold_much(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one leads to a fold of the campaign, which a snapshot keeps short."""
    campaign = service.open()["id"]
    service.done(f"{campaign}/decisions", [user(f"d{i}", "0.01") for i in range(150)])
    steps, folded = Machine.steps, []

    def count(self: Machine, xs: Any, *given: Any) -> Any:
        folded.append(len(xs))
        if len(xs) == 2:
            raise ArithmeticError
        return steps(self, xs, *given)

    monkeypatch.setattr(Machine, "steps", count)
    for i in range(5):
        path = f"{campaign}/decisions"
        refused(service.post(path, [user(f"e{i}"), user(f"f{i}")]), 500, kind="internal")
    service.campaign(campaign)
    assert folded.count(1) == 150
    assert as_the_ledger_has_it(service, campaign)


@pytest.mark.parametrize("part", ["steps", "probabilities", "end", "settle"])
def test_an_error_half_way_leaves_the_campaign_as_the_ledger_has_it(
    service: Service, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    campaign = service.open(policy={"name": "thompson"})["id"]
    service.done(f"{campaign}/decisions", [user(f"d{i}") for i in range(10)])
    machine = service.books.campaign(campaign).machine

    def spoil(*given: Any) -> None:
        machine.memory += 1.0
        machine.counts[-5] += 1
        raise ArithmeticError

    with monkeypatch.context() as patch:
        patch.setattr(machine, part, spoil)
        if part in ("steps", "probabilities"):
            response = service.post(f"{campaign}/decisions", user("a"))
        else:
            response = service.outcome(campaign, "d1", 1)
    refused(response, 500, kind="internal")
    assert service.get("/readyz").status_code == 200
    assert as_the_ledger_has_it(service, campaign)
    assert service.outcome(campaign, "d1", 1).json()["status"] == "recorded"
    assert as_the_ledger_has_it(service, campaign)


def test_what_could_not_be_committed_has_not_happened(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "PAUSE", NEVER)
    campaign = service.open()["id"]
    tries = []

    def full() -> None:
        tries.append(1)
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(service.books.ledger, "commit", full)
        refused(service.post(f"{campaign}/decisions", user("a")), 503, kind="not-durable")
        assert service.get("/readyz").json() == {"status": "failing", "detail": "the disk is full"}
        refused(service.post(f"{campaign}/decisions", user("a")), 503, kind="not-durable")
        assert len(tries) == 1  # it is not tried again at once
        if service.books.ledger.shared:  # looking would try to reach it, too
            refused(service.get(campaign), 503, kind="not-durable")
        else:
            assert service.campaign(campaign)["decisions"] == 0  # who only looks is answered
        assert as_the_ledger_has_it(service, campaign)
    service.engine._try_again = 0.0  # the pause is over
    assert service.decide(campaign, "a")["remaining"] == "99.00"
    assert service.get("/readyz").status_code == 200


def test_a_campaign_whose_opening_failed_is_not_there(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "PAUSE", 0.0)

    def full() -> None:
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(service.books.ledger, "commit", full)
        with pytest.raises(AssertionError, match="not-durable"):
            service.open(name="spring")
    assert service.get("").json() == {"campaigns": []}
    assert service.open(name="spring")["name"] == "spring"
