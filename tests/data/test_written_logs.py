"""Logs that are written and read back."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tables import assert_same

from bccb.data import lognormal, read_log, simulate, write_log
from bccb.data.schema import Columns
from bccb.errors import InputError
from bccb.money import cost_micros
from bccb.types import Log

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Logs of any names and values, with at least one row for each arm."""
    treatments, width = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    users = draw(st.integers(treatments + 1, 12))
    extra = draw(st.lists(st.integers(0, treatments), min_size=users, max_size=users))
    actions = np.array([*range(treatments + 1), *extra[treatments + 1 :]])

    def matrix(columns: int, low: float, high: float) -> Any:
        return draw(hnp.arrays(np.float64, (users, columns), elements=st.floats(low, high)))

    def distinct(size: int, prefix: str) -> tuple[str, ...]:
        result = draw(st.lists(names, min_size=size, max_size=size, unique=True))
        return tuple(prefix + name for name in result)

    return Log(
        features=matrix(width, -1e100, 1e100),
        actions=actions,
        outcomes=matrix(1, 0, 1)[:, 0],
        micros=cost_micros(matrix(treatments, 1e-6, 1e6)),
        feature_names=distinct(width, "x"),
        treatment_names=distinct(treatments, "t"),
        known_shares=draw(st.none() | st.just(np.full(treatments + 1, 1 / (treatments + 1)))),
        effects=matrix(treatments, -1, 1) if draw(st.booleans()) else None,
        probabilities=matrix(1, 1e-9, 1)[:, 0] if draw(st.booleans()) else None,
        charge=draw(st.sampled_from(["", "treatment", "conversion"])),
    )


@settings(deadline=None)
@given(log=logs())
def test_a_log_is_read_back_as_it_was_written(log: Log) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_log(log, path)
        assert_same(read_log(path), log)
        assert os.listdir(folder) == ["log.parquet"]


@pytest.fixture(params=[1, 2])
def log(request: pytest.FixtureRequest) -> Log:
    treatments = request.param
    generator = np.random.default_rng(5)
    return Log(
        features=generator.normal(size=(90, 2)),
        actions=np.arange(90) % (treatments + 1),
        outcomes=generator.random(90),
        micros=lognormal(90, treatments),
        treatment_names=("mail", "call")[:treatments],
        effects=generator.uniform(-1, 1, (90, treatments)),
    )


def test_a_written_file_names_its_columns(log: Log, tmp_path: Path) -> None:
    write_log(log, tmp_path / "log.parquet")
    present = pl.read_parquet(tmp_path / "log.parquet").columns
    costs = {1: ["cost", "effect"], 2: ["cost:mail", "cost:call", "effect:mail", "effect:call"]}
    assert present == ["treatment", "outcome", "x0", "x1", *costs[log.treatments]]
    assert_same(read_log(tmp_path / "log.parquet"), log)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.parquet"
    path.write_text("old")

    def fail(frame: pl.DataFrame, file: Path, **options: Any) -> None:
        Path(file).write_text("half")
        raise OSError("the disk is full")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    with pytest.raises(InputError, match=r"a file that can be written \(the disk is full\)"):
        write_log(log, path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["log.parquet"]


def test_logs_that_cannot_be_written_are_refused(log: Log, tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"path is '.*log.csv.gz', but must be a file that ends in '.parquet', '.csv'",
    ):
        write_log(log, tmp_path / "log.csv.gz")
    with pytest.raises(InputError, match=r"log.parquet', but must be a file that can be written"):
        write_log(log, tmp_path / "absent" / "log.parquet")
    last = log.treatment_names[-1]
    cost = "cost" if log.treatments == 1 else f"cost:{last}"
    for name in ("treatment", "outcome", cost):
        with pytest.raises(InputError, match=f"feature is '{name}', but must be none of"):
            write_log(replace(log, feature_names=("x0", name)), tmp_path / "log.parquet")
    clash = replace(log, treatment_names=("control", "call")[: log.treatments])
    with pytest.raises(InputError, match="control is 'control', but must be none of"):
        write_log(clash, tmp_path / "log.parquet")
    assert os.listdir(tmp_path) == []


def test_costs_and_true_effects_of_a_written_file_are_never_features(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_log(simulate(100, seed=1), path)
    log = read_log(path, Columns("treatment", "control", "outcome"))
    assert log.feature_names == tuple(f"f{j}" for j in range(12))


def test_stored_probabilities_stay_those_of_the_stored_arms(log: Log, tmp_path: Path) -> None:
    """Or a log of decisions would be taken for a randomised trial."""
    path = tmp_path / "log.parquet"
    write_log(replace(log, probabilities=np.full(90, 0.5)), path)
    again = read_log(path, Columns("treatment", "control", "outcome"))
    assert again.probabilities is not None
    assert again.feature_names == ("x0", "x1")
