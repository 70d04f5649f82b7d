"""What happens to a ledger whose server or network fails: every call ends, and none lies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from postgresql import server
from processes import until
from proxies import Proxy

from bccb.errors import InputError
from bccb.ledger.event import Event
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import (
    EMPTY,
    Account,
    ConflictError,
    LedgerError,
    Mark,
    RefusedError,
    Snapshot,
    concerns_all,
)
from bccb.ledger.postgresql import connection as connections
from bccb.ledger.postgresql.ledger import PostgresqlLedger
from bccb.ledger.postgresql.reader import PostgresqlReader
from bccb.ledger.postgresql.session import Session

ACCOUNT = Account(1, "c1", "autumn", 1, 7, 0, 10, 0, 0)
OPENED = Event(1, 1, 10, "opened", "c1", money=10, remaining=10, detail=b"{}", seal=7)
LIMIT = 1.0  # seconds of silence here


@pytest.fixture
def place() -> str:
    return server().new_place()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy(server().folder / ".s.PGSQL.5432")
    yield made
    made.close()


@pytest.fixture
def ledger(place: str, proxy: Proxy) -> Iterator[PostgresqlLedger]:
    """A ledger behind a network that can be broken."""
    with closing(PostgresqlLedger(proxy.url(place))) as opened:
        write(opened)
        yield opened


def write(ledger: PostgresqlLedger) -> None:
    ledger.begin()
    ledger.add_campaign(1, "c1", "autumn")
    ledger.advance(ACCOUNT, EMPTY)
    ledger.append([OPENED])
    ledger.commit()


def move(ledger: PostgresqlLedger, sequence: int = 2) -> None:
    """One more event."""
    ledger.begin()
    ledger.advance(ACCOUNT._replace(sequence=sequence), Mark(sequence - 1, ACCOUNT.seal))
    ledger.append([Event(1, sequence, 11, "paused")])
    ledger.commit()


def backend(session: Session) -> int:
    """The process of the server that answers."""
    with session.speaking("read") as connection:
        return connection.info.backend_pid


def end_sessions(ledger: PostgresqlLedger) -> None:
    """As an administrator who ends connections."""
    server().run(f"SELECT pg_terminate_backend({backend(ledger._session)})")


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Session.speaking
    monkeypatch.setattr(
        Session, "speaking", lambda self, verb, patience=LIMIT: real(self, verb, LIMIT)
    )


@pytest.mark.parametrize("call", ["write", "read", "probe", "keys", "reader"])
def test_a_network_that_swallows_everything_ends_a_call_in_time(
    ledger: PostgresqlLedger, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    impatient(monkeypatch)
    reader = PostgresqlReader(Session(ledger._session.url, read_only=True))
    reader.accounts()
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: move(ledger),
        "read": ledger.accounts,
        "probe": ledger.probe,
        "keys": ledger.keys,
        "reader": reader.accounts,
    }
    proxy.swallows = True
    begin = time.monotonic()
    with (
        closing(reader),
        pytest.raises(LedgerError, match="no answer within 1 seconds") as raised,
    ):
        calls[call]()
    assert LIMIT <= time.monotonic() - begin < LIMIT + 2.0
    assert type(raised.value) is LedgerError
    assert concerns_all(raised.value)
    ledger.roll_back()
    proxy.swallows = False
    assert ledger.accounts() == [ACCOUNT]  # over a new connection
    move(ledger)


def test_the_limit_is_short_enough_for_those_who_wait() -> None:
    assert connections.PATIENCE <= 6.0
    assert connections.Connection.patience == connections.PATIENCE
    assert connections.DEFAULTS["connect_timeout"] == 5


def test_a_connection_that_is_never_answered_is_given_up(
    place: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.DEFAULTS, "connect_timeout", 2)
    proxy.swallows = True
    begin = time.monotonic()
    with pytest.raises(LedgerError, match="cannot open the ledger .*timeout"):
        PostgresqlLedger(proxy.url(place))
    assert time.monotonic() - begin < 4.0


def test_a_commit_whose_answer_is_lost_is_an_error_and_the_ledger_says_what_happened(
    ledger: PostgresqlLedger, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    proxy.swallows_answers = True
    with pytest.raises(LedgerError) as raised:
        move(ledger)
    assert type(raised.value) is LedgerError
    proxy.swallows_answers = False
    (account,) = ledger.accounts()
    assert account.sequence == 2
    assert [event.sequence for event in ledger.events(1)] == [1, 2]


def test_what_is_half_sent_is_committed_whole_or_not_at_all(
    ledger: PostgresqlLedger, proxy: Proxy
) -> None:
    proxy.cut()
    with pytest.raises(LedgerError):
        for _ in range(2):  # the first may find the connection lost, and make a new one
            proxy.cut()
            move(ledger)
    proxy.cut()
    (account,) = ledger.accounts()
    assert account.sequence == len(list(ledger.events(1)))


def test_an_idle_connection_that_was_ended_is_opened_again(ledger: PostgresqlLedger) -> None:
    for sequence in (2, 3):
        end_sessions(ledger)
        time.sleep(0.1)
        move(ledger, sequence)
        end_sessions(ledger)
        time.sleep(0.1)
        assert [account.sequence for account in ledger.accounts()] == [sequence]


def test_a_server_that_is_away_is_an_error_of_the_ledger(
    ledger: PostgresqlLedger, proxy: Proxy
) -> None:
    proxy.close()
    for call in (lambda: move(ledger), ledger.probe, ledger.accounts, ledger.keys):
        with pytest.raises(LedgerError, match="cannot open the ledger") as raised:
            call()
        assert type(raised.value) is LedgerError
        ledger.roll_back()


def test_a_rival_that_holds_a_row_holds_nobody_up_for_long(
    ledger: PostgresqlLedger, place: str
) -> None:
    with ledger._session.speaking("read") as connection:
        assert connection.execute("SHOW lock_timeout").fetchone() == ("3s",)
        connection.execute("SET lock_timeout = '200ms'")
    with psycopg.connect(place) as rival:
        rival.execute("UPDATE campaigns SET sequence = 2")
        with pytest.raises(ConflictError, match="lock timeout"):
            move(ledger)
        rival.rollback()  # it has not been silent for long, and is not ended
    move(ledger)


def test_a_rival_that_was_stopped_in_the_middle_of_a_commit_is_ended(
    ledger: PostgresqlLedger, place: str
) -> None:
    """Its row is changed, no end was sent, and no time-out of the server runs for it."""
    with ledger._session.speaking("read") as connection:
        connection.execute("SET lock_timeout = '200ms'")
    rival = psycopg.connect(place, autocommit=True)
    rival.pgconn.enter_pipeline_mode()
    for statement in (b"BEGIN", b"UPDATE campaigns SET sequence = 2"):
        rival.pgconn.send_query_params(statement, None)
    rival.pgconn.flush()
    holding = "SELECT count(*) FROM pg_locks WHERE mode = 'RowExclusiveLock' AND granted"
    until(lambda: server().run(holding, place) != [(0,)])
    with pytest.raises(ConflictError, match="lock timeout"):
        move(ledger)
    time.sleep(3.1)
    with pytest.raises(ConflictError, match="lock timeout"):
        move(ledger)
    move(ledger)
    assert [account.sequence for account in ledger.accounts()] == [2]
    rival.close()


def test_a_deadlock_is_a_lost_race(place: str) -> None:
    error = psycopg.errors.DeadlockDetected("deadlock detected")
    assert not concerns_all(Session(place, read_only=True).error(error, "write to"))


def test_a_database_that_takes_no_writes_is_at_fault_and_no_campaign(
    ledger: PostgresqlLedger,
) -> None:
    with ledger._session.speaking("read") as connection:
        connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(LedgerError, match="read-only transaction") as raised:
        move(ledger)
    assert type(raised.value) is LedgerError


def test_who_only_reads_cannot_write(place: str, ledger: PostgresqlLedger) -> None:
    with closing(PostgresqlLedger(place, read_only=True)) as reader:
        assert reader.accounts() == [ACCOUNT]
        with pytest.raises(LedgerError, match="read-only transaction"):
            move(reader)


def test_text_that_postgresql_cannot_keep_is_refused(ledger: PostgresqlLedger) -> None:
    for id_ in ("a\0b", "\ud800"):
        with pytest.raises(RefusedError):
            ledger.begin()
            ledger.append([Event(1, 2, 11, "budget", id_, money=1)])
            ledger.commit()
        ledger.roll_back()
        with pytest.raises(RefusedError):
            ledger.begin()
            ledger.add_campaign(2, id_, "winter")
            ledger.commit()
        ledger.roll_back()
    assert ledger.known(1, ["a\0b"]) == {}
    assert ledger.account("a\0b") is None


def test_numbers_beyond_its_own_are_refused(ledger: PostgresqlLedger) -> None:
    with pytest.raises(RefusedError):
        ledger.begin()
        ledger.advance(ACCOUNT._replace(budget=2**63), ACCOUNT.mark)
        ledger.commit()
    ledger.roll_back()
    assert ledger.accounts() == [ACCOUNT]


def test_readers_use_connections_again(ledger: PostgresqlLedger) -> None:
    used = set()
    for _ in range(3):
        with closing(ledger.reader()) as reader:
            used.add(backend(reader._session))
            reader.close()  # twice in all, which must not give it to two
    assert len(used) == 1
    with closing(ledger.reader()) as one, closing(ledger.reader()) as other:
        assert backend(one._session) != backend(other._session)


# Passwords


SECRET = "s3cr3t-pa%24s"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://shop:{SECRET}@127.0.0.1:1/none",
        f"postgres://shop:{SECRET}@127.0.0.1:1/none?connect_timeout=1",
        f"postgresql://shop@127.0.0.1:1/none?password={SECRET}",
        f"postgresql://shop:{SECRET}%zz@127.0.0.1:1/none",
        f"postgresql://shop:{SECRET}@127.0.0.1:1/none?nonsense=1",
        f"postgresq://shop:{SECRET}@127.0.0.1:1/none",
        f"postgresql://shop:{SECRET}@@127.0.0.1:x/none",
    ],
)
def test_no_message_has_a_password(url: str) -> None:
    with pytest.raises((LedgerError, InputError)) as raised:
        open_ledger(url)
    assert "s3cr3t" not in str(raised.value)
    assert "s3cr3t" not in repr(raised.value.__cause__)


def test_a_refusal_does_not_quote_the_row(ledger: PostgresqlLedger) -> None:
    with pytest.raises(RefusedError) as raised:
        ledger.begin()
        ledger.append([Event(1, 2, 11, "outcome", "a-users-id", value=9e9)])
        ledger.commit()
    assert "a-users-id" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_an_older_version_does_not_replace_the_first_snapshot_of_a_newer_one(
    ledger: PostgresqlLedger,
) -> None:
    newer, older = Snapshot(1, "2", 1, b"newer", 8), Snapshot(1, "1", 0, b"older", 9)
    for snapshot in (older, newer, older):
        ledger.begin()
        ledger.keep(1, snapshot)
        ledger.commit()
    assert ledger.snapshot(1) == ledger.origin(1) == newer
