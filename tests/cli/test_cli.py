"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

import bccb
from bccb.cli import main
from bccb.data import read_log, simulate, write_log
from bccb.data.schema import columns_of
from bccb.data.world import simulate_world
from bccb.evaluate.late import exponential_delays
from bccb.evaluate.live import live
from bccb.policies import POLICIES

SMALL = ["--users", "400", "--history", "300", "--seeds", "1:3", "--budget", "30"]


class Ran:
    """How a command ended."""

    def __init__(self, status: int, out: str, notes: str) -> None:
        self.status, self.out, self.notes = status, out, notes


Run: TypeAlias = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``bccb`` in this process, in a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")

    def command(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["bccb", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return Ran(int(stopped.value.code or 0), printed.out, printed.err)

    return command


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    path = tmp_path / "trial.parquet"
    write_log(simulate(1_000, seed=1, outcome="visit"), path)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A trial as a user has it: a CSV file with names of their own."""
    generator = np.random.default_rng(0)
    lines = ["age,channel,arm,sale,price"]
    for i in range(300):
        channel = ("web", "shop")[i % 2]
        arm = ("none", "letter", "call")[i % 3]
        sale = int(generator.random() < 0.3)
        lines.append(f"{20 + i % 50},{channel},{arm},{sale},0.5")
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines))
    return path


def test_compare_prints_one_row_for_each_policy(run: Run) -> None:
    ran = run("compare", *SMALL)
    assert ran.status == 0
    assert "simulator: 400 users, 2 seeds, budget 30" in ran.out
    for name in POLICIES:
        assert re.search(rf"^ *{name} +\d+\.\d ± +\d+\.\d ", ran.out, re.MULTILINE), name


def test_the_table_fits_a_terminal_of_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = run("compare", *SMALL, "--budget", "5000")
    assert "…" not in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_compare_writes_every_run_as_json(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    budgets = ["--budget", "60"]
    ran = run("compare", *SMALL, *budgets, "--policy", "bccb", "--policy", "thompson",
              "--json", str(path))  # fmt: skip
    assert ran.status == 0
    answer = json.loads(path.read_text())
    results = [(row["budget"], row["policy"], row["seed"]) for row in answer["rows"]]
    assert results == [(b, p, s) for b in (30, 60) for p in ("bccb", "thompson") for s in (1, 2)]
    assert [(line["budget"], line["policy"]) for line in answer["summary"]] == [
        (b, p) for b in (30, 60) for p in ("bccb", "thompson")
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]


def test_the_number_of_jobs_changes_no_figure(run: Run, tmp_path: Path) -> None:
    answers = []
    for jobs in ("1", "2"):
        path = tmp_path / f"{jobs}.json"
        run("compare", *SMALL, "--jobs", jobs, "--json", str(path))
        rows = json.loads(path.read_text())["rows"]
        answers.append([{**row, "seconds": 0} for row in rows])
    assert answers[0] == answers[1]


def test_compare_reads_a_simulated_trial_without_naming_its_columns(run: Run, trial: Path) -> None:
    ran = run("compare", "--data", str(trial), "--budget", "20", "--seeds", "1", "--users", "600")
    assert ran.status == 0
    assert "trial.parquet: 600 users, 1 seed, budget 20" in ran.out
    assert "oracle" in ran.out
    said = " ".join(ran.out.split())
    assert re.search(
        r"the trial followed, [789]\d% of them: these 600 users stand for about \d\d\d live", said
    )
    assert "All seeds stream the same 1,000 rows. The 95 % intervals go row by row" in said
    assert re.search(r"^ *treat-all +-?[\d.]+ \(-?[\d.]+ to [\d.]+\) +\d+\.0 ", ran.out, re.M)
    assert "±" not in ran.out


def test_compare_tells_of_a_drift_which_files_cannot_have(run: Run, trial: Path) -> None:
    small = ("--users", "300", "--budget", "10", "--seeds", "1", "--policy", "thompson")
    assert "simulator with drift: 300 users" in run("compare", "--drift", *small).out
    ran = run("compare", "--drift", "--data", str(trial), *small)
    assert ran.status == 2
    assert "--drift is True, but must be used on simulated users, without --data" in ran.notes


def test_compare_runs_live_in_a_world_of_another_kind(run: Run, trial: Path) -> None:
    few = ("--policy", "cheapest-first", "--policy", "oracle")
    ran = run("compare", *SMALL, *few, "--world", "additive")
    assert ran.status == 0, ran.notes
    assert "world additive (a treatment adds the same to everybody's rate)" in " ".join(
        ran.out.split()
    )
    assert re.search(r"^ *oracle +\d+\.\d ± +\d+\.\d 1\.000 ", ran.out, re.MULTILINE)
    ran = run("compare", *SMALL, *few, "--world", "additve")
    assert ran.status == 2
    assert "did you mean 'additive'" in ran.notes
    ran = run("compare", "--world", "bump", "--data", str(trial))
    assert ran.status == 2
    assert "--world is 'bump', but must be given alone" in ran.notes


def test_compare_with_a_delay_tells_what_late_outcomes_cost(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "late.json"
    few = ["--policy", "pooled-bayes", "--policy", "offline-uplift", "--policy", "oracle"]
    ran = run("compare", *SMALL, *few, "--delay", "10%", "--json", str(path))
    assert ran.status == 0, ran.notes
    assert "simulator: 400 users, 2 seeds, budget 30, late outcomes" in ran.out
    assert "conversions are reported 40 users later on average, nothing else is" in ran.notes
    assert "window: 200 users, 5 times the delay: --window gives another" in ran.notes
    assert re.search(r"^ *oracle +\d+\.\d ± +\d+\.\d 1\.000 +1\.000 ", ran.out, re.MULTILINE)
    rows = json.loads(path.read_text())["rows"]
    assert [(row["policy"], row["seed"]) for row in rows] == [
        (name, seed) for name in ("pooled-bayes", "offline-uplift", "oracle") for seed in (1, 2)
    ]
    policy = bccb.make("pooled-bayes", budget=30, horizon=400, features=12, seed=2)
    late = live(policy, simulate_world(400, 2), exponential_delays(400, 40.0, 2), 200.0)
    assert (rows[1]["incremental"], rows[1]["treated"]) == (late.value, late.treated)
    again = tmp_path / "again.json"
    run("compare", *SMALL, *few, "--delay", "40", "--window", "50%", "--json", str(again))
    assert json.loads(again.read_text())["rows"] == rows


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--delay", "-5"], "--delay is '-5', but must be from 1 to 1e+12 users, such as 5000, or"),
        (["--delay", "nan%"], "--delay is 'nan%', but must be"),
        (["--delay", "inf"], "--delay is 'inf', but must be"),
        (["--delay", "soon"], "--delay is 'soon', but must be"),
        (["--delay", "10%", "--window", "0"], "--window is '0', but must be from 1"),
        (["--window", "50%"], "--window is '50%', but must be given together with --delay"),
        (["--delay", "10%", "--drift"], "--drift is True, but must be left out with --delay"),
        (["--delay", "10%", "--data", "x.csv"], "used on simulated users, without --data: a log"),
    ],
)
def test_delays_that_cannot_be_are_one_sentence(run: Run, options: list[str], message: str) -> None:
    ran = run("compare", *SMALL, *options)
    assert ran.status == 2
    assert message in " ".join(ran.notes.split())


def test_compare_reads_a_users_own_table(run: Run, table: Path) -> None:
    columns = ["--treatment", "arm", "--control", "none", "--outcome", "sale", "--cost", "price"]
    ran = run("compare", "--data", str(table), *columns, "--features", "age,channel",
              "--budget", "10", "--seeds", "1:3")  # fmt: skip
    assert ran.status == 0
    assert "mine.csv: sale, 300 users, 2 seeds, budget 10" in ran.out
    assert "oracle" not in ran.out
    said = " ".join(ran.out.split())
    assert "offline-uplift at 10: 2 of 2 runs: treats nobody: no rows are left for" in said
    assert "keep some back with a lower --users N" in said


def test_a_log_is_compared_at_a_budget_that_limits(run: Run, table: Path) -> None:
    columns = ["--treatment", "arm", "--control", "none", "--outcome", "sale", "--cost", "price"]
    small = ["--seeds", "1", "--policy", "treat-all", "--policy", "thompson"]
    ran = run("compare", "--data", str(table), *columns, *small)
    assert "300 users, 1 seed, budget 10" in ran.out  # the trial spent 0.5 on each of 200
    assert "budget: none given with --budget, so 10, a tenth of what the trial spent" in ran.notes
    ran = run("compare", "--data", str(table), *columns, *small, "--budget", "100")
    said = " ".join(ran.notes.split())
    assert "warning: a budget of 100 limits nobody, because treating all matched users" in said
    assert "costs about 100: lower --budget" in said
    ran = run("compare", "--data", str(table), *columns, *small, "--budget", "50")
    assert "limits nobody" not in ran.notes


def test_one_arm_can_be_picked(run: Run, table: Path) -> None:
    columns = ["--treatment", "arm", "--control", "none", "--outcome", "sale", "--arms", "call",
               "--cost", "1"]  # fmt: skip
    ran = run("data", "describe", str(table), *columns, "--features", "age,channel")
    assert "letter" not in ran.out
    assert re.search(r"call +100", ran.out)


def test_describe_says_in_words_whether_a_log_looks_randomised(run: Run, table: Path) -> None:
    columns = ["--treatment", "arm", "--control", "none", "--outcome", "sale", "--cost", "price"]
    ran = run("data", "describe", str(table), *columns)
    assert ran.status == 0
    assert "looks randomised: the largest difference" in ran.out
    assert "missing values: none" in ran.out


def test_describe_counts_missing_values(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "holes.csv"
    rows = [f"{i if i % 7 else ''},{i % 2},{i % 3 == 0:d}" for i in range(100)]
    path.write_text("\n".join(["age,arm,sale", *rows]))
    ran = run("data", "describe", str(path), "--treatment", "arm", "--control", "0",
              "--outcome", "sale", "--cost", "1")  # fmt: skip
    assert "missing values: age 15; 15 rows left out above" in ran.out


def test_policies_lists_the_registry(run: Run) -> None:
    ran = run("policies")
    assert ran.status == 0
    for name in POLICIES:
        assert name in ran.out


def test_simulate_writes_a_log_that_reads_back(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "new.parquet"
    ran = run(
        "simulate", str(path), "--users", "500", "--seed", "3", "--treatments", "2", "--drift"
    )
    assert ran.status == 0
    log, expected = read_log(path), simulate(500, seed=3, treatments=2, drift=True)
    assert log.features.tolist() == expected.features.tolist()
    assert log.actions.tolist() == expected.actions.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["comparee"], "command is 'comparee', but must be one of 'check', 'compare', 'advise'"),
        (["comparee"], "did you mean 'compare'?"),
        (["compare", "--policy", "bcbc"], "policy is 'bcbc', but must be one of thompson"),
        (["compare", "--policy", "bccb", "--policy", "bccb"], "must be named once each"),
        (["compare", "--budget", "0"], "--budget is 0.0, but must be at least"),
        (["compare", "--budget", "nan"], "--budget is nan, but must be at least"),
        (["compare", "--users", "0"], "--users is 0, but must be 1 or above"),
        (["compare", "--history", "-1"], "--history is -1, but must be 0 or above"),
        (["compare", "--seeds", "five"], "--seeds is 'five', but must be first:last+1"),
        (["compare", "--seeds", "9:3"], "--seeds is '9:3', but must be"),
        (["compare", "--seeds", "1,1"], "--seeds is '1,1', but must be"),
        (["compare", "--jobs", "0"], "--jobs is 0, but must be 1 or above"),
        (["compare", "--json", "no/such/folder.json"], "a file in a folder that can be written"),
        (["compare", "--preset", "criteo"], "--data is None, but must be given"),
        (["compare", "--data", "absent.csv", "--preset", "criteo"], "a file that exists"),
        (["compare", "--data", "TRIAL", "--preset", "criteos"], "did you mean 'criteo'?"),
        (
            ["compare", "--data", "TRIAL", "--treatment", "arm"],
            "' is None, but must be named: --treatment COL --control VALUE --outcome COL",
        ),
        (
            ["compare", "--data", "TRIAL", "--preset", "starbucks"],
            "treatment column is 'Promotion'",
        ),
        (
            ["compare", "--data", "TRIAL", "--users", "2000"],
            "--users is 2000, but must be from 1 to",
        ),
        (["compare", "--data", "TRIAL", "--users", "900", "--history", "200"], "from 0 to 100"),
        (["compare", "--data", "TRIAL.txt"], "a file that exists"),
        (["simulate", "out.tsv"], "path is 'out.tsv', but must be a file that ends in"),
        (
            ["simulate", "out.parquet", "--users", "0"],
            "users is 0, but must be a whole number from 1 to",
        ),
        (["simulate", "out.parquet", "--outcome", "sale"], "outcome is 'sale', but must be"),
        (["simulate", "TRIAL"], "but must be a new one, or --force given to replace it"),
        (["data", "describe", "absent.parquet"], "a file that exists"),
        (["evaluate", "absent.parquet"], "a file that exists"),
        (["evaluate", "TRIAL", "--policy", "bcbc"], "policy is 'bcbc', but must be one of"),
        (["evaluate", "TRIAL", "--policy", "bccb", "--policy", "bccb"], "must be named once each"),
        (["evaluate", "TRIAL", "--budget", "-1"], "--budget is -1.0, but must be at least"),
        (["evaluate", "TRIAL", "--seed", "-1"], "--seed is -1, but must be from 0 to"),
        (["evaluate", "TRIAL", "--json", "no/such/folder.json"], "a folder that can be written to"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    run: Run,
    trial: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    ran = run(*(word.replace("TRIAL", str(trial)) for word in arguments))
    assert ran.status == 2
    assert message in ran.notes
    assert ran.notes.startswith("error: ")
    assert len(ran.notes.splitlines()) == 1
    assert ran.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_an_unknown_option_is_status_2_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bccb", "compare", "--budgets", "3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "No such option: --budgets" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_command_has_help_with_an_example(run: Run) -> None:
    for command in (["compare"], ["data", "describe"], ["evaluate"], ["simulate"], ["trust"]):
        ran = run(*command, "--help")
        assert ran.status == 0
        assert "Example" in ran.out
        assert f"bccb {' '.join(command)}" in ran.out


def test_names_with_brackets_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "[bold].csv"
    rows = [f"{i * 7 % 10},{i * 3 % 8},{i % 2},{i % 3 == 0:d}" for i in range(100)]
    path.write_text("\n".join(["[log] income,[/x],arm,sale", *rows]))
    columns = ["--treatment", "arm", "--control", "0", "--outcome", "sale", "--cost", "1"]
    ran = run("data", "describe", str(path), *columns)
    assert ran.status == 0
    assert "[log] income" in ran.out
    assert "[/x]" in ran.out
    ran = run("compare", "--data", str(path), *columns, "--budget", "5", "--seeds", "1")
    assert "[bold].csv: sale, 100 users" in ran.out


def test_a_terminal_without_unicode_gets_the_table_all_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bccb", "compare", "--policy", "treat-all", *SMALL],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "treat-all" in done.stdout


def test_output_that_cannot_be_written_is_one_sentence() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bccb", "policies"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_log_without_features_is_compared_all_the_same(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("\n".join(["arm,sale", *(f"{i % 2},{i % 3 == 0:d}" for i in range(200))]))
    columns = ["--treatment", "arm", "--control", "0", "--outcome", "sale", "--cost", "0.5"]
    ran = run("compare", "--data", str(path), *columns, "--budget", "5", "--seeds", "1",
              "--users", "100")  # fmt: skip
    assert ran.status == 0
    assert "treats nobody: history has no features" in ran.out


def test_the_version_is_printed(run: Run) -> None:
    ran = run("--version")
    assert ran.status == 0
    assert ran.out == f"bccb {bccb.__version__}\n"


def test_notes_name_the_features_and_costs_are_never_made_up(run: Run, table: Path) -> None:
    columns = ["--treatment", "arm", "--control", "none", "--outcome", "sale"]
    small = ["--budget", "10", "--seeds", "1", "--policy", "treat-all"]
    ran = run("compare", "--data", str(table), *columns, "--exclude", "price", *small)
    said = " ".join(ran.notes.split())
    assert "error: the cost of a treatment in 'mine.csv' is None, but must be given, as" in said
    assert "--cost COL, --cost 0.5, --cost COL,COL or --cost 0.5,1.2" in said
    for cost, spend in (("0.5,1.2", "34"), ("price,1.2", "34"), ("0.5", "20")):
        given = ["--exclude", "price", "--cost", cost] if cost[0] == "0" else ["--cost", cost]
        ran = run("compare", "--data", str(table), *columns, *given, "--seeds", "1",
                  "--policy", "treat-all")  # fmt: skip
        assert "features: age, channel=" in ran.notes
        assert f"so {float(spend) / 2:g}, a tenth" in ran.notes


def test_the_policies_fit_a_terminal_of_80_columns(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for ran in (run("policies"), *(run("policies", name) for name in POLICIES)):
        assert "…" not in ran.out
        assert max(map(len, ran.out.splitlines())) <= 80


def test_a_policy_shows_value_range_and_meaning_of_each_parameter(run: Run) -> None:
    for name, spec in POLICIES.items():
        text = " ".join(run("policies", name).out.split())
        for part in spec.composition.components:
            for key, parameter in part.parameters.items():
                value = spec.parameters.get(key, parameter.default)
                assert f"{key} = {value:g} (from " in text, (name, key)
                assert " ".join(parameter.about.split()) in text, (name, key)


def test_simulate_writes_csv_and_says_how_to_read_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "trial.csv"
    ran = run("simulate", str(path), "--users", "900", "--treatments", "2", "--outcome", "visit")
    assert ran.status == 0, ran.notes
    hint = ran.notes.strip().removeprefix("read it with ")
    again = run("compare", "--data", str(path), *hint.split(), *SMALL, "--policy", "bccb")
    assert again.status == 0, again.notes
    assert "features: f0, f1" in again.notes
    assert "effect" not in again.notes  # the truth is in the file, but is no feature
    log = read_log(path, columns_of(simulate(900, treatments=2, outcome="visit")))
    written = simulate(900, treatments=2, outcome="visit")
    np.testing.assert_array_equal(log.features, written.features)
    np.testing.assert_array_equal(log.micros, written.micros)
    np.testing.assert_array_equal(log.effects, written.effects)


def test_simulate_replaces_a_file_when_told_to(run: Run, trial: Path) -> None:
    assert run("simulate", str(trial), "--users", "10", "--force").status == 0
    assert read_log(trial).users == 10


def test_simulate_refuses_other_endings(run: Run, tmp_path: Path) -> None:
    ran = run("simulate", str(tmp_path / "trial.ndjson"), "--users", "10")
    assert ran.status == 2
    assert "must be a file that ends in '.parquet', '.csv'" in ran.notes.replace("\n", " ")


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    """Outcomes in words, and a feature that was measured after them."""
    generator = np.random.default_rng(0)
    lines = ["age,basket,arm,sale,price,chance"]
    for i in range(900):
        sale = generator.random() < 0.3
        basket = 10 + generator.random() if sale else 0
        arm = ("none", "letter")[i % 2]
        lines.append(f"{20 + i % 50},{basket},{arm},{'Yes' if sale else 'No'},0.5,0.5")
    path = tmp_path / "leaky.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("data", "describe"),
        ("compare", "--seeds", "1", "--budget", "20", "--policy", "bccb", "--data"),
        ("evaluate", "--budget", "20", "--policy", "cheapest-first", "--probability", "chance"),
    ],
)
def test_a_feature_that_tells_the_outcome_is_named(
    run: Run, leaky: Path, command: tuple[str, ...]
) -> None:
    columns = ["--treatment", "arm", "--control", "none", "--outcome", "sale", "--cost", "price"]
    ran = run(*command, str(leaky), *columns)
    said = " ".join((ran.out + ran.notes).split())
    assert ran.status == 0, said
    assert "warning: feature basket alone tells the outcome" in said
    assert "leave it out with --exclude" in said
    assert "feature age" not in said.replace("in feature age", "")
    assert "outcome: 'yes' counts as 1, 'no' counts as 0" in said


def test_a_text_that_does_not_say_what_it_means_can_be_named(run: Run, leaky: Path) -> None:
    leaky.write_text(leaky.read_text().replace("Yes", "gold").replace("No", "silver"))
    columns = ["--treatment", "arm", "--control", "none", "--outcome", "sale", "--cost", "price"]
    refused = run("data", "describe", str(leaky), *columns)
    assert refused.status == 2
    assert "name it with --positive VALUE" in refused.notes
    ran = run("data", "describe", str(leaky), *columns, "--positive", "gold")
    assert "outcome: 'gold' counts as 1, 'silver' counts as 0" in ran.out
