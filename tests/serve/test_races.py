"""Races with other processes on a shared ledger: nothing is lost, and few have to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
from postgresql import server

from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Account, ConflictError
from bccb.serve import books as module
from bccb.serve import campaigns
from bccb.serve import engine as engines
from bccb.serve.books import Books
from bccb.serve.recovery import catch_up
from serve.commits import as_the_ledger_has_it, post
from serve.service import Service, refused


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service(server().new_place())
    yield made
    made.stop()


def test_who_is_outrun_again_and_again_holds_up_no_other_campaign(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "LONGEST_RACE", 0.0)
    contested, other = service.open()["id"], service.open()["id"]
    commit, tried = service.books.commit, []

    def outrun() -> None:
        tried.append(set(service.books._changed))
        if contested in service.books._changed:
            raise ConflictError("another writer")
        commit()

    async def ask() -> list[httpx.Response]:
        asked = [post(service, contested, str(i)) for i in range(20)]
        return [await each for each in [*asked, post(service, other, "a")]]

    with monkeypatch.context() as patch:
        patch.setattr(service.books, "commit", outrun)
        *refusals, answer = service.run(ask())
    assert answer.status_code == 200
    for refusal in refusals:
        refused(refusal, 503, kind="overloaded")
    assert len(tried) <= 3 * engines.TRIES  # not one try for each request
    count = service.engine.metrics.registry.get_sample_value("bccb_commit_conflicts_total")
    assert count == sum(contested in each for each in tried)
    assert service.get("/readyz").status_code == 200
    assert service.decide(contested, "0")["remaining"] == "99.00"
    assert as_the_ledger_has_it(service, contested)


def add_money(service: Service, campaign: str, times: int) -> None:
    """Move a campaign on in another process."""
    with closing(open_ledger(service.place)) as ledger:
        rival = Books(ledger)
        list(rival.open())
        for i in range(times):
            campaigns.add_budget(rival, service.clock(), campaign, "1", f"more {i}")
            rival.write()
            rival.commit()
        rival.keep_all()


def test_who_is_far_behind_begins_with_a_newer_snapshot(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_EVERY", 5)
    followed: list[int] = []

    def follow(ledger: object, account: Account, campaign: object) -> None:
        followed.append(account.sequence)
        catch_up(ledger, account, campaign)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "catch_up", follow)
    campaign = service.open()["id"]
    add_money(service, campaign, 3)
    assert service.campaign(campaign)["budget"] == "103.00"
    assert followed == [4]
    add_money(service, campaign, 20)
    assert service.campaign(campaign)["budget"] == "120.00"  # three of the ids were known
    assert followed == [4]
    assert service.decide(campaign, "a")["remaining"] == "119.00"
    assert as_the_ledger_has_it(service, campaign)


def test_a_ledger_that_is_away_is_not_asked_in_the_pause(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = service.open()["id"]
    service.engine._give_up(ConnectionError("gone"))
    reads: list[str] = []
    monkeypatch.setattr(service.books.ledger, "accounts", lambda ids=None: reads.append("read"))
    refused(service.get(campaign), 503, kind="not-durable")
    assert reads == []
    monkeypatch.undo()
    service.run(asyncio.sleep(1.5 * engines.PAUSE))
    assert service.campaign(campaign)["decisions"] == 0
