"""The processes that serve a shared ledger: seen, told of, and forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from postgresql import server

from bccb.ledger.keys import make_key
from bccb.ledger.port import Beat, LedgerError, Replicas
from bccb.ledger.postgresql.ledger import PostgresqlLedger
from bccb.ledger.postgresql.replicas import PostgresqlReplicas

LONG = 10.0  # seconds, longer than any notice takes
SECOND = 1_000_000


@pytest.fixture
def place() -> str:
    return server().new_place()


@pytest.fixture
def ledger(place: str) -> Iterator[PostgresqlLedger]:
    with closing(PostgresqlLedger(place)) as opened:
        yield opened


@pytest.fixture
def one(ledger: PostgresqlLedger) -> Iterator[PostgresqlReplicas]:
    with closing(ledger.replicas()) as opened:
        yield opened


@pytest.fixture
def other(ledger: PostgresqlLedger) -> Iterator[PostgresqlReplicas]:
    with closing(ledger.replicas()) as opened:
        yield opened


def beat(replicas: Replicas, id_: str, leaving: bool = False) -> Beat:
    return replicas.beat(id_, f"http://{id_}:8000", "1.0", leaving)


def age(place: str, id_: str, seconds: float) -> None:
    """As if a replica had not been seen for so long."""
    change = f"UPDATE replicas SET beat = beat - interval '{seconds} seconds' WHERE id = '{id_}'"
    server().run(change, place)


def test_a_sign_of_life_tells_who_else_lives(
    one: PostgresqlReplicas, other: PostgresqlReplicas
) -> None:
    (alone,) = beat(one, "a").replicas
    assert (alone.id, alone.address, alone.version) == ("a", "http://a:8000", "1.0")
    assert alone.alive
    assert not alone.leaving
    both = beat(other, "b", leaving=True)
    assert {each.id: (each.alive, each.leaving) for each in both.replicas} == {
        "a": (True, False),
        "b": (True, True),
    }


def test_time_is_that_of_the_database(one: PostgresqlReplicas, place: str) -> None:
    before = beat(one, "a")
    ((now,),) = server().run("SELECT extract(epoch FROM clock_timestamp()) * 1e6", place)
    after = beat(one, "a")
    assert isinstance(before.at, int)
    assert before.at < int(str(now).partition(".")[0]) < after.at < before.at + 60 * SECOND


def test_who_is_not_seen_is_dead_after_three_seconds_and_forgotten_after_a_minute(
    one: PostgresqlReplicas, place: str
) -> None:
    beat(one, "a")
    beat(one, "b")
    for seconds, alive in ((2.0, True), (1.1, False), (50.0, False)):
        age(place, "b", seconds)
        assert {each.id: each.alive for each in beat(one, "a").replicas} == {"a": True, "b": alive}
    age(place, "b", 8.0)
    assert [each.id for each in beat(one, "a").replicas] == ["a"]
    assert {each.id for each in beat(one, "b").replicas} == {"a", "b"}  # it may come back


def test_who_leaves_is_forgotten_at_once(one: PostgresqlReplicas) -> None:
    beat(one, "a")
    beat(one, "b")
    one.leave("b")
    one.leave("c")
    assert [each.id for each in beat(one, "a").replicas] == ["a"]


def waited(replicas: PostgresqlReplicas, act: Callable[[], object], seconds: float = LONG) -> float:
    """How long a wait lasts in which something happens."""
    timer = threading.Timer(0.2, act)
    timer.start()
    begin = time.monotonic()
    replicas.wait(seconds)
    lasted = time.monotonic() - begin
    timer.join()
    return lasted


def test_whoever_waits_is_told_of_changes(
    ledger: PostgresqlLedger, one: PostgresqlReplicas, other: PostgresqlReplicas, place: str
) -> None:
    def add_campaign() -> None:
        ledger.begin()
        ledger.add_campaign(1, "c1", "autumn")
        ledger.commit()

    one.wait(0.0)
    for act in (
        lambda: beat(other, "b"),
        lambda: beat(other, "b", leaving=True),
        lambda: other.leave("b"),
        lambda: make_key(ledger, "shop", "read"),
        lambda: ledger.revoke_key(ledger.keys()[0].id, 1),
        add_campaign,
    ):
        assert waited(one, act) < LONG / 2
    beat(other, "b")
    age(place, "b", 5.0)
    one.wait(0.1)
    assert waited(one, lambda: beat(other, "b")) < LONG / 2  # it was taken for dead
    assert one.keys() == ledger.keys()


def test_a_change_between_two_waits_is_not_missed(
    one: PostgresqlReplicas, other: PostgresqlReplicas
) -> None:
    one.wait(0.0)
    beat(other, "b")
    beat(one, "a")  # its own, and while it speaks the other's notice comes in
    begin = time.monotonic()
    one.wait(LONG)
    assert time.monotonic() - begin < LONG / 2


def test_nobody_is_told_of_plain_signs_of_life(
    one: PostgresqlReplicas, other: PostgresqlReplicas
) -> None:
    beat(one, "a")
    beat(other, "b")
    while waited(one, lambda: None, 0.1) < 0.1:
        pass  # notices of the two who came
    assert waited(one, lambda: beat(other, "b"), 0.6) >= 0.6


def test_a_lost_connection_is_made_anew_and_ends_a_wait(
    one: PostgresqlReplicas, other: PostgresqlReplicas
) -> None:
    one.wait(0.0)

    def end() -> None:
        server().run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' "
            "OR query LIKE '-- Be told%'"
        )

    with pytest.raises(LedgerError):
        waited(one, end)
    begin = time.monotonic()
    one.wait(LONG)  # something may have been missed
    assert time.monotonic() - begin < LONG / 2
    assert waited(one, lambda: beat(other, "b")) < LONG / 2
    assert [each.id for each in beat(one, "b").replicas] == ["b"]
