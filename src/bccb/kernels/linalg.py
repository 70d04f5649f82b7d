"""Small dense linear algebra for one user at a time: no allocation, no BLAS call."""

from __future__ import annotations

import math

from bccb.kernels.jit import jit
from bccb.types import Floats


@jit
def fill(a: Floats, value: float) -> None:
    """A <- value; as a loop, because Numba's slice assignment costs ten times as much."""
    for j in range(a.shape[0]):
        a[j] = value


@jit
def copy(a: Floats, b: Floats) -> None:
    """A <- b"""
    for j in range(b.shape[0]):
        a[j] = b[j]


@jit
def dot(a: Floats, b: Floats) -> float:
    """A . b"""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@jit
def row_dot(A: Floats, i: int, b: Floats) -> float:
    """A_i . b, without making a view of the row, which costs a reference count."""
    total = 0.0
    for j in range(b.shape[0]):
        total += A[i, j] * b[j]
    return total


@jit
def span_dot(a: Floats, at: int, b: Floats) -> float:
    """(a_at, a_at+1, ...) . b, without making a view."""
    total = 0.0
    for j in range(b.shape[0]):
        total += a[at + j] * b[j]
    return total


@jit
def add_scaled_row(a: Floats, scale: float, A: Floats, i: int) -> None:
    """A <- a + scale A_i; unlike a dot product it is vectorised, as no order of sums matters."""
    for j in range(a.shape[0]):
        a[j] += scale * A[i, j]


@jit
def add_to_row(A: Floats, i: int, scale: float, a: Floats) -> None:
    """A_i <- A_i + scale a"""
    for j in range(a.shape[0]):
        A[i, j] += scale * a[j]


@jit
def sigmoid(score: float) -> float:
    """1 / (1 + exp(-score)), without overflow."""
    if score >= 0.0:
        return 1.0 / (1.0 + math.exp(-score))
    e = math.exp(score)
    return e / (1.0 + e)


@jit
def quadratic(A: Floats, at: int, z: Floats) -> float:
    """Z' B z, where B is the symmetric block of A from row and column ``at`` on."""
    total = 0.0
    for i in range(z.shape[0]):
        row = 0.5 * A[at + i, at + i] * z[i]
        for j in range(i):
            row += A[at + i, at + j] * z[j]
        total += 2.0 * z[i] * row
    return total


@jit
def downdate(inverse: Floats, b: float, z: Floats, column: Floats) -> None:
    """Turn A^-1 into (A + b z z')^-1 by Sherman and Morrison; ``column`` is work space."""
    m = z.shape[0]
    scale = 1.0
    for i in range(m):
        column[i] = row_dot(inverse, i, z)
        scale += b * column[i] * z[i]
    for i in range(m):
        share = b * column[i] / scale
        for j in range(m):
            inverse[i, j] -= share * column[j]


@jit
def factor(A: Floats) -> float:
    """Write U over the upper part of A = U'U; returns log |A|, or infinity if A is not positive.

    Cholesky, row by row: a sixth of the work of :func:`invert`.
    """
    m, logarithm = A.shape[0], 0.0
    for k in range(m):
        if A[k, k] <= 0.0:
            return math.inf
        logarithm += math.log(A[k, k])
        pivot = 1.0 / math.sqrt(A[k, k])
        for j in range(k, m):
            A[k, j] *= pivot
        for i in range(k + 1, m):
            share = A[k, i]
            for j in range(i, m):
                A[i, j] -= share * A[k, j]
    return logarithm


@jit
def squares_within(U: Floats, b: Floats, x: Floats) -> float:
    """B' A^-1 b, for A = U'U: the sum of squares of x, where U'x = b."""
    total = 0.0
    copy(x, b)
    for k in range(x.shape[0]):
        x[k] /= U[k, k]
        total += x[k] ** 2
        for j in range(k + 1, x.shape[0]):
            x[j] -= x[k] * U[k, j]
    return total


@jit
def invert(A: Floats) -> None:
    """A <- A^-1, for a positive definite A: Gauss and Jordan, who need no pivoting here."""
    m = A.shape[0]
    for k in range(m):
        pivot = 1.0 / A[k, k]
        A[k, k] = 1.0
        for j in range(m):
            A[k, j] *= pivot
        for i in range(m):
            if i != k:
                share = A[i, k]
                A[i, k] = 0.0
                for j in range(m):
                    A[i, j] -= share * A[k, j]
