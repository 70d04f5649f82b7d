"""The engine: commits are shared, answers come after them, and failures leave nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bccb.ledger.ledger import Ledger, LedgerError
from bccb.serve import engine as engines
from bccb.serve.books import Books
from bccb.serve.problem import ProblemError
from bccb.serve.recovery import load
from serve.service import NEVER, Clock, Service, refused, user

HANGS = 60.0  # seconds after which something that must come has not


def as_the_ledger_has_it(service: Service, campaign: str) -> bool:
    """Whether a campaign is, to the byte, what recovery makes of the ledger."""
    ledger = Ledger(service.path, read_only=True)
    account = ledger.account(campaign)
    assert account is not None
    kept = load(ledger, account).to_bytes()
    ledger.close()
    service.books.refresh()
    return service.books.campaign(campaign).to_bytes() == kept


def events_on_disk(path: Path) -> int:
    ledger = Ledger(path, read_only=True)
    found = sum(account.sequence for account in ledger.accounts())
    ledger.close()
    return found


def commits(service: Service) -> float:
    found = service.engine.metrics.registry.get_sample_value("bccb_commit_seconds_count")
    assert found is not None
    return found


@contextmanager
def blocked_commits(service: Service) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Commits wait; the events tell that one has begun, and let it go on."""
    begun, go_on = threading.Event(), threading.Event()
    commit = service.books.ledger.commit

    def slow() -> None:
        begun.set()
        assert go_on.wait(HANGS)
        commit()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.books.ledger, "commit", slow)
        yield begun, go_on
        go_on.set()


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, HANGS)


def post(service: Service, campaign: str, decision: str) -> asyncio.Task[httpx.Response]:
    path = f"/v1/campaigns/{campaign}/decisions"
    return asyncio.create_task(service.http.post(path, json=user(decision)))


def test_an_answer_is_never_given_before_its_commit(service: Service) -> None:
    campaign = service.open()["id"]
    before = events_on_disk(service.path)

    async def ask() -> None:
        with blocked_commits(service) as (begun, go_on):
            asked = post(service, campaign, "a")
            await until(begun)
            assert (await service.http.get("/healthz")).status_code == 200  # who needs none
            assert not asked.done()  # though whoever came after it has an answer
            assert events_on_disk(service.path) == before
            go_on.set()
            assert (await asked).status_code == 200
            assert events_on_disk(service.path) == before + 1

    service.run(ask())


def test_requests_that_wait_together_share_a_commit(service: Service) -> None:
    campaign = service.open()["id"]
    before = commits(service)

    async def ask() -> list[httpx.Response]:
        with blocked_commits(service) as (begun, go_on):
            first = post(service, campaign, "first")
            await until(begun)
            rest = [post(service, campaign, f"d{i}") for i in range(50)]
            while len(service.engine._jobs) < 50:
                await asyncio.sleep(0.001)
            go_on.set()
            return [await each for each in (first, *rest)]

    assert {each.status_code for each in service.run(ask())} == {200}
    assert commits(service) == before + 2
    assert service.campaign(campaign)["decisions"] == 51


def test_who_shares_a_commit_sees_what_came_before(service: Service) -> None:
    campaign = service.open(budget="3.00")["id"]

    async def ask() -> list[Any]:
        asked = [post(service, campaign, id_) for id_ in ("a", "b", "a", "c", "d")]
        return [(await each).json() for each in asked]

    a, b, again, c, d = service.run(ask())
    assert a == again
    assert sorted(each["remaining"] for each in (a, b, c)) == ["0.00", "1.00", "2.00"]
    assert d["treatment"] is None


def test_a_refusal_concerns_only_who_asked(service: Service) -> None:
    campaign = service.open()["id"]

    async def ask() -> list[int]:
        asked = [post(service, each, "a") for each in (campaign, "c-nobody")]
        return [(await each).status_code for each in asked]

    assert service.run(ask()) == [200, 404]


