"""``bccb trust``: its tables, its files, its resuming, its refusals."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from processes import bccb

from bccb.experiments.report import Report
from bccb.experiments.trust_study import TRUST
from bccb.policies import POLICIES

pytestmark = [pytest.mark.compiled, pytest.mark.slow_first]
SMALL = [
    *("--quick", "--users", "300", "--users", "600", "--users", "1200", "--seeds", "2"),
    *("--repetitions", "2", "--comparisons", "2", "--jobs", "1"),
]


def trust(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return bccb("trust", "--out", folder, *options, columns=80)


@pytest.mark.slow_first(40)
def test_a_run_prints_tables_that_fit_and_writes_what_it_found(tmp_path: Path) -> None:
    done = trust(tmp_path, *SMALL)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout
    titles = [one.title for one in TRUST.experiments if one.name != "curves"]
    for text in ("What held", *titles, *POLICIES):
        assert text in done.stdout
    answer = json.loads((tmp_path / "trust.json").read_text())
    assert answer["setup"]["sizes"] == [300, 600, 1200]
    assert (tmp_path / "trust.md").read_text() == Report(TRUST, answer).markdown()
    names = {path.name for path in tmp_path.glob("*.svg")}
    drawn = ("caused", "curves", "estimators", "late", "twins", "worlds")
    assert names == {f"{name}.svg" for name in drawn}
    assert "<svg" in (tmp_path / "report.html").read_text()

    stored = (tmp_path / "trust.jsonl").read_bytes()
    again = trust(tmp_path, *SMALL)
    assert again.stdout == done.stdout
    assert (tmp_path / "trust.jsonl").read_bytes() == stored


def test_a_part_can_be_run_alone(tmp_path: Path) -> None:
    done = trust(tmp_path, *SMALL, "--only", "twins")
    assert done.returncode == 0, done.stderr
    answer = json.loads((tmp_path / "trust.json").read_text())
    assert list(answer["tables"]) == ["twins"]
    assert all("copies" in claim["text"] for claim in answer["claims"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "lat"], "only is 'lat', but must be one of values, exponents, worlds, late"),
        (["--users", "5"], "users is [5], but must be from 100 to 10,000,000"),
        (["--seeds", "1"], "seeds is 1, but must be from 2 to 10,000"),
        (["--jobs", "0"], "--jobs is 0, but must be 1 or above"),
    ],
)
def test_bad_input_runs_nothing(options: list[str], message: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = trust(folder, *options)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert not folder.exists()
