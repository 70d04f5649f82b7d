"""A damaged ledger and the processes that meet it: `bccb serve` and `bccb ledger verify`."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from pasts import Past, damage, other_code
from processes import assert_whole, bccb, serving

from bccb.serve.server import opened


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    made = Past(tmp_path_factory.mktemp("past") / "ledger.sqlite", seed=1)
    made.live(60)
    made.close()
    return made


@pytest.fixture
def path(past: Past, tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return Path(shutil.copy(past.path, tmp_path / "data" / "ledger.sqlite"))


def test_a_damaged_campaign_is_quarantined_and_the_rest_is_served(path: Path) -> None:
    damage(path, "UPDATE journal SET money = money + 1 WHERE campaign = 1 AND sequence = 4")
    bad, good, reason = "cfirst", "csecond", "campaign cfirst is damaged: at event 4 ("
    with serving(path) as server:
        listed = server.client.get("/v1/campaigns").json()["campaigns"]
        views = {each["id"]: each for each in listed}
        assert list(views) == ["csecond", "cfirst"]
        assert views[bad]["status"] == "quarantined"
        assert views[bad]["reason"].startswith(reason)
        assert views[good]["status"] == "running"
        assert server.status("/readyz") == 200
        user = {"features": {"age": 30, "visits": 1}, "costs": {"email": "0.05", "call": "0.50"}}
        asked = {"decision_id": "one-more", **user}
        for campaign, status in ((good, 200), (bad, 409)):
            answer = server.client.post(f"/v1/campaigns/{campaign}/decisions", json=asked)
            assert answer.status_code == status, answer.text
        assert reason in server.stderr()
        assert server.stop() == 0
    ran = bccb("ledger", "verify", path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {reason}"), ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_file_whose_pages_are_damaged_is_reported(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[4096 * 3 + 5] ^= 0xFF
    path.write_bytes(whole)
    for arguments in (("serve", "--port", 0, "--ledger", path), ("ledger", "verify", path)):
        ran = bccb(*arguments)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith(f"error: the ledger {path} is damaged: "), ran.stderr
    assert path.read_bytes() == whole


def test_verify_finds_damage_that_lies_before_the_last_snapshot(path: Path) -> None:
    with opened(path) as books:
        books.keep_all()
    assert_whole(path)
    damage(path, "UPDATE journal SET price = price + 1 WHERE campaign = 1 AND number = 3")
    ran = bccb("ledger", "verify", path)
    assert ran.returncode == 2
    assert "campaign cfirst is damaged: at event " in ran.stderr


def test_verify_finds_damage_that_lies_before_an_upgrade(path: Path) -> None:
    with other_code(), opened(path) as books:
        books.keep_all()
    with opened(path):
        assert_whole(path)
    damage(path, "UPDATE journal SET price = price + 1 WHERE campaign = 1 AND number = 3")
    ran = bccb("ledger", "verify", path)
    assert ran.returncode == 2
    assert "campaign cfirst is damaged: event " in ran.stderr
    assert "(decision) does not fit its seal" in ran.stderr


def test_verify_counts_what_it_has_seen(path: Path, past: Past) -> None:
    with opened(path) as books:
        events = sum(campaign.sequence for campaign in books)
    ran = bccb("ledger", "verify", path)
    assert ran.stdout == f"2 campaigns, {events:,} events: whole\n"


def test_a_killed_service_is_recovered_by_the_next_one(path: Path) -> None:
    """A real kill -9, with what was acknowledged in the write-ahead log alone."""
    with serving(path) as server:
        campaign = server.open()
        answers = [server.decide(campaign, f"u{i}").json() for i in range(5)]
        server.kill()
    assert_whole(path)
    with serving(path) as server:
        assert [server.decide(campaign, f"u{i}").json() for i in range(5)] == answers
        assert server.campaign(campaign)["reserved"] == "2.50"
        assert server.stop(signal.SIGTERM) == 0
    assert_whole(path)
