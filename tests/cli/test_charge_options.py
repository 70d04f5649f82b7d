"""``--charge`` and ``--cost-cap`` of compare, evaluate, advise and plan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from bccb.data import write_log
from bccb.data.worlds import make_world, trial_in

Run = Callable[..., tuple[int, str, str]]
CHARGED = "Costs are charged on conversion: a treatment costs nothing unless the user converts"
FEW = ("--users", "1000", "--seeds", "1,2", "--history", "0", "--jobs", "1")
SOME = ("--policy", "cheapest-first", "--policy", "pooled-bayes", "--policy", "oracle")


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    path = tmp_path / "trial.parquet"
    write_log(trial_in(make_world("common", 2_000, 1), 1), path)
    return path


def test_compare_charges_on_conversion_in_a_world(run: Run, tmp_path: Path) -> None:
    files = "--json", tmp_path / "out.json", "--html", tmp_path / "out.html"
    status, out, err = run(
        "compare", "--world", "common", *FEW, *SOME, "--charge", "conversion", *files
    )
    assert status == 0, err
    assert "a tenth of what treating everybody costs" in err
    assert CHARGED in out
    assert re.search(r"oracle \S+ ± +\S+ 1.000", out)
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["charge"], found["cost_cap"]) == ("conversion", None)
    for line in found["summary"]:
        assert 0.5 * line["budget"] < line["spend"] <= 1.2 * line["budget"]
        assert line["treated"] * 0.3 > line["spend"]  # most were not charged
    assert CHARGED in unescape((tmp_path / "out.html").read_text())


def test_the_simulator_is_decided_on_live_where_costs_are_charged_on_conversion(run: Run) -> None:
    few = "--policy", "cheapest-first", "--charge", "conversion", "--budget", "1"
    status, out, err = run("compare", *FEW, *few)
    assert status == 0, err
    assert "share" in out
    assert "A replay pays only" not in out


def test_compare_says_what_a_cap_left_over(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    options = "--world", "common", *FEW, *SOME, "--budget", "200", "--html", page
    status, out, err = run("compare", *options, "--cost-cap", "3")
    assert status == 0, err
    assert "cost of each" in out
    told = r"With a cost cap of 3 there was nothing left that is worth its price: "
    told += r"pooled-bayes spent \d+ of 200, oracle spent \d+ of 200\."
    found = re.search(told, out)
    assert found, out
    assert "ignore effects or costs: cheapest-first." in out
    text = unescape(page.read_text())
    assert found.group() in text
    assert "cost of each" in text
    plenty = "--world", "common", *FEW, "--policy", "oracle", "--budget", "60"
    assert (
        "With a cost cap of 1,000 no money was left over."
        in run("compare", *plenty, "--cost-cap", "1000")[1]
    )


def test_compare_replays_a_trial_that_is_charged_on_conversion(run: Run, trial: Path) -> None:
    asked = "compare", "--data", trial, "--seeds", "1,2", "--policy", "cheapest-first"
    status, out, err = run(*asked, "--charge", "conversion", "--cost-cap", "50")
    assert status == 0, err
    charged = float(re.findall(r"so ([\d.]+), a tenth of what the trial spent", err)[0])
    at_once = float(re.findall(r"so ([\d.]+), a tenth", run(*asked)[2])[0])
    assert 0.2 * at_once < charged < 0.6 * at_once
    assert CHARGED in out
    status, _, err = run(*asked[:-1], "oracle", "--charge", "conversion")
    assert status == 2
    assert "left out where costs are charged on conversion" in err


def test_evaluate_estimates_what_others_would_be_charged(
    run: Run, trial: Path, tmp_path: Path
) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "out.json"
    asked = "evaluate", trial, "--policy", "cheapest-first", "--html", page, "--json", figures
    status, out, err = run(*asked, "--charge", "conversion")
    assert status == 0, err
    assert "would be charged is the doubly robust estimate, too" in out
    _, everything, _ = run(*asked, "--charge", "conversion", "--all")
    assert re.search(r"\d for [\d.]+ \([\d.]+ to [\d.]+\)", everything)
    own, other = json.loads(figures.read_text())
    assert own["charged"] is None
    assert other["charged"]["low"] < other["spend"] < other["charged"]["high"]
    assert CHARGED in unescape(page.read_text())
    status, out, err = run(*asked)
    assert status == 0, err
    assert "would be charged" not in out


def test_advise_names_the_charge_and_the_cap_in_its_code(run: Run, trial: Path) -> None:
    size = "--budget", "60", "--users", "900", "--seeds", "1:5", "--jobs", "1"
    status, out, err = run(
        *("advise", trial, *size, "--charge", "conversion", "--cost-cap", "12.5")
    )
    assert status == 0, err
    assert CHARGED in out
    assert "With a cost cap of 12.5" in out
    assert "What is charged is estimated" in out
    assert 'charge="conversion", cost_cap=12.5)' in out.replace(" )", ")")


def test_plan_says_what_a_cap_leaves(run: Run, tmp_path: Path) -> None:
    figures = tmp_path / "out.json"
    size = "--budget", "400", "--users", "400", "--rate", "0.2", "--effect", "0.1"
    terms = "--charge", "conversion", "--cost-cap", "1"
    status, out, err = run("plan", *size, *terms, "--seeds", "1", "--jobs", "1", "--json", figures)
    assert status == 0, err
    assert CHARGED in out
    assert re.search(r"nothing left that is worth its price: pooled-trees spent \d+ of 400", out)
    assert "each who is treated and converts costs 0.77 on average" in out
    found = json.loads(figures.read_text())
    assert (found["charge"], found["cost_cap"]) == ("conversion", 1.0)


@pytest.mark.parametrize("command", ["compare", "advise", "plan", "evaluate"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--charge", "sale"), '--charge is \'sale\', but must be "treatment" or "conversion"'),
        (("--cost-cap", "0"), "--cost-cap is 0.0, but must be at least 0.000001"),
        (("--cost-cap", "nan"), "--cost-cap is nan, but must be"),
    ],
)
def test_bad_terms_are_one_sentence(
    run: Run, trial: Path, command: str, options: tuple[str, str], message: str
) -> None:
    needed = {"compare": (), "evaluate": (trial,)}.get(
        command, ("--budget", "50", "--users", "500")
    )
    status, _, err = run(command, *needed, *options)
    assert status == 2
    assert message in err


def test_a_drift_is_not_charged_on_conversion(run: Run) -> None:
    status, _, err = run("compare", "--drift", "--charge", "conversion")
    assert status == 2
    assert "--drift is True, but must be left out with --charge conversion" in err
