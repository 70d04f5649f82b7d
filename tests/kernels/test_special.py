from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from bccb.kernels.special import beta_cdf, beta_density, log_beta, normal_cdf

SHAPES = st.floats(-1.0, 6.0).map(lambda exponent: 10.0**exponent)
# All of (0, 1), much of it next to its ends.
PLACES = st.one_of(
    st.floats(1e-12, 1.0 - 1e-12),
    st.floats(-300.0, -1.0).map(lambda exponent: 10.0**exponent),
    st.floats(-15.0, -1.0).map(lambda exponent: 1.0 - 10.0**exponent),
)


@given(SHAPES, SHAPES)
def test_log_beta_is_scipys(a: float, b: float) -> None:
    assert log_beta(a, b) == pytest.approx(special.betaln(a, b), rel=1e-11, abs=1e-8)


@given(PLACES, SHAPES, SHAPES)
def test_distribution_function_of_beta_is_scipys(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-7, abs=1e-280)


@given(st.floats(-8.0, 8.0), SHAPES, SHAPES)
def test_distribution_function_is_scipys_where_the_mass_is(z: float, a: float, b: float) -> None:
    x = float(np.clip(stats.beta.mean(a, b) + z * stats.beta.std(a, b), 1e-12, 1.0 - 1e-12))
    assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-7, abs=1e-280)
    assert -1e-12 <= beta_cdf(x, a, b) <= 1.0 + 1e-12


@given(SHAPES, SHAPES)
def test_distribution_function_is_0_below_the_unit_interval_and_1_above(a: float, b: float) -> None:
    assert [beta_cdf(x, a, b) for x in (-math.inf, -0.5, 0.0)] == [0.0, 0.0, 0.0]
    assert [beta_cdf(x, a, b) for x in (1.0, 1.5, math.inf)] == [1.0, 1.0, 1.0]


@given(PLACES, SHAPES, SHAPES)
def test_density_of_beta_is_scipys(x: float, a: float, b: float) -> None:
    log_density = (a - 1.0) * math.log(x) + (b - 1.0) * math.log1p(-x) - special.betaln(a, b)
    if log_density < 700.0:  # above that it exceeds every float
        assert beta_density(x, a, b, log_beta(a, b)) == pytest.approx(
            math.exp(log_density), rel=1e-7, abs=1e-280
        )


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.0, 5.0), (30.0, 9_000.0), (1e6, 1e6)])
def test_density_of_beta_is_that_of_scipys_distribution(a: float, b: float) -> None:
    for x in stats.beta(a, b).ppf([1e-9, 0.01, 0.5, 0.99, 1.0 - 1e-9]):
        assert beta_density(x, a, b, log_beta(a, b)) == pytest.approx(
            stats.beta.pdf(x, a, b), rel=1e-7
        )


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (7.0, 1.0), (1.0, 7.0), (2.0, 5.0), (1.5, 1.0)])
@pytest.mark.parametrize("x", [-0.5, 0.0, 1.0, 1.5])
def test_density_of_beta_is_finite_at_the_ends_and_0_beyond(x: float, a: float, b: float) -> None:
    assert beta_density(x, a, b, log_beta(a, b)) == pytest.approx(stats.beta.pdf(x, a, b))


@given(st.floats(-37.0, 37.0))
def test_distribution_function_of_the_normal_is_scipys(x: float) -> None:
    assert normal_cdf(x) == pytest.approx(special.ndtr(x), rel=1e-13, abs=1e-300)


@given(st.floats(37.0, allow_nan=False))
def test_distribution_function_of_the_normal_has_its_limits(x: float) -> None:
    assert normal_cdf(x) == 1.0
    assert 0.0 <= normal_cdf(-x) <= 1e-290
