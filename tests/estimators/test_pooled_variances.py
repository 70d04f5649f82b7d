"""The prior variances of the pooled model: learned, followed, and left alone."""

from __future__ import annotations

import numpy as np
import pytest
from pooled_model import DEFAULTS, SHAPES, Sized, fresh, predicted, taught, users
from scipy import special

from bccb.estimators import pooled_prior
from bccb.estimators.pooled_logistic import learn_estimator
from bccb.estimators.pooled_prior import AT_ONCE, State, learn_variances, outcomes_between
from bccb.types import Floats, Ints


def weights(d: int, K: int) -> list[int]:
    """Where the weights of features and of the base score are, by treatment."""
    starts = 2 * d + 1 + (d + 2) * np.arange(K)
    return [int(start) + place for start in starts for place in range(d + 1)]


def learn_all_variances(state: State) -> int:
    """One look at the variances, until all weights follow them; the number of calls."""
    state.step[0], calls = 0.0, 0
    while state.step[0] < state.variances.size:
        learn_variances(state, state.base[0])
        calls += 1
    return calls


@SHAPES
@pytest.mark.parametrize("strength", [1e-3, 5.0])
def test_the_posterior_follows_the_prior_variances(d: int, K: int, strength: float) -> None:
    """The precision has the prior's exchanged for the new one's; its product with the mean stays.

    Prior means of these weights are 0, so that what the prior adds to that product is 0, too.
    """
    state = taught(fresh(d, K, prior_strength=strength), *users(300, d, K, seed=d + 4))
    for _ in range(3):
        theta, S = state.theta.copy(), state.covariance.copy()
        old = state.variances.ravel().copy()
        expected = []
        for which, i in enumerate(weights(d, K)):
            default = DEFAULTS["lift_slope"] ** 2
            if which % (d + 1) < d:
                default = DEFAULTS["lift_variation"] ** 2 / d
            expected.append((strength * default + theta[i] ** 2 + S[i, i]) / (strength + 1.0))
            precision = np.linalg.inv(S)
            product = precision @ theta
            precision[i, i] += 1.0 / expected[which] - 1.0 / old[which]
            S = np.asarray(np.linalg.inv(precision), np.float64)
            theta = S @ product
        assert learn_all_variances(state) == 1
        np.testing.assert_allclose(state.variances.ravel(), expected, rtol=1e-8)
        np.testing.assert_allclose(state.theta, theta, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(state.covariance, S, rtol=1e-7, atol=1e-10)
        assert np.linalg.eigvalsh(state.covariance).min() > 0.0
        assert (state.variances.ravel() != old).all()


@pytest.mark.parametrize("strength", [1e-6, 5.0])
def test_where_nothing_was_learned_the_prior_stays(strength: float) -> None:
    """Weights of mean 0 that vary as much as the prior says are what it expects."""
    state, before = (fresh(3, 2, prior_strength=strength) for _ in range(2))
    learn_all_variances(state)
    for mine, other in zip(state[8:11], before[8:11], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


@pytest.mark.parametrize(
    ("K", "every"),
    [(1, 100), (4, 8 * 4 * 4), pytest.param(40, 500, marks=pytest.mark.compiled)],
)
def test_variances_are_learned_more_seldom_where_there_are_many(K: int, every: int) -> None:
    state, changed = fresh(3, K), []
    before = state.variances.copy()
    for i, (z, arm, y) in enumerate(zip(*users(1_100, 3, K, seed=1), strict=True)):
        learn_estimator(state, z, int(arm), float(y), 1.0)
        if (state.variances[0] != before[0]).any():
            changed.append(i + 1)
        before = state.variances.copy()
    assert changed == list(range(every, 1_101, every))


def test_a_wide_model_follows_the_variances_some_weights_at_a_time(
    sized: Sized, monkeypatch: pytest.MonkeyPatch
) -> None:
    d, K = sized(8, 2), sized(40, 30)
    state = fresh(d, K)
    most = sized(AT_ONCE, 2 * len(state.theta) ** 2)  # so that a narrow one counts as wide
    monkeypatch.setattr(pooled_prior, "AT_ONCE", most)  # compiled code keeps its own
    every, left = outcomes_between(state), []
    assert every == 500
    for z, arm, y in zip(*users(550, d, K, seed=1), strict=True):
        learn_estimator(state, z, int(arm), float(y), 1.0)
        left.append(state.variances.size - state.step[0])
    assert left[498] == 0  # nothing was due before
    steps = -np.diff(left[499:])
    at_once = state.variances.size - left[499]
    assert 0 < at_once * len(state.theta) ** 2 <= most
    assert at_once < state.variances.size
    assert (steps[:-1] <= at_once).all()
    assert left[-1] == 0


def varied(n: int, slopes: Floats, seed: int) -> tuple[Floats, Ints, Floats]:
    """Users whose lift is 0.5 + slopes . z within +-1, and whose base rate is the same for all."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.normal(size=(n, len(slopes))), np.ones(n)])
    arms = rng.integers(0, 2, n)
    eta = -1.0 + arms * (0.5 + np.clip(rows[:, :-1], -1.0, 1.0) @ slopes)
    return rows, arms, (rng.random(n) < special.expit(eta)).astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_that_matters_widens_its_own_prior_and_no_other(seed: int, sized: Sized) -> None:
    n, slopes = sized(20_000, 6_000), np.array([0.9, 0.0, 0.0, 0.0])
    default = DEFAULTS["lift_variation"] ** 2 / 4
    learned = taught(fresh(4, 1), *varied(n, slopes, seed)).variances[0]
    assert learned[0] > 20.0 * default
    assert (learned[1:4] < 3.0 * default).all()  # they are learned with an error, which counts


def test_a_wider_prior_lets_weights_go_where_the_data_say(sized: Sized) -> None:
    n, slopes = sized(6_000, 3_000), np.array([0.9, -0.9, 0.6, -0.6])
    errors = {}
    for strength in (1.0, 1e9):
        state = taught(fresh(4, 1, prior_strength=strength), *varied(n, slopes, 1))
        errors[strength] = np.abs(state.theta[-6:-2] - slopes).mean()
    assert errors[1.0] < errors[1e9]


def test_a_strong_prior_is_not_changed() -> None:
    state = taught(fresh(4, 1, prior_strength=1e9), *varied(1_500, np.full(4, 0.9), 1))
    defaults = [*np.full(4, DEFAULTS["lift_variation"] ** 2 / 4), DEFAULTS["lift_slope"] ** 2]
    np.testing.assert_allclose(state.variances, [defaults], rtol=1e-6)


AWKWARD = {
    "defaults": DEFAULTS,
    "wide": {"base_spread": 1e3, "lift_spread": 1e3, "lift_variation": 1e3, "lift_slope": 1e3},
    "quick to learn variances": {"prior_strength": 1e-6},
    "forgetting": {"forgetting": 1e-4},
}


@pytest.mark.compiled
@pytest.mark.parametrize("kind", AWKWARD)
def test_covariance_stays_symmetric_and_positive_definite(kind: str) -> None:
    n, d, K = 50_000, 6, 2
    rng = np.random.default_rng(12)
    z = np.column_stack([rng.normal(size=(n, d)), np.ones(n)])
    z[:, 1] = 0.0  # constant
    z[:, 2] = z[:, 3] = z[:, 0]  # the same thrice
    z[:, 4] *= np.where(rng.random(n) < 0.01, 1e6, 1.0)  # outliers
    z[:, 5] = 1e250 * (rng.random(n) < 0.001)  # seldom anything
    arms = rng.integers(0, K + 1, n)
    outcomes = (rng.random(n) < special.expit(-3.0 + z[:, 0] + 0.3 * arms)).astype(float)
    state = taught(fresh(d, K, **AWKWARD[kind]), z, arms, outcomes)
    S = state.covariance
    scale = np.sqrt(np.diag(S))
    correlation = S / np.outer(scale, scale)
    assert np.abs(correlation - correlation.T).max() < 1e-6
    assert np.linalg.eigvalsh(0.5 * (S + S.T)).min() > 0.0
    assert np.isfinite(state.theta).all()
    for row in z[:1_000]:
        effect, spread = predicted(state, row, K)
        assert np.isfinite([effect, spread]).all()
