from __future__ import annotations

import json
from pathlib import Path

import pytest

from bccb.cli import main
from bccb.evaluate.planning import Outlook, Plan, Target
from bccb.intervals import Interval
from bccb.report.wording import plan_lines

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
