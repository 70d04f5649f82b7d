"""What learning effects is worth: three verdicts, and who is behind the naive rivals."""

from __future__ import annotations

import numpy as np
import pytest

from bccb.evaluate.choice import Evidence, choose
from bccb.evaluate.naive import Verdict, Worth, clearly_ahead, learns_effects, worth_of_effects
from bccb.policies import NAIVE, POLICIES


def evidence(**values: list[float]) -> Evidence:
    return Evidence({name.replace("_", "-"): np.array(each) for name, each in values.items()})


def worth(**values: list[float]) -> Worth | None:
    given = evidence(**values)
    return worth_of_effects(choose(given), given, given)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([52.0, 55, 51, 54, 53], "effects matter"),
        ([40.0, 41, 40, 42, 41], "effects do not matter"),  # at most a tenth more
        ([30.0, 31, 30, 32, 31], "effects do not matter"),  # fewer
        ([60.0, 20, 55, 30, 40], "cannot tell"),
    ],
)
def test_a_verdict_follows_from_the_interval(ours: list[float], verdict: Verdict) -> None:
    result = worth(
        pooled_bayes=ours,
        response_first=[40.0, 41, 40, 41, 40],
        cheapest_first=[9.0, 9, 8, 9, 9],
    )
    assert result is not None
    assert (result.policy, result.rival, result.verdict) == (
        "pooled-bayes",
        "response-first",
        verdict,
    )
    assert result.interval.low <= result.gain <= result.interval.high


def test_the_better_naive_rival_is_the_one_to_beat() -> None:
    result = worth(pooled_bayes=[9.0, 8, 9], response_first=[1.0, 0, 1], cheapest_first=[5.0, 5, 6])
    assert result is not None
    assert result.rival == "cheapest-first"


def test_where_a_naive_rival_is_recommended_the_best_learner_is_set_against_it() -> None:
    result = worth(
        bccb=[2.0, 1, 2, 1, 2],
        hte_greedy=[0.0, 0, 1, 0, 0],
        cheapest_first=[9.0, 8, 9, 8, 9],
        treat_all=[5.0, 5, 4, 5, 5],
    )
    assert result is not None
    assert (result.policy, result.rival) == ("bccb", "cheapest-first")
    assert result.verdict == "effects do not matter"


def test_without_a_learner_or_a_naive_rival_nothing_is_said() -> None:
    assert worth(pooled_bayes=[1.0, 2, 3], bccb=[0.0, 1, 1]) is None
    assert worth(thompson=[1.0, 2, 3], cheapest_first=[0.0, 1, 1]) is None


def test_the_pair_is_picked_by_some_seeds_and_compared_by_others() -> None:
    chosen_by = evidence(
        pooled_bayes=[9.0, 9, 8], response_first=[5, 5, 4], cheapest_first=[1, 1, 2]
    )
    other = evidence(pooled_bayes=[3.0, 3, 3], response_first=[2, 2, 3], cheapest_first=[7, 7, 7])
    result = worth_of_effects(choose(chosen_by), chosen_by, other)
    assert result is not None
    assert result.rival == "response-first"
    assert result.gain == pytest.approx(2 / 3)


def test_who_is_clearly_behind_a_naive_rival_is_told() -> None:
    given = evidence(
        thompson=[1.0, 2, 1, 2, 1],
        cheapest_first=[5.0, 5, 6, 5, 6],
        response_first=[9.0, 8, 9, 8, 9],
        bccb=[5, 9, 1, 7, 3],
    )
    assert clearly_ahead(given, "thompson") == ("cheapest-first", "response-first")
    assert clearly_ahead(given, "cheapest-first") == ("response-first",)
    assert clearly_ahead(given, "bccb") == ()


def test_a_few_seeds_tell_nothing_though_they_agree() -> None:
    """Two pairs that differ by 4.0 and 4.1: Student's interval alone calls that clear."""
    given = evidence(
        pooled_bayes=[9.0, 9.1], cheapest_first=[5.0, 5.0], thompson=[1.0, 0.9], bccb=[1.0, 1.1]
    )
    assert given.interval("cheapest-first", "thompson").low > 0
    assert clearly_ahead(given, "thompson") == clearly_ahead(given, "bccb") == ()
    result = worth_of_effects(choose(given), given, given)
    assert result is not None
    assert result.verdict == "cannot tell"


@pytest.mark.parametrize("seeds", [5, 10])
def test_policies_that_are_all_the_same_are_seldom_called_behind(seeds: int) -> None:
    """Twenty comparisons at once: without allowing for them one in four advices would do so."""
    generator, said = np.random.default_rng(3), 0
    names = [*NAIVE, *(name for name in POLICIES if name not in NAIVE)][:11]
    for _ in range(200):
        given = Evidence({name: generator.normal(10, 3, seeds) for name in names})
        said += any(clearly_ahead(given, name) for name in names)
    assert said <= 14  # 2.5 % are expected, at most; this is 7 %


def test_those_that_learn_effects_are_those_that_look_at_users_and_are_not_naive() -> None:
    blind = {name for name in POLICIES if not learns_effects(name)}
    assert blind == {*NAIVE, "thompson", "budgeted-thompson", "treat-all"}
