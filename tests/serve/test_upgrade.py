"""Ledgers that other code wrote: taken, upgraded, or distinguished from damage."""

from __future__ import annotations

import importlib.metadata
import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from pasts import BODY, Desk, Past, damage, decide, other_code

import bccb
from bccb.fingerprint import fingerprint
from bccb.ledger.opening import open_ledger
from bccb.ledger.sqlite.connection import SQL
from bccb.ledger.statements import migrations
from bccb.serve import campaigns
from bccb.serve.code import Code, this_code
from bccb.serve.quarantine import Quarantined
from bccb.serve.recovery import fold
from bccb.serve.server import opened
from bccb.wire import CampaignRequest, DecisionRequest, decoder
from serve.recovered import reasons, states


@pytest.fixture
def older(path: Path) -> Path:
    """A ledger that an older bccb has stopped cleanly."""
    with other_code(), opened(path) as books:
        books.keep_all()
    return path


def test_a_newer_version_goes_on_from_the_last_snapshot_and_keeps_it(
    older: Path, past: Past
) -> None:
    assert states(older) == past.kept
    with closing(open_ledger(older, read_only=True)) as ledger:
        for account in ledger.accounts():
            origin = ledger.origin(account.key)
            assert origin is not None
            assert origin.sequence == account.sequence
            assert Code(origin.version, origin.fingerprint) == this_code()
    again = Past(older, seed=8)
    again.live(50)
    again.restart()
    again.live(50)
    alive = again.states()
    again.close()
    with closing(open_ledger(older, read_only=True)) as ledger:
        for account in ledger.accounts():
            assert (
                fold(ledger, account, ledger.origin(account.key)).to_bytes() == alive[account.name]
            )


def past_of_other_code(path: Path, snapshot: bool, decides_otherwise: bool = False) -> Past:
    """A ledger that other code wrote, and which was killed."""
    with other_code(decides_otherwise=decides_otherwise):
        past = Past(path, seed=9)
        past.live(60)
        if snapshot:
            past.restart()
            past.live(60)
        past.close()
    return past


@pytest.mark.parametrize("snapshot", [False, True])
def test_events_of_other_code_that_come_out_as_recorded_are_taken(
    tmp_path: Path, snapshot: bool
) -> None:
    past = past_of_other_code(tmp_path / "ledger.sqlite", snapshot)
    assert states(past.path) == past.kept
    with closing(open_ledger(past.path, read_only=True)) as ledger:
        for account in ledger.accounts():
            origin = ledger.origin(account.key)
            assert origin is not None
            assert origin.sequence == account.sequence
            assert Code(origin.version, origin.fingerprint).is_this


@pytest.mark.parametrize("snapshot", [False, True])
def test_events_of_other_code_that_come_out_otherwise_are_no_damage(
    tmp_path: Path, snapshot: bool
) -> None:
    past = past_of_other_code(tmp_path / "ledger.sqlite", snapshot, decides_otherwise=True)
    result = reasons(past.path)
    assert len(result) == 2
    for reason_ in result:
        assert "damage" not in reason_
        assert "(bccb 0.0.1 (code 0.0.1 of); this is bccb " in reason_
        assert "and made something else of them: at event " in reason_
        assert "start that version once more and stop it, which keeps a snapshot" in reason_
        assert "bccb ledger refold FILE c" in reason_


def test_a_stop_of_the_old_code_is_what_the_message_says(tmp_path: Path) -> None:
    past = past_of_other_code(tmp_path / "ledger.sqlite", True, decides_otherwise=True)
    assert len(reasons(past.path)) == 2
    with other_code(decides_otherwise=True), opened(past.path) as books:
        assert {each.terms.name: each.to_bytes() for each in books} == past.kept
        books.keep_all()
    assert states(past.path) == past.kept


def test_another_numba_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = this_code()
    installed = importlib.metadata.version
    monkeypatch.setattr(
        "bccb.fingerprint.version",
        lambda name: "0.0.0" if name == "numba" else installed(name),
    )
    fingerprint.cache_clear()
    try:
        assert not before.is_this
    finally:
        monkeypatch.undo()
        fingerprint.cache_clear()
    assert before.is_this


LAST = (
    "campaign = 1 AND number = "
    "(SELECT max(number) FROM journal WHERE campaign = 1 AND kind = 'decision')"
)


