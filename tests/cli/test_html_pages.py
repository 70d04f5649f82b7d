"""``--html`` of compare, evaluate and advise: one page that says what the terminal says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from bccb.cli import main
from bccb.data import simulate, write_log
from bccb.evaluate.coverage import simulate_decisions

Written = Callable[..., tuple[int, str, str]]


@pytest.fixture
def written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Written:
    """How a command with ``--html`` ends, what it prints without line breaks, and the page."""

    def command(*arguments: object) -> tuple[int, str, str]:
        path = tmp_path / "page.html"
        monkeypatch.setattr(sys, "argv", ["bccb", *map(str, arguments), "--html", str(path)])
        with pytest.raises(SystemExit) as stopped:
            main()
        shown = capsys.readouterr()
        page = unescape(path.read_text(encoding="utf-8")) if path.exists() else shown.err
        return int(stopped.value.code or 0), " ".join(shown.out.split()), page

    return command


def paragraphs(page: str) -> list[str]:
    """The sentences at the head of a page."""
    head = page[page.index("<header>") : page.index("</header>")]
    return [" ".join(text.split()) for text in re.findall(r"<p>(.*?)</p>", head, re.DOTALL)]


def test_compare(written: Written) -> None:
    few = ["--users", "400", "--history", "0", "--seeds", "1,2", "--policy", "cheapest-first"]
    status, _, page = written("compare", *few, "--budget", "30", "--budget", "60")
    assert status == 0
    assert "Conversions caused against budget" in page
    assert "cheapest-first proposes it with 60, in one replay" in page
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", page)


def test_compare_in_a_world(written: Written) -> None:
    few = ["--world", "few", "--users", "300", "--history", "0", "--seeds", "1", "--budget", "30"]
    status, _, page = written("compare", *few, "--policy", "cheapest-first", "--policy", "oracle")
    assert status == 0
    assert "What each policy caused" in page
    assert "oracle" in page


def test_evaluate(written: Written, tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    write_log(simulate_decisions(1_500, seed=1), log)
    status, printed, page = written("evaluate", log, "--policy", "cheapest-first")
    assert status == 0
    said = paragraphs(page)
    assert len(said) >= 2
    assert all(sentence in printed for sentence in said)
    assert "Probability of being left alone" in page
    assert "Treated are those whom this log treated." in page


@pytest.mark.slow_first
def test_advise(written: Written, tmp_path: Path) -> None:
    trial = tmp_path / "trial.parquet"
    write_log(simulate(4_000, seed=1, outcome="visit"), trial)
    few = ["--budget", "40", "--users", "800", "--seeds", "0:4", "--jobs", "1"]
    status, printed, page = written("advise", trial, *few)
    assert status == 0, page
    said = paragraphs(page)
    assert said[0].startswith("Use ")
    assert all(sentence in printed for sentence in said)
    assert "Advice: 40 for 800 users" in page
    assert "Who is treated" in page


def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "nowhere" / "page.html"
    monkeypatch.setattr(sys, "argv", ["bccb", "compare", "--html", str(path)])
    with pytest.raises(SystemExit):
        main()
    error = " ".join(capsys.readouterr().err.split())
    assert "--html is " in error
    assert "a file in a folder that can be written to" in error
