"""Comparisons: every run once, the same figures whatever the number of jobs, honest notes."""

from __future__ import annotations

import json
import pickle
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import bccb
from bccb import InputError
from bccb.data import read_log, simulate, write_log
from bccb.evaluate.advice import advise
from bccb.evaluate.compare import (
    PolicyReplay,
    compare,
    paid_share,
    run,
    summarise,
    to_json,
)
from bccb.evaluate.replay import replay
from bccb.evaluate.trials import FileTrials, LoggedTrials, SimulatedTrials, Trial
from bccb.intervals import Total, difference
from bccb.pacers.budget_forecast import exhausting_price
from bccb.policies import spec_of
from bccb.types import Floats

POLICIES = ["thompson", "bccb", "offline-uplift", "oracle"]
FIELDS = [
    *("policy", "budget", "seed", "conversions", "incremental", "incremental_se", "spend"),
    *("treated", "matched", "encountered", "proposed", "realised", "seconds", "note"),
]


def one(trial: Trial, name: str, budget: float, seed: int) -> PolicyReplay:
    (row,) = run(trial, spec_of(name), [budget], seed)
    return row


def figures(rows: list[PolicyReplay]) -> list[dict[str, object]]:
    answers = [row.figures() for row in rows]
    for row in answers:
        del row["seconds"]
    return sorted(answers, key=str)


def test_every_policy_budget_and_seed_is_run_once_whatever_the_jobs() -> None:
    trials = SimulatedTrials(1_500, 1_500)
    one = list(compare(trials, POLICIES, [50.0, 100.0], [1, 2, 3], jobs=1))
    two = list(compare(trials, POLICIES, [50.0, 100.0], [1, 2, 3], jobs=2))
    assert len(one) == 4 * 2 * 3
    assert figures(one) == figures(two)
    assert len({(row.policy, row.budget, row.seed) for row in one}) == len(one)


def test_an_error_in_a_run_reaches_the_caller() -> None:
    trials = LoggedTrials(replace(simulate(500, seed=1), effects=None), 400, 100)
    with pytest.raises(InputError, match="used on simulated users"):
        list(compare(trials, ["oracle"], [5.0], [1, 2, 3], jobs=2))
    with pytest.raises(InputError, match="jobs is 0"):
        list(compare(trials, ["bccb"], [5.0], [1], jobs=0))


def test_a_policy_that_cannot_be_fitted_treats_nobody_and_says_why() -> None:
    log = simulate(3_000, seed=1)
    none = one(LoggedTrials(log, 3_000, 0)(1), "offline-uplift", 50.0, 1)
    assert (none.result.treated, none.result.spend) == (0, 0.0)
    assert none.note.startswith("treats nobody: no rows are left for history")
    barren = replace(log, outcomes=np.zeros(log.users))
    trial = LoggedTrials(barren, 2_000, 1_000)(1)
    few = one(trial, "offline-uplift", 50.0, 1)
    assert few.result.treated == 0
    assert few.result.matched == np.count_nonzero(barren.actions[trial.order] == 0)
    assert few.note.startswith("treats nobody: history of ")
    line = summarise([few, replace(few, seed=2, note="")])[0]
    assert line.note.startswith("1 of 2 runs: treats nobody")


def test_the_oracle_runs_on_a_log_whose_effects_are_known() -> None:
    row = one(LoggedTrials(simulate(2_000, seed=1), 2_000, 0)(1), "oracle", 50.0, 1)
    assert row.result.treated > 0


def test_summaries_are_means_and_deviations_over_seeds() -> None:
    rows = list(compare(SimulatedTrials(1_000, 0), ["bccb", "thompson"], [40.0], [1, 2, 3], jobs=1))
    line = next(line for line in summarise(rows) if line.policy == "bccb")
    values = [row.result.conversions for row in rows if row.policy == "bccb"]
    assert line.conversions == pytest.approx(statistics.mean(values))
    assert line.conversions_deviation == pytest.approx(np.std(values, ddof=1))
    assert line.seeds == 3
    assert summarise(rows[:1])[0].conversions_deviation is None


def test_json_has_the_documented_fields() -> None:
    rows = list(compare(SimulatedTrials(500, 0), ["bccb"], [40.0], [1], jobs=1))
    answer = json.loads(json.dumps(to_json(rows, summarise(rows)), allow_nan=False))
    assert list(answer) == ["rows", "summary"]
    assert list(answer["rows"][0]) == FIELDS


