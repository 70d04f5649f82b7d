"""Progress where nobody sees a bar: plain lines, now and then."""

from __future__ import annotations

import re
import time

import pytest
from processes import until

from bccb.cli import console
from bccb.cli.console import progress_bar


def test_without_a_terminal_progress_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(console.notes, "print", lambda line, **_: lines.append(line))
    monkeypatch.setattr(console, "FIRST_LINE", 0.01)
    monkeypatch.setattr(console, "BETWEEN_LINES", 0.01)
    with progress_bar("replaying") as show:
        until(lambda: bool(lines))
        first = lines[0]
        show(1_120, 1_260, "bccb")
        until(lambda: "1,120" in lines[-1])
    assert re.fullmatch(
        r"replaying: nothing finished after \d+ s \(the first use compiles, once\)", first
    )
    assert re.fullmatch(r"replaying: 1,120 of 1,260 after \d+ s", lines[-1])
    printed = len(lines)
    time.sleep(0.05)
    assert len(lines) == printed


def test_what_is_done_soon_prints_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("replaying") as show:
        show(1, 1, "bccb")
    assert capsys.readouterr().err == ""
