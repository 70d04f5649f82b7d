"""Verdicts of ``bccb trust`` on figures made up to deserve them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bccb.experiments.trust import Setup
from bccb.experiments.trust_claims import (
    below_the_oracle,
    copies_seldom_differ,
    cost_of_the_reserve,
    covering,
    covering_own_log,
    estimate_covers,
    estimate_is_narrow,
    keeps_late,
    least_regret,
    measure_covers,
    no_worse_late,
    slower_than_users,
    unbiased,
)
from bccb.experiments.trust_tables import NAMES

SETUP = Setup((1_000,), seeds=8)


def lives(**means: float) -> list[dict[str, Any]]:
    """Values that vary over eight seeds, each policy in its own way."""
    return [
        {
            "users": 1_000,
            "seed": seed,
            "policy": name,
            "value": means.get(name.replace("-", "_"), 1.0) + more,
            "bound": 50.0,
        }
        for name in NAMES
        for seed, more in enumerate(noise(name))
    ]


def noise(name: str) -> list[float]:
    """Of each policy its own, whose mean is zero."""
    drawn = np.random.default_rng([*name.encode()]).uniform(0.0, 0.4, 8)
    return [float(each) for each in drawn - drawn.mean()]


def test_a_run_above_the_bound_breaks_the_oracle() -> None:
    assert below_the_oracle(lives(oracle=49.0)).verdict == "holds"
    assert below_the_oracle(lives(bccb=51.0)).verdict == "does not hold"


@pytest.mark.parametrize(
    ("ours", "verdict"), [(9.0, "holds"), (5.0, "cannot tell"), (2.0, "does not hold")]
)
def test_the_default_is_set_against_the_next_best_cold_policy(ours: float, verdict: str) -> None:
    result = least_regret(
        SETUP, lives(pooled_trees=ours, bccb=5.0, hybrid=20.0, pooled_no_reserve=30)
    )
    assert result.verdict == verdict
    assert "by bccb" in result.figure


@pytest.mark.parametrize(
    ("slope", "error", "verdict"),
    [(0.5, 0.05, "holds"), (0.91, 0.05, "cannot tell"), (1.3, 0.05, "does not hold")],
)
def test_the_exponent_is_set_against_one(slope: float, error: float, verdict: str) -> None:
    rows = [{"policy": "pooled-trees", "exponent": 0.1, "late": slope, "late_se": error}]
    assert slower_than_users(rows).verdict == verdict


def test_no_exponent_tells_nothing() -> None:
    rows = [{"policy": "pooled-trees", "exponent": None, "late": None, "late_se": None}]
    assert slower_than_users(rows).verdict == "cannot tell"


@pytest.mark.parametrize(
    ("ours", "verdict"), [(100.0, "holds"), (95.05, "cannot tell"), (80.0, "does not hold")]
)
def test_the_reserve_is_priced_against_the_same_policy_without(ours: float, verdict: str) -> None:
    rows = lives(pooled_trees=ours, pooled_no_reserve=100.0)
    assert cost_of_the_reserve(SETUP, rows).verdict == verdict


@pytest.mark.parametrize(
    ("bias", "repetitions", "verdict"),
    [(2.6, 1_000, "holds"), (-2.7, 1_000, "does not hold"), (1.0, 100, "cannot tell")],
)
def test_bias_is_measured_in_standard_errors(bias: float, repetitions: int, verdict: str) -> None:
    row = {"policy": "p", "method": "DR", "truth": 50.0, "bias": bias, "bias_se": 1.0}
    assert unbiased([{**row, "bias": 0.1}, row], repetitions).verdict == verdict


@pytest.mark.parametrize(
    ("covered", "low", "high", "verdict"),
    [
        (0.95, 0.935, 0.963, "holds"),
        (0.925, 0.907, 0.941, "cannot tell"),
        (0.90, 0.88, 0.92, "does not hold"),
        (0.99, 0.98, 0.995, "does not hold"),
    ],
)
def test_coverage_must_be_near_its_level(
    covered: float, low: float, high: float, verdict: str
) -> None:
    rows: list[dict[str, Any]] = [
        {"policy": "this log", "covered": 0.95, "low": 0.93, "high": 0.96},
        {"policy": "this log", "covered": covered, "low": low, "high": high},
        {"policy": "log of pooled-trees", "covered": 0.99, "low": 0.985, "high": 0.995},
    ]
    assert covering(rows, 1_000).verdict == verdict
    assert covering(rows, 100).verdict == ("cannot tell" if verdict == "holds" else verdict)


@pytest.mark.parametrize(
    ("covered", "high", "verdict"),
    [(0.99, 0.995, "holds"), (0.92, 0.94, "cannot tell"), (0.9, 0.92, "does not hold")],
)
def test_our_own_log_may_be_covered_more_often_but_not_less(
    covered: float, high: float, verdict: str
) -> None:
    rows: list[dict[str, Any]] = [
        {"policy": "log of pooled-trees", "covered": covered, "low": 0.0, "high": high}
    ]
    assert covering_own_log(rows, 1_000).verdict == verdict
    assert covering_own_log([], 1_000).verdict == "cannot tell"


@pytest.mark.parametrize(
    ("differ", "comparisons", "verdict"),
    [(0.06, 1_000, "holds"), (0.08, 1_000, "does not hold"), (0.2, 50, "cannot tell")],
)
def test_equals_must_seldom_differ(differ: float, comparisons: int, verdict: str) -> None:
    reach = 0.014 if comparisons == 1_000 else 0.1
    row = {"test": "paired t", "differ": differ, "comparisons": comparisons}
    row |= {"low": differ - reach, "high": differ + reach}
    other = {**row, "test": "paired bootstrap", "differ": 0.5}
    assert copies_seldom_differ([row, other], "paired t").verdict == verdict


def late(gain: float, error: float) -> list[dict[str, Any]]:
    good = {"outcome": "visit", "policy": "bccb", "gain": 0.3, "gain_se": 0.01}
    return [good, {**good, "policy": "thompson", "gain": gain, "gain_se": error}]


@pytest.mark.parametrize(
    ("gain", "error", "worlds", "verdict"),
    [
        (0.1, 0.01, 12, "holds"),
        (0.0, 0.0, 12, "holds"),
        (-0.001, 0.001, 12, "holds"),  # known to be small
        (-0.001, 0.01, 12, "cannot tell"),
        (0.01, 0.02, 12, "cannot tell"),
        (-0.005, 0.001, 12, "does not hold"),
        (-0.1, 0.001, 2, "cannot tell"),
    ],
)
def test_one_learner_that_loses_by_ageing_is_enough(
    gain: float, error: float, worlds: int, verdict: str
) -> None:
    claim = no_worse_late(late(gain, error), worlds)
    assert claim.verdict == verdict
    assert f"thompson, visits, {gain:+.3f}" in claim.figure


@pytest.mark.parametrize(
    ("kept", "error", "verdict"),
    [(0.97, 0.005, "holds"), (0.96, 0.01, "cannot tell"), (0.9, 0.005, "does not hold")],
)
def test_the_least_that_is_kept_with_any_delays_counts(
    kept: float, error: float, verdict: str
) -> None:
    usual = {"outcome": "visit", "delays": "exponential", "kept": 0.99, "kept_se": 0.001}
    claim = keeps_late([usual, {**usual, "delays": "slow", "kept": kept, "kept_se": error}], 12)
    assert claim.verdict == verdict
    assert "(visits, slow), 12 worlds" in claim.figure


def caused_rows(covered: float, held: float, ratio: float = 0.1, error: float = 0.001) -> Any:
    """Three kinds of campaign: a good one, one with these figures, and one with late outcomes."""
    good = {"outcome": "visit", "treatments": 1, "reports": "at once", "worlds": 100}
    good |= {"covered": 1.0, "held": 1.0, "relative_width": 0.1, "relative_width_se": 0.001}
    late = {**good, "reports": "late", "covered": 0.5, "held": 0.5}
    shares = {"covered": covered, "held": held}
    widths = {"relative_width": ratio, "relative_width_se": error}
    return [good, {**good, "treatments": 2, **shares, **widths}, late]


@pytest.mark.parametrize(
    ("share", "estimated", "measured"),
    [
        (0.99, "holds", "holds"),
        (0.95, "holds", "cannot tell"),  # 195 of 200: 94.3 % to 99.2 %
        (0.86, "cannot tell", "cannot tell"),
        (0.81, "cannot tell", "does not hold"),  # 181 of 200: 85.6 % to 94.2 %
        (0.7, "does not hold", "does not hold"),
    ],
)
def test_all_worlds_with_outcomes_at_once_are_judged_together(
    share: float, estimated: str, measured: str
) -> None:
    claims = estimate_covers(caused_rows(share, 1.0)), measure_covers(caused_rows(1.0, share))
    assert [claim.verdict for claim in claims] == [estimated, measured]
    for claim in claims:
        assert f"{50 + 50 * share:.1f} % of 200 worlds" in claim.figure
        assert "worst: 50.0 %, visits, 1 treatment, outcomes late" in claim.figure


def test_few_worlds_cannot_tell() -> None:
    few = [{**row, "worlds": 4} for row in caused_rows(1.0, 1.0)]
    for judge in (estimate_covers, measure_covers, estimate_is_narrow):
        assert judge(few).verdict == "cannot tell"


@pytest.mark.parametrize(
    ("ratio", "error", "verdict"),
    [(0.3, 0.005, "holds"), (0.33, 0.005, "cannot tell"), (0.36, 0.005, "does not hold")],
)
def test_the_widest_estimate_counts(ratio: float, error: float, verdict: str) -> None:
    claim = estimate_is_narrow(caused_rows(1.0, 1.0, ratio, error))
    assert claim.verdict == verdict
    assert f"widest: {100 * ratio:.1f} %" in claim.figure
    assert "visits, 2 treatments, outcomes at once" in claim.figure
