"""The outcome model knows the past alone, and is a plain logistic regression of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from bccb import Log
from bccb.evaluate.coverage import simulate_decisions
from bccb.evaluate.outcome_model import outcome_rates, predict
from bccb.types import Floats

LOG = simulate_decisions(3_200, seed=5)
BLOCKS = [0, 200, 400, 800, 1_600, 3_200]


def newton(features: Floats, outcomes: Floats) -> Floats:
    """Weights of the regression with the penalty |w|^2 / 2, the intercept last and free."""
    x = np.column_stack((features, np.ones(len(features))))
    penalty = np.append(np.ones(features.shape[1]), 0.0)
    w = np.zeros(x.shape[1])
    for _ in range(50):
        rate = 1 / (1 + np.exp(-x @ w))
        slope = x.T @ (rate - outcomes) + penalty * w
        curvature = (x.T * (rate * (1 - rate))) @ x + np.diag(penalty)
        w -= np.linalg.solve(curvature, slope)
    return w


@pytest.mark.parametrize("fractions", [False, True])
def test_rates_are_those_of_a_penalised_logistic_regression(fractions: bool) -> None:
    generator = np.random.default_rng(1)
    features = generator.normal(5.0, 2.0, (400, 3))
    scores = (features - features.mean(axis=0)) / features.std(axis=0)
    outcomes = (generator.random(400) < 1 / (1 + np.exp(-scores[:, 0]))).astype(np.float64)
    if fractions:
        outcomes = 0.2 + 0.5 * outcomes
    w = newton(scores, outcomes)
    expected = 1 / (1 + np.exp(-(scores @ w[:-1] + w[-1])))
    np.testing.assert_allclose(predict(features, outcomes, features), expected, atol=1e-3)


@pytest.mark.parametrize(("start", "end"), list(pairwise(BLOCKS)))
def test_rates_of_a_block_depend_on_the_rows_before_it_alone(start: int, end: int) -> None:
    rates = outcome_rates(LOG)
    changed = LOG.outcomes.copy()
    changed[start:] = 1 - changed[start:]
    again = outcome_rates(replace(LOG, outcomes=changed))
    np.testing.assert_array_equal(rates[:end], again[:end])
    assert end == LOG.users or (rates[end:] != again[end:]).any()


def test_an_arm_with_few_conversions_gets_their_mean() -> None:
    outcomes = np.zeros(100)
    outcomes[:9] = 1.0
    features = np.random.default_rng(1).normal(size=(100, 2))
    assert predict(features, outcomes, features[:3]).tolist() == [0.09] * 3
    assert predict(features, 1 - outcomes, features[:3]).tolist() == [0.91] * 3


def test_a_log_without_features_or_with_constant_ones_has_rates() -> None:
    bare = replace(LOG, features=np.zeros((LOG.users, 0)), feature_names=())
    constant = replace(LOG, features=np.ones((LOG.users, 1)), feature_names=())
    for arm in (0, 1):
        past = LOG.outcomes[:1_600][LOG.actions[:1_600] == arm]
        for log in (bare, constant):
            assert outcome_rates(log)[-1, arm] == pytest.approx(past.mean(), abs=1e-3)


def test_an_arm_that_the_past_does_not_have_and_a_short_log_have_the_rate_0() -> None:
    late = replace(LOG, actions=(np.arange(LOG.users) >= 1_600).astype(np.int64))
    assert not outcome_rates(late)[:, 1].any()
    short = Log(np.zeros((3, 1)), np.array([0, 1, 0]), np.zeros(3), np.full((3, 1), 10**6))
    assert not outcome_rates(short).any()
