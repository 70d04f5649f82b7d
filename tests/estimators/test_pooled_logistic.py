from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

from bccb.estimators import pooled_prior
from bccb.estimators.pooled_logistic import (
    MEMORY,
    POOLED_LOGISTIC,
    learn_estimator,
    mode,
    note_base,
    predict,
)
from bccb.estimators.pooled_prior import AT_ONCE, EVERY, LAYOUT, State, forget, learn_variances
from bccb.types import Floats, Ints

Sized = Callable[[int, int], int]
DEFAULTS = {key: parameter.default for key, parameter in POOLED_LOGISTIC.parameters.items()}
# a prior that stays, and a lift that does not depend on the base score: what a batch fit knows
PLAIN = {"prior_strength": 1e9, "optimism": 0.0, "lift_slope": 1e-6}
SHAPES = pytest.mark.parametrize(("d", "K"), [(0, 1), (1, 1), (3, 1), (3, 2), (0, 3)])


def fresh(d: int, K: int, **parameters: float) -> State:
    memory = np.zeros(LAYOUT.size(d, K))
    memory[: len(DEFAULTS)] = list({**DEFAULTS, **parameters}.values())
    assert POOLED_LOGISTIC.start is not None
    POOLED_LOGISTIC.start(memory, d, K)
    return LAYOUT.view(memory, d, K)


def copied(state: State) -> State:
    """The same state, with arrays of its own."""
    return State._make(part.copy() if isinstance(part, np.ndarray) else part for part in state)


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


def told(state: State, z: Floats, K: int) -> tuple[Floats, Floats]:
    effect, spread = np.full(K, np.nan), np.full(K, np.nan)
    assert predict(state, z, effect, spread)
    return effect, spread


# The model once more, in NumPy


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

    found = optimize.minimize(loss, mean, jac=gradient, hess=hessian, method="trust-exact")
    theta = found.x
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
        np.testing.assert_allclose(told(state, z, K)[0], rates[1:] - rates[0], atol=0.01)


def test_effects_are_recovered_in_sign_and_size(sized: Sized) -> None:
    d, K, n = 2, 2, sized(30_000, 4_000)
    # a prior that leaves room for effects as large as these
    state = taught(fresh(d, K, lift_spread=1.0, lift_variation=1.0), *users(n, d, K, seed=3))
    for x in ([0.0, 0.0], [0.8, 0.0], [-0.8, 0.0], [0.0, 0.8], [0.0, -0.8]):
        base = -1.0 + 0.7 * x[1]
        lifts = np.array([0.8, 1.6]) + 0.5 * x[0]
        expected = special.expit(base + lifts) - special.expit(base)
        effect, spread = told(state, np.array([*x, 1.0]), K)
        np.testing.assert_allclose(effect, expected, atol=sized(30, 75) / 1_000)
        assert (spread < 0.05).all()


def test_a_harmful_treatment_is_found_to_be_harmful(sized: Sized) -> None:
    rng, n = np.random.default_rng(4), sized(20_000, 4_000)
    arms = rng.integers(0, 2, n)
    outcomes = (rng.random(n) < np.where(arms == 1, 0.05, 0.1)).astype(float)
    state = taught(fresh(0, 1), np.ones((n, 1)), arms, outcomes)
    assert told(state, np.ones(1), 1)[0][0] < -0.02


def finite_gradient(state: State, z: Floats, k: int, K: int) -> Floats:
    """The gradient of the effect of treatment k + 1 in v_k, by central differences."""
    q, step = len(z) + 1, 1e-5
    found = np.empty(q)
    for j in range(q):
        sides = []
        for sign in (1.0, -1.0):
            moved = copied(state)
            moved.theta[len(state.theta) - (K - k) * q + j] += sign * step
            sides.append(told(moved, z, K)[0][k])
        found[j] = (sides[0] - sides[1]) / (2.0 * step)
    return found


@pytest.mark.parametrize("optimism", [0.0, 1.0])
@pytest.mark.parametrize(("d", "K"), [(0, 1), (3, 1), (2, 2)])
def test_spread_is_that_of_the_difference_from_the_average_effect(
    d: int, K: int, optimism: float
) -> None:
    """The effects of those treated are those of the posterior mean, however hopeful it is."""
    state, q = fresh(d, K, optimism=optimism), d + 2
    sober = state._replace(optimism=0.0)  # sees the same arrays
    effects: list[list[float]] = [[] for _ in range(K)]
    gradients: list[list[Floats]] = [[] for _ in range(K)]
    rows, arms, outcomes = users(90, d, K, seed=8)
    for i, (z, arm, y) in enumerate(zip(rows, arms.tolist(), outcomes.tolist(), strict=True)):
        if arm:
            effects[arm - 1].append(told(sober, z, K)[0][arm - 1])
            gradients[arm - 1].append(finite_gradient(sober, z, arm - 1, K))
        learn_estimator(state, z, arm, y, 1.0)
        if i % 10 != 9:
            continue
        x = np.append(np.random.default_rng(i).normal(size=d), 1.0)
        effect, spread = told(state, x, K)
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
    (shared,), (whole,) = told(state, np.ones(1), 1)[1], told(alone, np.ones(1), 1)[1]
    assert whole > 0.005
    assert shared < sized(10, 30) / 100 * whole


