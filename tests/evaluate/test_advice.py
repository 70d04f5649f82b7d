"""Advice: what is run, which seeds choose and which estimate, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bccb import InputError
from bccb.data import simulate
from bccb.evaluate.advice import Advice, Setting, advise, conclude
from bccb.evaluate.rivals import RivalRun, rivals_of
from bccb.report.wording import remarks, sentence, worth_lines

TRIAL = simulate(5_000, seed=1, outcome="visit")
COLD = Setting(100, 1_000, 0, 100, 1_000, 0, 12, 1, "conversion")


def runs_of(**values: list[float]) -> list[RivalRun]:
    return [
        RivalRun(name.replace("_", "-"), seed, value, 50.0, 10)
        for name, of in values.items()
        for seed, value in enumerate(of)
    ]


@pytest.fixture(scope="module")
def cold() -> Advice:
    return advise(40.0, 800, seeds=range(4), outcome="visit")


def test_every_rival_has_its_figures_and_the_recommended_is_first(cold: Advice) -> None:
    assert {rival.policy for rival in cold.rivals} == set(rivals_of(0))
    assert cold.rivals[0].policy == cold.recommended
    assert cold.rivals[0].behind == 0
    others = [rival.incremental for rival in cold.rivals[1:]]
    assert others == sorted(others, reverse=True)
    assert all(0 < rival.spend <= 40 for rival in cold.rivals)


def test_the_figures_are_plain(cold: Advice) -> None:
    answer = json.loads(json.dumps(cold.figures()))
    assert answer["choice"]["recommended"] == cold.recommended
    assert len(answer["runs"]) == 4 * len(rivals_of(0))


def test_the_seeds_that_choose_are_not_those_that_estimate() -> None:
    """The first two seeds flatter thompson, the last two tell that bccb is as good or better."""
    result = conclude(COLD, runs_of(thompson=[9, 9, 1, 2], bccb=[5, 4, 3, 3]), {})
    assert result.recommended == "thompson"
    assert result.rival("thompson").incremental == 1.5
    assert result.rival("bccb").behind == -1.5
    low, high = result.rival("bccb").interval
    assert (low + high) / 2 == pytest.approx(-1.5)


def test_the_split_takes_luck_out_of_the_difference() -> None:
    """Policies that are all the same: naively the chosen one seems better, with the split not."""
    generator, naive, split = np.random.default_rng(2), [], []
    names = ("bccb", "thompson", "treat-all", "hte-greedy", "cheapest-first")
    for _ in range(300):
        values = {name: generator.normal(10, 3, 10) for name in names}
        runs = [
            RivalRun(n, s, float(v), 1.0, 1) for n, of in values.items() for s, v in enumerate(of)
        ]
        result = conclude(COLD, runs, {})
        split.append(np.mean([rival.behind for rival in result.rivals[1:]]))
        best = max(names, key=lambda name: values[name].mean())
        naive.append(np.mean([values[best].mean() - values[n].mean() for n in names if n != best]))
    assert np.mean(naive) > 1.0
    assert abs(np.mean(split)) < 4 * np.std(split) / 300**0.5


@pytest.mark.compiled
def test_a_trial_is_halved_and_keeps_the_money_for_each_user() -> None:
    result = advise(500.0, 10_000, TRIAL, seeds=range(4))
    setting = result.setting
    assert setting.measured_users == setting.measured_history == 2_500
    assert setting.history == 5_000
    assert setting.measured_budget == pytest.approx(500 / 10_000 * 2_500)
    assert {rival.policy for rival in result.rivals} == set(rivals_of(1))
    assert all(run.spend <= setting.measured_budget for run in result.runs)


@pytest.mark.compiled
def test_a_short_stream_leaves_the_other_rows_of_a_trial_as_history() -> None:
    setting = advise(20.0, 400, TRIAL, seeds=range(4)).setting
    assert (setting.measured_users, setting.measured_history) == (400, 4_600)
    assert setting.measured_budget == 20


@pytest.mark.compiled
def test_a_trial_is_judged_as_if_its_true_effects_were_unknown() -> None:
    blind = advise(20.0, 400, replace(TRIAL, effects=None), seeds=range(4))
    assert advise(20.0, 400, TRIAL, seeds=range(4)).figures() == blind.figures()


def test_in_a_trial_all_seeds_choose_and_estimate_with_wider_intervals() -> None:
    setting = replace(COLD, outcome=None, history=4)
    values = {"bccb": [5.0, 4, 3, 3], "thompson": [9.0, 9, 1, 2], "treat_all": [0.0, 0, 0, 1]}
    gains = {name: np.zeros(4) for name in ("bccb", "thompson", "treat-all")}
    result = conclude(setting, runs_of(**values), gains)
    assert result.rival("bccb").incremental == 3.75
    alone = conclude(replace(COLD, outcome="visit"), runs_of(**values), {})
    assert alone.rival("bccb").incremental == 3.0
    doubtful = {**gains, result.choice.leading: np.array([40.0, -40, 20, 0])}
    wider = conclude(setting, runs_of(**values), doubtful)
    assert width(wider) > width(result)


def width(advice: Advice) -> float:
    return advice.incremental.high - advice.incremental.low


def test_the_number_of_jobs_changes_no_figure(cold: Advice) -> None:
    heard: list[tuple[int, int, str]] = []
    result = advise(
        40.0,
        800,
        seeds=range(4),
        outcome="visit",
        jobs=2,
        progress=lambda *done: heard.append(done),
    )
    assert result.figures() == cold.figures()
    assert [done for done, *_ in heard] == list(range(1, len(result.runs) + 1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"budget": 0}, "budget is 0.0, but must be at least 0.000001"),
        ({"budget": float("nan")}, "budget is nan, but must be a finite number"),
        ({"users": 0}, "users is 0, but must be a whole number from 1"),
        ({"history": -1}, "history is -1, but must be a whole number from 0"),
        ({"seeds": [1, 2, 3]}, "the number of seeds is 3, but must be 4 or above"),
        ({"jobs": 0}, "jobs is 0, but must be a whole number from 1"),
        ({"outcome": "sale"}, "outcome is 'sale', but must be 'conversion' or 'visit'"),
    ],
)
def test_bad_input_is_refused(given: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"budget": 10.0, "users": 100, **given}
    with pytest.raises(InputError, match=message):
        advise(**arguments)


def test_a_trial_with_too_few_conversions_is_refused_rather_than_guessed_from() -> None:
    few = replace(TRIAL, outcomes=TRIAL.outcomes * (np.arange(5_000) < 60))
    with pytest.raises(InputError, match="cannot tell policies apart"):
        advise(100.0, 1_000, few)


def test_a_log_of_decisions_is_refused() -> None:
    log = replace(TRIAL, probabilities=np.full(5_000, 0.5))
    with pytest.raises(InputError, match="bccb evaluate compares on such logs"):
        advise(100.0, 1_000, log)


@pytest.mark.compiled
def test_with_users_and_money_enough_the_learner_is_distinguished_from_the_simplest() -> None:
    result = advise(600.0, 12_000, outcome="visit", seeds=range(8))
    assert result.recommended == "pooled-trees"
    assert result.rival("cheapest-first").interval.low > 0


@pytest.mark.compiled
def test_with_a_cap_those_that_none_applies_to_are_left_out_and_nothing_false_is_said() -> None:
    """A constant effect of 1 is worth 2 for each unit of cost to nobody: it treated nobody."""
    dear = replace(TRIAL, micros=np.full_like(TRIAL.micros, 10**6))
    advice = advise(400.0, 2_000, dear, cost_cap=0.5, seeds=range(4))
    named = {rival.policy for rival in advice.rivals}
    assert named == set(rivals_of(1, capped=True))
    assert set(rivals_of(1)) - named == {
        *("thompson", "budgeted-thompson", "hte-greedy"),
        *("cheapest-first", "treat-all"),
    }
    said = [sentence(advice), *remarks(advice), *worth_lines(advice)]
    assert not any("Money is not scarce" in line for line in said)
    assert any(line.startswith("Left out, because no cost cap applies to") for line in said)
