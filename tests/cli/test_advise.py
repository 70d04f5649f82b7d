"""``bccb advise``: the sentence first, then the table; what it writes and refuses."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bccb.cli import main
from bccb.data import simulate, write_log
from bccb.evaluate.rivals import rivals_of
from bccb.policies import NAIVE

SMALL = ["--budget", "40", "--users", "800", "--seeds", "0:4"]


@pytest.fixture
def ran(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """How ``bccb advise`` ends, and what it prints in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bccb", "advise", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return command


Ran = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    path = tmp_path / "trial.parquet"
    write_log(simulate(5_000, seed=1, outcome="visit"), path)
    return path


def test_the_sentence_comes_first_then_every_rival_then_the_code(ran: Ran) -> None:
    status, out, _ = ran(*SMALL)
    assert status == 0
    name = re.match(r"Use ([\w-]+): with 40 for 800 users", out)
    assert name
    for rival in rivals_of(0):
        assert re.search(rf"^{rival} +-?\d+\.\d \(-?\d+\.\d to \d+\.\d\) ", out, re.M), rival
    assert "hybrid" not in out
    assert f'policy = bccb.make("{name[1]}", budget=40, horizon=800' in out.splitlines()[-1]
    assert "…" not in out
    assert max(len(line) for line in out.splitlines()[:-1]) <= 80


@pytest.mark.compiled
def test_history_brings_the_policies_that_learn_from_it(ran: Ran) -> None:
    status, out, _ = ran(*SMALL, "--history", 600, "--visits")
    assert status == 0
    for rival in rivals_of(600):
        assert re.search(rf"^{rival} ", out, re.M), rival
    assert "4 to 5 % of them visit" in " ".join(out.split())


@pytest.mark.compiled
def test_a_trial_stands_for_the_users(ran: Ran, trial: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    status, out, _ = ran(trial, "--budget", 1_000, "--users", 20_000, "--seeds", "0:4",
                         "--json", path)  # fmt: skip
    assert status == 0
    assert "measured with 2,500 rows of history, you would have 5,000" in " ".join(out.split())
    answer = json.loads(path.read_text())
    assert answer["setting"]["measured_budget"] == 125
    assert out.startswith(answer["sentence"].split(":")[0])
    assert "with 1,000 for 20,000 users" in answer["sentence"]
    assert "measured on 2,500 users and scaled to 20,000" in answer["sentence"]
    assert {line["policy"] for line in answer["rivals"]} == set(rivals_of(1))
    assert answer["worth"]["rival"] in NAIVE
    assert answer["effects"][0] in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "0", "--users", "10"], "budget is 0.0, but must be at least"),
        (["--budget", "1", "--users", "0"], "users is 0, but must be a whole number from 1"),
        ([*SMALL, "--history", "-1"], "history is -1, but must be"),
        ([*SMALL, "--seeds", "1:3"], "the number of seeds is 2, but must be 4 or above"),
        ([*SMALL, "--jobs", "0"], "jobs is 0, but must be"),
        ([*SMALL, "--preset", "criteo"], "TRIAL is None, but must be given"),
        ([*SMALL, "--json", "/nowhere/out.json"], "--json is '/nowhere/out.json'"),
    ],
)
def test_bad_input_is_one_line(ran: Ran, arguments: list[str], message: str) -> None:
    status, out, notes = ran(*arguments)
    assert (status, out.strip()) == (2, "")
    assert message in " ".join(notes.split())


def test_a_trial_needs_no_options_of_simulated_users(ran: Ran, trial: Path) -> None:
    for option, message in (
        (["--history", "5"], "--history is 5, but must be left out"),
        (["--visits"], "--visits is True, but must be used on simulated users"),
    ):
        status, _, notes = ran(trial, *SMALL, *option)
        assert status == 2
        assert message in " ".join(notes.split())


def test_a_trial_with_too_few_conversions_recommends_nothing(ran: Ran, tmp_path: Path) -> None:
    path = tmp_path / "thin.parquet"
    write_log(simulate(2_000, seed=1), path)
    status, out, notes = ran(path, *SMALL)
    assert (status, out.strip()) == (2, "")
    assert "cannot tell policies apart" in " ".join(notes.split())
