from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bccb.kernels.scaling import (
    SCALER,
    Scaler,
    keep_raw,
    see,
    see_nothing,
    see_robustly,
    standardise,
    standardise_robustly,
    view_scaler,
)
from bccb.types import MOST_FEATURE, Floats

Sized = Callable[[int, int], int]


def fresh(d: int) -> Scaler:
    return view_scaler(np.zeros(SCALER.size(d)), d)


def standardised(rows: Floats) -> Floats:
    """Each row in its turn, seen and then standardised."""
    d = rows.shape[1]
    scaler, z = fresh(d), np.full((len(rows), d + 1), np.nan)
    for i, x in enumerate(rows):
        see(scaler, x)
        standardise(scaler, x, z[i])
    return z


def test_each_user_is_standardised_by_all_users_so_far_himself_included() -> None:
    rows = np.random.default_rng(0).normal([0.0, 5.0, -300.0], [1.0, 0.1, 40.0], (200, 3))
    z = standardised(rows)
    for t in range(2, 201):
        so_far = rows[:t]
        expected = (rows[t - 1] - so_far.mean(axis=0)) / so_far.std(axis=0)
        np.testing.assert_allclose(z[t - 1, :3], expected, rtol=1e-9, atol=1e-12)


def test_second_user_counts_at_once() -> None:
    z = standardised(np.array([[2.0], [6.0]]))  # mean 4, deviation 2
    assert z.tolist() == [[0.0, 1.0], [1.0, 1.0]]


def test_moments_are_numpys() -> None:
    rows = np.random.default_rng(1).lognormal(0.0, 2.0, (500, 2))
    scaler = fresh(2)
    for x in rows:
        see(scaler, x)
    assert scaler.seen[0] == 500.0
    np.testing.assert_allclose(scaler.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaler.square / 500.0, rows.var(axis=0), rtol=1e-10)


def test_variance_survives_a_large_offset() -> None:
    rows = 1e6 + np.random.default_rng(2).normal(0.0, 10.0, (1_000, 1))
    z = standardised(rows)
    expected = (rows[-1, 0] - rows.mean()) / rows.std()
    assert z[-1, 0] == pytest.approx(expected, rel=1e-6)


@given(st.floats(-1e15, 1e15), st.integers(1, 30))
def test_constant_feature_becomes_zero(value: float, users: int) -> None:
    z = standardised(np.full((users, 1), value))
    assert z[:, 0].tolist() == [0.0] * users


@pytest.mark.parametrize("offset", [1e9, -1e9, 1e15, 0.1])
def test_noise_of_the_size_of_rounding_becomes_zero(offset: float) -> None:
    ulps = np.random.default_rng(3).integers(-2, 3, 200)
    rows = (offset + ulps * np.spacing(abs(offset)))[:, None]
    assert len(np.unique(rows)) > 1
    assert not standardised(rows)[:, 0].any()


def test_standardising_does_not_see() -> None:
    scaler, z = fresh(1), np.empty(2)
    see(scaler, np.array([1.0]))
    see(scaler, np.array([3.0]))
    standardise(scaler, np.array([100.0]), z)
    assert z.tolist() == [98.0, 1.0]
    assert (scaler.seen[0], scaler.mean[0], scaler.square[0]) == (2.0, 2.0, 2.0)


def test_standardising_before_any_user_gives_zeros() -> None:
    z = np.empty(3)
    standardise(fresh(2), np.array([4.0, -4.0]), z)
    assert z.tolist() == [0.0, 0.0, 1.0]


@given(arrays(np.float64, 3, elements=st.floats(-1e300, 1e300)))
def test_raw_reader_keeps_features_and_closes_with_1(x: Floats) -> None:
    scaler, z = fresh(3), np.empty(4)
    see_nothing(scaler, x)
    keep_raw(scaler, x, z)
    assert z.tolist() == [*x.tolist(), 1.0]
    assert scaler.seen[0] == 0.0


def test_user_without_features_has_the_closing_1_alone() -> None:
    assert standardised(np.empty((2, 0))).tolist() == [[1.0], [1.0]]


def robustly(rows: Floats) -> tuple[Scaler, Floats]:
    """The scaler that has seen all rows, and each row in its turn, seen and then standardised."""
    d = rows.shape[1]
    scaler, z = fresh(d), np.full((len(rows), d + 1), np.nan)
    for i, x in enumerate(rows):
        see_robustly(scaler, x)
        standardise_robustly(scaler, x, z[i])
    return scaler, z


def naive_rate(i: int) -> float:
    """What user number i counts when he is seen."""
    return min(1.0, (8.0 if i <= 2_000 else 3.0) / i)