@pytest.mark.compiled
def test_no_policy_beats_the_oracle_by_more_than_chance() -> None:
    trials = SimulatedTrials(20_000, 20_000)
    total = {"oracle": 0.0, "bccb": 0.0, "cheapest-first": 0.0, "offline-uplift": 0.0}
    for seed in range(5):
        trial = trials(seed)
        for name in total:
            total[name] += one(trial, name, 1_000.0, seed).result.incremental
    assert max(total, key=lambda name: total[name]) == "oracle"


def test_the_oracle_spends_nearly_everything_and_not_more() -> None:
    row = one(SimulatedTrials(5_000, 0)(1), "oracle", 200.0, 1)
    assert 190 < row.result.spend <= 200


def test_the_history_does_not_change_the_simulated_stream() -> None:
    short, long = (SimulatedTrials(300, history)(7) for history in (0, 200))
    assert short.log.features.tolist() == long.log.features.tolist()
    assert long.past.features.shape == (200, 12)
    assert long.past.features[0].tolist() not in long.log.features.tolist()


def test_history_is_from_before_the_drift() -> None:
    steady, drifting = (SimulatedTrials(300, 200, drift)(7) for drift in (False, True))
    assert steady.past.outcomes.tolist() == drifting.past.outcomes.tolist()
    assert steady.past.effects is not None
    assert drifting.past.effects is not None
    assert steady.past.effects.tolist() == drifting.past.effects.tolist()
    assert steady.log.effects is not None
    assert drifting.log.effects is not None
    assert steady.log.effects.tolist() != drifting.log.effects.tolist()


@pytest.mark.compiled
def test_a_frozen_model_is_worth_little_after_a_drift_and_the_oracle_as_much_as_before() -> None:
    trial = SimulatedTrials(40_000, 50_000, drift=True)(1)
    frozen = bccb.make("offline-forecast", budget=2_000, horizon=40_000, features=12)
    frozen.learn(trial.past)
    worth = worth_by_half(frozen, trial.log, trial.log.features)
    assert trial.log.effects is not None
    price = exhausting_price(trial.log.effects, trial.log.costs, 2_000 / 40_000)
    oracle = bccb.make("oracle", budget=2_000, horizon=40_000, features=1, threshold=price)
    best = worth_by_half(oracle, trial.log, trial.log.effects)
    assert best[1] == pytest.approx(best[0], rel=0.2)
    assert worth[0] > 0.6 * best[0]
    assert worth[1] < 0.5 * best[1]


def worth_by_half(policy: bccb.Policy, log: bccb.Log, features: Floats) -> list[float]:
    """The true effects of those whom the policy treats, in each half of the log."""
    decisions = policy.decide_many(features, log.costs)
    treated = np.array([decision.action for decision in decisions])
    assert log.effects is not None
    return [float(half.sum()) for half in np.split(log.effects[:, 0] * treated, 2)]


def test_a_caller_who_stops_asking_ends_the_work() -> None:
    begun: list[int] = []
    trials = SimulatedTrials(300, 0)

    def noting(seed: int) -> Trial:
        begun.append(seed)
        return trials(seed)

    rows = compare(noting, ["thompson"], [5.0], range(500))
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert begun == [0]


def test_history_is_learned_once_for_all_budgets_and_changes_nothing() -> None:
    trial = SimulatedTrials(2_000, 3_000)(1)
    budgets = [20.0, 40.0, 80.0]
    together = [row.result for row in run(trial, spec_of("offline-uplift"), budgets, 1)]
    for budget, result in zip(budgets, together, strict=True):
        alone = one(trial, "offline-uplift", budget, 1).result
        assert (alone.conversions, alone.spend) == (result.conversions, result.spend)


WARM = replace(spec_of("bccb"), name="warm", after_history=True)


def test_a_policy_after_history_learns_it_at_every_budget() -> None:
    trial = SimulatedTrials(2_000, 3_000)(1)
    budgets = [20.0, 40.0]
    for row, budget in zip(run(trial, WARM, budgets, 1), budgets, strict=True):
        policy = bccb.make("bccb", budget=budget, horizon=2_000, features=12, seed=1)
        policy.learn(trial.past)
        alone = replay(policy, trial.log)
        assert (row.result.matched, row.result.spend) == (alone.matched, alone.spend)
        assert row.result.matched != one(trial, "bccb", budget, 1).result.matched


def test_a_policy_after_history_treats_nobody_where_there_is_none() -> None:
    (row,) = run(SimulatedTrials(500, 0)(1), WARM, [20.0], 1)
    assert row.result.treated == 0
    assert row.note.startswith("treats nobody: no rows are left for history")