def test_an_average_effect_below_zero_is_no_factor() -> None:
    state = fresh(1, 1, lift=-1.0)
    taught(state, *users(60, 1, 1, seed=1))
    state.effect[0] = -0.01
    alone = copied(state)
    alone.treated[:] = 0.0
    z = np.array([0.4, 1.0])
    assert told(state, z, 1)[1] == told(alone, z, 1)[1]


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
    state = taught(fresh(2, 2, forgetting=0.02), *users(200, 2, 2, seed=6))
    mean, variance = prior(2, 2)
    assert abs(state.theta - mean).max() > 0.5
    for _ in range(2_000):
        forget(state)
    np.testing.assert_allclose(state.theta, mean, atol=1e-12)
    np.testing.assert_allclose(state.covariance, np.diag(variance), rtol=1e-12, atol=1e-12)


def test_what_is_forgotten_goes_back_to_the_prior_variances_that_were_learned() -> None:
    state = taught(fresh(2, 2, forgetting=0.02), *users(200, 2, 2, seed=6))
    state.variances[:] = 0.7, 0.4
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
        assert told(state, np.ones(1), 1)[0][0] == pytest.approx(0.2, abs=0.08)
        taught(state, rows[n:], arms[n:], outcomes[n:])
        effects[f] = told(state, np.ones(1), 1)[0][0]
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
    effects = [told(state, z, 1)[0][0] for z in rows[:400]]
    assert abs(np.mean(effects)) < 6.0 * error


def test_fractional_outcomes_are_shares(sized: Sized) -> None:
    n = sized(5_000, 1_000)
    arms = np.arange(n) % 2
    state = taught(fresh(0, 1), np.ones((n, 1)), arms, np.where(arms == 1, 0.35, 0.25))
    assert special.expit(state.theta[0]) == pytest.approx(0.25, abs=0.02)
    assert told(state, np.ones(1), 1)[0][0] == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("K", [1, 3])
def test_it_runs_without_features(K: int) -> None:
    state = taught(fresh(0, K), *users(300, 0, K, seed=1))
    effect, spread = told(state, np.ones(1), K)
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


# The base score


def shown(state: State, z: Floats) -> float:
    """What stands for the base score in r."""
    told(state, z, len(state.treated))
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
        told(state, z, 1)
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


# Optimism