def test_robust_moments_are_weighted_ones_of_the_users_so_far(sized: Sized) -> None:
    n = sized(3_000, 2_100)
    rows = np.random.default_rng(4).normal([5.0, -300.0], [0.1, 40.0], (n, 2))
    scaler, z = robustly(rows)
    weights, left = np.empty(n), 1.0
    for i in range(n, 0, -1):
        weights[i - 1] = left * naive_rate(i)
        left *= 1.0 - naive_rate(i)
    mean = weights @ rows
    deviation = np.sqrt(weights @ (rows - mean) ** 2)
    np.testing.assert_allclose(scaler.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(scaler.square), deviation, rtol=1e-9)
    np.testing.assert_allclose(z[-1, :2], (rows[-1] - mean) / deviation, rtol=1e-9)
    assert (z[:, 2] == 1.0).all()


def test_robust_moments_follow_the_recurrence_where_users_are_cut() -> None:
    rows = np.random.default_rng(5).standard_t(1.5, 300)
    rows[[40, 250]] = 1e7, -1e9
    scaler, z = robustly(rows[:, None])
    mean, variance, cut = 0.0, 0.0, 0
    for i, x in enumerate(rows.tolist(), 1):
        value = x
        if i > 20 and variance > 0.0:
            value = float(np.clip(x, mean - 10 * variance**0.5, mean + 10 * variance**0.5))
            cut += value != x
        a = naive_rate(i)
        variance = (1.0 - a) * (variance + a * (value - mean) ** 2)
        mean += a * (value - mean)
        expected = (x - mean) / variance**0.5 if variance > 0.0 else 0.0
        assert z[i - 1, 0] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert cut >= 2
    assert scaler.seen[0] == 300.0


@pytest.mark.compiled
@pytest.mark.parametrize("place", [0, 3, 9, 19])
@pytest.mark.parametrize("size", [1e9, -1e9])
def test_an_outlier_among_the_first_users_is_forgotten_after_10_000(
    place: int, size: float
) -> None:
    rows = np.random.default_rng(6).normal(2.0, 1.0, (10_000, 1))
    rows[place] = size
    scaler, z = robustly(rows)
    assert scaler.mean[0] == pytest.approx(2.0, abs=0.15)
    assert np.sqrt(scaler.square[0]) == pytest.approx(1.0, abs=0.25)
    assert z[-1_000:, 0].std() == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("place", [30, 150, 400])
def test_a_later_outlier_is_cut(place: int) -> None:
    rows = np.random.default_rng(7).normal(2.0, 1.0, (500, 1))
    plain = robustly(rows[: place + 1])[0]
    rows[place] = 1e9
    scaler, z = robustly(rows)
    assert (
        z[place, 0] > 1e6
    )  # it is passed on as it is; how far it counts is for the estimator to say
    moved = robustly(rows[: place + 1])[0]
    assert moved.square[0] < 100.0 * plain.square[0]
    assert abs(scaler.mean[0]) < 20.0
    assert np.sqrt(scaler.square[0]) < 30.0


@given(st.floats(-1e15, 1e15), st.integers(1, 60))
def test_constant_feature_becomes_zero_robustly(value: float, users: int) -> None:
    z = robustly(np.full((users, 1), value))[1]
    assert z[:, 0].tolist() == [0.0] * users


@pytest.mark.compiled
@pytest.mark.parametrize("mode", [0.0, 1.0, -1e5])
def test_a_feature_that_hardly_ever_varies_is_still_told(mode: float) -> None:
    rows = np.full((200_000, 1), mode)
    active = np.random.default_rng(8).random(len(rows)) < 0.001
    active[50] = True  # so that its deviation is soon known, and then forgotten
    rows[active] += 1.0
    z = robustly(rows)[1][100_000:, 0]
    active = active[100_000:]
    assert (z[active] > 5.0).all()
    assert (np.abs(z[~active]) < 1.0).all()


@pytest.mark.parametrize("offset", [1e9, -1e9, 1e15, 0.1])
def test_noise_of_the_size_of_rounding_becomes_zero_robustly(offset: float) -> None:
    ulps = np.random.default_rng(3).integers(-2, 3, 200)
    rows = (offset + ulps * np.spacing(abs(offset)))[:, None]
    assert not robustly(rows)[1][:, 0].any()


EXTREME = st.one_of(
    st.floats(-MOST_FEATURE, MOST_FEATURE),
    st.sampled_from([0.0, 1.0, MOST_FEATURE, -MOST_FEATURE, 1e-300]),
)


@given(st.lists(EXTREME, min_size=1, max_size=60))
def test_robust_features_are_finite_whatever_comes(values: list[float]) -> None:
    scaler, z = robustly(np.array(values)[:, None])
    assert np.isfinite(z).all()
    assert np.isfinite(scaler.square).all()


def test_robust_standardising_before_any_user_gives_zeros() -> None:
    z = np.empty(3)
    standardise_robustly(fresh(2), np.array([4.0, -4.0]), z)
    assert z.tolist() == [0.0, 0.0, 1.0]
