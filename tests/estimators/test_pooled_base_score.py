"""The base score of the pooled model, its standard form, and the optimism about a lift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pooled_model import (
    SHAPES,
    Sized,
    base_score,
    design,
    fresh,
    predicted,
    standardised,
    taught,
    users,
    watched,
)
from scipy import special

from bccb.estimators.pooled_logistic import (
    MEMORY,
    hold_slopes,
    learn_estimator,
    note_base,
)
from bccb.estimators.pooled_prior import State
from bccb.types import Floats


def shown(state: State, z: Floats) -> float:
    """What stands for the base score in r."""
    predicted(state, z, len(state.treated))
    assert state.r[-1] == 1.0
    np.testing.assert_array_equal(state.r[:-2], np.clip(z[:-1], -1.0, 1.0))
    return float(state.r[-2])


@SHAPES
def test_the_base_score_is_standardised_by_those_learned_so_far(d: int, K: int) -> None:
    state, learned, seen = fresh(d, K), list[float](), set[float]()
    rows, arms, outcomes = users(150, d, K, seed=3)
    rows[::7, :-1] *= 10.0  # so that some are clamped
    for z, arm, y in zip(rows, arms.tolist(), outcomes.tolist(), strict=True):
        score = base_score(state, z)
        expected = standardised(score, learned)
        assert shown(state, z) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        learned.append(score)
        learn_estimator(state, z, arm, y, 1.0)
        seen.add(expected)
    assert state.base.tolist() == pytest.approx([150, np.mean(learned), np.var(learned)])
    assert d == 0 or max(map(abs, seen)) == 2.0
    assert any(0.0 < abs(score) < 2.0 for score in seen)


def test_the_base_score_is_0_while_it_has_nothing_to_be_compared_with() -> None:
    state, z = fresh(2, 1), np.array([3.0, -1.0, 1.0])
    state.theta[:2] = 1.0, -1.0
    assert shown(state, z) == 0.0
    learn_estimator(state, z, 1, 1.0, 1.0)  # one score does not vary
    assert shown(state, -z) == 0.0
    learn_estimator(state, z, 1, 1.0, 1.0)
    assert shown(state, np.array([-3.0, 1.0, 1.0])) == -2.0


def test_predicting_does_not_change_what_base_scores_are_compared_with() -> None:
    state = taught(fresh(2, 1), *users(50, 2, 1, seed=3))
    before = state.base.copy()
    for z in users(20, 2, 1, seed=4)[0]:
        predicted(state, z, 1)
    np.testing.assert_array_equal(state.base, before)


def test_base_scores_are_averaged_over_the_memory() -> None:
    n, state = 5_000, fresh(0, 1)
    scores = np.random.default_rng(0).normal(-3.0, 2.0, n) + np.arange(n) / n
    for score in scores.tolist():
        note_base(state, score, 1.0)
    late = np.maximum(np.arange(1, n + 1) - MEMORY, 0.0)
    weights = (1.0 - 1.0 / MEMORY) ** (late[-1] - late) / MEMORY
    assert weights.sum() == pytest.approx(1.0)
    mean = weights @ scores
    assert state.base.tolist() == pytest.approx([n, mean, weights @ (scores - mean) ** 2])


def test_who_converts_anyway_is_found_to_be_moved_less(sized: Sized) -> None:
    """A lift of 1.2 for the middle one, and less by 0.6 for each deviation of the base score."""
    n, rng = sized(20_000, 4_000), np.random.default_rng(5)
    rows = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    arms = rng.integers(0, 2, n)
    score = (rows[:, 0] + rows[:, 1]) / math.sqrt(2.0)
    eta = -1.0 + score + arms * (1.2 - 0.6 * np.clip(score, -2.0, 2.0))
    outcomes = (rng.random(n) < special.expit(eta)).astype(float)
    state = taught(fresh(2, 1, lift_variation=1e-6), rows, arms, outcomes)
    assert state.theta[-2] == pytest.approx(-0.6, abs=sized(20, 35) / 100)


@pytest.mark.parametrize("optimism", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("lift", [-2.0, 0.0, 0.3])
@pytest.mark.parametrize(("d", "K"), [(0, 1), (3, 1), (2, 2)])
def test_tau_is_that_of_a_lift_higher_by_optimism(
    d: int, K: int, lift: float, optimism: float
) -> None:
    state = fresh(d, K, optimism=optimism, lift=lift)
    learned = watched(state, *users(120, d, K, seed=2))
    error = np.sqrt(np.diag(state.covariance))
    for z in users(20, d, K, seed=9)[0]:
        base = base_score(state, z)
        score = standardised(base, learned)
        expected = []
        for arm in range(1, K + 1):
            at = 2 * d + arm * (d + 2)  # the last of the arm's block
            doubt = 3.0 * (error[at] - max(state.theta[at], 0.0))
            more = optimism * max(error[at], doubt)
            eta = design(z, arm, K, score) @ state.theta + more
            expected.append(special.expit(eta) - special.expit(base))
        np.testing.assert_allclose(predicted(state, z, K)[0], expected, rtol=1e-9, atol=1e-12)


def test_optimism_changes_nothing_of_what_is_learned() -> None:
    sober, hopeful = (
        taught(fresh(2, 2, optimism=o), *users(600, 2, 2, seed=2)) for o in (0.0, 3.0)
    )
    for mine, other in zip(sober[8:], hopeful[8:], strict=True):
        np.testing.assert_array_equal(mine, other)


def test_hope_fades_as_the_lift_becomes_known(sized: Sized) -> None:
    gaps, z = [], np.ones(1)
    state = fresh(0, 1, lift_slope=1e-6)
    for seed in range(2):
        taught(state, *users(sized(4_000, 1_500) if seed else 20, 0, 1, seed=seed))
        gaps.append(
            predicted(state, z, 1)[0][0] - predicted(state._replace(optimism=0.0), z, 1)[0][0]
        )
    assert gaps[0] > 0.02
    assert 0.0 < gaps[1] < 0.6 * gaps[0]


@pytest.mark.parametrize("K", [1, 2, 3])
def test_a_correction_leaves_the_slopes_on_the_base_score_alone(K: int) -> None:
    state = taught(fresh(2, K), *users(600, 2, K, seed=3))
    m, q = len(state.u), len(state.r)
    slopes = [m + k * q + 2 for k in range(K)]
    step = state.covariance @ np.random.default_rng(1).normal(size=len(state.theta))
    column = step.copy()
    hold_slopes(state.covariance, column, m, q)
    np.testing.assert_allclose(column[slopes], 0.0, atol=1e-12 * abs(step).max())
    S = state.covariance  # the nearest such step, in the metric of the posterior
    gone = S[:, slopes] @ np.linalg.solve(S[np.ix_(slopes, slopes)], step[slopes])
    np.testing.assert_allclose(column, step - gone, rtol=1e-9, atol=1e-12)
