"""The paper's tables from small runs, against figures worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bccb import InputError
from bccb.evaluate.trials import SimulatedTrials
from bccb.experiments import paper
from bccb.experiments.experiment import Results
from bccb.experiments.paper import SWEEPS, Setup, combinations
from bccb.experiments.paper_study import PAPER as STUDY
from bccb.experiments.plan import Run, source_of
from bccb.experiments.runner import execute
from bccb.experiments.store import Store
from bccb.policies import POLICIES

SMALL = Setup(
    users=4_000,
    budgets=(100.0, 300.0),
    middle=300.0,
    sizes=(200, 5_000),
    seeds=(1, 2, 3),
    policies=("thompson", "bccb", "offline-uplift", "cheapest-first", "response-first"),
)
PAPER = Setup()
COMPILED = {spec.composition for spec in POLICIES.values()}
ALL_COMBINATIONS = combinations()
ADVANTAGES = (
    ("offline-forecast", "offline-uplift"),
    ("not-made-yet", "bccb"),
    ("cheapest-first", "offline-uplift"),
)

pytestmark = [pytest.mark.compiled, pytest.mark.slow_first]


@pytest.fixture(scope="module", autouse=True)
def few_combinations() -> Iterator[None]:
    """Enough for the ablation, and those of policies: any other is compiled for seconds."""
    few = {
        "constant": paper.EXPLORED["constant"],
        "two-model": paper.EXPLORED["two-model"][1:],
        "ridge-pair": paper.EXPLORED["ridge-pair"][2:],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "EXPLORED", few)
        patch.setattr(paper, "PACERS", ("pace-ratio",))
        patch.setattr(paper, "SCALE_FREE", ("budget-forecast",))
        patch.setattr(paper, "WITH_HISTORY", ("offline-uplift", "offline-forecast", "not-made-yet"))
        patch.setattr(paper, "COLD", ("bccb", "cheapest-first"))
        patch.setattr(paper, "ADVANTAGES", ADVANTAGES)
        yield


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, few_combinations: None) -> Results:
    trials = SimulatedTrials(SMALL.users, max(SMALL.sizes))
    world = source_of(trials)
    store = Store(tmp_path_factory.mktemp("tables") / "runs.jsonl")
    for one in STUDY.experiments:
        for _ in execute(one.plan(SMALL), trials, world, store):
            pass

    def find(run: Run) -> Mapping[str, Any]:
        result = store.get(run.key(world))
        assert result is not None
        return result

    return find


def test_every_experiment_has_a_table_and_its_runs_suffice(results: Results) -> None:
    for name, table in ((one.name, one.table) for one in STUDY.experiments):
        assert table(replace(SMALL), results), name


def test_online_has_means_deviations_and_paired_tests(results: Results) -> None:
    rows = STUDY["online"].table(SMALL, results)
    assert len(rows) == 2 * 5
    runs = {
        name: [results(run)["conversions"] for run in STUDY["online"].plan(SMALL)
               if run.policy == name and run.budget == 300.0]
        for name in SMALL.policies
    }  # fmt: skip
    row = next(row for row in rows if row["policy"] == "thompson" and row["budget"] == 300.0)
    assert row["mean"] == pytest.approx(np.mean(runs["thompson"]))
    assert row["deviation"] == pytest.approx(np.std(runs["thompson"], ddof=1))
    expected = stats.ttest_rel(runs["bccb"], runs["thompson"]).pvalue
    assert row["p"] == pytest.approx(expected) or (np.isnan(expected) and row["p"] in (0.0, 1.0))
    assert row["p_holm"] >= row["p"]


def test_crossover_counts_the_fits_that_failed(results: Results) -> None:
    rows = STUDY["crossover"].table(SMALL, results)
    assert [row["n"] for row in rows] == [200, 5_000]
    failed = sum(
        bool(results(run)["note"])
        for run in STUDY["crossover"].plan(SMALL)
        if run.policy == "offline-uplift" and run.history == 200
    )
    assert rows[0]["failed_fits"] == failed > 0
    assert rows[0]["low"] <= rows[0]["difference"] <= rows[0]["high"]


def conversions(results: Results, name: str, n: int) -> list[float]:
    return [
        results(run)["conversions"]
        for run in STUDY["history"].plan(SMALL)
        if run.policy == name and run.history == n
    ]


def test_history_has_the_mean_of_every_known_method_at_every_size(results: Results) -> None:
    rows = STUDY["history"].table(SMALL, results)
    assert [row["n"] for row in rows] == [200, 5_000]
    methods = ("offline-uplift", "offline-forecast", "bccb", "cheapest-first")
    figures = [f"{name}_{figure}" for name in methods for figure in ("mean", "deviation")]
    assert all(list(row) == ["n", *figures] for row in rows)
    values = conversions(results, "offline-forecast", 5_000)
    assert rows[1]["offline-forecast_mean"] == pytest.approx(np.mean(values))
    assert rows[1]["offline-forecast_deviation"] == pytest.approx(np.std(values, ddof=1))
    assert rows[0]["cheapest-first_mean"] == rows[1]["cheapest-first_mean"]  # begins cold


def test_a_method_that_begins_cold_is_run_once_for_all_sizes() -> None:
    cold = [run for run in STUDY["history"].plan(SMALL) if run.policy == "bccb"]
    assert len(cold) == len(SMALL.seeds)


def test_advantages_are_paired_differences_corrected_over_the_table(results: Results) -> None:
    rows = STUDY["advantage"].table(SMALL, results)
    answers = [(row["n"], row["policy"], row["against"]) for row in rows]
    pairs = (ADVANTAGES[0], ADVANTAGES[2])
    assert answers == [(n, *pair) for n in (200, 5_000) for pair in pairs]
    ones = conversions(results, "cheapest-first", 0)
    others = conversions(results, "offline-uplift", 5_000)
    row = rows[-1]
    assert row["difference"] == pytest.approx(np.mean(ones) - np.mean(others))
    assert row["low"] <= row["difference"] <= row["high"]
    assert row["p"] == pytest.approx(stats.ttest_rel(ones, others).pvalue)
    smallest = min(rows, key=lambda row: row["p"])
    assert smallest["p_holm"] == pytest.approx(min(1.0, 4 * smallest["p"]))


def test_sensitivity_has_a_row_for_each_value_and_the_variation_of_their_means(
    results: Results,
) -> None:
    rows = STUDY["sensitivity"].table(SMALL, results)
    assert [row["parameter"] for row in rows] == [name for name in SWEEPS for _ in range(5)]
    etas = [row["mean"] for row in rows if row["parameter"] == "eta"]
    assert rows[0]["cv"] == pytest.approx(np.std(etas, ddof=1) / np.mean(etas))


def test_diagnostics_and_online_share_their_runs() -> None:
    assert set(STUDY["diagnostics"].plan(PAPER)) <= set(STUDY["online"].plan(PAPER))
    assert len(set(STUDY["online"].plan(PAPER))) == len(PAPER.policies) * 5 * 20


def test_a_log_that_is_too_small_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="149999, but must be at least 150,000: 100,000 in the"):
        PAPER.check(149_999)
    PAPER.check(150_000)


def test_the_largest_history_of_the_crossover_is_that_of_the_online_table() -> None:
    """So that offline's row at the largest n is the same run in both."""
    offline = [run for run in STUDY["online"].plan(PAPER) if run.policy == "offline-uplift"]
    shared = set(offline) & set(STUDY["crossover"].plan(PAPER))
    assert len(shared) == len(PAPER.seeds)


