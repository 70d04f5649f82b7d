"""None"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pooled_model import (
    DEFAULTS,
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
from scipy import optimize, special

from bccb.estimators.pooled_logistic import (
    learn_estimator,
    mode,
)
from bccb.estimators.pooled_prior import State, forget
from bccb.types import Floats

# a prior that stays, and a lift that does not depend on the base score: what a batch fit knows
PLAIN = {"prior_strength": 1e9, "optimism": 0.0, "lift_slope": 1e-6}


def copied(state: State) -> State:
    """The same state, with arrays of its own."""
    return State._make(part.copy() if isinstance(part, np.ndarray) else part for part in state)


def prior(d: int, K: int, **changed: float) -> tuple[Floats, Floats]:
    """Mean and variance of the weights."""
    p = {**DEFAULTS, **changed}
    mean = [*[0.0] * (2 * d), -3.0, *([*[0.0] * d, 0.0, p["lift"]] * K)]
    base, varied = p["base_spread"] ** 2 / max(2 * d, 1), p["lift_variation"] ** 2 / max(d, 1)
    lifts = [*[varied] * d, p["lift_slope"] ** 2, p["lift_spread"] ** 2]
    variance = [*[base] * (2 * d), 16.0, *(lifts * K)]
    return np.array(mean), np.array(variance)


def maximum(mean: Floats, precision: Floats, phi: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The maximum of a Gaussian prior times logistic likelihoods, and the precision there."""

    def loss(theta: Floats) -> float:
        eta, off = phi @ theta, theta - mean
        return float(0.5 * off @ precision @ off + np.sum(np.logaddexp(0.0, eta) - y * eta))

    def gradient(theta: Floats) -> Floats:
        return np.asarray(
            precision @ (theta - mean) + (special.expit(phi @ theta) - y) @ phi, np.float64
        )

    def hessian(theta: Floats) -> Floats:
        p = special.expit(phi @ theta)
        return np.asarray(precision + (phi.T * (p * (1.0 - p))) @ phi, np.float64)

    result = optimize.minimize(loss, mean, jac=gradient, hess=hessian, method="trust-exact")
    theta = result.x
    for _ in range(3):  # to the last digit
        theta = theta - np.linalg.solve(hessian(theta), gradient(theta))
    return theta, hessian(theta)


@SHAPES
def test_before_the_first_user_there_is_the_prior(d: int, K: int) -> None:
    changed = {"lift": 0.1, "base_spread": 3.0, "lift_slope": 0.7}
    state = fresh(d, K, **changed)
    mean, variance = prior(d, K, **changed)
    np.testing.assert_array_equal(state.theta, mean)
    np.testing.assert_allclose(state.covariance, np.diag(variance), rtol=1e-15)


