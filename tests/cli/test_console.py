"""Progress where nobody sees a bar, as plain lines, and tables in narrow places."""

from __future__ import annotations

import io
import re
import time

import pytest
from processes import until

from bccb.cli import console
from bccb.cli.console import Remembering, progress_bar, table


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


def test_a_table_is_not_cut_where_the_place_is_too_narrow() -> None:
    file = io.StringIO()
    row = {"policy": "p" * 30, "caused (95 %)": "1,000 (-9,000 to 11,000)", "spend": "123,456.78"}
    Remembering(markup=False, width=40, file=file).print(table([row], "a title"))
    last = file.getvalue().splitlines()[-1]
    assert last.split() == [row["policy"], "1,000", "(-9,000", "to", "11,000)", "123,456.78"]
