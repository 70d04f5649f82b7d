"""Advice in words: the sentence says what was found, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import bccb
from bccb.caused import Caused
from bccb.charge import Payment
from bccb.evaluate.advice import Advice, Setting, conclude
from bccb.evaluate.rivals import RivalRun
from bccb.intervals import Interval
from bccb.report.wording import caused_lines, code, remarks, sentence, worth_lines

DRAWN = Setting(100, 1_000, 500, 100, 1_000, 500, 12, 1, "conversion")
LOGGED = Setting(500, 4_000, 2_000, 125, 1_000, 1_000, 5, 2, None)


def advice(setting: Setting = DRAWN, spend: float = 100.0, **values: Sequence[float]) -> Advice:
    """Of these values in the seeds that choose, and again in those that estimate."""
    given = {"cheapest_first": (2, 3, 2), "treat_all": (0, 1, 0), **values}
    names = {name.replace("_", "-"): [*of, *of] for name, of in given.items()}
    runs = [
        RivalRun(name, s, v, spend, 300) for name, of in names.items() for s, v in enumerate(of)
    ]
    gains = {name: np.zeros(2_000) for name in names} if setting.outcome is None else {}
    return conclude(setting, runs, gains)


def enough(**values: Sequence[float]) -> Advice:
    """Of five seeds that estimate, which are enough to call a difference clear."""
    five = {"cheapest_first": (2, 3, 2, 3, 2), "treat_all": (0, 1, 0, 0, 0), **values}
    return advice(DRAWN, 100.0, **five)


def test_a_clear_winner_is_named_with_its_differences_and_their_intervals() -> None:
    result = sentence(advice(hybrid=[9, 8, 9], pooled_trees=[5, 5, 6]))
    assert result == (
        "Use hybrid: with 100 for 1,000 users it is expected to cause 8.7 conversions "
        "(7.2 to 10.1), 3.3 more (1.9 to 4.8) than pooled-trees, the best of the others, and 6.3 "
        "more (3.5 to 9.2) than cheapest-first, the simplest."
    )


def test_it_is_said_where_an_estimate_would_spend_more_than_the_budget() -> None:
    """What is charged on conversion is estimated for all whom a policy would treat."""
    values = {"hybrid": [9.0, 8.0, 9.0], "pooled_trees": [5.0, 5.0, 6.0]}
    said = sentence(advice(DRAWN, 120.0, **values))
    assert "(7.2 to 10.1) for 120, so that the budget buys less of it, 3.3 more" in said
    assert "buys less" not in sentence(advice(DRAWN, 104.0, **values))


def test_a_tie_is_reported_and_why_this_one_was_taken() -> None:
    result = sentence(advice(hybrid=[8, 9, 8], pooled_trees=[9, 8, 9]))
    assert result.startswith("Use hybrid: ")
    assert "not clearly different from pooled-trees (-0.3, " in result
    assert result.endswith(
        "It is as good as the best, as far as these data show, and chosen because it is the "
        "default, with your history."
    )


def test_where_all_tie_that_is_said() -> None:
    result = sentence(advice(pooled_trees=[3, 0, 2], hybrid=[1, 2, 3], treat_all=[0, 4, 1]))
    assert (
        "No policy is clearly better here: it is not clearly different from cheapest-first"
        in result
    )
    assert result.endswith("and named because it is the default, with your history.")
    result = sentence(advice(bccb=[3, 1, 2], treat_all=[0, 4, 1]))
    assert result.endswith("and named because its mean is the highest.")


def test_the_simplest_is_not_compared_with_itself() -> None:
    result = sentence(advice(bccb=[1, 1, 2], cheapest_first=[9, 8, 9]))
    assert result.startswith("Use cheapest-first: ")
    assert "the simplest" not in result


def test_a_choice_that_did_not_hold_is_reported() -> None:
    """The first seeds, which choose, prefer hybrid; the last, which estimate, do not."""
    values = {
        "hybrid": [9.0, 8, 9, 4, 4, 4],
        "pooled-trees": [5.0, 5, 6, 7, 7, 7],
        "cheapest-first": [1.0] * 6,
        "treat-all": [0.0] * 6,
    }
    runs = [
        RivalRun(name, s, v, 100.0, 300) for name, of in values.items() for s, v in enumerate(of)
    ]
    result = conclude(DRAWN, runs, {})
    assert sentence(result).startswith("Use hybrid: ")
    assert "3.0 fewer (3.0 to 3.0) than pooled-trees" in sentence(result)
    assert "pooled-trees did better than the choice made: more seeds would tell." in remarks(result)


def test_whether_effects_matter_is_said_with_an_interval() -> None:
    line, *_ = worth_lines(enough(pooled_trees=[9, 8, 9, 8, 9], response_first=[4, 5, 4, 5, 4]))
    assert line == (
        "Effects matter here: compared with response-first, the better of the policies that ignore "
        "them, pooled-trees causes +4.2 (+2.8 to +5.6)."
    )
    alike = {"pooled_trees": [40, 40, 41, 40, 41], "response_first": [41, 40, 41, 40, 41]}
    line, *_ = worth_lines(enough(**alike))
    assert line.startswith("Effects do not matter here, ignoring them is as good: ")
    line, *_ = worth_lines(enough(pooled_trees=[9, 2, 7, 1, 8], response_first=[4, 5, 4, 5, 4]))
    assert line.startswith("These data do not show whether effects matter: ")


@pytest.mark.parametrize(("setting", "seeds"), [(DRAWN, "0:10"), (LOGGED, "0:5")])
def test_with_too_few_seeds_nobody_is_called_behind_and_it_says_how_many_to_use(
    setting: Setting, seeds: str
) -> None:
    few = advice(setting, pooled_trees=[9, 9], cheapest_first=[2, 2.1], treat_all=[0, 0])
    line, *lines = worth_lines(few)
    assert line.startswith("These data do not show whether effects matter: ")
    number = 2 if setting is DRAWN else 4
    assert lines == [
        f"{number} seeds are too few to say whether effects matter, or which policies are behind: "
        f"use more, such as --seeds {seeds}."
    ]


def test_policies_clearly_behind_a_naive_rival_are_named() -> None:
    _, *lines = worth_lines(enough(pooled_trees=[9, 8, 9, 8, 9], thompson=[0] * 5))
    assert lines == ["Clearly behind cheapest-first: treat-all, thompson."]


def test_where_every_policy_harms_the_advice_is_to_treat_nobody() -> None:
    result = advice(pooled_trees=[-3, -2, -3], cheapest_first=[-9, -8, -9], treat_all=[-9, -9, -9])
    assert sentence(result) == (
        "Treat nobody: with 100 for 1,000 users even pooled-trees does harm, and is expected to "
        "cause -2.7 conversions (-4.1 to -1.2)."
    )
    assert code(result) == []


def test_nobody_is_to_be_treated_where_harm_is_expected_but_not_clear() -> None:
    worst = [-900, -800, -900]
    result = advice(pooled_bayes=[-905, 101, -401], cheapest_first=worst, treat_all=worst)
    assert sentence(result).startswith(
        "Treat nobody: with 100 for 1,000 users even pooled-bayes is not shown to help, and is "
        "expected to cause -401.7 conversions (-1,6"
    )
    assert result.recommended is None


def test_visits_are_called_visits() -> None:
    assert " visits (" in sentence(advice(replace(DRAWN, outcome="visit"), bccb=[9, 8, 9]))


def test_simulated_users_are_said_to_stand_for_the_real_ones() -> None:
    answer = " ".join(remarks(advice(bccb=[9, 8, 9])))
    assert "Simulated users stand for yours: 0.2 to 0.3 % of them convert" in answer
    assert "0.1 per user treats 13.0% of them at that cost. That share matters most" in answer
    assert "3 seeds chose, 3 others estimate" in answer
    assert "randomised trial" in answer
    assert "not scarce" not in answer


def test_a_trial_tells_what_it_was_measured_with() -> None:
    answer = " ".join(remarks(advice(LOGGED, bccb=[9, 8, 9])))
    assert "measured with 1,000 rows of history, you would have 2,000" in answer
    assert (
        "no stream of 4,000 users. 1,000 were run with 125, the same money for each user, and all "
        "figures are multiplied by 4."
    ) in answer
    whole = " ".join(remarks(advice(replace(LOGGED, users=1_000), bccb=[9, 8, 9])))
    assert "no stream" not in whole


def test_a_trial_answers_for_the_money_and_the_users_asked_about() -> None:
    """Measured on a quarter of them: every figure is four times what was measured."""
    result = advice(LOGGED, bccb=[9, 8, 9])
    assert sentence(result).startswith(
        "Use bccb: with 500 for 4,000 users it is expected to cause 34.7 conversions (32.5 to 36.8)"
        ", measured on 1,000 users and scaled to 4,000, 25.3 more ("
    )
    own = result.rivals[0]
    assert (own.incremental, own.spend, own.learned) == pytest.approx((4 * 26 / 3, 400.0, 1_200.0))
    assert "scaled" not in sentence(
        advice(replace(LOGGED, users=1_000, budget=125), bccb=[9, 8, 9])
    )


def test_money_to_spare_is_reported() -> None:
    answer = " ".join(remarks(advice(spend=60.0, bccb=[9, 8, 9])))
    assert "Money is not scarce here: treating everybody costs 60." in answer
    charged = replace(DRAWN, payment=Payment("conversion"))
    answer = " ".join(remarks(advice(charged, spend=60.0, bccb=[9, 8, 9])))
    assert "not scarce" not in answer  # what is charged is estimated: that proves nothing


def test_the_code_makes_the_recommended_policy() -> None:
    (line,) = code(advice(LOGGED, bccb=[9, 8, 9]))
    policy = eval(line.removeprefix("policy = "), {"bccb": bccb})
    assert (policy.name, policy.budget, policy.features, policy.treatments) == ("bccb", 500, 5, 2)


def test_the_code_learns_history_where_the_policy_needs_it() -> None:
    first, second = code(advice(hybrid=[9, 8, 9]))
    assert first.startswith('policy = bccb.make("hybrid", budget=100, horizon=1000, features=12)')
    assert second.startswith("policy.learn(history)")


def test_what_is_measured_of_too_few_users_is_not_said() -> None:
    measured = Interval(-96.0, -96.0, 1.5)
    (line,) = caused_lines(Caused(None, measured, 200, needed=1_050))
    assert line.startswith("Caused, measured: too few users yet. Until 1,050 were treated,")
    assert "96" not in line
    (line,) = caused_lines(Caused(None, measured, 3_000))
    assert line.startswith("Caused, measured: -96.0 (95 %: -96.0 to 1.5), by the random decisions")
