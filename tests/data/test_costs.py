"""Costs belong to rows and follow the paper's model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bccb.data.costs import constant, lognormal
from bccb.errors import InputError
from bccb.money import MICROS


@given(
    users=st.integers(1, 400),
    more=st.integers(0, 400),
    treatments=st.integers(1, 4),
    seed=st.integers(0, 2**40),
)
def test_a_row_costs_the_same_whatever_the_number_of_users(
    users: int, more: int, treatments: int, seed: int
) -> None:
    short, long = lognormal(users, treatments, seed), lognormal(users + more, treatments, seed)
    assert short.shape == (users, treatments)
    np.testing.assert_array_equal(short, long[:users])


def test_costs_follow_the_clipped_lognormal_of_the_paper() -> None:
    costs = lognormal(200_000, 1)[:, 0] / MICROS
    assert costs.min() == 0.05
    assert costs.max() == 5.0
    model = stats.lognorm(s=0.7, scale=np.exp(-0.5))
    inside = costs[(costs > 0.05) & (costs < 5.0)]
    low, high = model.cdf(0.05), model.cdf(5.0)
    assert stats.kstest(inside, lambda x: (model.cdf(x) - low) / (high - low)).pvalue > 0.001
    assert np.mean(costs == 5.0) == pytest.approx(1 - high, abs=5e-4)


def test_treatments_have_costs_of_their_own_and_seeds_differ() -> None:
    costs = lognormal(1000, 2)
    assert abs(np.asarray(np.corrcoef(costs.T))[0, 1]) < 0.1
    assert not np.array_equal(costs, lognormal(1000, 2, seed=1))


def test_constant_costs_have_the_given_value() -> None:
    np.testing.assert_array_equal(constant(3, 2, 0.25), np.full((3, 2), 250_000))


@pytest.mark.parametrize("cost", [0.0, -1.0, 1e6 + 1, float("nan"), float("inf")])
def test_a_constant_cost_out_of_range_is_refused(cost: float) -> None:
    with pytest.raises(InputError, match=r"^cost is .*, but must be (at least|a finite)"):
        constant(3, 1, cost)


@pytest.mark.parametrize(
    ("users", "treatments", "seed", "message"),
    [
        (0, 1, 0, "users is 0, but must be a whole number from 1 to"),
        (3, 0, 0, "treatments is 0, but must be a whole number from 1 to"),
        (3, 1, -1, "seed is -1, but must be a whole number from 0 to"),
    ],
)
def test_counts_and_seeds_out_of_range_are_refused(
    users: int, treatments: int, seed: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        lognormal(users, treatments, seed)
