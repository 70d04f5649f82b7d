"""The README's examples run, and what it shows is what the commands print."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from processes import bccb

from bccb.cli import main
from bccb.policies import POLICIES

ROOT = Path(__file__).parent.parent
README = ROOT.joinpath("README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})


@pytest.mark.compiled
@pytest.mark.slow_first(20)
def test_console_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line[2:] for block in blocks("console") for line in block.splitlines()]
    assert len(lines) >= 4
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "bccb"
        done = bccb(*words[1:])
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_the_first_claim_is_what_the_paper_study_found_to_be_caused() -> None:
    study = json.loads(ROOT.joinpath("docs", "paper.json").read_text(encoding="utf-8"))
    caused = {
        row["policy"]: round(row["mean"])
        for row in study["tables"]["incremental"]
        if row["budget"] == 5_000
    }
    offline = [caused[name] for name in caused if name.startswith("offline-")]
    words = " ".join(README.split())
    assert study["users"] == 100_000
    assert f"it causes {caused['pooled-trees']} conversions, where the method" in words
    assert f"causes {caused['bccb']}, and offline" in words
    assert f"after history, {min(offline)} to {max(offline)} (" in words


def test_the_table_shows_every_policy() -> None:
    (table,) = blocks("text")
    assert [line.split()[0] for line in table.splitlines()[3:]] == list(POLICIES)


@pytest.mark.compiled
def test_the_table_shows_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Except for the time it took. Three policies stand for all, to be quick."""
    quick = ("thompson", "bccb", "treat-all")
    options = [word for name in quick for word in ("--policy", name)]
    monkeypatch.setattr(sys, "argv", ["bccb", "compare", *options])
    with pytest.raises(SystemExit):
        main()
    printed = {line.split()[0]: line.split()[:-1] for line in capsys.readouterr().out.splitlines()}
    shown = {line.split()[0]: line.split()[:-1] for line in blocks("text")[0].splitlines()}
    for name in quick:
        assert shown[name] == printed[name]