@SHAPES
@pytest.mark.parametrize("y", [0.0, 1.0, 0.3])
def test_a_step_goes_to_the_maximum_of_the_exact_posterior(d: int, K: int, y: float) -> None:
    state = fresh(d, K)
    learned = watched(state, *users(40, d, K, seed=d + K))
    for arm in range(K + 1):
        z = np.append(np.random.default_rng(arm).normal(0.0, 3.0, d), 1.0)
        precision = np.asarray(np.linalg.inv(state.covariance), np.float64)
        score = base_score(state, z)
        phi = design(z, arm, K, standardised(score, learned))
        learned.append(score)
        theta, after = maximum(state.theta.copy(), precision, phi[None], np.array([y]))
        learn_estimator(state, z, arm, y, 1.0)
        np.testing.assert_allclose(state.theta, theta, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(state.covariance, np.linalg.inv(after), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("K", [1, 2])
def test_after_many_rows_the_posterior_is_near_that_of_all_rows_at_once(
    K: int, sized: Sized
) -> None:
    d = 3
    rows, arms, outcomes = users(sized(4_000, 2_500), d, K, seed=K)
    state = taught(fresh(d, K, **PLAIN), rows, arms, outcomes)
    mean, variance = prior(d, K, **PLAIN)
    phi = np.array([design(z, arm, K) for z, arm in zip(rows, arms, strict=True)])
    theta, precision = maximum(mean, np.diag(1.0 / variance), phi, outcomes)
    deviation = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert (np.abs(state.theta - theta) < 0.5 * deviation).all()
    np.testing.assert_allclose(np.sqrt(np.diag(state.covariance)), deviation, rtol=0.05)
    grid = np.random.default_rng(9).normal(size=(50, d))
    for x in grid:
        z = np.append(x, 1.0)
        rates = special.expit([design(z, arm, K) @ theta for arm in range(K + 1)])
        np.testing.assert_allclose(predicted(state, z, K)[0], rates[1:] - rates[0], atol=0.01)


def test_effects_are_recovered_in_sign_and_size(sized: Sized) -> None:
    d, K, n = 2, 2, sized(30_000, 4_000)
    # a prior that leaves room for effects as large as these
    state = taught(fresh(d, K, lift_spread=1.0, lift_variation=1.0), *users(n, d, K, seed=3))
    for x in ([0.0, 0.0], [0.8, 0.0], [-0.8, 0.0], [0.0, 0.8], [0.0, -0.8]):
        base = -1.0 + 0.7 * x[1]
        lifts = np.array([0.8, 1.6]) + 0.5 * x[0]
        expected = special.expit(base + lifts) - special.expit(base)
        effect, spread = predicted(state, np.array([*x, 1.0]), K)
        np.testing.assert_allclose(effect, expected, atol=sized(30, 75) / 1_000)
        assert (spread < 0.05).all()


def test_a_harmful_treatment_is_found_to_be_harmful(sized: Sized) -> None:
    rng, n = np.random.default_rng(4), sized(20_000, 4_000)
    arms = rng.integers(0, 2, n)
    outcomes = (rng.random(n) < np.where(arms == 1, 0.05, 0.1)).astype(float)
    state = taught(fresh(0, 1), np.ones((n, 1)), arms, outcomes)
    assert predicted(state, np.ones(1), 1)[0][0] < -0.02


def finite_gradient(state: State, z: Floats, k: int, K: int) -> Floats:
    """The gradient of the effect of treatment k + 1 in v_k, by central differences."""
    q, step = len(z) + 1, 1e-5
    result = np.empty(q)
    for j in range(q):
        sides = []
        for sign in (1.0, -1.0):
            moved = copied(state)
            moved.theta[len(state.theta) - (K - k) * q + j] += sign * step
            sides.append(predicted(moved, z, K)[0][k])
        result[j] = (sides[0] - sides[1]) / (2.0 * step)
    return result


@pytest.mark.parametrize("optimism", [0.0, 1.0])
@pytest.mark.parametrize(("d", "K"), [(0, 1), (3, 1), (2, 2)])
def test_spread_is_that_of_the_difference_from_the_average_effect(
    d: int, K: int, optimism: float
) -> None:
    """The effects of those treated are those of the posterior mean, however hopeful it is."""
    state, q = fresh(d, K, optimism=optimism, lift=1.0), d + 2  # too sure to be doubted
    sober = state._replace(optimism=0.0)  # sees the same arrays
    effects: list[list[float]] = [[] for _ in range(K)]
    gradients: list[list[Floats]] = [[] for _ in range(K)]
    rows, arms, outcomes = users(90, d, K, seed=8)
    for i, (z, arm, y) in enumerate(zip(rows, arms.tolist(), outcomes.tolist(), strict=True)):
        if arm:
            effects[arm - 1].append(predicted(sober, z, K)[0][arm - 1])
            gradients[arm - 1].append(finite_gradient(sober, z, arm - 1, K))
        learn_estimator(state, z, arm, y, 1.0)
        if i % 10 != 9:
            continue
        x = np.append(np.random.default_rng(i).normal(size=d), 1.0)
        effect, spread = predicted(state, x, K)
        for k in range(K):
            g = finite_gradient(state, x, k, K)
            if len(effects[k]) > 10:
                average, slope = np.mean(effects[k]), np.mean(gradients[k], axis=0)
                assert average > 0
                g = g - max(effect[k] / average, 0.0) * slope
            at = 2 * d + 1 + k * q
            block = state.covariance[at : at + q, at : at + q]
            assert spread[k] == pytest.approx(math.sqrt(g @ block @ g), rel=1e-5, abs=1e-9)


def test_a_factor_that_all_effects_share_is_not_explored(sized: Sized) -> None:
    state = fresh(0, 1, **PLAIN)
    taught(state, *users(sized(5_000, 1_500), 0, 1, seed=1, base=-2.0))
    alone = copied(state)
    alone.treated[:] = 0.0  # nobody to compare with
    (shared,), (whole,) = predicted(state, np.ones(1), 1)[1], predicted(alone, np.ones(1), 1)[1]
    assert whole > 0.005
    assert shared < sized(10, 30) / 100 * whole


def test_an_average_effect_below_zero_is_no_factor() -> None:
    state = fresh(1, 1, lift=-1.0)
    taught(state, *users(60, 1, 1, seed=1))
    state.effect[0] = -0.01
    alone = copied(state)
    alone.treated[:] = 0.0
    z = np.array([0.4, 1.0])
    assert predicted(state, z, 1)[1] == predicted(alone, z, 1)[1]


def test_control_rows_say_nothing_of_a_treatment_that_nobody_had() -> None:
    state, before, d, K = fresh(2, 2), fresh(2, 2), 2, 2
    rows, _, outcomes = users(200, d, K, seed=2)
    taught(state, rows, np.zeros(200, np.int64), outcomes)
    m = 2 * d + 1
    np.testing.assert_array_equal(state.theta[m:], before.theta[m:])
    np.testing.assert_array_equal(state.covariance[m:, m:], before.covariance[m:, m:])
    assert (state.theta[:m] != before.theta[:m]).any()
    assert not state.treated.any()


def test_control_rows_move_a_lift_as_far_as_the_covariance_says() -> None:
    d, K, m = 2, 1, 5
    state = taught(fresh(d, K), *users(300, d, K, seed=2))
    theta, S, z = state.theta.copy(), state.covariance.copy(), np.array([0.5, -0.5, 1.0])
    learn_estimator(state, z, 0, 1.0, 1.0)
    moved, phi = state.theta - theta, design(z, 0, K)
    slopes = S[m:] @ phi / (phi @ S @ phi)
    np.testing.assert_allclose(moved[m:], slopes * (phi @ moved), rtol=1e-9, atol=1e-15)
    assert abs(moved[m:]).max() > 0


@SHAPES
def test_forgetting_moves_to_the_prior_before_each_outcome(d: int, K: int) -> None:
    f = 0.01
    state, plain = fresh(d, K, forgetting=f), fresh(d, K)
    mean, variance = prior(d, K)
    for z, arm, y in zip(*users(60, d, K, seed=5), strict=True):
        plain.theta[:] = mean + (1 - f) * (state.theta - mean)
        plain.covariance[:] = (1 - f) ** 2 * state.covariance
        plain.covariance[:] += (1 - (1 - f) ** 2) * np.diag(variance)
        for one in (state, plain):
            learn_estimator(one, z, int(arm), float(y), 1.0)
        np.testing.assert_allclose(state.theta, plain.theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(state.covariance, plain.covariance, rtol=1e-9, atol=1e-12)


def test_without_forgetting_not_even_a_rounding_is_forgotten() -> None:
    state = fresh(0, 1)
    state.theta[:] = 1e-17  # -3 + (1e-17 + 3) would be 0
    learn_estimator(state, np.ones(1), 0, 0.5, 1.0)  # just as expected: nothing to learn
    assert state.theta.tolist() == [1e-17, 1e-17, 1e-17]
    forget(state)
    assert state.theta[0] == 0.0


def test_all_is_forgotten_where_nothing_is_learned() -> None:
    kept = fresh(2, 2, forgetting=0.02, prior_strength=1e9)
    state = taught(kept, *users(200, 2, 2, seed=6))
    mean, variance = prior(2, 2)
    assert abs(state.theta - mean).max() > 0.5
    for _ in range(2_000):
        forget(state)
    np.testing.assert_allclose(state.theta, mean, atol=1e-12)
    np.testing.assert_allclose(state.covariance, np.diag(variance), rtol=1e-8, atol=1e-12)


def test_what_is_forgotten_goes_back_to_the_prior_variances_that_were_learned() -> None:
    state = taught(fresh(2, 2, forgetting=0.02), *users(200, 2, 2, seed=6))
    state.variances[:] = 0.7, 0.7, 0.4
    for _ in range(2_000):
        forget(state)
    changed = {"lift_variation": math.sqrt(2 * 0.7), "lift_slope": math.sqrt(0.4)}
    variance = prior(2, 2, **changed)[1]
    np.testing.assert_allclose(state.covariance, np.diag(variance), rtol=1e-12, atol=1e-12)


def test_a_change_is_followed_where_the_past_is_forgotten(sized: Sized) -> None:
    n = sized(20_000, 8_000)
    arms = np.arange(2 * n) % 2
    rates = np.where(arms == 1, 0.4, 0.2)
    rates[n:] = np.where(arms[n:] == 1, 0.2, 0.4)  # the treatment turns harmful
    outcomes = (np.random.default_rng(7).random(2 * n) < rates).astype(float)
    rows = np.ones((2 * n, 1))
    effects = {}
    for f in (0.0, 5e-4):
        state = taught(fresh(0, 1, forgetting=f, **PLAIN), rows[:n], arms[:n], outcomes[:n])
        assert predicted(state, np.ones(1), 1)[0][0] == pytest.approx(0.2, abs=0.08)
        taught(state, rows[n:], arms[n:], outcomes[n:])
        effects[f] = predicted(state, np.ones(1), 1)[0][0]
    assert effects[5e-4] < -0.08
    assert effects[0.0] > -0.04


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1, 0.5])
def test_one_set_of_defaults_finds_any_rate(rate: float, sized: Sized) -> None:
    rng, n, d = np.random.default_rng(11), sized(40_000, 4_000), 3
    rows = np.column_stack([rng.normal(size=(n, d)), np.ones(n)])
    arms = rng.integers(0, 2, n)
    outcomes = (rng.random(n) < rate).astype(float)
    state = taught(fresh(d, 1, optimism=0.0), rows, arms, outcomes)
    base = [special.expit(state.theta @ design(z, 0, 1)) for z in rows[:400]]
    error = math.sqrt(rate * (1 - rate) / (n / 2))
    assert np.mean(base) == pytest.approx(rate, abs=4.0 * error)
    effects = [predicted(state, z, 1)[0][0] for z in rows[:400]]
    assert abs(np.mean(effects)) < 6.0 * error


def test_fractional_outcomes_are_shares(sized: Sized) -> None:
    n = sized(5_000, 1_000)
    arms = np.arange(n) % 2
    state = taught(fresh(0, 1), np.ones((n, 1)), arms, np.where(arms == 1, 0.35, 0.25))
    assert special.expit(state.theta[0]) == pytest.approx(0.25, abs=0.02)
    assert predicted(state, np.ones(1), 1)[0][0] == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("K", [1, 3])
def test_it_runs_without_features(K: int) -> None:
    state = taught(fresh(0, K), *users(300, 0, K, seed=1))
    effect, spread = predicted(state, np.ones(1), K)
    assert (effect > 0).all()
    assert np.isfinite(spread).all()


@given(
    st.floats(-1e4, 1e4),
    st.one_of(st.just(0.0), st.floats(-12.0, 8.0).map(lambda exponent: 10.0**exponent)),
    st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)),
)
def test_mode_solves_its_equation(eta_0: float, s: float, y: float) -> None:
    def residual(eta: float) -> float:
        return eta - eta_0 - s * (y - float(special.expit(eta)))

    eta = mode(eta_0, s, y, 1.0)
    off = 1e-7 * (1.0 + abs(eta))
    assert residual(eta - off) < 0.0 < residual(eta + off)
