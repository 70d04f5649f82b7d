from __future__ import annotations

import numpy as np
import pytest

from bccb.estimators.ridge_pair import LAYOUT, RIDGE_PAIR, State, learn_estimator, predict, start
from bccb.types import Floats, Ints


def fresh(d: int, K: int, ridge: float) -> State:
    memory = np.zeros(RIDGE_PAIR.layout.size(d, K))
    memory[0] = ridge
    start(memory, d, K)
    return LAYOUT.view(memory, d, K)


def rows(n: int, d: int, K: int) -> tuple[Floats, Ints, Floats]:
    rng = np.random.default_rng(10 * d + K)
    z = np.column_stack([rng.normal(size=(n, d)), np.ones(n)])
    return z, rng.integers(0, K + 1, n), rng.random(n)


@pytest.mark.parametrize("ridge", [1.0, 0.01, 50.0])
@pytest.mark.parametrize(("d", "K"), [(0, 1), (1, 1), (12, 1), (4, 2)])
def test_effect_and_width_are_the_closed_form_of_ridge(d: int, K: int, ridge: float) -> None:
    state, (z, arms, y) = fresh(d, K, ridge), rows(400, d, K)
    for i in range(400):
        learn_estimator(state, z[i], int(arms[i]), y[i], 1.0)
    gram = [z[arms == a].T @ z[arms == a] + ridge * np.eye(d + 1) for a in range(K + 1)]
    theta = [np.linalg.solve(gram[a], z[arms == a].T @ y[arms == a]) for a in range(K + 1)]
    np.testing.assert_allclose(state.theta, theta, rtol=1e-9, atol=1e-11)
    effect, spread = np.empty(K), np.empty(K)
    for user in z[:20]:
        assert predict(state, user, effect, spread)
        width = [user @ np.linalg.solve(gram[a], user) for a in range(K + 1)]
        for k in range(K):
            assert effect[k] == pytest.approx((theta[k + 1] - theta[0]) @ user, abs=1e-11)
            assert spread[k] == pytest.approx(np.sqrt(width[k + 1] + width[0]), rel=1e-9)


def test_before_any_outcome_the_width_is_the_priors() -> None:
    state, z = fresh(2, 1, ridge=4.0), np.array([3.0, 4.0, 1.0])
    effect, spread = np.empty(1), np.empty(1)
    assert predict(state, z, effect, spread)
    assert effect[0] == 0.0
    assert spread[0] == pytest.approx(np.sqrt(2.0 * 26.0 / 4.0))


def test_learning_one_arm_leaves_the_others() -> None:
    state = fresh(1, 2, ridge=1.0)
    learn_estimator(state, np.array([2.0, 1.0]), 1, 1.0, 1.0)
    for arm in (0, 2):
        assert not state.theta[arm].any()
        np.testing.assert_array_equal(state.inverse[arm], np.eye(2))
    assert state.theta[1].any()


def test_width_stays_right_over_a_long_run_of_one_user() -> None:
    """Collinear and far from the origin, where rounding could turn a square negative."""
    state, z = fresh(2, 1, ridge=1.0), np.array([1e3, 1e3, 1.0])
    effect, spread = np.empty(1), np.empty(1)
    for i in range(1, 501):
        learn_estimator(state, z, i % 2, 1.0, 1.0)
        predict(state, z, effect, spread)
        widths = [z @ z / (1.0 + n * (z @ z)) for n in ((i + 1) // 2, i // 2)]
        assert spread[0] == pytest.approx(np.sqrt(sum(widths)), rel=1e-5)
