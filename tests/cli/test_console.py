"""Progress where nobody sees a bar: plain lines, now and then."""

from __future__ import annotations

import time

import pytest

from bccb.cli import console
from bccb.cli.console import progress_bar


def test_without_a_terminal_progress_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "FIRST_LINE", 0.05)
    monkeypatch.setattr(console, "BETWEEN_LINES", 0.2)
    with progress_bar("replaying") as show:
        time.sleep(0.1)  # nothing is done yet
        show(120, 260, "bccb")
        show(130, 260, "bccb")
        time.sleep(0.25)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "replaying: nothing finished after 0 s (the first use compiles, once)"
    assert second == "replaying: 130 of 260 after 0 s"


def test_what_is_done_soon_prints_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("replaying") as show:
        show(1, 1, "bccb")
    assert capsys.readouterr().err == ""


def test_an_error_ends_the_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "FIRST_LINE", 0.05)
    with pytest.raises(ZeroDivisionError), progress_bar("replaying"):
        raise ZeroDivisionError
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
