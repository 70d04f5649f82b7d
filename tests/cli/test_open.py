"""``bccb open`` against the real service in a process of its own."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from processes import serving

from bccb.cli import main
from bccb.cli import open as opening
from bccb.cli.columns import read_with_notes
from bccb.client import Client
from bccb.types import Log

COLUMNS = ["--treatment", "arm", "--control", "none", "--outcome", "sale", "--cost", "0.5"]
MONEY = ["--budget", "50", "--users", "500"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service with an empty ledger."""
    with serving(tmp_path_factory.mktemp("service") / "ledger.sqlite") as server:
        yield server.address


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trial with a category, in which those of plan plus respond."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("trial") / "trial.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "plan", "arm", "sale"])
        for _ in range(400):
            plan, treated = rng.choice(["Bob's", "plus"]), rng.integers(2)
            sale = rng.random() < 0.2 + 0.5 * (treated and plan == "plus")
            writer.writerow([rng.integers(18, 80), plan, ("none", "mail")[treated], int(sale)])
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The status of the command, what it printed, and its notes, in single blanks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["bccb", "open", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    printed = capsys.readouterr()
    status: Any = ended.value.code
    return status or 0, printed.out, " ".join(printed.err.split())


def test_a_trial_becomes_a_campaign_whose_first_call_is_answered(
    url: str, trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--data", str(trial), *COLUMNS, *MONEY, "--policy", "hybrid", "--name", "autumn"]
    status, out, notes = run(capsys, *asked, "--url", url, "--window", "60")
    assert status == 0, notes
    assert "hybrid has learned 400 rows of trial.csv" in notes
    id_ = out.split()[1]
    with Client(url) as client:
        campaign = client.campaign(id_)
    assert (campaign.name, campaign.policy.name) == ("autumn", "hybrid")
    assert campaign.outcome_window_seconds == 60
    assert campaign.features == ("age", "plan")
    assert campaign.encoding[1].levels[0] in ("Bob's", "plus")
    assert not campaign.needs_history
    assert f"{url}/#/campaigns/{id_}" in out
    calls = [shlex.split(line) for line in out.splitlines() if line.startswith("curl")]
    decision, outcome = (
        json.loads(subprocess.run(call, capture_output=True, check=True).stdout) for call in calls
    )
    assert (decision["decision_id"], decision["act"]) == ("first", True)
    assert outcome == {"decision_id": "first", "value": 0.0, "status": "recorded"}

    again = run(capsys, *asked, "--url", url, "--window", "60")
    assert (again[0], again[1]) == (0, out)  # the same campaign, which has decided by now
    status, out, notes = run(capsys, *asked, "--url", url)  # another window
    assert status == 2
    assert "there is another campaign with the name 'autumn': choose another --name" in notes
    with Client(url) as client:
        client.close(id_)
    status, out, notes = run(capsys, *asked, "--url", url, "--window", "60")
    assert (status, out) == (2, "")
    assert "campaign 'autumn' is closed, which is final: choose another --name" in notes


def test_without_a_policy_the_recommended_one_is_taken(
    url: str,
    trial: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def advise(budget: float, users: int, history: Any, **_: Any) -> Any:
        asked.append((budget, users, history.users))
        return SimpleNamespace(recommended="offline-uplift" if users == 500 else None)

    monkeypatch.setattr(opening, "advise", advise)
    monkeypatch.setattr(opening, "sentence", lambda advice: f"Use {advice.recommended}: best.")
    file = ["--data", str(trial), *COLUMNS, "--url", url]
    status, out, notes = run(capsys, *file, *MONEY, "--name", "winter")
    assert status == 0, notes
    assert asked == [(50.0, 500, 400)]
    assert "Use offline-uplift: best." in notes
    with Client(url) as client:
        assert client.campaign(out.split()[1]).policy.name == "offline-uplift"
    status, _, notes = run(capsys, *file, "--budget", "9", "--users", "9", "--name", "spring")
    assert status == 2
    assert "nothing was opened, because no policy is recommended" in notes


def test_a_trial_in_money_becomes_a_campaign_in_money(
    url: str, trial: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_money(path: Path, columns: Any) -> Log:
        log = read_with_notes(path, columns)
        return replace(log, outcomes=25.5 * log.outcomes, kind="amount")

    share = ["--charge", "conversion", "--share", "0.2", "--largest", "60.5", "--currency", "EUR"]
    asked = ["--data", str(trial), *COLUMNS, *MONEY, "--policy", "treat-all", "--url", url]
    status, _, notes = run(capsys, *asked, *share, "--name", "no money")
    assert status == 2
    assert 'share is 0.2, but must be left out: it is about amounts, with outcome="amount"' in notes
    monkeypatch.setattr(opening, "read_with_notes", in_money)
    status, out, notes = run(capsys, *asked, *share, "--name", "money")
    assert status == 0, notes
    with Client(url) as client:
        campaign = client.campaign(out.split()[1])
        assert [each.name for each in client.campaigns()].count("no money") == 0
    assert (campaign.outcome.kind, campaign.outcome.largest) == ("amount", Decimal("60.5"))
    assert (campaign.share, campaign.currency, campaign.needs_history) == (0.2, "EUR", False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--users is None, but must be given, or --ends-at"),
        (["--ends-at", "2030-01-31T18:00:00Z"], "--users is None, but must be given: advice is"),
        (["--ends-at", "2030-01-31", "--policy", "bccb"], "must be a time with its zone"),
        (["--users", "0"], "--users is 0"),
        (["--users", "9", "--policy", "hybird"], "did you mean hybrid?"),
        (["--users", "9", "--window", "0"], "--window is 0"),
        (
            ["--users", "9", "--charge", "click"],
            "--charge is 'click', but must be \"treatment\" or",
        ),
        (["--users", "9", "--cost-cap", "0"], "--cost-cap is 0.0, but must be at least 0.000001"),
        (["--users", "9", "--cost-cap", "-2"], "--cost-cap is -2.0, but must be at least 0.000001"),
        (["--users", "9", "--cost-cap", "nan"], "--cost-cap is nan, but must be"),
        (["--users", "9", "--share", "0.2"], "--share is 0.2, but must be left out: a share of"),
        (
            ["--users", "9", "--charge", "conversion", "--share", "20"],
            "--share is 20.0, but must be at least 0.000001 and at most 1",
        ),
        (["--users", "9", "--largest", "0"], "--largest is 0.0, but must be at least 0.000001"),
        (
            ["--users", "9", "--largest", "2e9"],
            "--largest is 2000000000.0, but must be at least 0.000001 and at most 1,000,000,000",
        ),
        (["--users", "9"], "no service at http://127.0.0.1:9: start one with `bccb serve`"),
    ],
)
def test_what_cannot_be_opened_is_refused_before_the_work(
    trial: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    file = ["--data", str(trial), *COLUMNS, "--budget", "50", "--name", "x"]
    status, _, notes = run(capsys, *file, *arguments, "--url", "http://127.0.0.1:9")
    assert status == 2
    assert message in notes


def test_a_name_that_is_taken_is_refused_before_the_work(
    url: str, trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(url) as client:
        client.create_campaign("taken", budget=1, features=[], treatments=["a"], users=9)
    file = ["--data", str(trial), *COLUMNS, *MONEY, "--name", "taken", "--url", url]
    status, _, notes = run(capsys, *file)
    assert status == 2
    assert "learn" not in notes
    assert "there is another campaign with the name 'taken': choose another --name" in notes