@pytest.mark.parametrize("optimism", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize(("d", "K"), [(0, 1), (3, 1), (2, 2)])
def test_tau_is_told_for_a_lift_higher_by_optimism(d: int, K: int, optimism: float) -> None:
    state = fresh(d, K, optimism=optimism)
    learned = watched(state, *users(120, d, K, seed=2))
    error = np.sqrt(np.diag(state.covariance))
    for z in users(20, d, K, seed=9)[0]:
        base = base_score(state, z)
        score = standardised(base, learned)
        expected = []
        for arm in range(1, K + 1):
            constant = error[2 * d + arm * (d + 2)]  # the last of the arm's block
            eta = design(z, arm, K, score) @ state.theta + optimism * constant
            expected.append(special.expit(eta) - special.expit(base))
        np.testing.assert_allclose(told(state, z, K)[0], expected, rtol=1e-9, atol=1e-12)


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
        gaps.append(told(state, z, 1)[0][0] - told(state._replace(optimism=0.0), z, 1)[0][0])
    assert gaps[0] > 0.02
    assert 0.0 < gaps[1] < 0.6 * gaps[0]


# The prior variances


def groups(d: int, K: int) -> list[Ints]:
    """Where the weights of features are, and those of the base score."""
    starts = 2 * d + 1 + (d + 2) * np.arange(K)
    features = (starts[:, None] + np.arange(d)).ravel()
    return [features, starts + d]


def learn_all_variances(state: State, at_once: int = 1_000) -> None:
    """One look at the variances, until all weights follow them."""
    state.step[0] = 0.0
    weights = len(state.treated) * (len(state.r) - 1)
    for _ in range(0, weights, at_once):
        learn_variances(state, at_once)
    assert state.step[0] == weights


@SHAPES
@pytest.mark.parametrize("strength", [1e-3, 5.0])
@pytest.mark.parametrize("at_once", [1, 3, 1_000])
def test_the_posterior_follows_the_prior_variances(
    d: int, K: int, strength: float, at_once: int
) -> None:
    """The precision has the prior's exchanged for the new one's; its product with the mean stays.

    Prior means of these weights are 0, so that what the prior adds to that product is 0, too.
    """
    state = taught(fresh(d, K, prior_strength=strength), *users(300, d, K, seed=d + 4))
    for _ in range(3):
        theta, S = state.theta.copy(), state.covariance.copy()
        old = state.variances.copy()
        expected = []
        defaults = DEFAULTS["lift_variation"] ** 2 / max(d, 1), DEFAULTS["lift_slope"] ** 2
        for group, where in enumerate(groups(d, K)):
            n = len(where)
            if n == 0:
                expected.append(old[group])
                continue
            among = np.sum(theta[where] ** 2 + np.diag(S)[where])
            expected.append((strength * n * defaults[group] + among) / (strength * n + n))
            precision = np.linalg.inv(S)
            product = precision @ theta
            precision[where, where] += 1.0 / expected[group] - 1.0 / old[group]
            S = np.asarray(np.linalg.inv(precision), np.float64)
            theta = S @ product
        learn_all_variances(state, at_once)
        np.testing.assert_allclose(state.variances, expected, rtol=1e-10)
        np.testing.assert_allclose(state.theta, theta, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.covariance, S, rtol=1e-8, atol=1e-11)
        assert np.linalg.eigvalsh(state.covariance).min() > 0.0
        assert (state.variances != old)[[d > 0, True]].all()


@pytest.mark.parametrize("strength", [1e-6, 5.0])
def test_where_nothing_was_learned_the_prior_stays(strength: float) -> None:
    """Weights of mean 0 that vary as much as the prior says are what it expects."""
    state, before = (fresh(3, 2, prior_strength=strength) for _ in range(2))
    learn_all_variances(state)
    for mine, other in zip(state[8:11], before[8:11], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_variances_are_learned_every_500_outcomes() -> None:
    state, changed = fresh(2, 1), []
    before = state.variances.copy()
    for i, (z, arm, y) in enumerate(zip(*users(1_600, 2, 1, seed=1), strict=True)):
        learn_estimator(state, z, int(arm), float(y), 1.0)
        if (state.variances != before).any():
            changed.append(i + 1)
        before = state.variances.copy()
    assert changed == [500, 1_000, 1_500]
    assert EVERY == 500


def test_a_wide_model_follows_the_variances_some_weights_at_a_time(
    sized: Sized, monkeypatch: pytest.MonkeyPatch
) -> None:
    d, K = sized(8, 2), sized(40, 3)
    state = fresh(d, K)
    most = sized(AT_ONCE, 2 * len(state.theta) ** 2)  # so that a narrow one counts as wide
    monkeypatch.setattr(pooled_prior, "AT_ONCE", most)  # compiled code keeps its own
    weights, left = K * (d + 1), []
    for z, arm, y in zip(*users(540, d, K, seed=1), strict=True):
        learn_estimator(state, z, int(arm), float(y), 1.0)
        left.append(weights - state.step[0])
    assert left[498] == 0  # nothing was due before
    steps = -np.diff(left[499:])
    at_once = weights - left[499]
    assert 0 < at_once * len(state.theta) ** 2 <= most
    assert at_once < weights
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
def test_weights_that_really_vary_widen_the_prior_and_others_do_not(
    seed: int, sized: Sized
) -> None:
    n, slopes = sized(20_000, 4_000), np.array([0.9, -0.9, 0.6, -0.6])
    default = DEFAULTS["lift_variation"] ** 2 / 4
    learned = {}
    for kind, share in (("same", 0.0), ("varied", 1.0)):
        state = taught(fresh(4, 1, prior_strength=1.0), *varied(n, share * slopes, seed))
        learned[kind] = state.variances[0]
    assert learned["varied"] > 5.0 * default
    assert learned["same"] < 1.1 * default


def test_a_wider_prior_lets_weights_go_where_the_data_say(sized: Sized) -> None:
    n, slopes = sized(6_000, 3_000), np.array([0.9, -0.9, 0.6, -0.6])
    errors = {}
    for strength in (1.0, 1e9):
        state = taught(fresh(4, 1, prior_strength=strength), *varied(n, slopes, 1))
        errors[strength] = np.abs(state.theta[-6:-2] - slopes).mean()
    assert errors[1.0] < errors[1e9]


def test_a_strong_prior_is_not_changed() -> None:
    state = taught(fresh(4, 1, prior_strength=1e9), *varied(1_500, np.full(4, 0.9), 1))
    defaults = [DEFAULTS["lift_variation"] ** 2 / 4, DEFAULTS["lift_slope"] ** 2]
    np.testing.assert_allclose(state.variances, defaults, rtol=1e-6)


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
        effect, spread = told(state, row, K)
        assert np.isfinite([effect, spread]).all()
