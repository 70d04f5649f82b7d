"""Choosing among policies: ties, the stated order, and intervals that are as wide as they must."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bccb.evaluate.choice import Evidence, choose
from bccb.types import Floats


def evidence(**values: list[float]) -> Evidence:
    return Evidence({name.replace("_", "-"): np.array(each) for name, each in values.items()})


def test_the_highest_mean_is_recommended_where_it_is_distinguished() -> None:
    result = choose(evidence(pooled_trees=[5, 6, 5, 6], hybrid=[9, 9, 8, 9], bccb=[1, 2, 1, 1]))
    assert (result.recommended, result.best) == ("hybrid", "hybrid")
    assert result.runner_up == "pooled-trees"
    assert result.tied == ("hybrid",)


def test_of_those_that_tie_the_default_after_history_goes_first() -> None:
    result = choose(evidence(bccb=[9, 5, 8, 6], hybrid=[6, 7, 5, 8], pooled_trees=[7, 6, 7, 6]))
    assert (result.recommended, result.best, result.runner_up) == ("hybrid", "bccb", "bccb")


def test_of_others_that_tie_one_without_history_goes_first() -> None:
    result = choose(evidence(offline_uplift=[9, 5, 8, 6], bccb=[6, 7, 5, 8], thompson=[0, 0, 0, 0]))
    assert (result.recommended, result.best) == ("bccb", "offline-uplift")


def test_without_history_the_default_goes_first_then_the_higher_mean() -> None:
    result = choose(
        evidence(cheapest_first=[9, 5, 8, 7], pooled_trees=[6, 7, 5, 9], bccb=[7, 6] * 2)
    )
    assert result.recommended == "pooled-trees"
    result = choose(evidence(bccb=[6, 7, 5, 9], cheapest_first=[9, 5, 8, 7]))
    assert result.recommended == "cheapest-first"


def test_equal_policies_tie() -> None:
    result = choose(evidence(treat_all=[1, 2, 3], uplifting_bandit=[1, 2, 3]))
    assert set(result.tied) == {"treat-all", "uplifting-bandit"}


@pytest.mark.parametrize("ours", [[-3.0, -2, -4, -3], [-400.0, 380, -9, 2]])
def test_a_policy_expected_to_do_harm_is_not_recommended_though_it_ties(ours: list[float]) -> None:
    """The default ties with the best, but only the best is expected to cause anything."""
    other = [1.0, -6, 19, -7]
    assert choose(evidence(pooled_trees=ours, thompson=other)).recommended == "thompson"


@pytest.mark.parametrize("best", [[-3.0, -2, -4, -3], [-9.0, 8, -9, 9.5], [0.0] * 4])
def test_where_the_best_is_not_expected_to_help_nobody_is_recommended(best: list[float]) -> None:
    result = choose(evidence(pooled_trees=best, treat_all=[-9, -8, -9, -9]))
    assert result.recommended is None
    assert (result.leading, result.runner_up) == ("pooled-trees", "treat-all")


def test_the_interval_is_students_and_widens_with_the_comparisons() -> None:
    ones, others = np.array([5.0, 7, 9, 8]), np.array([3.0, 4, 5, 5])
    values = {"bccb": ones, "thompson": others}
    expected = stats.ttest_rel(ones, others).confidence_interval(0.95)
    assert Evidence(values).interval("bccb", "thompson") == pytest.approx(tuple(expected))
    expected = stats.ttest_rel(ones, others).confidence_interval(1 - 0.05 / 4)
    result = Evidence(values, comparisons=4).interval("bccb", "thompson")
    assert result == pytest.approx(tuple(expected))
    alone = stats.ttest_1samp(ones, 0).confidence_interval(0.95)
    assert Evidence(values).interval("bccb") == pytest.approx(tuple(alone))


def test_seeds_that_share_the_rows_of_a_trial_do_not_make_it_larger() -> None:
    """Against new trials: the interval must hold the truth however many seeds cut one trial."""
    generator, held, naive = np.random.default_rng(1), [], []
    for _ in range(300):
        rows = generator.normal(0.3, 1.0, 200)  # what treating each of them causes, in this trial
        values, totals = cut(rows, generator, seeds=30)
        zero = {"bccb": values, "thompson": np.zeros(30)}
        none = {"bccb": totals, "thompson": np.zeros(200)}
        low, high = Evidence(zero, none).interval("bccb", "thompson")
        held.append(low <= 0.3 * 100 <= high)
        low, high = Evidence(zero).interval("bccb", "thompson")
        naive.append(low <= 0.3 * 100 <= high)
    assert 0.93 <= np.mean(held) <= 0.99
    assert np.mean(naive) < 0.5


def cut(rows: Floats, generator: np.random.Generator, seeds: int) -> tuple[Floats, Floats]:
    """The sum over a random half of the rows for each seed, and what each row added in all."""
    values, totals = [], np.zeros(len(rows))
    for _ in range(seeds):
        half = generator.permutation(len(rows))[: len(rows) // 2]
        values.append(rows[half].sum())
        totals[half] += rows[half]
    return np.array(values), totals
