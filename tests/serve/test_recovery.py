"""Recovery: after a restart the state is that of a process that never stopped; damage is reported.

All on real files; the processes of these tests are in `test_damage.py`.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pasts import ALL_KINDS, Past, damage

import bccb.serve.books as books_module
from bccb.ledger.event import Event, Kind
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import DamagedError, LedgerError
from bccb.serve.books import Books
from bccb.serve.quarantine import Quarantined
from bccb.serve.recovery import check_seals, fold, load
from bccb.serve.server import opened
from serve.recovered import reasons


def test_the_past_has_events_of_all_kinds(past: Past) -> None:
    with closing(open_ledger(past.path, read_only=True)) as ledger:
        for account in ledger.accounts():
            kinds = {event.kind for event in ledger.events(account.key)}
            assert kinds == ALL_KINDS - ({Kind.LEARNED} if account.key == 1 else set())
            assert ledger.snapshot(account.key) is None


@pytest.mark.compiled  # many recoveries
@pytest.mark.parametrize("every", [1, 7, 50, 100_000])
@pytest.mark.parametrize("seed", [2, 3])
def test_recovery_gives_the_state_of_the_process_that_never_stopped(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, every: int
) -> None:
    monkeypatch.setattr(books_module, "SNAPSHOT_EVERY", every)
    past = Past(place, seed)
    for _ in range(3):
        past.live(60)
        alive = past.states()
        left = place  # by a kill -9
        if not past.ledger.shared:
            left = str(shutil.copytree(tmp_path, tmp_path / "copy") / past.path.name)
        with closing(open_ledger(left, read_only=True)) as ledger:
            for account in ledger.accounts():
                recovered = load(ledger, account)
                from_the_first = fold(ledger, account, None)
                assert recovered.to_bytes() == from_the_first.to_bytes() == alive[account.name]
                assert recovered.swept == past.campaign(account.name).swept
                snapshot = ledger.snapshot(account.key)
                assert account.sequence - (snapshot.sequence if snapshot else 0) < every + 10
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    past.close()


def test_a_stop_and_a_start_in_between_change_nothing(new_place: Callable[[], str]) -> None:
    straight = Past(new_place(), seed=5)
    straight.live(150)
    stopped = Past(new_place(), seed=5)
    for _ in range(5):
        stopped.live(30)
        stopped.restart()
    assert stopped.states() == straight.states()
    assert dump_of_journal(stopped.place) == dump_of_journal(straight.place)
    straight.close()
    stopped.close()


def dump_of_journal(place: str | Path) -> list[Event]:
    with closing(open_ledger(place, read_only=True)) as ledger:
        return [event for account in ledger.accounts() for event in ledger.events(account.key)]


def test_a_stop_keeps_a_snapshot_of_everything(place: str) -> None:
    past = Past(place, seed=6)
    past.live(40)
    past.restart()
    for campaign in past.books:
        snapshot = past.ledger.snapshot(campaign.key)
        assert snapshot is not None
        assert snapshot.sequence == campaign.sequence
        assert snapshot.state == campaign.to_bytes()
    past.close()


def refusal(path: Path) -> str:
    """What a start says that is refused; it leaves the ledger as it is."""
    before = path.read_bytes()
    with pytest.raises(LedgerError) as refused, opened(path):
        pass
    assert path.read_bytes() == before
    return str(refused.value)


def reason(path: Path, past: Past) -> str:
    """Why the one damaged campaign is quarantined; the other one is served."""
    (result,) = reasons(path)
    with opened(path) as books:
        (other,) = books
        assert other.to_bytes() == past.kept[other.terms.name]
    return result


CHANGES = {
    "sequence": "1000",
    "at": "at + 1",
    "kind": "'unheard-of'",
    "decision": "'nobody'",
    "number": "number + 1",
    "action": "1 - action",
    "money": "money + 1",
    "value": "0.25",
    "price": "price + 0.001",
    "probability": "probability / 2",
    "remaining": "remaining + 1",
    "detail": "zeroblob(length(detail))",
    "seal": "seal + 1",
}


def test_every_column_is_tried() -> None:
    assert {"campaign", *CHANGES} == set(Event._fields)


@pytest.mark.compiled  # many recoveries
@pytest.mark.parametrize("column", CHANGES)
def test_a_change_of_any_column_is_reported_with_its_place(path: Path, column: str) -> None:
    """In an event that has something there."""
    with closing(open_ledger(path)) as ledger:
        (account, _) = ledger.accounts()
        event = next(
            event
            for event in ledger.events(account.key)
            if event.sequence > 5 and getattr(event, column) is not None
        )
    damage(path, f"UPDATE journal SET {column} = {CHANGES[column]} WHERE {at(event)}")
    message = reasons(path)[0]
    assert message.startswith(f"campaign {account.id} is damaged: "), message
    assert f"event {event.sequence} " in message, message


def at(event: Event) -> str:
    return f"campaign = {event.campaign} AND sequence = {event.sequence}"


@pytest.mark.compiled  # many recoveries
@pytest.mark.parametrize("kind", sorted(ALL_KINDS))
@pytest.mark.parametrize("column", ["at", "money", "remaining", "seal"])
def test_a_change_of_any_kind_of_event_is_reported_with_its_place(
    path: Path, kind: str, column: str
) -> None:
    with closing(open_ledger(path)) as ledger:
        account = ledger.accounts()[1]
        event = next(event for event in ledger.events(account.key) if event.kind == kind)
    damage(path, f"UPDATE journal SET {column} = {column} + 1 WHERE {at(event)}")
    (message,) = reasons(path)
    assert message.startswith(f"campaign {account.id} is damaged: at event {event.sequence} "), (
        message
    )
    assert f"({kind})" in message


def test_an_event_moved_to_another_campaign_is_reported(path: Path) -> None:
    moved = "campaign = 2, sequence = 5000"
    damage(path, f"UPDATE journal SET {moved} WHERE sequence = 9 AND campaign = 1")
    assert "event 9 is missing" in reasons(path)[0]


@pytest.mark.parametrize("sequence", [1, 2, 150])
def test_a_missing_event_is_reported(path: Path, past: Past, sequence: int) -> None:
    damage(path, f"DELETE FROM journal WHERE campaign = 1 AND sequence = {sequence}")
    message = reason(path, past)
    assert message.startswith("campaign c")
    assert f"event {sequence} is missing" in message


def test_an_end_that_was_cut_off_is_reported(path: Path, past: Past) -> None:
    with closing(open_ledger(path)) as ledger:
        last = ledger.accounts()[0].sequence
    damage(path, f"DELETE FROM journal WHERE campaign = 1 AND sequence = {last}")
    answer = f"in its row sequence is {last}, but {last - 1} after its last event"
    assert answer in reason(path, past)


def test_an_event_that_was_added_is_reported(path: Path, past: Past) -> None:
    with closing(open_ledger(path)) as ledger:
        last = ledger.accounts()[0].sequence
    row = f"SELECT campaign, sequence + 1, at, 'paused', NULL, NULL, NULL, 0, {'NULL, ' * 3}"
    row += f"remaining, NULL, seal FROM journal WHERE campaign = 1 AND sequence = {last}"
    damage(path, f"INSERT INTO journal {row}")
    assert f"at event {last + 1} (paused): seal is" in reason(path, past)


@pytest.mark.parametrize(
    "change",
    [
        "id = 'c0'",
        "name = 'other'",
        "sequence = sequence - 1",
        "seal = seal + 1",
        "swept = sequence",
        "budget = budget + 1",
        "spent = spent - 1",
        "reserved = reserved + 1",
    ],
)
def test_a_changed_row_of_a_campaign_is_reported(path: Path, past: Past, change: str) -> None:
    damage(path, f"UPDATE campaigns SET {change} WHERE key = 1")
    message = reason(path, past)
    assert message.startswith("campaign c")
    assert change.partition(" ")[0] in message or "at event 1 (opened): decision is" in message


def test_what_lies_before_a_snapshot_is_checked_by_its_seals(path: Path) -> None:
    with opened(path) as books:
        books.keep_all()
    damage(path, "UPDATE journal SET price = price + 1 WHERE campaign = 1 AND number = 3")
    with closing(open_ledger(path, read_only=True)) as ledger:
        account, other = ledger.accounts()
        load(ledger, account)  # a start does not read what it need not
        check_seals(ledger, other, other.sequence)
        with pytest.raises(DamagedError, match=r"event \d+ \(decision\) does not fit its seal"):
            check_seals(ledger, account, account.sequence)
        with pytest.raises(DamagedError, match=r"at event \d+ \(decision\): price is"):
            fold(ledger, account, None)


@pytest.mark.compiled  # many recoveries
def test_a_flipped_bit_is_reported_or_did_nothing(path: Path, past: Past) -> None:
    """Anywhere in the file: pages of every table, of indices, headers, what is not used."""
    whole, draws = path.read_bytes(), random.Random(0)
    ids = past.decision_ids()
    seen = []
    for place in [*range(0, 110, 7), *(draws.randrange(len(whole)) for _ in range(60))]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << draws.randrange(8)
        path.write_bytes(flipped)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        try:
            with opened(path) as books:
                seen += [each.reason for each in books.all() if isinstance(each, Quarantined)]
                for campaign in books:  # and every id is still found
                    assert campaign.to_bytes() == past.kept[campaign.terms.name], place
                    known = books.known(campaign, ids[campaign.terms.name])
                    assert len(known) == len(ids[campaign.terms.name]), place
        except LedgerError as error:
            seen.append(str(error))
    assert len(seen) > 40
    assert all(str(path) in each or "campaign c" in each for each in seen)


def test_books_that_gave_up_are_as_the_ledger_has_them(past: Past, path: Path) -> None:
    with closing(open_ledger(path)) as ledger:
        books = Books(ledger)
        order = [campaign.terms.name for campaign in books.open()]
        first = next(iter(books))
        books.record(first, first.turning(first.at, Kind.PAUSED))
        books.write()
        books.abandon()
        books.refresh()
        assert {each.terms.name: each.to_bytes() for each in books} == past.kept
        assert [each.terms.name for each in books] == order
