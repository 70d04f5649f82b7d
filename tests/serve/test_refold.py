"""Refolding: what this code makes of a journal is accepted, and its money and answers stay."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from pasts import Past, damage, other_code
from processes import bccb

from bccb.errors import InputError, StateError
from bccb.ledger.event import Event
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Account, DamagedError
from bccb.serve.campaign import Campaign
from bccb.serve.code import Code
from bccb.serve.quarantine import Quarantined
from bccb.serve.refold import refold
from bccb.serve.server import opened


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    """Two campaigns that code with other random numbers wrote, without a snapshot."""
    with other_code(decides_otherwise=True):
        made = Past(tmp_path_factory.mktemp("past") / "ledger.sqlite", seed=9)
        made.live(300)
        made.close()
    return made


@pytest.fixture
def path(past: Past, tmp_path: Path) -> Path:
    return Path(shutil.copy(past.path, tmp_path / "ledger.sqlite"))


def journals(path: Path) -> tuple[list[Account], list[list[Event]]]:
    with closing(open_ledger(path, read_only=True)) as ledger:
        accounts = ledger.accounts()
        return accounts, [list(ledger.events(each.key)) for each in accounts]


def test_it_keeps_money_and_answers_and_goes_on(past: Past, path: Path) -> None:
    before = journals(path)
    with closing(open_ledger(path)) as ledger:
        for account in ledger.accounts():
            _, result = refold(ledger, account.id)
            assert result.events > 10
            assert result.fields["action"] > 0  # this code would have chosen otherwise
            assert result.fields["money"] > 0
            assert result.first is not None
            origin = ledger.origin(account.key)
            assert origin is not None
            assert origin.sequence == account.sequence
            assert Code(origin.version, origin.fingerprint).is_this
    assert journals(path) == before
    again = Past(path, seed=10)
    for account in before[0]:
        campaign = again.books.campaign(account.id)
        assert isinstance(campaign, Campaign)
        assert campaign.account() == account
        decided = [each for each in before[1][account.key - 1] if each.kind == "decision"]
        assert campaign.machine.decisions == len(decided)
        cancelled = [each for each in before[1][account.key - 1] if each.kind == "cancellation"]
        assert sum(campaign.tally.decisions) == len(decided) - len(cancelled)
        assert campaign.tally.points == past.campaign(campaign.terms.name).tally.points
    again.live(100)
    alive = again.states()
    again.close()
    with opened(path) as books:
        assert {each.terms.name: each.to_bytes() for each in books} == alive


def test_a_journal_that_comes_out_as_recorded_has_no_differences(tmp_path: Path) -> None:
    made = Past(tmp_path / "ledger.sqlite", seed=9)
    made.live(30)
    made.close()
    with closing(open_ledger(made.path)) as ledger:
        _, result = refold(ledger, "cfirst")
        assert (result.events, result.first) == (0, None)


def test_damage_is_not_accepted(path: Path) -> None:
    damage(path, "UPDATE journal SET price = price + 1 WHERE campaign = 1 AND number = 3")
    with closing(open_ledger(path)) as ledger:
        with pytest.raises(DamagedError, match="does not fit its seal"):
            refold(ledger, "cfirst")
        assert ledger.snapshot(1) is None


def test_a_row_whose_money_does_not_add_up_is_refused(path: Path) -> None:
    damage(path, "UPDATE campaigns SET spent = spent + 1 WHERE key = 1")
    with closing(open_ledger(path)) as ledger:
        with pytest.raises(StateError, match="in its row spent is .*Go back to bccb 0.0.1"):
            refold(ledger, "cfirst")
        assert ledger.snapshot(1) is None


def test_an_unknown_campaign_is_refused(path: Path) -> None:
    with closing(open_ledger(path)) as ledger, pytest.raises(InputError, match="campaign is 'c9'"):
        refold(ledger, "c9")


def test_the_command_says_what_differed_and_the_campaign_is_served(path: Path) -> None:
    with opened(path) as books:
        assert all(isinstance(each, Quarantined) for each in books.all())
        ran = bccb("ledger", "refold", path, "cfirst")
        assert ran.returncode == 2  # the service must be stopped first
        assert "another process serves the ledger" in ran.stderr
    ran = bccb("ledger", "refold", path, "cfirst")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("campaign cfirst: ")
    assert " differ, from event " in ran.stdout
    assert "; accepted" in ran.stdout
    with opened(path) as books:
        assert [each.id for each in books] == ["cfirst"]
    missing = path.with_name("missing.sqlite")
    assert "there is no ledger" in bccb("ledger", "refold", missing, "cfirst").stderr
    assert not missing.exists()
