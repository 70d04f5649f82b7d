"""The load bench runs, and tells every figure; nothing here looks at one."""

import json
from pathlib import Path

import pytest

from bench import load
from bench.service.figures import QUICK, contestants, what

pytestmark = [pytest.mark.compiled, pytest.mark.slow_first(10)]


def test_quick_load_has_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load.main(["--quick", "--folder", str(tmp_path), "--out", str(tmp_path / "load.json")])
    printed = capsys.readouterr().out
    rows = [line.split()[:3] for line in printed.splitlines()]
    for order in contestants(QUICK):
        assert what(order).split() in [row[: len(what(order).split())] for row in rows]
    assert printed.count("single over empty") == 4
    assert printed.count("in lists over single") == 2
    assert printed.count("in columns over single") == 2
    assert "ready again after the kill" in printed
    written = json.loads((tmp_path / "load.json").read_text())
    assert len(written["rounds"]) == len(contestants(QUICK))
    assert all(one["refused"] == 0 for row in written["rounds"] for one in row["rounds"])
    assert written["recovery"]["events"] >= QUICK.events
    assert written["recovery"]["check"] is not None, written["recovery"]["told"]
    assert [path.name for path in tmp_path.iterdir()] == ["load.json"]
