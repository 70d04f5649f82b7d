"""Tables from rows against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bccb.experiments.trust import ORACLE, Setup
from bccb.experiments.trust_tables import NAMES, curves, exponents, fit_exponent, twins, values

SETUP = Setup((100, 1_000, 10_000), seeds=3)


def lives() -> list[dict[str, Any]]:
    """Seeds in disorder: the oracle causes users / 10 + seed, others lose the root of users."""
    return [
        {
            "users": users,
            "seed": seed,
            "policy": name,
            "value": users / 10 + seed - (0 if name == ORACLE else users**0.5 + seed**2),
            "conversions": 2.0,
            "spend": 5.0,
            "treated": 7,
            "bound": users,
        }
        for users in SETUP.sizes
        for seed in (2, 0, 1)
        for name in NAMES
    ]


def test_values_are_means_with_standard_errors_over_the_same_seeds() -> None:
    table = values(SETUP, lives())
    assert [row["policy"] for row in table] == list(NAMES)
    assert table[0]["value"] == pytest.approx(1_001)
    assert table[0]["value_se"] == pytest.approx(1 / np.sqrt(3))
    assert table[1]["regret"] == pytest.approx(100 + 5 / 3)
    assert table[1]["regret_se"] == pytest.approx(stats.sem([0, 1, 4]))
    assert table[1]["share"] == pytest.approx((1_001 - 100 - 5 / 3) / 1_001)
    assert (table[1]["conversions"], table[1]["spend"], table[1]["treated"]) == (2, 5, 7)


def test_the_middle_is_the_largest_size_up_to_that_of_the_paper() -> None:
    assert Setup().middle == 100_000
    assert Setup((300_000, 1_000_000)).middle == 300_000


def test_curves_have_every_policy_at_every_size() -> None:
    table = curves(SETUP, lives())
    assert len(table) == 3 * (len(NAMES) - 1)
    assert {row["users"]: row["seeds"] for row in table} == {100: 3, 1_000: 3, 10_000: 3}


def test_the_exponent_is_the_slope_of_the_logs() -> None:
    row = exponents(SETUP, lives())[0]
    means = [users**0.5 + 5 / 3 for users in SETUP.sizes]
    x, y = np.log(SETUP.sizes), np.log(means)
    slope, intercept = np.polyfit(x, y, 1)
    rest = y - slope * x - intercept
    error = np.sqrt((rest**2).sum() / (3 - 2) / ((x - x.mean()) ** 2).sum())
    assert row["exponent"] == pytest.approx(slope)
    assert row["exponent_se"] == pytest.approx(error)
    assert row["late"] == pytest.approx((y[2] - y[1]) / np.log(10))
    reach = [stats.sem([0, 1, 4]) / mean for mean in means[1:]]
    assert row["late_se"] == pytest.approx(np.hypot(*reach) / np.log(10))
    assert [row["100"], row["1k"], row["10k"]] == pytest.approx(means)


def test_without_a_logarithm_there_is_no_exponent() -> None:
    assert fit_exponent([1, 2, 3], [1.0, 0.0, 2.0]) == (None, None)
    assert fit_exponent([1, 2], [1.0, 2.0]) == (None, None)


def test_twins_are_counted_for_each_test() -> None:
    rows = [
        {"policy": "bccb", "figure": "conversions", "p": p, "bootstrap": p < 0.5}
        for p in (0.01, 0.04, 0.2, 0.9)
    ]
    by_t, by_bootstrap = twins(rows)
    assert (by_t["test"], by_t["differ"], by_t["comparisons"]) == ("paired t", 0.5, 4)
    assert by_bootstrap["differ"] == 0.75
    assert by_t["low"] < 0.5 < by_t["high"]
