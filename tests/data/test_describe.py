"""Figures of a log agree with naive references, and randomised logs are recognised."""

from __future__ import annotations

import itertools
import json
import math
import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bccb.data import describe, describe_file, lognormal, preset
from bccb.data.describe import (
    BLOCK,
    check_balance,
    chi_square_tail,
)
from bccb.data.schema import Columns
from bccb.errors import InputError
from bccb.types import Floats, Ints, Log


def make_log(features: Floats, actions: Ints, outcomes: Floats | None = None) -> Log:
    users, treatments = len(actions), int(actions.max())
    return Log(
        features=features,
        actions=actions,
        outcomes=np.zeros(users) if outcomes is None else outcomes,
        micros=lognormal(users, treatments),
    )


def randomised(users: int, treatments: int = 1, seed: int = 0) -> Log:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(users, 3)) @ generator.normal(size=(3, 3)) + 5.0
    actions = generator.integers(0, treatments + 1, users)
    return make_log(features, actions, (generator.random(users) < 0.2).astype(np.float64))


def naive_statistic(log: Log) -> float:
    """The statistic as it is written down, with NumPy's covariance and pseudo-inverse."""
    inverse = np.linalg.pinv(np.atleast_2d(np.cov(log.features.T)), rcond=1e-10, hermitian=True)
    statistic = 0.0
    for arm in range(log.treatments + 1):
        rows = log.features[log.actions == arm]
        difference = rows.mean(axis=0) - log.features.mean(axis=0)
        statistic += len(rows) * difference @ inverse @ difference
    return statistic


def naive_difference(log: Log, treatment: int, feature: int) -> float:
    treated = log.features[log.actions == treatment, feature]
    control = log.features[log.actions == 0, feature]
    spread = math.sqrt((treated.var(ddof=1) + control.var(ddof=1)) / 2)
    return float((treated.mean() - control.mean()) / spread)


def test_arms_have_their_counts_shares_rates_and_effects() -> None:
    actions = np.array([0] * 80 + [1] * 70)
    outcomes = np.array([1.0] * 48 + [0.0] * 32 + [1.0] * 56 + [0.0] * 14)
    control, treated = describe(make_log(np.zeros((150, 1)), actions, outcomes)).arms
    assert (control.name, control.users, control.effect) == ("control", 80, None)
    assert (treated.name, treated.users) == ("treatment-1", 70)
    assert (control.share, control.rate.value, treated.rate.value) == (80 / 150, 0.6, 0.8)
    # Newcombe 1998, table II, method 10, on 56/70 against 48/80.
    assert treated.effect is not None
    assert treated.effect.value == pytest.approx(0.2)
    assert treated.effect.low == pytest.approx(0.0524, abs=5e-5)
    assert treated.effect.high == pytest.approx(0.3339, abs=5e-5)


