"""Forwarding to the replica that holds a campaign: what is handed on, and who is believed."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from processes import Server, bccb, serving

from bccb.ledger.keys import make_key
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Replica, Scope
from bccb.serve import peer as peers
from bccb.serve.cells import cells_of
from bccb.serve.forwarding import FORWARDED, REQUEST_ID, Forwarder
from bccb.serve.metrics import Metrics
from bccb.serve.places import Places
from bccb.serve.problem import not_durable
from serve.service import Service, refused, user

AS_A_REPLICA = {FORWARDED.decode(): "http://10.0.0.7:8000"}
MADE = "0123456789abcdef" * 2  # as a proxy makes an id
LARGE = 3 * peers.WHOLE

Answering = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def alive(address: str) -> Replica:
    return Replica(address, address, "1.0", False, True)


def join(service: Service, *others: str) -> Forwarder:
    """Let replicas at these addresses hold all campaigns."""
    places = Places("http://127.0.0.1:1")
    places.update([alive(each) for each in others])
    forwarder = service.engine.forwarder = Forwarder(places, Metrics())
    return forwarder


class Fake:
    """A replica that remembers what it was asked."""

    def __init__(self, service: Service, answering: Answering) -> None:
        self.asked: list[bytes] = []
        self._answering = answering
        self._tasks: set[asyncio.Task[Any]] = set()
        self._service = service
        self._server = service.run(asyncio.start_server(self._serve, "127.0.0.1"))
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.partition(b"content-length: ")[2].partition(b"\r")[0] or b"0")
                self.asked.append(head + await reader.readexactly(size))
                await self._answering(self.asked[-1], writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self._service.run(end())


Faking = Callable[[Answering], Fake]


@pytest.fixture
def fake(service: Service) -> Iterator[Faking]:
    made: list[Fake] = []

    def start(answering: Answering) -> Fake:
        made.append(Fake(service, answering))
        return made[-1]

    yield start
    if service.engine.forwarder is not None:
        service.engine.forwarder.close()
    for each in made:
        each.close()


async def empty(request: bytes, writer: asyncio.StreamWriter) -> None:
    """As a replica without campaigns answers."""
    body = b'{"campaigns":[]}'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    writer.write(head % len(body) + (b"" if request.startswith(b"HEAD") else body))


async def stalling(request: bytes, writer: asyncio.StreamWriter) -> None:
    """Begins a large answer, and does not end it."""
    if not request.startswith(b"GET /healthz"):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % LARGE)
        writer.write(b" " * (LARGE // 2))
        await asyncio.sleep(60.0)
    await empty(request, writer)


# Whom is believed


def keyed(service: Service, scope: Scope) -> dict[str, str]:
    with closing(open_ledger(service.place)) as ledger:
        _, key = make_key(ledger, scope.value, scope)
    return {"authorization": f"Bearer {key}"}


def test_who_claims_to_be_a_replica_is_answered_here(service: Service, fake: Faking) -> None:
    campaign, other = service.open()["id"], fake(empty)
    join(service, other.address)
    for path in (campaign, ""):
        assert service.ask("GET", path, headers=AS_A_REPLICA).status_code == 200
    assert service.post(f"{campaign}/decisions", user("u"), headers=AS_A_REPLICA).is_success
    assert other.asked == []
    assert service.get(campaign).json() == {"campaigns": []}
    assert len(other.asked) == 1


def test_who_claims_to_be_a_replica_needs_a_key_as_everybody(
    service: Service, fake: Faking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bccb.serve.access.FRESH", 0.0)
    campaign = service.open()["id"]
    join(service, fake(empty).address)
    reads = keyed(service, Scope.READ)
    pause = f"{campaign}/pause"
    refused(service.ask("GET", campaign, headers=AS_A_REPLICA), 401, kind="no-key")
    refused(service.post(pause, headers=AS_A_REPLICA), 401, kind="no-key")
    refused(service.post(pause, headers={**AS_A_REPLICA, **reads}), 403, kind="wrong-scope")
    seen = service.ask("GET", campaign, headers={**AS_A_REPLICA, **reads})
    assert (seen.status_code, seen.json()["status"]) == (200, "running")


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """Another replica, which knows a key that may read; and that key."""
    ledger = tmp_path_factory.mktemp("second") / "data" / "bccb.sqlite"
    ledger.parent.mkdir()
    made = bccb("keys", "create", "me", "--scope", "read", "--ledger", ledger).stdout
    with serving(ledger) as server:
        yield server, next(word for word in made.split() if word.startswith("bccb_"))


def test_the_second_replica_checks_the_key_again(
    service: Service, second: tuple[Server, str]
) -> None:
    """The first one knows of no keys here, as if they had been made just now."""
    server, key = second
    forwarder = join(service, server.address)
    reads = {"authorization": f"Bearer {key}"}
    refused(service.post("c1/pause", headers=reads), 403, kind="wrong-scope")
    refused(service.post("c1/pause"), 401, kind="no-key")
    refused(service.ask("GET", "c1", headers=reads), 404, kind="unknown")
    assert forwarder.places.others()  # to refuse is to answer
    forwarder.close()


# What is handed on


def test_head_is_forwarded_as_get(service: Service, fake: Faking) -> None:
    other = fake(empty)
    forwarder = join(service, other.address)
    for path in ("c1", "", "c1/report", "c1x2"):
        service.run(asyncio.wait_for(service.http.head(f"/v1/campaigns/{path}".rstrip("/")), 10.0))
    assert all(asked.startswith(b"GET ") for asked in other.asked)
    assert len(other.asked) >= 4
    assert forwarder.places.others()


def ids_of(asked: list[bytes]) -> list[str]:
    name = REQUEST_ID + b": "
    lines = [line for each in asked for line in each.split(b"\r\n") if line.startswith(name)]
    return [line.removeprefix(name).decode() for line in lines]


def test_an_id_that_a_proxy_gave_is_handed_on(service: Service, fake: Faking) -> None:
    other = fake(empty)
    join(service, other.address)
    for _ in range(2):
        service.post("c1/budget", {"add": "1"}, headers={REQUEST_ID.decode(): MADE})
    assert ids_of(other.asked) == [MADE, MADE]


@pytest.mark.parametrize("given", [None, "", "a" * 23, "a" * 33, "A" * 24, "a" * 5_000, "-" * 24])
def test_other_ids_are_replaced(service: Service, fake: Faking, given: str | None) -> None:
    other = fake(empty)
    join(service, other.address)
    headers = {} if given is None else {REQUEST_ID.decode(): given}
    for _ in range(2):
        service.post("c1/budget", {"add": "1"}, headers=headers)
    first, again = ids_of(other.asked)
    assert len(first) == len(again) == 24
    assert len({first, again, given}) == 3


def test_money_that_a_proxy_sends_twice_is_added_once(service: Service) -> None:
    campaign = service.open(budget="10.00")["id"]
    for _ in range(2):
        made = {REQUEST_ID.decode(): MADE}
        assert service.post(f"{campaign}/budget", {"add": "5"}, headers=made).is_success
    assert service.campaign(campaign)["budget"] == "15.00"
    for _ in range(2):  # it may be anything, and counts as none
        made = {REQUEST_ID.decode(): "x" * 5_000}
        assert service.post(f"{campaign}/budget", {"add": "5"}, headers=made).is_success
    assert service.campaign(campaign)["budget"] == "25.00"


def test_one_that_does_not_answer_is_replaced_under_the_same_id(
    service: Service, fake: Faking
) -> None:
    async def cutting(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.close()

    campaign, other = service.open(budget="10.00")["id"], fake(cutting)
    join(service, other.address)
    assert service.done(f"{campaign}/budget", {"add": "5"})["budget"] == "15.00"
    (id_,) = ids_of(other.asked)
    events = list(service.books.ledger.events(service.books.campaign(campaign).key))
    assert events[-1].decision == id_


# Replicas that fail


def test_a_list_does_without_a_replica_that_does_not_end_its_answer(
    service: Service, fake: Faking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "READ_SECONDS", 0.2)
    campaign = service.open()["id"]
    join(service, fake(stalling).address, fake(empty).address)
    answer = service.run(asyncio.wait_for(service.http.get("/v1/campaigns"), 10.0))
    assert [each["id"] for each in answer.json()["campaigns"]] == [campaign]


def test_a_cell_that_does_not_end_its_answer_is_a_documented_refusal(
    service: Service, fake: Faking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "READ_SECONDS", 0.2)
    hot = service.open(cells=2)["id"]
    join(service, fake(stalling).address)
    assert "to the end" in refused(service.get(hot), 503, kind="not-durable")


def test_an_address_that_cannot_be_read_is_that_of_nobody(service: Service) -> None:
    campaign = service.open()["id"]
    forwarder = join(service, "http://10.0.0.7:80x")
    assert service.campaign(campaign)["id"] == campaign
    assert not forwarder.places.others()


def test_a_shortage_here_is_no_fault_of_the_holder(
    service: Service, fake: Faking, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_left(*given: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    other = fake(empty)
    forwarder = join(service, other.address)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "open_connection", none_left)
        refused(service.get("c1"), 503, kind="not-durable")
    assert forwarder.places.others()
    assert service.get("c1").is_success


def test_replicas_that_are_gone_are_forgotten(service: Service, fake: Faking) -> None:
    old, new = fake(empty), fake(empty)
    forwarder = join(service, old.address)
    assert service.get("c1").is_success
    (kept,) = forwarder._peers[old.address]._kept
    forwarder.places.update([alive(new.address)])
    assert service.get("c1").is_success
    assert list(forwarder._peers) == [new.address]
    assert kept.writer.is_closing()


# Cells


def test_money_is_added_to_cells_after_all_of_them_answered(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = service.open(cells=3, budget="30.00")["id"]
    cells, books = cells_of(hot), service.books
    look = type(books).look

    def failing(self: Any, id_: str) -> Any:
        if id_ == cells[2]:
            raise not_durable("it cannot be reached")
        return look(self, id_)

    with monkeypatch.context() as patch:
        patch.setattr(type(books), "look", failing)
        answer: httpx.Response = service.post(f"{hot}/budget", {"add": "6"})
    refused(answer, 503, kind="not-durable")
    assert service.campaign(hot)["budget"] == "30.00"
    added = service.done(f"{hot}/budget", {"add": "6"})
    assert (added["id"], added["budget"], added["cells"]) == (hot, "36.00", 3)
    assert service.campaign(cells[0])["budget"] == "16.00"
