"""A pooled model to test: fresh, taught, and what it says of users."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from bccb.estimators.pooled_logistic import (
    MEMORY,
    POOLED_LOGISTIC,
    learn_estimator,
    predict,
)
from bccb.estimators.pooled_prior import LAYOUT, State
from bccb.types import Floats, Ints

Sized = Callable[[int, int], int]


DEFAULTS = {key: parameter.default for key, parameter in POOLED_LOGISTIC.parameters.items()}


SHAPES = pytest.mark.parametrize(("d", "K"), [(0, 1), (1, 1), (3, 1), (3, 2), (0, 3)])


def fresh(d: int, K: int, **parameters: float) -> State:
    memory = np.zeros(LAYOUT.size(d, K))
    memory[: len(DEFAULTS)] = list({**DEFAULTS, **parameters}.values())
    assert POOLED_LOGISTIC.start is not None
    POOLED_LOGISTIC.start(memory, d, K)
    return LAYOUT.view(memory, d, K)


def users(n: int, d: int, K: int, seed: int, base: float = -1.0) -> tuple[Floats, Ints, Floats]:
    """Rows that end in 1, arms, and outcomes of the model itself: v_k = 0.8 k + 0.5 z_0."""
    rng = np.random.default_rng(seed)
    z = np.column_stack([rng.normal(size=(n, d)), np.ones(n)])
    arms = rng.integers(0, K + 1, n)
    eta = np.full(n, base) + 0.8 * arms
    if d:
        eta += 0.7 * z[:, d - 1] + 0.5 * (arms > 0) * np.clip(z[:, 0], -1.0, 1.0)
    return z, arms, (rng.random(n) < special.expit(eta)).astype(float)


def taught(state: State, rows: Floats, arms: Ints, outcomes: Floats) -> State:
    for z, arm, y in zip(rows, arms.tolist(), outcomes.tolist(), strict=True):
        learn_estimator(state, z, arm, y, 1.0)
    return state


def predicted(state: State, z: Floats, K: int) -> tuple[Floats, Floats]:
    effect, spread = np.full(K, np.nan), np.full(K, np.nan)
    assert predict(state, z, effect, spread)
    return effect, spread


def design(z: Floats, arm: int, K: int, score: float = 0.0) -> Floats:
    """phi: u, then r in the block of the arm, with a base score that is standardised already."""
    x = z[:-1]
    near = np.clip(x, -1.0, 1.0)
    r = np.array([*near, score, 1.0])
    blocks = [r if k == arm else np.zeros_like(r) for k in range(1, K + 1)]
    return np.concatenate([np.clip(x, -5.0, 5.0), 1.5 * near, [1.0], *blocks])


def base_score(state: State, z: Floats) -> float:
    """w . u"""
    u = design(z, 0, 0)
    return float(state.theta[: len(u)] @ u)


def standardised(score: float, learned: list[float]) -> float:
    """A base score among those learned so far, fewer than are remembered."""
    assert len(learned) <= MEMORY
    deviation = float(np.std(learned)) if learned else 0.0
    if deviation == 0.0:
        return 0.0
    return float(np.clip((score - np.mean(learned)) / deviation, -2.0, 2.0))


def watched(state: State, rows: Floats, arms: Ints, outcomes: Floats) -> list[float]:
    """Teach it: the base scores that it had when it learned."""
    scores = []
    for z, arm, y in zip(rows, arms.tolist(), outcomes.tolist(), strict=True):
        scores.append(base_score(state, z))
        learn_estimator(state, z, arm, y, 1.0)
    return scores
