"""Work: what takes long is cut, so that others have their turn."""

from __future__ import annotations

from typing import Any

import pytest

from bccb.ledger.event import Kind
from bccb.ledger.port import LedgerError
from bccb.policies import make
from bccb.serve import work
from bccb.serve.campaigns import turn
from bccb.serve.decisions import Asked
from bccb.serve.work import seconds_per_user, users_at_once
from serve.service import Service, refused, user


@pytest.mark.parametrize(("features", "treatments"), [(1, 1), (300, 1), (10, 100), (100, 10)])
def test_what_is_done_at_once_takes_a_tenth_of_a_second(features: int, treatments: int) -> None:
    machine = make(budget=1, horizon=1, features=features, treatments=treatments)
    assert users_at_once(machine) * seconds_per_user(machine) <= work.AT_ONCE
    assert users_at_once(machine) > 10


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three users at once."""
    monkeypatch.setattr(work, "SECONDS_PER_USER", work.AT_ONCE / 3.5)


@pytest.mark.usefixtures("slow")
def test_a_long_list_gives_the_answers_of_a_short_one(service: Service) -> None:
    users = [user(f"d{i}", age=i / 10) for i in range(10)]
    whole, apart = (service.open(name=name, seed=1)["id"] for name in ("whole", "apart"))
    answers = service.done(f"{whole}/decisions", users)
    assert answers == [service.done(f"{apart}/decisions", one) for one in users]
    items = [{"decision_id": f"d{i}", "value": i % 2} for i in range(10)]
    recorded = service.done(f"{whole}/outcomes", items)
    assert [item["value"] for item in recorded] == [i % 2 for i in range(10)]


@pytest.mark.usefixtures("slow")
def test_a_mistake_at_the_end_of_a_long_list_lets_nothing_happen(service: Service) -> None:
    campaign = service.open()["id"]
    users = [*(user(f"d{i}") for i in range(8)), user("d8") | {"features": {"age": "old"}}]
    message = refused(service.post(f"{campaign}/decisions", users), 422, "8.features.age")
    assert "'old'" in message
    twice = [user(f"d{i % 8}") for i in range(9)]
    refused(service.post(f"{campaign}/decisions", twice), 422, "8.decision_id")
    assert service.campaign(campaign)["decisions"] == 0
    service.done(f"{campaign}/decisions", [user(f"d{i}") for i in range(8)])
    items = [{"decision_id": f"d{i}", "value": 1} for i in range(9)]
    refused(service.post(f"{campaign}/outcomes", items), 404, "8.decision_id")
    assert service.campaign(campaign)["pending"] == 8


@pytest.mark.usefixtures("slow")
def test_a_list_that_was_accepted_is_finished_though_the_campaign_is_paused_in_between(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = service.open()["id"]
    queue = service.engine.queue

    async def pausing(command: Any, seconds: float, id_: str | None = None) -> Any:
        answers = await queue(command, seconds, id_)
        if isinstance(command, Asked):
            await queue(lambda books, at: turn(books, at, campaign, Kind.PAUSED), 0.0, campaign)
        return answers

    monkeypatch.setattr(service.engine, "queue", pausing)
    answers = service.done(f"{campaign}/decisions", [user(f"d{i}") for i in range(10)])
    assert [answer["decision_id"] for answer in answers] == [f"d{i}" for i in range(10)]
    assert service.campaign(campaign)["status"] == "paused"
    refused(service.post(f"{campaign}/decisions", user("d10")), 409, kind="campaign-paused")


@pytest.mark.usefixtures("slow")
def test_where_a_later_part_fails_the_answer_says_what_was_done(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, write = service.open()["id"], service.books.write
    parts: list[int] = []

    def failing() -> int:
        parts.append(1)
        if len(parts) == 2:
            raise LedgerError("the disk is full")
        return write()

    monkeypatch.setattr(service.books, "write", failing)
    users = [user(f"d{i}") for i in range(7)]
    message = refused(service.post(f"{campaign}/decisions", users), 503, kind="not-durable")
    assert "the first 3 of the list were done: ask again with the same ids" in message
    monkeypatch.setattr(service.engine, "_try_again", 0.0)  # the pause is over
    assert len(service.done(f"{campaign}/decisions", users)) == 7
    assert service.campaign(campaign)["decisions"] == 7
