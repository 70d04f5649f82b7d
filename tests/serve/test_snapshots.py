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


def warnings_of_first(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of the first campaign: other tests may leave services that log, too."""
    return [message for message in caplog.messages if "cfirst" in message]


def all_of_first(place: str) -> list[Snapshot]:
    """Its newest snapshot and the one that is kept for good."""
    with closing(open_ledger(place, read_only=True)) as ledger:
        found = (ledger.snapshot(1), ledger.origin(1))
    return [each for each in found if each is not None]


def lived_on(place: str, seed: int = 8) -> tuple[Past, Snapshot, Snapshot]:
    """A past of this code after that of another, with its first snapshot and its last one."""
    past = Past(place, seed)
    origin = snapshot_of_first(place)
    past.live(60)
    past.restart()
    past.close()
    last = snapshot_of_first(place)
    assert (origin.origin, last.origin) == (1, 0)
    return past, origin, last


def stopped_past(place: str) -> Past:
    """A past that was stopped cleanly, with a snapshot of each campaign."""
    past = Past(place, seed=6)
    past.live(60)
    past.restart()
    past.close()
    return past


def other_past(place: str, opened_by: str) -> None:
    """Other code has decided otherwise, from the opening on or after this code."""
    if opened_by == "this":
        stopped_past(place)
    with other_code(decides_otherwise=True):
        if opened_by == "this":
            lived_on(place, seed=7)
        else:
            stopped_past(place)


@pytest.mark.parametrize("how", ["cut", "seal", "event", "beyond", "unreadable", "empty"])
def test_a_campaign_is_folded_from_its_journal_where_the_snapshot_cannot_be_used(
    place: str, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    past = stopped_past(place)
    kept = snapshot_of_first(place)
    changes = {
        "cut": f"state = {in_sql(place, kept.state[:9])}",
        "seal": f"seal = {kept.seal ^ 1}",
        "event": "sequence = 7",
        "beyond": "sequence = sequence + 1000",
        # these fit the journal, but no code can read them
        "unreadable": sealed(place, kept.sequence, (2).to_bytes(8, "little") + b"{}"),
        "empty": sealed(place, kept.sequence, b""),
    }
    change(place, f"UPDATE snapshots SET {changes[how]} WHERE campaign = 1")
    with caplog.at_level(logging.WARNING, "bccb.serve"):
        assert started(place) == past.kept
    (warning,) = warnings_of_first(caplog)
    sequence = {"event": 7, "beyond": kept.sequence + 1000}.get(how, kept.sequence)
    unusable = f"not every snapshot can be used (the snapshot after event {sequence} "
    assert warning.startswith(f"campaign cfirst: {unusable}")
    whole = "Its journal is whole and was folded from event 1"
    assert warning.endswith(f"). {whole}; a new snapshot is kept, nothing is to be done")
    assert "damaged" not in warning
    assert snapshot_of_first(place) == kept  # it was kept anew
    caplog.clear()
    assert started(place) == past.kept
    assert warnings_of_first(caplog) == []
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
@pytest.mark.parametrize("opened_by", ["other", "this"])
def test_it_is_folded_from_the_first_snapshot_of_this_code_where_there_is_one(
    place: str, caplog: pytest.LogCaptureFixture, both: bool, opened_by: str
) -> None:
    """What other code wrote before it does not come out as recorded."""
    other_past(place, opened_by)
    past, origin, last = lived_on(place)
    which = "" if both else f" AND sequence = {last.sequence}"
    change(place, f"UPDATE snapshots SET seal = 1 WHERE campaign = 1{which}")
    if both:
        assert started(place) == {"second": past.kept["second"]}
        unfit = f"the snapshot after event {last.sequence} does not fit the journal"
        assert f"(first) is quarantined: campaign cfirst is damaged: {unfit}" in caplog.text
        return
    assert started(place) == past.kept
    assert f"whole and was folded from event {origin.sequence + 1};" in caplog.text
    assert bccb("ledger", "verify", place).returncode == 0


@pytest.mark.parametrize("damaged", ["seal = 1", "sequence = sequence + 1000"])
def test_a_first_snapshot_of_this_code_is_replaced_by_one_that_is_kept_for_good(
    place: str, damaged: str
) -> None:
    with other_code():
        past = stopped_past(place)
    assert started(place) == past.kept  # this code keeps its first snapshot
    origin = snapshot_of_first(place)
    change(place, f"UPDATE snapshots SET {damaged} WHERE campaign = 1 AND origin = 1")
    assert started(place) == past.kept
    assert snapshot_of_first(place) == origin
    assert started(place) == past.kept
    assert all_of_first(place) == [origin, origin]
    assert bccb("ledger", "verify", place).returncode == 0


def test_where_the_newest_and_the_first_cannot_be_used_one_takes_the_place_of_both(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """This code opened the campaign, other code went on with it, and then this one again."""
    stopped_past(place)
    with other_code():
        lived_on(place, seed=7)
    past, origin, last = lived_on(place)
    change(place, "UPDATE snapshots SET seal = 1 WHERE campaign = 1")
    assert bccb("ledger", "verify", place).returncode == 2
    assert started(place) == past.kept
    (warning,) = warnings_of_first(caplog)
    for each in (last, origin):
        assert f"the snapshot after event {each.sequence} does not fit the journal" in warning
    assert "was folded from event 1;" in warning
    mended = last._replace(origin=1)
    assert all_of_first(place) == [mended, mended]
    ran = bccb("ledger", "verify", place)
    assert ran.returncode == 0, ran.stderr
    assert "cfirst" not in ran.stderr
    caplog.clear()
    assert started(place) == past.kept
    assert warnings_of_first(caplog) == []


@pytest.mark.parametrize("before", ["alike", "other", "this"])
def test_verify_does_not_need_the_first_snapshot_of_this_code(place: str, before: str) -> None:
    """It folds from event 1 or, where other code decided otherwise, checks seals."""
    if before == "alike":
        with other_code():
            stopped_past(place)
    else:
        other_past(place, opened_by=before)
    past, origin, last = lived_on(place)
    change(place, "UPDATE snapshots SET seal = 1 WHERE campaign = 1 AND origin = 1")
    ran = bccb("ledger", "verify", place)
    assert ran.returncode == 0, ran.stderr
    said = " ".join(ran.stderr.split())
    assert f"cfirst: the snapshot after event {origin.sequence} does not fit the journal" in said
    sealed_only = f"the seals of its events up to {last.sequence} fit"
    assert ("it was folded from event 1" if before == "alike" else sealed_only) in said
    assert "its journal is whole" in said
    assert "run: bccb ledger refold PLACE cfirst" in said
    assert "csecond" not in said
    ran = bccb("ledger", "refold", place, "cfirst")
    assert ran.returncode == 0, ran.stderr
    ran = bccb("ledger", "verify", place)
    assert ran.returncode == 0, ran.stderr
    assert "cfirst" not in ran.stderr
    assert started(place) == past.kept


@pytest.mark.parametrize("opened_by", ["other", "this"])
@pytest.mark.parametrize("side", ["before", "after"])
def test_verify_finds_a_damaged_journal_beside_a_damaged_first_snapshot(
    tmp_path: Path, opened_by: str, side: str
) -> None:
    path = tmp_path / "ledger.sqlite"
    other_past(str(path), opened_by)
    _, origin, _ = lived_on(str(path))
    damage(path, "UPDATE snapshots SET seal = 1 WHERE campaign = 1 AND origin = 1")
    where = f"sequence {'<' if side == 'before' else '>'} {origin.sequence}"
    chosen = (
        f"SELECT max(sequence) FROM journal WHERE campaign = 1 AND kind = 'decision' AND {where}"
    )
    damage(
        path, f"UPDATE journal SET price = price + 1 WHERE campaign = 1 AND sequence = ({chosen})"
    )
    ran = bccb("ledger", "verify", str(path))
    assert ran.returncode == 2
    assert "campaign cfirst is damaged: " in ran.stderr
