"""``bccb paper``: its files, its resuming, its own-data scale, its refusals."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import bccb, until

from bccb.data import simulate, write_log
from bccb.experiments.store import Store

pytestmark = [pytest.mark.compiled, pytest.mark.slow_first(3)]
ONLY = ["--only", "crossover", "--only", "diagnostics"]
HISTORY = ["--only", "history", "--only", "advantage"]


def paper(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    jobs = () if "--jobs" in options else ("--jobs", "1")  # to start processes takes long
    return bccb("paper", "--out", folder, *jobs, *options)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trial") / "trial.parquet"
    write_log(simulate(9_000, seed=1, outcome="visit"), path)
    return path


def tables(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("*-table.*"))}


def test_a_users_own_trial_is_run_at_its_scale_and_written(trial: Path, tmp_path: Path) -> None:
    done = paper(tmp_path, "--data", str(trial), "--seeds", "1:6", *ONLY)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "crossover-table.json").read_text())
    assert [row["n"] for row in rows] == [500, 1_000, 2_000, 3_000]
    with (tmp_path / "diagnostics-runs.csv").open() as file:
        assert {float(run["budget"]) for run in csv.DictReader(file)} == {300.0}
    assert "What held" in done.stdout
    whole = (tmp_path / "report.html").read_text()
    assert "cheapest-first" in whole
    assert "Published" not in whole
    assert {path.stem for path in tmp_path.glob("*.svg")} == {"crossover", "diagnostics", "paths"}


def test_what_history_is_worth_is_reported_for_every_size(trial: Path, tmp_path: Path) -> None:
    done = paper(tmp_path, "--data", str(trial), "--seeds", "1:3", *HISTORY)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "history-table.json").read_text())
    assert [row["n"] for row in rows] == [500, 1_000, 2_000, 3_000]
    assert rows[-1]["offline-boosted_mean"] > 0
    assert "offline-boosted mean ± deviation" in (tmp_path / "paper.md").read_text()
    assert (tmp_path / "history.svg").exists()


def test_jobs_change_no_figure_and_a_second_run_makes_nothing(trial: Path, tmp_path: Path) -> None:
    answers = []
    for jobs in ("1", "2"):
        folder = tmp_path / jobs
        paper(folder, "--data", str(trial), "--seeds", "1:3", "--jobs", jobs, *ONLY)
        answers.append(tables(folder))
        stored = (folder / "runs.jsonl").read_bytes()
        assert paper(folder, "--data", str(trial), "--seeds", "1:3", *ONLY).returncode == 0
        assert (folder / "runs.jsonl").read_bytes() == stored
    assert answers[0] == answers[1]
    assert len(answers[0]) == 4


def test_a_killed_run_goes_on_where_it_stopped(trial: Path, tmp_path: Path) -> None:
    options = ["--data", str(trial), "--seeds", "1:7", "--jobs", "1", *ONLY]
    assert paper(tmp_path / "whole", *options).returncode == 0
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "bccb", "paper", "--out", str(folder), *options]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    store = folder / "runs.jsonl"
    until(lambda: store.exists() and store.read_bytes().count(b"\n") > 5, 60.0)
    assert child.poll() is None
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    kept = store.read_bytes()
    assert paper(folder, *options).returncode == 0
    assert store.read_bytes().startswith(kept[: kept.rfind(b"\n") + 1])
    assert tables(folder) == tables(tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "crossovers"], "only is 'crossovers', but must be one of online, crossover"),
        (["--seeds", "4"], "seeds is [4], but must be at least 2"),
        (["--jobs", "0"], "--jobs is 0, but must be 1 or above"),
        (["--preset", "criteo"], "data is None, but must be given"),
        (["--data", "TRIAL", "--engine", "slurm"], "is not one of"),
    ],
)
def test_bad_input_runs_nothing(
    options: list[str], message: str, trial: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    done = paper(folder, *(word.replace("TRIAL", str(trial)) for word in options))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not folder.exists()


def test_a_log_too_small_is_refused_with_the_rows_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "small.parquet"
    write_log(simulate(2_000, seed=1), path)
    done = paper(tmp_path / "out", "--data", str(path))
    assert done.returncode == 2
    assert "the number of rows of the log is 2000, but must be at least 3,000" in done.stderr


def test_two_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.jsonl")
    done = paper(tmp_path, "--quick", "--only", "diagnostics")
    assert done.returncode == 2
    assert "another process is writing to" in done.stderr
    store.close()


def test_few_seeds_and_small_trials_give_tables_without_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "small.parquet"
    write_log(simulate(3_000, seed=1, outcome="visit"), path)
    done = paper(tmp_path / "out", "--data", str(path), "--seeds", "1,7", "--only", "stability")
    assert done.returncode == 0, done.stderr
    assert "What held" not in done.stdout
    assert "the seeds 1, 7." in (tmp_path / "out" / "paper.md").read_text()
