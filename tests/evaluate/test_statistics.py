"""Statistics against SciPy, statsmodels' definitions written out, and their own calibration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bccb import InputError
from bccb.evaluate.statistics import crossover, holm, paired_bootstrap, paired_t, share_interval

VALUES = st.lists(st.floats(-100, 100), min_size=3, max_size=20)


@given(values=VALUES, seed=st.integers(0, 1_000))
def test_the_paired_t_test_is_scipys(values: list[float], seed: int) -> None:
    other = np.random.default_rng(seed).normal(size=len(values))
    for alternative in ("two-sided", "greater", "less"):
        expected = stats.ttest_rel(values, other, alternative=alternative).pvalue
        assert paired_t(values, other, alternative) == pytest.approx(expected, abs=1e-12)


def test_pairs_without_spread_have_a_plain_answer() -> None:
    assert paired_t([1, 2, 3], [1, 2, 3]) == 1.0
    assert paired_t([2, 3, 4], [1, 2, 3]) == 0.0
    assert paired_t([2, 3, 4], [1, 2, 3], "greater") == 0.0
    assert paired_t([2, 3, 4], [1, 2, 3], "less") == 1.0


def test_the_bootstrap_interval_is_scipys_percentile_interval_at_the_expanded_level() -> None:
    """For 20 pairs it is that of 96.81 %: twice Phi(sqrt(20 / 19) 2.0930) less 1."""
    generator = np.random.default_rng(1)
    ones, others = generator.normal(1, 1, 20), generator.normal(0, 1, 20)
    level = 2 * stats.norm.cdf(np.sqrt(20 / 19) * stats.t.ppf(0.975, 19)) - 1
    assert level == pytest.approx(0.9682, abs=1e-3)
    expected = stats.bootstrap(
        (ones - others,),
        np.mean,
        method="percentile",
        n_resamples=100_000,
        rng=2,
        confidence_level=level,
    ).confidence_interval
    result = paired_bootstrap(ones, others)
    assert result.low == pytest.approx(expected.low, abs=0.02)
    assert result.high == pytest.approx(expected.high, abs=0.02)


def test_the_bootstrap_interval_of_few_normal_pairs_covers_as_often_as_it_says() -> None:
    """Plain percentiles of 10 pairs would hold the mean in 90 %."""
    generator = np.random.default_rng(5)
    covered = 0
    for _ in range(1_000):
        low, high = paired_bootstrap(generator.normal(2, 1, 10), np.zeros(10), 2_000)
        covered += low <= 2 <= high
    assert 0.93 < covered / 1_000 < 0.97


def test_the_bootstrap_interval_covers_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        low, high = paired_bootstrap(generator.normal(2, 1, 40), generator.normal(0, 1, 40), 500)
        covered += low <= 2 <= high
    assert 0.90 < covered / 400 < 0.98


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holms_correction_rejects_what_the_step_down_rule_does(p_values: list[float]) -> None:
    """Reject in order of size while p_(i) <= level / (m - i), then stop."""
    adjusted = holm(p_values)
    for level in (0.01, 0.05, 0.2):
        rejected = set()
        for rank, place in enumerate(np.argsort(p_values, kind="stable")):
            if (len(p_values) - rank) * p_values[place] > level:
                break
            rejected.add(int(place))
        assert {i for i, p in enumerate(adjusted) if p <= level} >= rejected
        assert all(adjusted[i] <= level for i in rejected)
    assert all(a >= p for a, p in zip(adjusted, p_values, strict=True))
    assert [adjusted[i] for i in np.argsort(p_values)] == sorted(adjusted)


def test_the_crossover_must_persist_and_be_significant() -> None:
    ours = [10.0, 11.0, 9.0, 10.0]
    high, low, unsure = [20.0, 21.0, 19.0, 22.0], [5.0, 6.0, 4.0, 5.0], [30.0, 0.0, 15.0, 1.0]
    assert crossover({1: low, 2: high, 3: high}, ours) == 2
    assert crossover({1: high, 2: low, 3: high}, ours) == 3  # the early lead does not persist
    assert crossover({1: unsure, 2: high}, ours) == 2
    assert crossover({1: low, 2: low}, ours) is None
    assert crossover({1: high, 2: unsure, 3: high}, ours) == 1  # 2 leads, if not significantly


def test_unequal_or_single_pairs_are_refused() -> None:
    with pytest.raises(InputError, match="two lists of 2 or more"):
        paired_t([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="two lists of 2 or more"):
        paired_bootstrap([1.0], [1.0])


@pytest.mark.parametrize(("hits", "trials"), [(5, 100), (1, 20), (66, 1_000)])
def test_the_ends_of_a_share_leave_half_the_level_in_each_tail(hits: int, trials: int) -> None:
    low, high = share_interval(hits, trials)

    def at_most(count: int, share: float) -> float:
        return sum(
            math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(count + 1)
        )

    assert 1 - at_most(hits - 1, low) == pytest.approx(0.025)
    assert at_most(hits, high) == pytest.approx(0.025)
    assert share_interval(hits, trials, 0.01).low < low


def test_a_share_of_none_or_all_reaches_the_end() -> None:
    assert share_interval(0, 10).low == 0.0
    assert share_interval(10, 10).high == 1.0
