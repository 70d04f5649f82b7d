"""Snapshots save time, and the journal is the truth: a campaign outlives a damaged snapshot."""

from __future__ import annotations

import logging
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from pasts import Past, damage, other_code
from postgresql import server
from processes import bccb

from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Snapshot
from bccb.serve.server import opened
from serve.recovered import reasons


def in_sql(place: str, state: bytes) -> str:
    """Bytes in the engine's SQL."""
    return f"'\\x{state.hex()}'" if place.startswith("postgresql:") else f"x'{state.hex()}'"


def change(place: str, statement: str) -> None:
    """Change a ledger by hand."""
    if place.startswith("postgresql:"):
        server().run(statement, place)
    else:
        damage(place, statement)


def started(place: str) -> dict[str, bytes]:
    """The campaigns that are served after a start."""
    with opened(place) as books:
        if books.ledger.shared:
            list(books.open())
        return {each.terms.name: each.to_bytes() for each in books}


def snapshot_of_first(place: str) -> Snapshot:
    with closing(open_ledger(place, read_only=True)) as ledger:
        found = ledger.snapshot(1)
        assert found is not None
        return found


def sealed(place: str, sequence: int, state: bytes) -> str:
    """SQL: another state, with a seal that fits."""
    with closing(open_ledger(place, read_only=True)) as ledger:
        seal = ledger.seal_at(1, sequence)
    assert seal is not None
    return f"state = {in_sql(place, state)}, seal = {zlib.crc32(state, seal)}"


def stopped_past(place: str) -> Past:
    """A past that was stopped cleanly, with a snapshot of each campaign."""
    past = Past(place, seed=6)
    past.live(60)
    past.restart()
    past.close()
    return past


@pytest.mark.parametrize("how", ["cut", "seal", "event", "unreadable", "empty"])
def test_a_campaign_is_folded_from_its_journal_where_the_snapshot_cannot_be_used(
    place: str, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    past = stopped_past(place)
    kept = snapshot_of_first(place)
    changes = {
        "cut": f"state = {in_sql(place, kept.state[:9])}",
        "seal": f"seal = {kept.seal ^ 1}",
        "event": "sequence = 7",
        # these fit the journal, but no code can read them
        "unreadable": sealed(place, kept.sequence, (2).to_bytes(8, "little") + b"{}"),
        "empty": sealed(place, kept.sequence, b""),
    }
    change(place, f"UPDATE snapshots SET {changes[how]} WHERE campaign = 1")
    with caplog.at_level(logging.WARNING, "bccb.serve"):
        assert started(place) == past.kept
    (warning,) = caplog.messages
    sequence = 7 if how == "event" else kept.sequence
    assert warning.startswith(f"campaign cfirst is damaged: the snapshot after event {sequence} ")
    assert warning.endswith(": it was folded from event 1 on, and is whole")
    assert snapshot_of_first(place) == kept  # it was kept anew
    caplog.clear()
    assert started(place) == past.kept
    assert caplog.messages == []
    ran = bccb("ledger", "verify", place)
    assert ran.returncode == 0, ran.stderr


def test_verify_reports_it_until_a_service_has_mended_it(place: str) -> None:
    past = stopped_past(place)
    change(place, "UPDATE snapshots SET seal = 1 WHERE campaign = 1")
    ran = bccb("ledger", "verify", place)
    assert ran.returncode == 2
    assert "campaign cfirst is damaged: the snapshot after event " in ran.stderr
    assert started(place) == past.kept
    assert bccb("ledger", "verify", place).returncode == 0


def test_a_campaign_whose_journal_is_damaged_too_is_quarantined(path: Path, past: Past) -> None:
    with opened(path) as books:
        books.keep_all()
    damage(path, "UPDATE snapshots SET seal = seal + 1 WHERE campaign = 1")
    damage(path, "UPDATE journal SET price = price + 1 WHERE campaign = 1 AND number = 3")
    (reason,) = reasons(path)
    assert reason.startswith("campaign cfirst is damaged: at event ")
    assert "(decision): price is " in reason
    assert started(str(path)) == {"second": past.kept["second"]}


@pytest.mark.parametrize("both", [False, True])
def test_it_is_folded_from_the_first_snapshot_of_this_code_where_there_is_one(
    place: str, caplog: pytest.LogCaptureFixture, both: bool
) -> None:
    """What other code wrote before it does not come out as recorded."""
    with other_code(decides_otherwise=True):
        stopped_past(place)
    past = Past(place, seed=8)
    origin = snapshot_of_first(place)
    past.live(60)
    past.restart()
    past.close()
    last = snapshot_of_first(place)
    assert (origin.origin, last.origin) == (1, 0)
    which = "" if both else f" AND sequence = {last.sequence}"
    change(place, f"UPDATE snapshots SET seal = 1 WHERE campaign = 1{which}")
    if both:
        assert started(place) == {"second": past.kept["second"]}
        unfit = f"the snapshot after event {last.sequence} does not fit the journal"
        assert f"(first) is quarantined: campaign cfirst is damaged: {unfit}" in caplog.text
        return
    assert started(place) == past.kept
    assert f"it was folded from event {origin.sequence + 1} on" in caplog.text
    assert bccb("ledger", "verify", place).returncode == 0


def test_a_first_snapshot_of_this_code_is_replaced_by_one_that_is_kept_for_good(
    place: str,
) -> None:
    with other_code():
        past = stopped_past(place)
    assert started(place) == past.kept  # this code keeps its first snapshot
    origin = snapshot_of_first(place)
    change(place, "UPDATE snapshots SET seal = 1 WHERE campaign = 1 AND origin = 1")
    assert started(place) == past.kept
    assert snapshot_of_first(place) == origin
    assert started(place) == past.kept
