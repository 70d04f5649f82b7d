"""What every engine of the ledger must do. A new engine is one line in ``PLACES``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from postgresql import server

from bccb.errors import InputError
from bccb.ledger.event import Event
from bccb.ledger.opening import ENGINES, open_ledger
from bccb.ledger.port import (
    EMPTY,
    Account,
    ConflictError,
    DamagedError,
    Key,
    Ledger,
    LedgerError,
    Mark,
    MissingError,
    RefusedError,
    Resolved,
    Scope,
    Snapshot,
)

# Where each engine puts a new ledger
PLACES: dict[str, Callable[[Path], str]] = {
    "": lambda folder: str(folder / "ledger.sqlite"),
    "postgresql": lambda _: server().new_place(),
}

BUDGET = 1_000_000
ACCOUNT = Account(1, "c1", "autumn", 3, 99, 0, BUDGET, 200_000, 300_000)
EVENTS = (
    Event(1, 1, 10, "opened", "c1", money=BUDGET, remaining=BUDGET, detail=b"{}"),
    Event(1, 2, 11, "decision", "u1", 1, 1, 500_000, None, 0.1, 1.0, 500_000, b"\0trace"),
    Event(1, 3, 12, "settlement", "u1", 1, money=200_000, remaining=500_000, seal=2**32 - 1),
)
SNAPSHOT = Snapshot(3, "0", 0, b"\0state", 7)
PAUSED = Event(1, 4, 13, "paused")


@contextmanager
def writing(ledger: Ledger) -> Iterator[None]:
    """A transaction, undone if it does not reach its end."""
    ledger.begin()
    try:
        yield
        ledger.commit()
    finally:
        ledger.roll_back()


@pytest.fixture(params=PLACES, ids=lambda scheme: scheme or "sqlite")
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return PLACES[request.param](tmp_path)


@pytest.fixture
def ledger(place: str) -> Iterator[Ledger]:
    """A ledger with a campaign of three events and a snapshot."""
    with closing(open_ledger(place)) as opened:
        with writing(opened):
            opened.add_campaign(1, "c1", "autumn")
            opened.advance(ACCOUNT, EMPTY)
            opened.append(EVENTS)
            opened.keep(1, SNAPSHOT)
        yield opened


@pytest.fixture
def rival(ledger: Ledger, place: str) -> Iterator[Ledger]:
    """Another writer of the same ledger."""
    with closing(open_ledger(place)) as opened:
        yield opened


def taken(ledger: Ledger) -> type[LedgerError]:
    """How a key that is there already is refused: in a shared ledger another writer may have it."""
    return ConflictError if ledger.shared else RefusedError


def assert_untouched(ledger: Ledger) -> None:
    assert ledger.accounts() == [ACCOUNT]
    assert tuple(ledger.events(1)) == EVENTS
    assert ledger.snapshot(1) == SNAPSHOT


def test_every_engine_is_tested() -> None:
    assert {*PLACES, "postgres"} == set(ENGINES)
    assert ENGINES["postgres"] is ENGINES["postgresql"]


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InputError, match="ledger is 'oracle://host/db', but must be "):
        open_ledger("oracle://host/db")


# What was written is read


def test_what_was_written_is_read(ledger: Ledger) -> None:
    assert_untouched(ledger)
    assert ledger.account("c1") == ACCOUNT
    assert ledger.account("c2") is None
    assert ledger.first(1) == EVENTS[0]
    assert ledger.first(2) is None
    assert ledger.seal_at(1, 3) == EVENTS[2].seal
    assert ledger.seal_at(1, 4) is None
    assert ledger.origin(1) is None
    assert ledger.snapshot(2) is None
    ledger.check_whole()


def test_what_was_committed_outlives_the_process(ledger: Ledger, place: str) -> None:
    ledger.close()
    with closing(open_ledger(place)) as again:
        assert_untouched(again)


def test_floats_and_bytes_are_kept_to_the_bit(ledger: Ledger) -> None:
    event = Event(
        *(1, 4, 2**62, "decision", "größe\n'", 2**62, 0, 2**62),
        *(None, 5e-324, 1 - 2**-53, 2**62, bytes(range(256)), 0),
    )
    with writing(ledger):
        ledger.append([event])
    assert next(ledger.events(1, 3)) == event


def test_accounts_are_listed_in_the_order_of_their_keys(ledger: Ledger) -> None:
    with writing(ledger):
        ledger.add_campaign(3, "c0", "spring")
        ledger.add_campaign(2, "c9", "winter")
    assert [each.key for each in ledger.accounts()] == [1, 2, 3]


def test_events_are_read_over_many_pages(ledger: Ledger) -> None:
    last = 20_001
    with writing(ledger):
        ledger.append(PAUSED._replace(sequence=each) for each in range(4, last + 1))
    assert [each.sequence for each in ledger.events(1, 2)] == list(range(3, last + 1))
    assert list(ledger.events(1, last)) == []


def test_a_gap_in_the_journal_is_damage(ledger: Ledger) -> None:
    with writing(ledger):
        ledger.append([PAUSED, PAUSED._replace(sequence=6)])
    with pytest.raises(DamagedError, match="event 5 is missing"):
        list(ledger.events(1))


def test_events_are_known_by_the_ids_of_their_decisions(ledger: Ledger) -> None:
    known = ledger.known(1, ["u1", "u2"])
    assert {id_: sorted(events) for id_, events in known.items()} == {"u1": list(EVENTS[1:])}
    assert ledger.known(1, []) == {}
    assert ledger.known(2, ["u1"]) == {}


def test_events_of_several_campaigns_are_read_together(ledger: Ledger) -> None:
    other = EVENTS[1]._replace(campaign=2, sequence=1)
    with writing(ledger):
        ledger.add_campaign(2, "c2", "winter")
        ledger.append([other])
    known = ledger.known_in({1: ["u1", "u2"], 2: ["u1"], 3: ["u1"]})
    assert {id_: sorted(events) for id_, events in known[1].items()} == {"u1": list(EVENTS[1:])}
    assert known[2] == {"u1": [other]}
    assert known[3] == {}
    assert ledger.known_in({}) == {}
    assert ledger.known_in({1: []}) == {1: {}}


@pytest.fixture
def decided(ledger: Ledger) -> list[Event]:
    """Five decisions of which three have ended, each in another way."""
    made = [EVENTS[1]._replace(sequence=4 + i, decision=f"d{i}", number=i + 2) for i in range(5)]
    ends = [
        Event(1, 9, 20, "outcome", "d0", 2, 0, value=0.25),
        Event(1, 10, 21, "expiry", "d1", 3, value=0.0),
        Event(1, 11, 22, "cancellation", "d2", 4, money=500_000),
    ]
    with writing(ledger):
        ledger.append([*made, *ends])
    return made


def test_decisions_are_listed_with_their_ends_page_by_page(
    ledger: Ledger, decided: list[Event]
) -> None:
    assert ledger.resolved(1, 3, 11, 100) == [
        Resolved(decided[0], "outcome", 0.25, 0),
        Resolved(decided[1], "expiry", 0.0, None),
        Resolved(decided[2], "cancellation", None, None),
        Resolved(decided[3], None, None, None),
        Resolved(decided[4], None, None, None),
    ]
    assert [each.decision for each in ledger.resolved(1, 5, 11, 2)] == decided[2:4]
    assert [each.kind for each in ledger.resolved(1, 3, 9, 3)] == ["outcome", None, None]
    assert [each.decision for each in ledger.resolved(1, 3, 5, 100)] == decided[:2]


def test_the_next_decisions_after_an_event_are_listed(ledger: Ledger, decided: list[Event]) -> None:
    assert ledger.decisions_since(1, 0, 100) == [EVENTS[1], *decided]
    assert ledger.decisions_since(1, 4, 2) == decided[1:3]


# Compare and set


def test_an_account_moves_from_its_last_event(ledger: Ledger) -> None:
    moved = ACCOUNT._replace(sequence=4, seal=5, swept=2, spent=BUDGET, reserved=0)
    with writing(ledger):
        ledger.advance(moved, ACCOUNT.mark)
        ledger.append([PAUSED])
    assert ledger.accounts() == [moved]


FORK = ACCOUNT.mark._replace(seal=98)  # another event of the same number, as after a failover


@pytest.mark.parametrize("before", [EMPTY, Mark(2, 99), Mark(4, 99), FORK])
def test_an_account_does_not_move_from_another_event(ledger: Ledger, before: Mark) -> None:
    with pytest.raises(ConflictError, match="c1"), writing(ledger):
        ledger.advance(ACCOUNT._replace(sequence=5), before)
    assert_untouched(ledger)


def test_who_loses_a_race_changes_nothing(ledger: Ledger, rival: Ledger) -> None:
    winner = ACCOUNT._replace(sequence=4, spent=600_000)
    assert rival.account("c1") == ledger.account("c1")  # both decide from the same state
    with writing(ledger):
        ledger.advance(winner, ACCOUNT.mark)
        ledger.append([PAUSED])
    with pytest.raises(ConflictError), writing(rival):
        rival.advance(ACCOUNT._replace(sequence=5, spent=300_000), ACCOUNT.mark)
        rival.append([PAUSED, PAUSED._replace(sequence=5)])
    assert ledger.accounts() == rival.accounts() == [winner]
    assert len(list(ledger.events(1))) == 4
    with writing(rival):  # who has read again may go on
        rival.advance(winner._replace(sequence=5), winner.mark)
        rival.append([PAUSED._replace(sequence=5)])


# What is refused


@pytest.mark.parametrize(
    "change",
    [
        {"spent": 700_001},
        {"reserved": 800_001},
        {"budget": 499_999},
        {"spent": -1},
        {"reserved": -1},
        {"spent": BUDGET, "reserved": 1},
    ],
    ids=str,
)
def test_no_account_is_ever_overspent(ledger: Ledger, change: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="never_overspent"), writing(ledger):
        ledger.advance(ACCOUNT._replace(sequence=4, **change), ACCOUNT.mark)
    assert_untouched(ledger)


DECISION = EVENTS[1]._replace(sequence=4, decision="u2")
INFINITE, NAN = float("inf"), float("nan")
BAD_EVENTS = {
    "a decision made twice": EVENTS[1]._replace(sequence=4),
    "a settlement made twice": EVENTS[2]._replace(sequence=4, money=1),
    "a sequence used twice": EVENTS[2]._replace(decision="u2"),
    "a sequence of none": EVENTS[2]._replace(sequence=0, decision="u2"),
    "money below zero": EVENTS[2]._replace(sequence=4, decision="u2", money=-1),
    "less than nothing left": EVENTS[1]._replace(sequence=4, decision="u2", remaining=-1),
    "an outcome above 1e9": Event(1, 4, 13, "outcome", "u1", action=1, value=1.1e9),
    "an outcome below -1e9": Event(1, 4, 13, "outcome", "u1", action=1, value=-1.1e9),
    "an outcome that is no number": Event(1, 4, 13, "outcome", "u1", action=1, value=NAN),
    "an outcome of no value": Event(1, 4, 13, "outcome", "u1", action=1),
    "an outcome of no action": Event(1, 4, 13, "outcome", "u1", value=1.0),
    "an expiry of no value": Event(1, 4, 13, "expiry", "u1"),
    "a probability above 1": DECISION._replace(probability=1.1),
    "a probability of 0": DECISION._replace(probability=0.0),
    "a probability that is no number": DECISION._replace(probability=NAN),
    "no probability": DECISION._replace(probability=None),
    "a price that is no number": DECISION._replace(price=NAN),
    "an infinite price": DECISION._replace(price=INFINITE),
    "an infinite price below 0": DECISION._replace(price=-INFINITE),
    "no price": DECISION._replace(price=None),
    "no action": DECISION._replace(action=None),
    "a decision without a number": DECISION._replace(number=None),
    "a decision without a trace": DECISION._replace(detail=None),
    "a price of what is no decision": PAUSED._replace(price=0.5),
    "text as money": DECISION._replace(money="much"),  # type: ignore[arg-type]
    "half a micro": DECISION._replace(money=0.5),  # type: ignore[arg-type]
    "no time": DECISION._replace(at=None),  # type: ignore[arg-type]
    "no kind": DECISION._replace(kind=None),  # type: ignore[arg-type]
    "text as detail": DECISION._replace(detail="text"),  # type: ignore[arg-type]
    "an unknown campaign": Event(2, 1, 13, "opened"),
}


@pytest.mark.parametrize("what", BAD_EVENTS)
def test_an_impossible_event_is_refused_with_its_whole_transaction(
    ledger: Ledger, what: str
) -> None:
    good = DECISION._replace(sequence=5, decision="u5")
    refusal = taken(ledger) if what.endswith("twice") else RefusedError
    with pytest.raises(refusal, match="^cannot write to the ledger "), writing(ledger):
        ledger.append([good, BAD_EVENTS[what]])
    assert_untouched(ledger)


@pytest.mark.parametrize("first", ["outcome", "expiry", "cancellation"])
@pytest.mark.parametrize("second", ["outcome", "expiry", "cancellation"])
def test_a_decision_ends_once(ledger: Ledger, first: str, second: str) -> None:
    ends = {
        "outcome": Event(1, 4, 13, "outcome", "u1", action=1, value=1.0),
        "expiry": Event(1, 4, 13, "expiry", "u1", value=0.0),
        "cancellation": Event(1, 4, 13, "cancellation", "u1"),
    }
    with writing(ledger):
        ledger.append([ends[first]])
    with pytest.raises(taken(ledger)), writing(ledger):
        ledger.append([ends[second]._replace(sequence=5)])
    assert len(list(ledger.events(1))) == 4


def test_a_budget_request_is_granted_once_but_may_have_the_id_of_a_decision(
    ledger: Ledger,
) -> None:
    with writing(ledger):
        ledger.append([Event(1, 4, 13, "budget", "u1", money=5)])
    with pytest.raises(taken(ledger)), writing(ledger):
        ledger.append([Event(1, 5, 13, "budget", "u1", money=5)])


@pytest.mark.parametrize("row", [(2, "c1", "other"), (2, "c2", "autumn"), (1, "c2", "other")])
def test_campaigns_differ_in_key_id_and_name(ledger: Ledger, row: tuple[int, str, str]) -> None:
    with pytest.raises(taken(ledger)), writing(ledger):
        ledger.add_campaign(*row)
    assert_untouched(ledger)


# Transactions


def test_a_transaction_that_raises_leaves_nothing(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), writing(ledger):
        ledger.append([PAUSED])
        ledger.advance(ACCOUNT._replace(sequence=4, spent=250_000), ACCOUNT.mark)
        ledger.keep(1, Snapshot(4, "0", 0, b"other", 8))
        raise ZeroDivisionError
    assert_untouched(ledger)
    with writing(ledger):  # and the next one is as good as any
        ledger.append([PAUSED])
    assert len(list(ledger.events(1))) == 4


def test_a_refused_write_can_be_undone_and_the_ledger_goes_on(ledger: Ledger) -> None:
    with pytest.raises(taken(ledger)), writing(ledger):
        ledger.append([PAUSED])
        ledger.append([EVENTS[1]._replace(sequence=5)])
    assert_untouched(ledger)
    ledger.roll_back()  # outside a transaction it does nothing
    ledger.probe()
    assert_untouched(ledger)


def test_what_was_not_committed_is_gone_with_its_writer(ledger: Ledger, rival: Ledger) -> None:
    rival.begin()
    rival.advance(ACCOUNT._replace(sequence=4), ACCOUNT.mark)
    rival.append([PAUSED])
    rival.close()
    assert_untouched(ledger)
    with writing(ledger):
        ledger.append([PAUSED])


# Snapshots


def test_a_newer_snapshot_replaces_older_ones_except_origins(ledger: Ledger) -> None:
    for sequence, origin in ((4, 1), (5, 0), (6, 0)):
        with writing(ledger):
            ledger.keep(1, SNAPSHOT._replace(sequence=sequence, origin=origin))
    assert ledger.snapshot(1) == SNAPSHOT._replace(sequence=6)
    assert ledger.origin(1) == SNAPSHOT._replace(sequence=4, origin=1)
    with writing(ledger):
        ledger.keep(1, SNAPSHOT._replace(sequence=7, origin=1))
    newest = ledger.origin(1)
    assert newest is not None
    assert newest.sequence == 7


def test_a_snapshot_at_the_same_event_is_replaced(ledger: Ledger) -> None:
    other = Snapshot(3, "1", 1, b"other", 8)
    with writing(ledger):
        ledger.keep(1, other)
    assert ledger.snapshot(1) == ledger.origin(1) == other


def test_snapshots_are_forgotten_by_their_events_alone(ledger: Ledger) -> None:
    with writing(ledger):
        ledger.keep(1, SNAPSHOT._replace(sequence=1, origin=1))
        ledger.keep(1, SNAPSHOT._replace(sequence=900, origin=1))
    with pytest.raises(ZeroDivisionError), writing(ledger):
        ledger.forget(1, [900])
        raise ZeroDivisionError
    with writing(ledger):
        ledger.forget(2, [1])
        ledger.forget(1, [])
        ledger.forget(1, [900, 901])
        ledger.keep(1, SNAPSHOT)
    assert ledger.snapshot(1) == SNAPSHOT
    assert ledger.origin(1) == SNAPSHOT._replace(sequence=1, origin=1)


# Keys


def test_keys_are_added_listed_and_revoked_once(ledger: Ledger, rival: Ledger) -> None:
    late = Key("k1", "shop", Scope.DECIDE, b"\0digest", 20, None)
    early = Key("k2", "büro", Scope.ADMIN, b"other", 10, None)
    ledger.add_key(late)
    ledger.add_key(early)
    assert rival.keys() == [early, late]
    assert ledger.revoke_key("k1", 30)
    assert not ledger.revoke_key("k1", 40)
    assert not ledger.revoke_key("k3", 40)
    assert rival.keys() == [early, late._replace(revoked_at=30)]


@pytest.mark.parametrize("change", [{"id": "k1"}, {"scope": "root"}], ids=str)
def test_a_key_with_a_taken_id_or_an_unknown_scope_is_refused(
    ledger: Ledger, change: dict[str, Any]
) -> None:
    key = Key("k1", "shop", Scope.READ, b"digest", 20, None)
    ledger.add_key(key)
    with pytest.raises(RefusedError):
        ledger.add_key(key._replace(**{"id": "k2", **change}))
    assert ledger.keys() == [key]


# Readers and backups


def test_a_reader_in_another_thread_sees_what_is_committed(ledger: Ledger) -> None:
    seen: list[object] = []

    def read() -> None:
        with closing(ledger.reader()) as reader:
            seen.append((reader.accounts(), tuple(reader.events(1)), reader.snapshot(1)))

    ledger.begin()
    ledger.advance(ACCOUNT._replace(sequence=4), ACCOUNT.mark)
    ledger.append([PAUSED])
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    ledger.roll_back()
    assert seen == [([ACCOUNT], EVENTS, SNAPSHOT)]


def test_a_reader_sees_what_comes_later(ledger: Ledger, place: str) -> None:
    with closing(open_ledger(place, read_only=True)) as reader:
        assert reader.accounts() == [ACCOUNT]
        with writing(ledger):
            ledger.append([PAUSED])
        assert list(reader.events(1, 3)) == [PAUSED]


def test_there_is_nothing_to_read_before_a_ledger_was_made(place: str) -> None:
    with pytest.raises(MissingError, match="there is no ledger .*: `bccb serve` makes it"):
        open_ledger(place, read_only=True)


def test_a_backup_is_a_whole_ledger(ledger: Ledger, place: str, tmp_path: Path) -> None:
    copy = tmp_path / "backup"
    ledger.back_up(copy)
    with writing(ledger):
        ledger.append([PAUSED])
    restored = server().restored(copy, place) if ledger.shared else copy
    with closing(open_ledger(restored)) as result:
        result.check_whole()
        assert_untouched(result)
        with writing(result):
            result.append([PAUSED])


def test_a_backup_that_cannot_be_written_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises((InputError, LedgerError)):
        ledger.back_up(tmp_path)
    with pytest.raises((InputError, LedgerError)):
        ledger.back_up(tmp_path / "none" / "backup")
    assert_untouched(ledger)
