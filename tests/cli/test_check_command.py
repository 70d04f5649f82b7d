"""``bccb check`` prints a command that runs, and asks where it cannot tell."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from processes import bccb

from bccb.cli.check import options_of
from bccb.cli.columns import columns_from
from bccb.data import Columns
from scripts.messy_trial import messy_trial


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("a shop's files") / "coupon trial.csv"
    messy_trial(6_000).frame.write_csv(path)
    return path


def checked(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What ``bccb check`` says of a CSV file with this text."""
    path = folder / "trial.csv"
    path.write_text(text)
    return bccb("check", path)


def test_the_next_command_runs_as_it_is_printed(trial: Path, tmp_path: Path) -> None:
    done = bccb("check", trial, "--json", tmp_path / "check.json")
    assert done.returncode == 0
    line = done.stdout.splitlines()[-1]
    words = shlex.split(line)
    assert words[:4] == ["bccb", "compare", "--data", str(trial)]
    options = "--treatment coupon --control none --outcome purchased --cost 2,4 --impute"
    assert set(shlex.split(options)) <= set(words)
    kept = json.loads((tmp_path / "check.json").read_text())
    assert kept["command"] == line
    assert {role["column"]: role["part"] for role in kept["roles"]}["coupon"] == "arm"
    assert words[-2:] == ["--users", "3000"]
    ran = bccb(*words[1:], "--policy", "cheapest-first", "--policy", "hybrid", "--seeds", "1:2")
    assert ran.returncode == 0, ran.stderr
    assert "cheapest-first" in ran.stdout
    assert "hybrid" in ran.stdout
    assert "treats nobody" not in ran.stdout  # rows are left for those that learn from history


def test_only_rows_that_are_read_count_as_users(tmp_path: Path) -> None:
    """With --arms a part of the rows is left out: more users than half of the rest is no use."""
    path, arms = tmp_path / "trial.csv", ["none", "a", "b", "b", "b", "b", "b", "b"]
    draw = np.random.default_rng(0)
    values: dict[str, Any] = {"arm": arms * 500, "sold": draw.integers(0, 2, 4_000)}
    pl.DataFrame({**values, "age": draw.integers(18, 90, 4_000)}).write_csv(path)
    done = bccb("check", path, "--arms", "a", "--cost", "0.5")
    assert done.stdout.splitlines()[-1].endswith("--users 500"), done.stdout


def test_what_it_cannot_tell_it_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "trial.csv"
    draw = np.random.default_rng(0)
    values: dict[str, Any] = {"variant": draw.choice(["A", "B"], 2_000)}
    values |= {"sold": draw.integers(0, 2, 2_000), "age": draw.integers(18, 90, 2_000)}
    pl.DataFrame(values).write_csv(path)
    done = bccb("check", path)
    assert done.returncode == 2
    assert "Run it again with --control VALUE, one of: A, B." in " ".join(done.stdout.split())
    assert "bccb compare" not in done.stdout
    done = bccb("check", path, "--control", "A", "--cost", "0.5")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == (
        f"bccb compare --data {path} --treatment variant --control A --outcome sold --cost 0.5 "
        "--users 1000"
    )


def test_amounts_may_be_in_any_column_that_is_mostly_0(tmp_path: Path) -> None:
    path = tmp_path / "trial.csv"
    draw = np.random.default_rng(0)
    values: dict[str, Any] = {"arm": draw.choice(["control", "mail"], 2_000)}
    values |= {"paid": np.where(draw.random(2_000) < 0.1, draw.choice([0.5, 1.0], 2_000), 0.0)}
    pl.DataFrame(values | {"age": draw.integers(18, 90, 2_000)}).write_csv(path)
    done = bccb("check", path, "--kind", "amount", "--cost", "0.5")
    assert done.returncode == 2
    assert "Run it again with --outcome COL, one of: paid." in " ".join(done.stdout.split())
    done = bccb("check", path, "--kind", "amount", "--cost", "0.5", "--outcome", "paid")
    assert "--outcome paid --kind amount" in done.stdout.splitlines()[-1]


def test_a_file_that_tells_its_columns_needs_no_options(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    assert bccb("simulate", path, "--users", 2_000).returncode == 0
    assert bccb("check", path).stdout.splitlines()[-1] == f"bccb compare --data {path} --users 1000"
    excluded = bccb("check", path, "--exclude", "f3").stdout
    assert excluded.splitlines()[-1] == f"bccb compare --data {path} --exclude f3 --users 1000"


def test_a_cost_is_asked_for_and_not_made_up(tmp_path: Path) -> None:
    rows = "control,1,30\nmail,0,40\nmail,1,30\ncontrol,0,40\n" * 50
    done = checked(tmp_path, "arm,sold,age\n" + rows)
    assert done.returncode == 2
    assert "cannot tell: no column tells what a treatment would cost" in done.stdout
    assert "Run it again with --cost PRICE." in " ".join(done.stdout.split())
    assert "bccb compare" not in done.stdout


def test_what_must_be_mended_is_said(tmp_path: Path) -> None:
    rows = "control,1,30\nmail,0,40\nmail,,30\ncontrol,0,40\n" * 50
    done = checked(tmp_path, "arm,sold,age\n" + rows)
    assert done.returncode == 2
    assert "to mend: sold is missing in 50 rows (25.0%)" in done.stdout


def test_a_broken_file_is_one_line(tmp_path: Path) -> None:
    done = checked(tmp_path, "arm,arm\nmail,1\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: the header is 'arm', but must be a name that no")


def test_a_name_that_a_list_cannot_hold_is_refused(tmp_path: Path) -> None:
    done = checked(tmp_path, 'arm,sold,"age, in years"\n' + "control,1,30\nmail,0,40\n" * 50)
    assert done.returncode == 2
    assert "the name of a column is 'age, in years', but must be without commas" in done.stderr


def test_options_read_back_as_the_columns_they_come_from() -> None:
    columns = Columns(
        "the arm", "no, thanks", "sale",
        treatments=("a", "b"), features=("x", "y's"), cost=(12345.6789, "price"),
        excluded=("id",), probability="p", positive="won", impute=True,
    )  # fmt: skip
    words = options_of(columns)
    named = dict(zip(words[:-1:2], words[1:-1:2], strict=True))
    fields = {
        "treatment": "--treatment", "control": "--control", "treatments": "--arms",
        "outcome": "--outcome", "positive": "--positive", "features": "--features",
        "excluded": "--exclude", "cost": "--cost", "probability": "--probability",
    }  # fmt: skip
    given = {field: named[option] for field, option in fields.items()}
    assert words[-1] == "--impute"
    assert columns_from(None, **given, impute=True) == columns
