from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bccb.kernels.linalg import (
    add_scaled_row,
    add_to_row,
    copy,
    dot,
    downdate,
    factor,
    fill,
    invert,
    quadratic,
    row_dot,
    sigmoid,
    span_dot,
    squares_within,
)
from bccb.types import Floats

VALUES = st.floats(-1e3, 1e3)
LENGTHS = st.integers(0, 20)
VECTORS = LENGTHS.flatmap(lambda n: arrays(np.float64, n, elements=VALUES))
PAIRS = LENGTHS.flatmap(lambda n: arrays(np.float64, (2, n), elements=VALUES))


@given(VECTORS, VALUES)
def test_fill_sets_every_entry(a: Floats, value: float) -> None:
    fill(a, value)
    assert a.tolist() == [value] * len(a)


@given(PAIRS)
def test_copy_writes_b_into_a_and_leaves_the_rest_of_a(pair: Floats) -> None:
    a, b = np.append(pair[0], 5.0), pair[1].copy()
    copy(a, b)
    assert a.tolist() == [*b.tolist(), 5.0]


@given(PAIRS)
def test_dot_is_numpys(pair: Floats) -> None:
    scale = np.abs(pair[0]) @ np.abs(pair[1])
    assert abs(dot(pair[0], pair[1]) - pair[0] @ pair[1]) <= 1e-14 * scale
    for i in range(2):
        assert row_dot(pair, i, pair[1]) == dot(pair[i], pair[1])


@given(st.floats(-1e308, 1e308))
def test_sigmoid_never_overflows_and_is_symmetric(score: float) -> None:
    value = sigmoid(score)
    assert 0.0 <= value <= 1.0
    assert value + sigmoid(-score) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("score", [-800.0, -745.0, -40.0, -1.0, -1e-9, 0.0, 0.5, 36.0, 800.0])
def test_sigmoid_keeps_its_relative_accuracy_in_the_tails(score: float) -> None:
    with np.errstate(under="ignore"):
        exact = np.exp(-np.logaddexp(0.0, -score))
    assert sigmoid(score) == pytest.approx(exact, rel=1e-13)


def positive(m: int) -> Floats:
    root = np.random.default_rng(m).normal(size=(m, m))
    return root @ root.T + 0.1 * np.eye(m)


@pytest.mark.parametrize("m", [1, 6, 40])
def test_an_inverse_is_that_of_numpy(m: int) -> None:
    A = positive(m)
    inverse = A.copy()
    invert(inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(A), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("m", [1, 6, 40])
def test_a_factor_its_determinant_and_squares_within_are_those_of_numpy(m: int) -> None:
    A, b, x = positive(m), np.arange(1.0, m + 1.0), np.empty(m)
    U = A.copy()
    assert factor(U) == pytest.approx(np.linalg.slogdet(A)[1])
    np.testing.assert_allclose(np.triu(U), np.linalg.cholesky(A).T, rtol=1e-9, atol=1e-12)
    assert squares_within(U, b, x) == pytest.approx(b @ np.linalg.solve(A, b))
    np.testing.assert_allclose(np.triu(U).T @ x, b, rtol=1e-9)


def test_a_matrix_that_is_not_positive_has_no_factor() -> None:
    assert factor(np.array([[1.0, 2.0], [2.0, 1.0]])) == math.inf


@pytest.mark.parametrize("m", [1, 2, 13])
def test_downdate_keeps_the_inverse_over_many_updates(m: int) -> None:
    rng = np.random.default_rng(m)
    A, inverse, column = np.eye(m), np.eye(m), np.empty(m)
    for _ in range(500):
        z = rng.normal(size=m) * rng.choice([0.01, 1.0, 10.0])
        A += np.outer(z, z)
        downdate(inverse, 1.0, z, column)
    np.testing.assert_allclose(inverse, np.linalg.inv(A), rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(inverse, inverse.T, rtol=1e-8, atol=1e-15)


def test_downdate_leaves_the_vector_and_writes_the_old_inverse_times_it() -> None:
    inverse, z, column = np.diag([1.0, 2.0]), np.array([3.0, -1.0]), np.empty(2)
    downdate(inverse, 1.0, z, column)
    assert z.tolist() == [3.0, -1.0]
    assert column.tolist() == [3.0, -2.0]


@given(PAIRS, st.integers(0, 4), st.integers(0, 4))
def test_span_dot_is_that_of_the_slice(pair: Floats, before: int, after: int) -> None:
    a, b = pair
    padded = np.concatenate([np.full(before, 1e9), a, np.full(after, 1e9)])
    assert span_dot(padded, before, b) == dot(a, b)


@given(PAIRS, VALUES)
def test_add_scaled_row_is_numpys_and_leaves_the_matrix(pair: Floats, scale: float) -> None:
    a, A = np.arange(float(pair.shape[1])), pair.copy()
    add_scaled_row(a, scale, A, 1)
    np.testing.assert_array_equal(a, np.arange(float(len(a))) + scale * pair[1])
    np.testing.assert_array_equal(A, pair)


@given(PAIRS, VALUES)
def test_add_to_row_is_numpys_and_leaves_the_other_rows(pair: Floats, scale: float) -> None:
    A, a = pair.copy(), np.arange(float(pair.shape[1]))
    add_to_row(A, 1, scale, a)
    np.testing.assert_array_equal(A[1], pair[1] + scale * np.arange(float(len(a))))
    np.testing.assert_array_equal(A[0], pair[0])


@pytest.mark.parametrize(("at", "n"), [(0, 1), (0, 7), (2, 3), (6, 1), (3, 4), (4, 0)])
def test_quadratic_is_numpys_for_a_symmetric_block(at: int, n: int) -> None:
    rng = np.random.default_rng(10 * at + n)
    for _ in range(20):
        half, z = rng.normal(size=(7, 7)), rng.normal(size=n)
        A = half + half.T
        exact = z @ A[at : at + n, at : at + n] @ z
        assert math.isclose(quadratic(A, at, z), exact, rel_tol=1e-12, abs_tol=1e-12)
