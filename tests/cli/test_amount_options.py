"""Outcomes in money, and ``--share``, of the commands of the lab."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bccb.charge import Payment
from bccb.data import simulate
from bccb.data.world import VARIATION, trial_with_amounts, with_amounts
from bccb.data.worlds import make_world
from bccb.evaluate.live import best

Run = Callable[..., tuple[int, str, str]]
NAMED = (
    *("--treatment", "arm", "--control", "none", "--outcome", "revenue"),
    *("--cost", "4", "--exclude", "bought"),
)
SHARE = ("--charge", "conversion", "--share", "0.2")
SHARE_RANGE = "at least 0.000001 and at most 1"
FEW = ("--seeds", "1,2", "--jobs", "1")


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    draw, users = np.random.default_rng(1), 1_200
    mailed = draw.random(users) < 0.5
    bought = draw.random(users) < 0.2 + 0.15 * mailed
    revenue = np.exp(3.0 + 0.5 * draw.normal(size=users)).round(2)
    frame = pl.DataFrame(
        {
            "arm": np.where(mailed, "mail", "none"),
            "age": draw.integers(18, 90, users),
            "bought": np.where(bought, "yes", "no"),
            "revenue": np.where(bought, revenue, 0.0),
        }
    )
    frame.write_csv(tmp_path / "trial.csv")
    return tmp_path / "trial.csv"


def test_evaluate_speaks_of_value_and_of_the_return_on_spend(
    run: Run, trial: Path, tmp_path: Path
) -> None:
    files = "--json", tmp_path / "out.json", "--html", tmp_path / "out.html"
    some = "--policy", "cheapest-first", "--policy", "bccb", "--all"
    status, out, err = run("evaluate", trial, *NAMED, *SHARE, *some, *files)
    assert status == 0, err
    assert "outcome revenue: amounts of money, 2" in err
    assert "caused value (95 %) return (95 %)" in out
    assert "conversions" not in out.replace("counting conversions", "")
    assert "treated users brought" in out
    assert "Left out, because they learn rates and not amounts: bccb." in out
    assert "0.2 of the amount, and at most the cost of the treatment" in out
    assert "Caused, measured: not given of amounts of money" in out
    own = json.loads((tmp_path / "out.json").read_text())[0]
    frame = pl.read_csv(trial).filter(pl.col("arm") == "mail")
    assert own["spend"] == pytest.approx((0.2 * frame["revenue"]).clip(0, 4).sum())
    assert own["conversions"] == pytest.approx(frame["revenue"].sum())
    assert own["kind"] == "amount"
    page = unescape((tmp_path / "out.html").read_text())
    assert "Value caused" in page
    assert "Effect, in value" in page


def test_compare_speaks_of_value_and_of_the_cost_of_one_unit(run: Run, trial: Path) -> None:
    some = "--policy", "cheapest-first", "--policy", "pooled-bayes", "--policy", "thompson"
    given = *NAMED, *FEW, *some, "--budget", "400", "--cost-cap", "0.5"
    status, out, err = run("compare", "--data", trial, *given)
    assert status == 0, err
    assert "caused value (95 %) return (95 %) treated value spend" in out
    assert "Left out, because they learn rates and not amounts: thompson." in out
    assert "a cost cap of 0.5 for one unit of value (an expected return of at least 2)" in out


def test_compare_withholds_what_few_orders_say(run: Run, trial: Path) -> None:
    some = "--policy", "treat-all", "--budget", "20"
    status, out, err = run("compare", "--data", trial, *NAMED, *FEW, *some)
    assert status == 0, err
    assert "treat-all withheld: too few amounts" in out
    assert "treat-all at 20: " in out
    status, _, err = run("compare", "--data", trial, *NAMED, *FEW, "--policy", "bccb")
    assert status == 2
    assert "must be one that takes amounts, such as pooled-trees" in err


def test_advice_is_in_money_and_says_how_to_make_the_policy(
    run: Run, trial: Path, tmp_path: Path
) -> None:
    given = "--budget", "60", "--users", "600", "--seeds", "1:5", "--jobs", "1"
    page = tmp_path / "out.html"
    status, out, err = run("advise", trial, *NAMED, *SHARE, *given, "--html", page)
    assert status == 0, err
    assert "it is expected to cause a value of" in out
    assert "caused value (95 %) behind by (95 %) spend return learned" in out
    assert 'outcome="amount", charge="conversion", share=0.2' in out
    assert "Value caused, compared with" in unescape(page.read_text())


def test_describe_shows_the_mean_value_of_each_arm(run: Run, trial: Path) -> None:
    status, out, err = run("data", "describe", trial, *NAMED)
    assert status == 0, err
    frame = pl.read_csv(trial)
    for arm in ("none", "mail"):
        mean = float(np.mean(frame.filter(pl.col("arm") == arm)["revenue"].to_numpy()))
        assert f" {mean:,.3f} [" in out
    assert "value each, 95 % interval" in out


@pytest.mark.parametrize("name", ["made.csv", "made.parquet"])
def test_simulate_writes_a_trial_in_money(run: Run, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    size = "--users", "900", "--outcome", "visit", "--seed", "3"
    status, out, err = run("simulate", file, *size, "--amounts")
    assert status == 0, err
    assert "wrote 900 users" in out
    options = err.split("read it with ")[1].split() if name.endswith("csv") else []
    status, out, err = run("data", "describe", file, *options)
    assert status == 0, err
    assert "value each, 95 % interval" in out
    revenue = pl.read_csv(file) if name.endswith("csv") else pl.read_parquet(file)
    expected = trial_with_amounts(simulate(900, 3, "visit"), 3)
    assert revenue["revenue"].to_list() == pytest.approx(expected.outcomes.tolist())


def test_compare_on_simulated_users_in_money(run: Run, tmp_path: Path) -> None:
    figures, page = tmp_path / "out.json", tmp_path / "out.html"
    asked = "--policy", "oracle", "--policy", "cheapest-first", "--policy", "bccb"
    size = "--users", "400", "--history", "0", "--budget", "5", "--seeds", "1", "--jobs", "1"
    files = "--json", figures, "--html", page
    status, out, err = run("compare", "--world", "few", "--amounts", *SHARE, *asked, *size, *files)
    assert status == 0, err
    assert "caused value return share treated value spend treated" in out
    assert "0.2 of the amount, and at most the cost of the treatment" in out
    assert "Left out, because they learn rates and not amounts: bccb." in out
    found = json.loads(figures.read_text())
    world = with_amounts(make_world("few", 400, 1), VARIATION, 1)
    oracle = best(world, 5.0, Payment("conversion", None, 0.2)).run
    row = found["rows"][0]
    assert (row["policy"], row["kind"]) == ("oracle", "amount")
    assert row["incremental"] == pytest.approx(oracle.value)
    assert found["share"] == 0.2
    assert "caused value" in unescape(page.read_text())


def test_plan_speaks_of_value_and_of_the_return_on_spend(run: Run, trial: Path) -> None:
    size = "--budget", "40", "--users", "300", "--seeds", "1", "--jobs", "1"
    status, out, err = run("plan", *size, "--data", trial, *NAMED, *SHARE, "--cost-cap", "0.5")
    assert status == 0, err
    assert "With 40 for 300 users pooled-trees is expected to cause a value of" in out
    assert "0.2 of the amount, and at most the cost of the treatment" in out
    assert "With a cost cap of 0.5 for one unit of value (an expected return of at least 2)" in out
    assert "on average, by features as in your trial; amounts are drawn" in out
    assert "no clear difference, so that none is assumed" in out
    assert "--largest gives another" in out
    assert "reserve caused value return spend estimated" in out


def test_check_proposes_the_revenue_and_takes_it(run: Run, trial: Path) -> None:
    status, out, _ = run("check", trial, "--cost", "4")
    assert status == 0
    assert "use --outcome revenue." in out
    status, out, _ = run("check", trial, "--cost", "4", "--outcome", "revenue")
    assert status == 0
    assert "--outcome revenue --exclude bought --cost 4" in out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("evaluate", "FILE", "--share", "1.5"), f"--share is 1.5, but must be {SHARE_RANGE}"),
        (("evaluate", "FILE", "--share", "0"), f"--share is 0.0, but must be {SHARE_RANGE}"),
        (("evaluate", "FILE", "--share", "1e-7"), f"--share is 1e-07, but must be {SHARE_RANGE}"),
        (("evaluate", "FILE", "--share", "0.2"), "a share of the amount needs charge="),
        (
            ("evaluate", "FILE", *SHARE, "--outcome", "bought", "--exclude", "revenue"),
            "share is 0.2, but must be left out: the outcomes of this log are conversions",
        ),
        (("compare", *SHARE), "--share is 0.2, but must be given with --amounts, or with --data"),
        (("compare", "--amounts", "--share", "0.2"), 'needs charge="conversion"'),
        (("compare", "--amounts", "--data", "FILE"), "--amounts is True, but must be used on"),
        (("compare", "--amounts", "--drift"), "--amounts is True, but must be used on simulated"),
        (("compare", "--amounts", "--policy", "bccb"), "one that takes amounts"),
        (
            ("advise", "--budget", "5", "--users", "500", *SHARE),
            "given with a trial whose outcomes",
        ),
        (
            ("plan", "--budget", "5", "--users", "500", *SHARE),
            "share is 0.2, but must be left out, or given with an amount",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(
    run: Run, trial: Path, command: tuple[str, ...], message: str
) -> None:
    words = [each for word in command for each in ((trial, *NAMED) if word == "FILE" else (word,))]
    status, _, err = run(*words)
    assert status == 2
    assert message in err
