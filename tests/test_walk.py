"""docs/walk.md is the way from a messy file to a campaign: every step of it is taken."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import bccb, serving

ROOT = Path(__file__).parents[1]
WALK = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", WALK, re.MULTILINE | re.DOTALL)
STEPS = [
    line.removeprefix("$ ")
    for kind, text in BLOCKS
    if kind == "console"
    for line in text.splitlines()
]
ADDRESS = "http://127.0.0.1:8000"
QUICK = ("--policy", "pooled-bayes")  # to open a campaign without trying every policy before


def words(text: str) -> list[str]:
    """The words of a table, however wide it is."""
    return [word for word in text.split() if set(word) != {"─"}]


def rows(text: str) -> dict[str, list[float]]:
    """The rows of the table in money, in their order: its figures by policy."""
    pattern = r"^ *(this log|[a-z]+-[a-z]+) +(\d[\d,.]* .*\(.* to .*\).*\(.* to .*\)) *$"
    return {
        name: [float(word.replace(",", "")) for word in re.findall(r"\d[\d,.]*", figures)]
        for name, figures in re.findall(pattern, text, re.MULTILINE)
    }


def taken(step: str, *more: str) -> str:
    """What a step prints, in the current folder."""
    program, *words = shlex.split(step)
    if program == "bccb":
        done = bccb(*words, *more)
    else:
        assert program == "python"
        command = [sys.executable, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, check=False
        )
    assert done.returncode == 0, f"{step}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("walk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        taken(STEPS[0])
    return made


def test_check_prints_what_the_document_shows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (shown,) = (text for kind, text in BLOCKS if kind == "text")
    assert STEPS[1] == "bccb check trial.csv"
    printed = taken(STEPS[1])
    assert words(printed) == words(shown)
    (compared,) = (step for step in STEPS if step.startswith("bccb compare"))
    assert compared.startswith(printed.splitlines()[-1])


@pytest.mark.compiled
@pytest.mark.slow_first
@pytest.mark.parametrize("command", ["compare", "advise", "evaluate"])
def test_the_lab_answers(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (step,) = (step for step in STEPS if step.startswith(f"bccb {command}"))
    printed = taken(step)
    assert "cheapest-first" in printed
    if command == "evaluate":
        shown = rows(WALK)
        found = {name: figures for name, figures in rows(printed).items() if name in shown}
        assert list(found) == list(shown)  # in this order
        for name, figures in shown.items():
            assert found[name] == pytest.approx(figures, rel=0.02)  # processors fit differently


def test_check_asks_as_the_document_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (made,) = (step for step in STEPS if "odd.csv')" in step)
    taken(made)
    done = bccb("check", "odd.csv")
    assert done.returncode == 2
    assert "cannot tell: 'coupon', 'group' all look like the arm" in done.stdout
    (answered,) = (step for step in STEPS if step.startswith("bccb check odd.csv"))
    assert "bccb compare" in taken(answered)


@pytest.mark.compiled
def test_the_campaign_is_opened_and_driven(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (step,) = (step for step in STEPS if step.startswith("bccb open"))
    (code,) = (text for kind, text in BLOCKS if kind == "python")
    ledger = folder / "ledger" / "bccb.sqlite"
    ledger.parent.mkdir()
    with serving(ledger) as server:
        printed = taken(step.replace(ADDRESS, server.address), *QUICK)
        assert "campaign: " in printed
        names: dict[str, Any] = {}
        exec(compile(code.replace(ADDRESS, server.address), "docs/walk.md", "exec"), names)
        kept = server.campaign(names["campaign"].id)
    assert "500 customers" in capsys.readouterr().out
    assert 0 < float(kept["spent"]) <= 500