def test_trials_from_a_file_are_those_from_its_log(tmp_path: Path) -> None:
    path = tmp_path / "trial.parquet"
    write_log(simulate(500, seed=1), path)
    result = FileTrials(str(path), None, 300, 100)(5)
    expected = LoggedTrials(read_log(path), 300, 100)(5)
    assert result.order.tolist() == expected.order.tolist()
    assert result.history.tolist() == expected.history.tolist()
    assert result.log.features.tolist() == expected.log.features.tolist()
    assert pickle.loads(pickle.dumps(FileTrials(str(path), None, 300, 100))).users == 300


@pytest.mark.compiled
def test_the_interval_on_a_log_holds_what_new_logs_would_show() -> None:
    """Whatever the number of seeds. Their deviation alone would be far too narrow."""
    lines = []
    for number in range(60):
        log = simulate(1_500, seed=7_000 + number, outcome="visit")
        rows = compare(LoggedTrials(log, 1_500, 0), ["cheapest-first"], [60.0], range(3))
        lines += summarise(rows, shared=log)
    truth = statistics.mean(line.incremental for line in lines)
    held, by_seeds = [], []
    for line in lines:
        assert line.interval is not None
        assert line.incremental_deviation is not None
        held.append(line.interval.low <= truth <= line.interval.high)
        by_seeds.append(abs(line.incremental - truth) <= 2 * line.incremental_deviation / 3**0.5)
    assert sum(held) >= 0.9 * len(lines)
    assert sum(by_seeds) < 0.8 * len(lines)


def test_the_interval_adds_up_what_each_row_gave() -> None:
    """Two seeds over the same rows: against a naive loop."""
    log = simulate(800, seed=3, outcome="visit")
    rows = list(compare(LoggedTrials(log, 800, 0), ["treat-all"], [60.0], [1, 2]))
    each = [0.0] * log.users
    for row in rows:
        assert row.result.incremental == pytest.approx(sum(row.result.gains.each))
        for place, gain in zip(*row.result.gains, strict=True):
            each[place] += gain / 2
    mean = sum(each) / log.users
    of_rows = sum((gain - mean) ** 2 for gain in each)
    of_runs = statistics.variance(row.result.incremental for row in rows) / 2
    freedom = ((of_runs + of_rows) / of_runs) ** 2
    reach = stats.t.ppf(0.975, freedom) * (of_runs + of_rows) ** 0.5
    extra = reach**2 - stats.norm.ppf(0.975) ** 2 * of_rows
    with_it, without = [gain for gain in each if gain > 0], [-gain for gain in each if gain < 0]
    expected = difference(
        *(Total(sum(of), sum(gain**2 for gain in of), 17 / 3) for of in (with_it, without))
    )
    (line,) = summarise(rows, shared=log)
    assert line.interval is not None
    below, above = expected.value - expected.low, expected.high - expected.value
    assert line.incremental - line.interval.low == pytest.approx((below**2 + extra) ** 0.5)
    assert line.interval.high - line.incremental == pytest.approx((above**2 + extra) ** 0.5)
    (alone,) = summarise(rows[:1], shared=log)
    assert alone.interval is not None  # of the rows, though one seed has no deviation
    assert alone.interval.low < alone.incremental < alone.interval.high
    (drawn,) = summarise(rows)
    assert drawn.interval is None


def test_the_share_of_proposals_that_are_paid_for_is_that_of_the_trial() -> None:
    rows = list(compare(SimulatedTrials(3_000, 0), ["treat-all"], [9_999.0], [1, 2]))
    assert paid_share(rows) == pytest.approx(0.85, abs=0.02)
    nobody = compare(SimulatedTrials(300, 0), ["offline-uplift"], [10.0], [1])
    assert paid_share(nobody) is None


def test_a_seed_that_is_given_twice_is_refused() -> None:
    """Copies of a run would make every interval too narrow."""
    with pytest.raises(InputError, match="seeds is .1, 1., but must be different ones"):
        list(compare(SimulatedTrials(100, 0), ["treat-all"], [5.0], [1, 1]))
    with pytest.raises(InputError, match="seeds is .3, 2, 3, 1., but must be different ones"):
        advise(budget=20, users=400, seeds=[3, 2, 3, 1])
    with pytest.raises(InputError, match="seeds is .., but must be different ones"):
        list(compare(SimulatedTrials(100, 0), ["treat-all"], [5.0], []))
    seeds = np.arange(1, 3)
    assert len(list(compare(SimulatedTrials(100, 0), ["treat-all"], [5.0], seeds))) == 2  # type: ignore[arg-type]