@given(statistic=st.floats(0, 2000), degrees=st.integers(1, 400))
def test_the_chi_square_tail_is_scipys(statistic: float, degrees: int) -> None:
    expected = stats.chi2.sf(statistic, degrees)
    assert chi_square_tail(statistic, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_the_chi_square_tail_is_one_without_features_or_differences() -> None:
    assert chi_square_tail(0.0, 0) == chi_square_tail(0.0, 3) == chi_square_tail(-1e-18, 3) == 1.0


@pytest.mark.parametrize("treatments", [1, 2, 3])
def test_balance_agrees_with_a_naive_reference(treatments: int) -> None:
    log = randomised(500, treatments)
    balance = check_balance(log)
    assert balance.statistic == pytest.approx(naive_statistic(log), rel=1e-9)
    assert balance.degrees == 3 * treatments
    assert balance.p_value == pytest.approx(stats.chi2.sf(balance.statistic, balance.degrees))
    differences = [naive_difference(log, k, j) for k in range(1, treatments + 1) for j in range(3)]
    results = [value for row in balance.differences.values() for value in row.values()]
    assert results == pytest.approx(differences, rel=1e-9)
    assert balance.largest == pytest.approx(max(map(abs, differences)))
    assert list(balance.differences) == list(log.treatment_names)


def test_balance_is_the_same_over_several_blocks_of_rows() -> None:
    log = randomised(BLOCK + 1000, 2)
    assert check_balance(log).statistic == pytest.approx(naive_statistic(log), rel=1e-8)


def test_the_mean_of_the_statistic_over_all_assignments_is_its_degrees() -> None:
    features = np.random.default_rng(1).lognormal(size=(8, 2))
    features = np.column_stack((features, features.sum(axis=1)))  # rank 2
    statistics = []
    for treated in itertools.combinations(range(8), 3):
        actions = np.zeros(8, dtype=np.int64)
        actions[list(treated)] = 1
        balance = check_balance(make_log(features, actions))
        assert balance.degrees == 2
        statistics.append(balance.statistic)
    assert np.mean(statistics) == pytest.approx(2.0, rel=1e-9)


def test_p_values_are_uniform_over_randomised_logs() -> None:
    p_values = [check_balance(randomised(300, 2, seed)).p_value for seed in range(400)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


@given(scale=st.floats(1e-6, 1e6), shift=st.floats(-1e6, 1e6), seed=st.integers(0, 1000))
def test_balance_does_not_depend_on_the_units_of_a_feature(
    scale: float, shift: float, seed: int
) -> None:
    log = randomised(100, 1, seed)
    features = log.features.copy()
    # Whole thousandths, so that a shift does not round away what distinguishes the rows.
    features[:, 0] = features[:, 0].round(3)
    moved = features.copy()
    moved[:, 0] = moved[:, 0] * scale + shift * scale
    before = check_balance(replace(log, features=features))
    after = check_balance(replace(log, features=moved))
    assert after.statistic == pytest.approx(before.statistic, rel=1e-4)
    assert after.largest == pytest.approx(before.largest, rel=1e-4)


def test_constant_and_collinear_features_count_for_nothing() -> None:
    log = randomised(2000)
    plain = check_balance(log)
    constant = np.full((2000, 1), 0.1)  # a number whose mean is not exact in floating point
    copies = np.column_stack((log.features, constant, 3 * log.features[:, :1] - 1))
    balance = check_balance(replace(log, features=copies, feature_names=("a", "b", "c", "k", "e")))
    assert balance.degrees == plain.degrees
    assert balance.statistic == pytest.approx(plain.statistic, rel=1e-6)
    assert balance.differences["treatment-1"]["k"] == 0.0


def test_a_feature_that_gives_the_arm_away_is_seen() -> None:
    log = randomised(200)
    features = np.column_stack((log.features, log.actions * 0.3 + 0.1))
    balance = check_balance(replace(log, features=features, feature_names=("a", "b", "c", "leak")))
    # Without spread within the arms the spread of all users counts, half of the difference.
    assert balance.largest == pytest.approx(2.0, rel=0.05)
    assert not balance.looks_randomised
    assert "does not look randomised: feature leak differs by" in balance.verdict


def test_a_randomised_log_looks_randomised() -> None:
    balance = describe(randomised(20_000, 2)).balance
    assert balance.looks_randomised
    assert balance.verdict.startswith("looks randomised: the largest difference, in feature x")


def test_large_differences_by_chance_in_a_small_log_are_no_alarm() -> None:
    balance = describe(randomised(30, seed=2)).balance
    assert balance.largest > 0.1
    assert balance.looks_randomised
    assert balance.verdict.startswith("looks randomised")


def test_a_log_whose_arm_follows_a_feature_does_not_look_randomised() -> None:
    log = randomised(2000, 2)
    features = log.features.copy()
    features[:, 1] += 0.5 * features[:, 1].std() * (log.actions == 2)
    balance = describe(replace(log, features=features)).balance
    assert not balance.looks_randomised
    message = "does not look randomised: feature x1 differs by 0."
    assert balance.verdict.startswith(message)
    assert "standard deviations between treatment-2 and control" in balance.verdict


def test_small_but_clear_differences_are_distinguished() -> None:
    log = randomised(100_000)
    features = log.features.copy()
    features[:, 1] += 0.05 * features[:, 1].std() * log.actions
    balance = describe(replace(log, features=features)).balance
    assert balance.looks_randomised
    assert balance.verdict.startswith("small differences, statistically clear but below 0.1")


def test_a_log_without_features_cannot_be_checked() -> None:
    balance = describe(make_log(np.empty((4, 0)), np.array([0, 1, 0, 1]))).balance
    assert (balance.degrees, balance.p_value, balance.largest) == (0, 1.0, 0.0)
    assert balance.verdict == "cannot be checked: the log has no features"


def test_an_arm_without_rows_is_refused() -> None:
    log = Log(np.zeros((2, 1)), np.array([1, 1]), np.zeros(2), np.full((2, 1), 10**6))
    with pytest.raises(InputError, match="rows of arm 'control' is 0, but must be at least 1"):
        describe(log)


def test_an_arm_of_one_row_is_described() -> None:
    description = describe(make_log(np.arange(3.0)[:, None], np.array([0, 0, 1])))
    assert math.isfinite(description.balance.largest)
    assert description.arms[1].users == 1


def test_a_description_is_plain_json() -> None:
    description = describe(randomised(100, 2))
    assert json.loads(json.dumps(asdict(description), allow_nan=False))["users"] == 100


def test_a_file_with_missing_values_is_described_without_those_rows(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "arm": ["none", "mail", "none", "mail", None],
            "sale": [0, 1, 0, 0, 1],
            "age": [30.0, None, 20.0, 25.0, 50.0],
        }
    )
    frame.write_parquet(tmp_path / "t.parquet")
    columns = Columns(treatment="arm", control="none", outcome="sale")
    description = describe_file(tmp_path / "t.parquet", columns)
    assert description.missing == {"arm": 1, "sale": 0, "age": 1}
    assert (description.users, description.incomplete) == (3, 2)
    assert [arm.users for arm in description.arms] == [2, 1]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "file", "verdict"),
    [
        ("criteo", "criteo_uplift_200k.parquet", "small differences, statistically clear"),
        ("hillstrom", "hillstrom.csv.gz", "looks randomised"),
        ("starbucks", "starbucks_promotion.parquet", "looks randomised"),
    ],
)
def test_the_real_trials_pass_as_randomised(name: str, file: str, verdict: str) -> None:
    folder = os.environ.get("BCCB_DATA")
    if not folder or not (Path(folder) / file).exists():
        pytest.skip(f"BCCB_DATA does not name a folder with {file}")
    description = describe_file(Path(folder) / file, preset(name))
    assert not any(description.missing.values())
    assert description.balance.looks_randomised
    assert description.balance.verdict.startswith(verdict)
    for arm in description.arms[1:]:
        assert arm.effect is not None
        assert arm.effect.low > 0
