from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bccb.charge import AT_ONCE, Payment
from bccb.cli import main
from bccb.evaluate.assumptions import AssumedAmounts, Target
from bccb.evaluate.planning import Outlook, Plan
from bccb.intervals import Interval
from bccb.report.planned import outlook_rows, plan_lines, plan_remarks

OUTLOOK = Outlook(0.01, 100.0, 5.0, 2_000, 1_000, 40.0, Interval(90.0, -500.0, 300.0), 0.1)
ENOUGH = Outlook(0.1, 90.0, 5.0, 2_000, 1_000, 40.0, Interval(90.0, 10.0, 200.0), 0.9)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", ["bccb", "plan", *arguments])
    main()


def test_it_says_what_to_expect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = [
        "--budget",
        "50",
        "--users",
        "1000",
        "--rate",
        "0.2",
        "--effect",
        "0.1",
        "--seeds",
        "1,2",
        "--jobs",
        "1",
    ]
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *arguments, "--json", str(tmp_path / "plan.json"))
    assert ended.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "With 50 for 1,000 users pooled-trees is expected to cause" in printed
    assert "20.000% convert without treatment" in printed
    figures = json.loads((tmp_path / "plan.json").read_text())
    assert [each["reserve"] for each in figures["outlooks"]] == [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--rate 0.1", "--rate and --effect"),
        ("--treatment arm --control none --outcome sale", "--data is None"),
        ("--rate 2 --effect 0.1", "rate is 2.0, but must be above 0"),
        ("--cost 2 --outcome sale", "options other than --cost name columns of a file"),
        ("--cost 2,4", "--data is None"),
        ("--amount -3", "amount is -3.0, but must be at least 0.000001"),
        ("--largest 9", "largest is 9.0, but must be left out: it is about amounts of money"),
        ("--amount 9 --share 0.2", "share is 0.2, but must be left out: a share of the amount"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "--budget", "50", "--users", "1000", *arguments.split())
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_the_price_of_showing_an_effect_is_named() -> None:
    made = Plan(1_000.0, 20_000, Target(0.05, 0.01), True, (OUTLOOK, ENOUGH))
    first, second = plan_lines(made)
    assert "about -500 to 300" in first
    assert "With reserve=0.1" in second
    assert "90% of campaigns; that costs 10.0 of the 100.0" in second
    never = Plan(1_000.0, 20_000, Target(0.05, 0.01), True, (OUTLOOK,))
    assert "No reserve up to 0.01" in plan_lines(never)[1]


def test_what_too_few_users_measure_is_not_shown() -> None:
    few = replace(OUTLOOK, measured=None, shown=None, needed=1_050)
    first, second = plan_lines(Plan(9.0, 200, Target(0.05, 0.01), True, (few,)))
    assert "measured" not in first
    assert "that takes 1,050 with reserve=0.01" in second
    one, other = outlook_rows(Plan(9.0, 200, Target(0.05, 0.01), True, (few, ENOUGH)))
    assert (one["measured"], one["effect shown"]) == ("too few users", "")
    assert (other["measured"], other["effect shown"]) == ("10 to 200", "90%")


def test_in_money_it_speaks_of_value_and_return() -> None:
    terms = Payment("conversion", 0.5, 0.2)
    worth = AssumedAmounts(25.0, 0.8, 120.0)
    left = replace(OUTLOOK, spend=40.0)
    made = Plan(1_000.0, 20_000, Target(0.05, 0.01), True, (left, ENOUGH), terms, worth, 10.0)
    first, _, cap, price = plan_lines(made)
    assert "to cause a value of 100, a return of 2.50 on spend." in first
    assert (
        "for one unit of value (an expected return of at least 2) there was nothing left that is"
        in cap
    )
    assert "spent 40 of 1,000" in cap
    assert "that costs 10 of the value of 100." in price
    said = " ".join(plan_remarks(made))
    assert "A conversion brings 25.00 on average, the same for all users" in said
    assert "each amount counts up to 120" in said
    assert "costs 0.2 of the amount, at most 10." in said
    assert list(outlook_rows(made)[0])[:3] == ["reserve", "caused value", "return"]


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Interval(0.9, 0.85, 0.95), "(95 %: -15.0% to -5.0%): the plan assumes the same"),
        (Interval(0.9, 0.75, 1.05), "no clear difference, so that none is assumed"),
    ],
)
def test_it_says_what_treating_does_to_amounts(ratio: Interval, words: str) -> None:
    worth = AssumedAmounts(25.0, 0.8, 120.0, lost=0.1, lost_treated=0.1, ratio=ratio)
    made = Plan(1_000.0, 20_000, Target(0.05, 0.01), False, (OUTLOOK,), AT_ONCE, worth)
    said = " ".join(plan_remarks(made))
    assert words in said
    assert "losses are 10.0% of gains and losses together" in said
    assert "Measuring needs a bound" not in said


@pytest.mark.parametrize(
    ("caused", "said"),
    [
        (100.0, ""),
        (10.0, "paid 4.00 for each unit of value, above the cap"),
        (-1.0, "caused nothing"),
    ],
)
def test_a_plan_that_cannot_keep_its_cap_says_so(caused: float, said: str) -> None:
    worth, payment = AssumedAmounts(25.0, 0.8, 120.0), Payment(cost_cap=0.5)
    outlook = replace(OUTLOOK, caused=caused, spend=40.0)
    made = Plan(1_000.0, 20_000, Target(0.05, 0.01), True, (outlook,), payment, worth)
    lines = [line for line in plan_lines(made) if "simulated campaigns" in line]
    assert bool(lines) is bool(said)
    assert said in "".join(lines)


def test_losses_that_treatment_brings_are_said_and_nothing_is_measured() -> None:
    worth = AssumedAmounts(25.0, 0.8, 120.0, lost=0.1, lost_treated=0.4)
    usual = replace(OUTLOOK, caused=-12.0)  # measured: none of its amounts was below 0
    larger = replace(OUTLOOK, measured=None, shown=None, has_losses=True)
    outlooks = (usual, larger)
    made = Plan(1_000.0, 20_000, Target(0.05, 0.01), False, outlooks, AT_ONCE, worth)
    assert (
        "losses are 10.0% of gains and losses together without treatment, and 40.0% with it"
        in " ".join(plan_remarks(made))
    )
    first, second = plan_lines(made)
    assert "to cause a value of -12" in first
    assert "measured" not in first
    assert second.startswith("Nothing will be measured by random decisions alone")
    assert "measured" not in outlook_rows(made)[0]