def test_an_unexpected_error_fails_all_that_share_its_commit(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engines, "PAUSE", 0.0)
    campaign = service.open()["id"]
    service.decide(campaign, "before")

    def wrong(books: Books, at: int) -> None:
        raise ZeroDivisionError

    async def ask() -> tuple[httpx.Response, Any]:
        asked = post(service, campaign, "a")
        while not service.engine._jobs:
            await asyncio.sleep(0)
        with pytest.raises(ProblemError) as found:
            await service.engine.do(wrong)
        return await asked, found.value

    response, problem = service.run(ask())
    refused(response, 503, kind="not-durable")
    assert response.headers["retry-after"]
    assert (problem.status, problem.kind) == (503, "not-durable")
    assert "ZeroDivisionError" in caplog.text
    assert service.get("/readyz").status_code == 503
    assert as_the_ledger_has_it(service, campaign)
    assert service.campaign(campaign)["decisions"] == 1
    assert service.decide(campaign, "a")["treatment"] == "email"  # a retry is safe
    assert service.get("/readyz").json() == {"status": "ok"}


@pytest.mark.parametrize("part", ["steps", "probabilities", "take", "refund"])
def test_an_error_half_way_leaves_the_campaign_as_the_ledger_has_it(
    service: Service, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(engines, "PAUSE", 0.0)
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
    refused(response, 503, kind="not-durable")
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


def test_a_client_that_goes_away_changes_nothing_for_others(service: Service) -> None:
    campaign = service.open()["id"]

    async def ask() -> None:
        with blocked_commits(service) as (begun, go_on):
            gone, stays = post(service, campaign, "a"), post(service, campaign, "b")
            await until(begun)
            gone.cancel()
            go_on.set()
            assert (await stays).status_code == 200

    service.run(ask())
    assert service.campaign(campaign)["decisions"] == 2  # it was decided, and a retry is told so
    assert service.decide(campaign, "a")["treatment"] == "email"
    assert service.campaign(campaign)["decisions"] == 2


def test_too_many_who_wait_are_refused_at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "LONGEST_QUEUE", 2)
    campaign = service.open()["id"]

    async def ask() -> list[httpx.Response]:
        with blocked_commits(service) as (begun, go_on):
            first = post(service, campaign, "first")
            await until(begun)
            rest = [post(service, campaign, f"d{i}") for i in range(5)]
            while sum(each.done() for each in rest) < 3:
                await asyncio.sleep(0.001)
            assert not first.done()
            go_on.set()
            return [await each for each in (first, *rest)]

    answers = service.run(ask())
    assert [each.status_code for each in answers] == [200, 200, 200, 503, 503, 503]
    assert "overloaded" in answers[-1].text
    assert service.campaign(campaign)["decisions"] == 3


def test_what_waits_is_finished_before_the_service_stops(service: Service) -> None:
    campaign = service.open()["id"]

    async def ask() -> None:
        asked = [post(service, campaign, f"d{i}") for i in range(20)]
        while len(service.engine._jobs) < 20:
            await asyncio.sleep(0)
        await service.engine.stop()
        assert {(await each).status_code for each in asked} == {200}
        refused(await post(service, campaign, "late"), 503, kind="not-durable")

    service.run(ask())
    service.engine._stopping = False
    service.engine.trouble = "stopped already"
    service.restart()
    assert service.campaign(campaign)["decisions"] == 20


def test_windows_pass_by_themselves(tmp_path: Path) -> None:
    service = Service(tmp_path / "ledger.sqlite", Clock(), tick=0.01)
    campaign = service.open(outcome_window_seconds=1)["id"]
    service.decide(campaign, "a")
    service.clock.advance(2)

    async def passed() -> None:
        while (await service.http.get(f"/v1/campaigns/{campaign}")).json()["open"]:
            await asyncio.sleep(0.01)

    service.run(passed())
    assert as_the_ledger_has_it(service, campaign)
    service.stop()