@pytest.mark.parametrize(
    "harm",
    [
        f"UPDATE journal SET price = price + 1 WHERE {LAST} AND kind = 'decision'",
        f"DELETE FROM journal WHERE {LAST} AND kind = 'decision'",
        "UPDATE campaigns SET seal = seal + 1 WHERE key = 1",
        "UPDATE snapshots SET seal = seal + 1 WHERE campaign = 1",
    ],
)
@pytest.mark.parametrize("decides_otherwise", [False, True])
def test_damage_of_what_other_code_wrote_is_damage(
    tmp_path: Path, harm: str, decides_otherwise: bool
) -> None:
    past = past_of_other_code(tmp_path / "ledger.sqlite", True, decides_otherwise)
    damage(past.path, harm)
    with opened(past.path) as books:
        bad = books.all()[0]
    assert isinstance(bad, Quarantined)
    assert "campaign cfirst is damaged: " in bad.reason


def test_a_campaign_that_an_older_version_has_opened_survives_two_kills(tmp_path: Path) -> None:
    """Killed by the one before its first decision, and by this one after it."""
    path = tmp_path / "ledger.sqlite"
    with other_code():
        desk = Desk(path)
        desk.add("c1", {**BODY, "name": "autumn"}, at=1)
        desk.close()
    for turn in range(3):
        desk = Desk(path)
        asked = DecisionRequest(
            decision_id=f"u{turn}",
            features={"age": 1.0, "visits": 1.0},
            costs={"email": "0.05", "call": "0.50"},
        )
        decide(desk.books, turn + 2, "c1", [asked])
        desk.commit()
        alive = desk.books.campaign("c1").to_bytes()
        desk.close()
    with closing(open_ledger(path, read_only=True)) as ledger:
        (account,) = ledger.accounts()
        origin = ledger.origin(account.key)
        assert origin is not None
        assert (origin.sequence, origin.version) == (1, bccb.__version__)
        assert fold(ledger, account, origin).to_bytes() == alive


def before_fingerprints(path: Path) -> None:
    """Make a ledger one of the version before fingerprints."""
    for statement in (
        "DROP TRIGGER journal_is_finite",
        "ALTER TABLE snapshots DROP COLUMN fingerprint",
        "PRAGMA user_version = 1",
    ):
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(statement)


def schema_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
    return int(version)


def test_a_ledger_of_the_version_before_fingerprints_is_taken_and_upgraded(
    tmp_path: Path,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bccb.serve.code.fingerprint", lambda part: "")  # nor do its terms tell one
        past = Past(tmp_path / "ledger.sqlite", seed=9)
        past.live(60)
        past.restart()
        past.live(60)
        past.close()
    before_fingerprints(past.path)
    assert states(past.path) == past.kept
    assert schema_of(past.path) == len(migrations(SQL))
    with closing(open_ledger(past.path, read_only=True)) as ledger:
        origin = ledger.origin(1)
    assert origin is not None
    assert Code(origin.version, origin.fingerprint) == this_code()


def test_a_ledger_with_a_campaign_of_other_code_can_still_be_opened_by_it(
    tmp_path: Path,
) -> None:
    """Its schema is upgraded once all journals were folded, and not before; others are served."""
    past = past_of_other_code(tmp_path / "ledger.sqlite", True, decides_otherwise=True)
    before_fingerprints(past.path)
    with opened(past.path) as books:
        assert list(books) == []
        terms = campaigns.terms_of(
            decoder(CampaignRequest).decode(json.dumps({**BODY, "name": "new"})), past.at
        )
        (new,), _ = campaigns.open_campaign(books, past.at, terms)
        books.write()
        books.commit()
        books.keep_all()
    assert schema_of(past.path) == 1
    with opened(past.path) as books:
        assert [each.id for each in books] == [new.id]


def test_a_state_that_this_version_cannot_hold_is_reported(older: Path) -> None:
    longer = "CAST(state || x'00' AS BLOB)"
    damage(older, f"UPDATE snapshots SET state = {longer} WHERE campaign = 1")
    with closing(open_ledger(older, read_only=True)) as ledger:
        account = ledger.accounts()[0]
        kept, seal = ledger.snapshot(1), ledger.seal_at(1, account.sequence)
        assert kept is not None
        assert seal is not None
    sealed = zlib.crc32(kept.state, seal)
    damage(older, f"UPDATE snapshots SET seal = {sealed} WHERE campaign = 1")
    with opened(older) as books:
        first = books.all()[0]
    assert isinstance(first, Quarantined)
    assert "cannot be read: " in first.reason
    assert "Either go back to that version, or stop the service" in first.reason
