from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bccb.kernels.scaling import (
    Scaler,
    keep_raw,
    scaler_size,
    see,
    see_nothing,
    standardise,
    view_scaler,
)
from bccb.types import Floats


def fresh(d: int) -> Scaler:
    return view_scaler(np.zeros(scaler_size(d)), d)


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
