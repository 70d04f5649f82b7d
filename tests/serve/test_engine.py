"""The engine: commits are shared, answers come after them, and failures leave nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from bccb.ledger.event import Kind
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import LedgerError
from bccb.machine import Machine
from bccb.serve import engine as engines
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.problem import ProblemError
from bccb.serve.recovery import load
from bccb.serve.work import AT_ONCE, LONG
from serve.service import NEVER, Clock, Service, refused, user

HANGS = 60.0  # seconds after which something that must come has not


def as_the_ledger_has_it(service: Service, campaign: str) -> bool:
    """Whether a campaign is, to the byte, what recovery makes of the ledger."""
    ledger = open_ledger(service.path, read_only=True)
    account = ledger.account(campaign)
    assert account is not None
    kept = load(ledger, account).to_bytes()
    ledger.close()
    service.books.refresh()
    return service.books.campaign(campaign).to_bytes() == kept


def events_on_disk(path: Path) -> int:
    ledger = open_ledger(path, read_only=True)
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
        with pytest.raises(ProblemError) as found:
            await bad
        return [await each for each in asked], found.value

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
    before = events_on_disk(service.path)

    def spoil(machine: Machine, found: Any) -> Any:
        if machine.decisions and service.books.campaign(bad).machine is machine:
            return np.full_like(found, value)
        return found

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
            told = refused(service.post(f"{bad}/decisions", user("a")), 500, kind="internal")
            assert "nothing was done" in told
        assert f"campaign {bad} made an impossible decision: pr" in caplog.text  # not the schema
        assert service.get("/readyz").status_code == 200
        assert events_on_disk(service.path) == before
        assert service.decide(good, "a")["treatment"] == "email"
    assert service.decide(bad, "a")["remaining"] == "98.00"
    assert as_the_ledger_has_it(service, bad)


@pytest.mark.parametrize(("found", "told"), [(1.0 + 1e-12, 1.0), (-1e-17, 1e-9), (0.0, 1e-9)])
def test_a_probability_beside_its_range_by_rounding_is_put_into_it(
    service: Service, monkeypatch: pytest.MonkeyPatch, found: float, told: float
) -> None:
    campaign = service.open()["id"]
    monkeypatch.setattr(Machine, "probabilities", lambda self, t, a: np.full(len(t), found))
    assert service.decide(campaign, "a")["probability"] == told
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


@pytest.mark.parametrize("part", ["steps", "probabilities", "take", "refund"])
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


def test_windows_that_cannot_pass_hold_up_no_other_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(tmp_path / "ledger.sqlite", Clock(), tick=0.01)
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
        while (await service.http.get(f"/v1/campaigns/{good}")).json()["open"]:
            await asyncio.sleep(0.01)
        while (await service.http.get(f"/v1/campaigns/{bad}")).json()["status"] == "running":
            await asyncio.sleep(0.01)

    service.run(passed())
    assert "its outcome windows cannot pass" in service.campaign(bad)["reason"]
    assert "it does not add up" in caplog.text
    assert service.get("/readyz").status_code == 200
    assert service.decide(good, "b")["treatment"] == "email"
    service.stop()


# What takes long


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
    found: set[str] = set()
    method = getattr(service.books, part)

    def noting(*given: Any) -> Any:
        found.add(threading.current_thread().name)
        return method(*given)

    monkeypatch.setattr(service.books, part, noting)
    return found


def test_long_lists_are_decided_and_written_beside_the_event_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = service.open()["id"]
    known, write = (threads_of(service, monkeypatch, part) for part in ("known", "write"))
    service.done(f"{campaign}/decisions", [user(f"d{i}") for i in range(2)])
    assert known == write == {"MainThread"}  # a thread for each would cost more than it gives
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
    found = threads_of(service, monkeypatch, "refresh")
    service.campaign(campaign)
    assert found == {"bccb-commit_0"}


def test_a_snapshot_is_written_beside_the_event_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bccb.serve.books.SNAPSHOT_EVERY", 3)
    campaign = service.open()["id"]
    found = threads_of(service, monkeypatch, "write")
    service.decide(campaign, "a")
    assert found == {"MainThread"}
    service.decide(campaign, "b")
    assert found == {"MainThread", "bccb-commit_0"}


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
