"""``bccb evaluate``: the tables, the warnings and the figures it writes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bccb.cli import main
from bccb.data import simulate, write_log
from bccb.evaluate.coverage import simulate_decisions
from bccb.evaluate.evaluation import evaluate_log, unsuitable
from bccb.evaluate.outcome_model import outcome_rates
from bccb.policies import POLICIES

LOG = simulate_decisions(3_000, seed=1)
NUMBER = r"-?[\d,]+\.\d"


@pytest.fixture
def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What ``bccb evaluate`` prints in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def command(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["bccb", "evaluate", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        shown = capsys.readouterr()
        assert not stopped.value.code, shown.err
        return shown.out

    return command


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    path = tmp_path / "decisions.parquet"
    write_log(LOG, path)
    return path


def test_the_log_and_every_policy_that_can_be_driven_have_three_estimates(
    printed: Callable[..., str], decisions: Path
) -> None:
    out = printed(decisions)
    assert "decisions.parquet: 3,000 users" in out
    names = ["this log", *(name for name in POLICIES if not unsuitable(name))]
    for name in names:
        assert re.search(rf"^{name} +IPW +{NUMBER} \({NUMBER} to {NUMBER}\)", out, re.M), name
    assert len(re.findall(r" SNIPS ", out)) == len(re.findall(r" DR ", out)) == len(names)
    assert "offline-uplift is left out: it needs history" in out
    assert "oracle is left out: it needs the true effects" in out
    assert "no probabilities" not in out


def test_the_table_fits_a_terminal_of_80_columns(
    printed: Callable[..., str], decisions: Path
) -> None:
    out = printed(decisions)
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_every_figure_is_written_as_json(
    printed: Callable[..., str], decisions: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    printed(decisions, "--policy", "treat-all", "--budget", "100", "--json", path)
    own, other = json.loads(path.read_text())
    expected = evaluate_log(LOG, outcome_rates(LOG))
    assert own == json.loads(json.dumps(expected.figures()))
    assert own["policy"] == "this log"
    assert other["policy"] == "treat-all"
    assert 99 < other["spend"] <= 100


def test_the_budget_of_others_is_what_the_log_spent(
    printed: Callable[..., str], decisions: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    printed(decisions, "--policy", "treat-all", "--json", path)
    own, other = json.loads(path.read_text())
    assert own["spend"] - 1 < other["spend"] <= own["spend"] + 1e-6


def test_a_users_own_file_is_read_with_its_column_of_probabilities(
    printed: Callable[..., str], tmp_path: Path
) -> None:
    assert LOG.probabilities is not None
    rows = zip(LOG.features[:, 0], LOG.actions, LOG.outcomes, LOG.probabilities, strict=True)
    lines = [f"{x},{('none', 'mail')[a]},{y},{p},0.5" for x, a, y, p in rows]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["age,arm,sale,p,price", *lines]))
    columns = ["--treatment", "arm", "--control", "none", "--outcome", "sale", "--cost", "price"]
    with_p = printed(path, *columns, "--probability", "p", "--policy", "treat-all")
    assert "randomised trial" not in with_p
    estimate = f"{evaluate_log(LOG, outcome_rates(LOG)).estimates[0].incremental:,.1f} ("
    assert estimate in with_p
    without = printed(path, *columns, "--features", "age", "--policy", "treat-all")
    assert "taken for a randomised trial" in without
    assert estimate not in without


def test_a_trial_is_evaluated_by_its_shares(printed: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "trial.parquet"
    write_log(simulate(2_000, seed=1, outcome="visit"), path)
    out = printed(path, "--policy", "treat-all")
    assert "every user had the same: 0.150, 0.850 (control first)" in " ".join(out.split())


def test_thin_overlap_is_reported_below_the_table(
    printed: Callable[..., str], tmp_path: Path
) -> None:
    sure = replace(LOG, probabilities=np.ones(LOG.users))
    path = tmp_path / "sure.parquet"
    write_log(sure, path)
    out = " ".join(printed(path, "--policy", "treat-all").split())
    assert "this log: 100.0% of the treated users, with 100.0% of the spend" in out
    assert "this log: This log cannot tell what these treatments cause" in out
    assert "not known" in out
