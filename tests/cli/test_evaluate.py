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


NAMES = ["this log", *(name for name in POLICIES if not unsuitable(name))]


def test_the_log_and_every_policy_that_can_be_driven_have_one_estimate(
    printed: Callable[..., str], decisions: Path
) -> None:
    out = printed(decisions)
    assert "decisions.parquet: 3,000 users" in out
    for name in NAMES:
        assert re.search(rf"^{name} .* {NUMBER} \({NUMBER} to {NUMBER}\)", out, re.M), name
    assert "IPW" not in out
    assert "The estimate is the doubly robust one (DR): unbiased if" in " ".join(out.split())
    assert "Caused, estimated" not in out
    assert "offline-uplift is left out: it needs history" in out
    assert "oracle is left out: it needs the true effects" in out
    assert "no probabilities" not in out


def test_all_estimates_are_shown_on_request(printed: Callable[..., str], decisions: Path) -> None:
    out = printed(decisions, "--all")
    for name in NAMES:
        assert re.search(rf"^{name} +IPW +{NUMBER} \({NUMBER} to {NUMBER}\)", out, re.M), name
    assert len(re.findall(r" SNIPS ", out)) == len(NAMES)
    assert len(re.findall(r" DR +-?\d", out)) == len(NAMES)
    assert "Caused, estimated: " in out
    assert "Caused, measured: " in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_row_without_support_has_the_reason_in_its_place(
    printed: Callable[..., str], tmp_path: Path
) -> None:
    assert LOG.probabilities is not None
    heavy = np.where((LOG.actions == 0) & (np.arange(LOG.users) > 20), 0.9999, LOG.probabilities)
    heavy[np.flatnonzero(LOG.actions == 0)[0]] = 0.005
    path = tmp_path / "heavy.parquet"
    write_log(replace(LOG, probabilities=heavy), path)
    for options in ((), ("--all",)):
        out = printed(path, "--policy", "treat-all", *options)
        assert re.search(r"withheld: ESS \d\.\d, needs 30", out)
        said = " ".join(out.split())
        assert "this log: The users left alone tell as much as 1." in said


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
    one = replace(LOG, features=LOG.features[:, :1], feature_names=("age",), encoding=None)
    headline = evaluate_log(one, outcome_rates(one)).headline
    assert headline is not None
    estimate = f"{headline.incremental:,.1f} ("
    assert estimate in with_p
    without = printed(path, *columns, "--features", "age", "--policy", "treat-all")
    assert "taken for a randomised trial" in without
    assert estimate not in without


def test_a_trial_is_evaluated_by_its_shares(printed: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "trial.parquet"
    write_log(simulate(2_000, seed=1, outcome="visit"), path)
    out = printed(path, "--policy", "treat-all")
    assert "every user had the same: 0.150, 0.850 (control first)" in " ".join(out.split())


def test_a_log_that_a_cost_cap_held_back_says_what_it_cannot_tell(
    printed: Callable[..., str], tmp_path: Path
) -> None:
    """Every second user had next to no chance of being treated, with either treatment."""
    assert LOG.probabilities is not None
    never = np.arange(LOG.users) % 2 == 0
    second = (LOG.actions > 0) & (np.arange(LOG.users) % 3 == 0)
    held = replace(
        LOG,
        actions=np.where(never, 0, LOG.actions + second),
        probabilities=np.where(never, 1.0 - 1e-7, LOG.probabilities / (1 + (LOG.actions > 0))),
        micros=np.column_stack((LOG.micros, LOG.micros)),
        treatment_names=("mail", "call"),
        effects=None,
    )
    path = tmp_path / "held.parquet"
    write_log(held, path)
    out = printed(path, "--policy", "treat-all", "--budget", "1e6")
    assert re.search(r"^treat-all .* withheld: weights do not add up", out, re.M)
    assert re.search(rf"^this log .* {NUMBER} \({NUMBER} to {NUMBER}\)", out, re.M)
    said = " ".join(out.split())
    assert "50% of the users were left alone and had no chance (below 1 in 1,000,000)" in said
    assert "use a trial for that." in said


def test_thin_overlap_is_reported_below_the_table(
    printed: Callable[..., str], tmp_path: Path
) -> None:
    sure = replace(LOG, probabilities=np.ones(LOG.users))
    path = tmp_path / "sure.parquet"
    write_log(sure, path)
    out = " ".join(printed(path, "--policy", "treat-all").split())
    assert "this log: This log cannot tell what these treatments cause" in out
    assert "withheld: nobody to compare" in out