def test_stability_is_the_ratio_of_deviations(results: Results) -> None:
    (row,) = STUDY["stability"].table(replace(SMALL, sizes=(5_000,)), results)
    assert row["ratio"] == pytest.approx(row["offline"] / row["ours"])


def test_ranks_are_one_to_the_number_of_policies_at_each_budget(results: Results) -> None:
    rows = STUDY["incremental"].table(SMALL, results)
    for column in ("rank_treated", "rank_incremental"):
        for budget in SMALL.budgets:
            ranks = sorted(row[column] for row in rows if row["budget"] == budget)
            assert ranks == [1, 2, 3, 4, 5]
    assert all(row["low"] <= row["mean"] <= row["high"] for row in rows)


def test_every_combination_is_compared_and_the_best_comes_first(results: Results) -> None:
    rows = STUDY["ablation"].table(SMALL, results)
    assert len(rows) == len(combinations()) == 3
    assert {spec.composition for spec in combinations()} <= COMPILED
    gains = [row["incremental"] for row in rows]
    assert gains == sorted(gains, reverse=True)


def test_the_ablation_has_every_pacer_for_every_estimator_that_has_a_scale() -> None:
    """Explorers: 2 for none, frozen and both two-models, 3 for ridge-pair. All are sound."""
    assert len(ALL_COMBINATIONS) == 4 * (2 + 2 + 2 + 3 + 2) + 2
    assert len({spec.name for spec in ALL_COMBINATIONS}) == len(ALL_COMBINATIONS)
    for spec in ALL_COMBINATIONS:
        assert spec.composition.offsets(12, 1)[-1] > 0


def test_those_that_ignore_effects_are_compared_with_all_others(results: Results) -> None:
    rows = STUDY["naive"].table(SMALL, results)
    assert len(rows) == 2 * 2 * 4
    assert all(row["low"] <= row["difference"] <= row["high"] for row in rows)
    one, other = (
        next(row for row in rows if (row["policy"], row["against"]) == pair)
        for pair in (
            ("cheapest-first", "response-first"),
            ("response-first", "cheapest-first"),
        )
    )
    assert one["difference"] == -other["difference"]
