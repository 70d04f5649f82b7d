"""The engine: commits are shared, answers come after them, and failures leave nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from bccb.ledger.event import Kind
from bccb.serve import engine as engines
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.problem import ProblemError
from bccb.serve.work import AT_ONCE, LONG
from serve.commits import as_the_ledger_has_it, events_on_disk, post
from serve.service import Clock, Service, refused, user

HANGS = 60.0  # seconds after which something that must come has not


def commits(service: Service) -> float:
    result = service.engine.metrics.registry.get_sample_value("bccb_commit_seconds_count")
    assert result is not None
    return result


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


def test_an_answer_is_never_given_before_its_commit(service: Service) -> None:
    campaign = service.open()["id"]
    before = events_on_disk(service.place)

    async def ask() -> None:
        with blocked_commits(service) as (begun, go_on):
            asked = post(service, campaign, "a")
            await until(begun)
            assert (await service.http.get("/healthz")).status_code == 200  # who needs none
            assert not asked.done()  # though whoever came after it has an answer
            assert events_on_disk(service.place) == before
            go_on.set()
            assert (await asked).status_code == 200
            assert events_on_disk(service.place) == before + 1

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
    assert (
        service.campaign(campaign)["decisions"] == 2
    )  # it was decided, and a retry gets that answer
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


def test_windows_pass_by_themselves(place: str) -> None:
    service = Service(place, Clock(), tick=0.01)
    campaign = service.open(outcome_window_seconds=1)["id"]
    service.decide(campaign, "a")
    service.clock.advance(2)

    async def passed() -> None:
        while (await service.http.get(f"/v1/campaigns/{campaign}")).json()["pending"]:
            await asyncio.sleep(0.01)

    service.run(passed())
    assert as_the_ledger_has_it(service, campaign)
    service.stop()


def test_windows_that_cannot_pass_hold_up_no_other_campaign(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(place, Clock(), tick=0.01)
    bad, good = (service.open(outcome_window_seconds=1)["id"] for _ in range(2))
    for campaign in (bad, good):
        service.decide(campaign, "a")
    expiring = Campaign.expiring

    def fails(self: Campaign, *given: Any) -> Any:
        if self.id == bad:
            raise ArithmeticError("it does not add up")
        return expiring(self, *given)

    monkeypatch.setattr(Campaign, "expiring", fails)
    service.clock.advance(2)

    async def passed() -> None:
        while (await service.http.get(f"/v1/campaigns/{good}")).json()["pending"]:
            await asyncio.sleep(0.01)
        while (await service.http.get(f"/v1/campaigns/{bad}")).json()["status"] == "running":
            await asyncio.sleep(0.01)

    service.run(passed())
    assert "its outcome windows cannot pass" in service.campaign(bad)["reason"]
    assert "it does not add up" in caplog.text
    assert service.get("/readyz").status_code == 200
    assert service.decide(good, "b")["treatment"] == "email"
    service.stop()


def test_a_long_command_does_not_hold_up_the_event_loop(service: Service) -> None:
    """One that does would wait for an event that is set in the loop."""
    go_on = threading.Event()

    async def ask() -> bool:
        asked = asyncio.create_task(service.engine.do(lambda books, at: go_on.wait(HANGS), LONG))
        assert (await service.http.get("/healthz")).status_code == 200
        assert not asked.done()
        go_on.set()
        return await asked

    assert service.run(ask())


def threads_of(service: Service, monkeypatch: pytest.MonkeyPatch, part: str) -> set[str]:
    """The names of the threads that a method of the books will have run in."""
    results: set[str] = set()
    method = getattr(service.books, part)

    def noting(*given: Any) -> Any:
        results.add(threading.current_thread().name)
        return method(*given)

    monkeypatch.setattr(service.books, part, noting)
    return results


def at_once(service: Service) -> str:
    """The thread that does what does not take long."""
    return "bccb-commit_0" if service.books.ledger.shared else "MainThread"


def test_long_lists_are_decided_and_written_beside_the_event_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = service.open()["id"]
    known, write = (threads_of(service, monkeypatch, part) for part in ("known", "write"))
    service.done(f"{campaign}/decisions", [user(f"d{i}") for i in range(2)])
    # a thread for each would cost more than it gives, except where each call waits for a network
    assert known == write == {at_once(service)}
    for path, items in (
        ("decisions", [user(f"e{i}") for i in range(1000)]),
        ("outcomes", [{"decision_id": f"e{i}", "value": 0} for i in range(1000)]),
    ):
        known.clear()
        write.clear()
        service.done(f"{campaign}/{path}", items)
        assert known == write == {"bccb-commit_0"}


def test_what_was_abandoned_is_folded_beside_the_event_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = service.open()["id"]
    with pytest.raises(ProblemError):
        service.run(service.engine.do(lambda books, at: books.campaign(campaign).now(None)))  # type: ignore[arg-type]
    result = threads_of(service, monkeypatch, "refresh")
    service.campaign(campaign)
    assert result == {"bccb-commit_0"}


def test_a_snapshot_is_written_beside_the_event_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bccb.serve.books.SNAPSHOT_EVERY", 3)
    campaign = service.open()["id"]
    result = threads_of(service, monkeypatch, "write")
    service.decide(campaign, "a")
    assert result == {at_once(service)}
    service.decide(campaign, "b")
    assert result == {at_once(service), "bccb-commit_0"}


def test_long_jobs_do_not_share_a_commit(service: Service) -> None:
    """Who comes after them would wait for all of them."""
    before = commits(service)
    campaign = service.open()["id"]

    def pause(books: Books, at: int) -> None:
        books.record(books.campaign(campaign), books.campaign(campaign).turning(at, Kind.PAUSED))

    async def ask() -> None:
        with blocked_commits(service) as (begun, go_on):
            first = asyncio.create_task(service.engine.do(pause))
            await until(begun)
            rest = [asyncio.create_task(service.engine.do(pause, AT_ONCE / 2)) for _ in range(6)]
            while len(service.engine._jobs) < 6:
                await asyncio.sleep(0.001)
            go_on.set()
            await asyncio.gather(first, *rest)

    service.run(ask())
    assert commits(service) == before + 1 + 1 + 3
