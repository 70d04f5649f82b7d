from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from bccb.explorers.beta_difference import (
    BETA_DIFFERENCE,
    LAYOUT,
    State,
    chance,
    explore,
    learn_explorer,
    reach,
    start,
)
from bccb.types import Floats

Sized = Callable[[int, int], int]
INF = math.inf
LEAST_P = 1e-4
KNOWN = (1e18, 3e18)  # a posterior that leaves no doubt: 0.25

# eta, the margins of the treatments, and (alpha, beta) of each arm, the control first
CASES = [
    (1.0, [0.0], [(1, 1), (1, 1)]),
    (1.0, [-0.3], [(1, 1), (1, 1)]),
    (0.1, [0.002], [(3, 3_000), (30, 9_000)]),
    (0.1, [-0.0001], [(30, 9_000), (30, 9_000)]),
    (1.0, [-0.001], [(30, 9_000), (30, 9_000)]),
    (1.0, [0.0], [(1, 1), (300, 90_000)]),
    (1.0, [0.0], [(3_000, 1), (2_990, 2)]),
    (0.5, [-0.02], [(1.25, 4.5), (2.75, 3.0)]),
    (1.0, [-INF], [(2, 3), (4, 5)]),
    (1.0, [-2.0], [(2, 3), (4, 5)]),
    (0.5, [0.6], [(2, 3), (4, 5)]),
    (1.0, [0.0, 0.0], [(1, 1), (1, 1), (1, 1)]),
    (1.0, [-0.1, -0.2], [(2, 5), (4, 5), (3, 3)]),
    (0.1, [-0.0002, 0.0001], [(30, 9_000), (30, 9_000), (4, 900)]),
    (1.0, [-INF, 0.001], [(30, 9_000), (2, 2), (30, 9_000)]),
    (1.0, [-INF, -INF], [(30, 9_000), (2, 2), (30, 9_000)]),
    (0.2, [0.01, -0.02, 0.0], [(2, 9), (3, 8), (5, 5), (1, 2)]),
    (1.0, [0.0, -INF, -0.001], [(1, 3_000), (1, 9), (3, 3_000), (30, 9_000)]),
    (1.0, [-0.5, -0.4, -0.6], [(9, 2), (3, 8), (5, 5), (1, 2)]),
    (0.0, [0.1, 0.2], [(2, 3), (2, 3), (2, 3)]),
    (0.0, [-0.1, -INF], [(2, 3), (2, 3), (2, 3)]),
]


def state_of(eta: float, arms: list[tuple[float, float]]) -> State:
    alpha, beta = np.array(arms, np.float64).T.copy()
    return State(eta, alpha, beta)


def bonuses(state: State, n: int, seed: int = 1) -> Floats:
    K = len(state.alpha) - 1
    bonus = np.full((n, K), np.nan)
    for number in range(n):
        explore(state, seed, number, np.zeros(K), True, bonus[number])
    return bonus


def chances(state: State, margin: list[float]) -> Floats:
    K = len(margin)
    return np.array([chance(state, np.array(margin), np.zeros(K), True, a) for a in range(K + 1)])


def chance_by_quadrature(state: State, margin: list[float], action: int) -> float:
    """P(action) by SciPy, over theta_0 for leaving alone and over the action's own draw else."""
    m = [0.0, *margin]
    if m[action] == -INF:
        return 0.0
    laws = [stats.beta(a, b) for a, b in zip(state.alpha, state.beta, strict=True)]
    others = [j for j in range(len(m)) if j != action and m[j] > -INF]

    def density(u: float) -> float:
        rest = [laws[j].cdf(u + (m[action] - m[j]) / state.eta) for j in others]
        return float(laws[action].pdf(u) * np.prod(rest))

    levels = [0.0, 1e-12, 1e-6, 1e-3, 0.05, 0.5, 0.95, 0.999, 1.0 - 1e-6, 1.0]
    edges = [laws[j].ppf(levels) - (m[action] - m[j]) / state.eta for j in (*others, action)]
    cuts = np.unique(np.clip(np.concatenate(edges), 0.0, 1.0))
    pieces = [
        integrate.quad(density, low, high, epsabs=1e-11, epsrel=1e-9)[0]
        for low, high in itertools.pairwise(cuts)
        if high - low > 1e-15
    ]
    return float(sum(pieces))


def test_posteriors_start_uniform() -> None:
    memory = np.zeros(BETA_DIFFERENCE.layout.size(3, 2))
    memory[0] = 0.1
    start(memory, 3, 2)
    state = LAYOUT.view(memory, 3, 2)
    assert state.eta == 0.1
    assert state.alpha.tolist() == state.beta.tolist() == [1.0, 1.0, 1.0]


def test_outcomes_move_the_posterior_of_their_arm_alone() -> None:
    state = state_of(1.0, [(1, 1), (1, 1), (1, 1)])
    for arm, y in ((1, 1.0), (1, 0.0), (1, 0.0), (2, 0.25), (2, 0.5)):
        learn_explorer(state, arm, y, 1.0)
    assert state.alpha.tolist() == [1.0, 2.0, 1.75]
    assert state.beta.tolist() == [1.0, 3.0, 2.25]


@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 3_000), (30, 9_000), (2.5, 1.25)])
def test_treated_draw_follows_the_posterior(a: float, b: float, sized: Sized) -> None:
    state = state_of(1.0, [KNOWN, (a, b)])
    theta = bonuses(state, sized(50_000, 1_000))[:, 0] + 0.25
    assert stats.kstest(theta, stats.beta(a, b).cdf).pvalue > LEAST_P


@pytest.mark.parametrize(("a", "b"), [(1, 1), (30, 9_000)])
def test_control_draw_follows_the_posterior_and_is_taken_off(
    a: float, b: float, sized: Sized
) -> None:
    state = state_of(1.0, [(a, b), KNOWN])
    theta = 0.25 - bonuses(state, sized(50_000, 1_000))[:, 0]
    assert stats.kstest(theta, stats.beta(a, b).cdf).pvalue > LEAST_P


def test_moments_of_the_bonus_are_those_of_a_difference(sized: Sized) -> None:
    state, n = state_of(1.0, [(2, 6), (3, 5), (8, 4)]), sized(100_000, 3_000)
    bonus = bonuses(state, n)
    laws = [stats.beta(a, b) for a, b in zip(state.alpha, state.beta, strict=True)]
    covariance = np.cov(bonus.T)
    for k in (1, 2):
        variance = laws[k].var() + laws[0].var()
        error = abs(bonus[:, k - 1].mean() - laws[k].mean() + laws[0].mean())
        assert error < 4.0 * math.sqrt(variance / n)
        assert covariance[k - 1, k - 1] == pytest.approx(variance, rel=6.0 / math.sqrt(n))
    # all treatments are compared with one and the same draw of the control
    assert covariance[0, 1] == pytest.approx(laws[0].var(), rel=12.0 / math.sqrt(n))


def test_eta_scales_the_same_draws() -> None:
    arms = [(2.0, 6.0), (3.0, 5.0), (8.0, 4.0)]
    whole, tenth = (bonuses(state_of(eta, arms), 50) for eta in (1.0, 0.1))
    np.testing.assert_allclose(tenth, 0.1 * whole, rtol=1e-14)
    assert not bonuses(state_of(0.0, arms), 50).any()


def test_bonus_is_a_function_of_seed_and_number() -> None:
    state = state_of(1.0, [(2, 6), (3, 5)])
    one, two, again = (bonuses(state, 50, seed=seed) for seed in (1, 2, 1))
    np.testing.assert_array_equal(one, again)
    assert len(np.unique([one, two])) == 100


@pytest.mark.parametrize(("eta", "margin", "arms"), CASES)
def test_chance_is_the_share_over_many_decisions(
    eta: float, margin: list[float], arms: list[tuple[float, float]], sized: Sized
) -> None:
    state, n = state_of(eta, arms), sized(40_000, 500)
    scores = np.column_stack([np.zeros(n), np.array(margin) + bonuses(state, n)])
    shares = np.bincount(scores.argmax(axis=1), minlength=len(arms)) / n
    for share, p in zip(shares, chances(state, margin), strict=True):
        # a share near 0 moves in steps of 1 / n
        assert abs(share - p) <= 4.0 * math.sqrt(p * (1.0 - p) / n) + 1.0 / n


@pytest.mark.parametrize(("eta", "margin", "arms"), [case for case in CASES if case[0] > 0])
def test_chance_is_scipys_integral(
    eta: float, margin: list[float], arms: list[tuple[float, float]]
) -> None:
    state = state_of(eta, arms)
    expected = [chance_by_quadrature(state, margin, action) for action in range(len(arms))]
    np.testing.assert_allclose(chances(state, margin), expected, rtol=1e-6, atol=2e-8)


@st.composite
def situations(draw: st.DrawFn) -> tuple[State, list[float]]:
    """Posteriors after up to a million users, and margins on the scale of the draws."""
    K = draw(st.integers(1, 3))
    arms = []
    for _ in range(K + 1):
        users, rate = 10.0 ** draw(st.floats(0.0, 6.0)) - 1.0, draw(st.floats(0.0, 1.0))
        arms.append((1.0 + users * rate, 1.0 + users * (1.0 - rate)))
    eta = draw(st.sampled_from([1.0, 0.1, 0.01]))
    gaps = st.one_of(st.floats(-1.2, 1.2), st.floats(-1e-3, 1e-3), st.just(-INF))
    return state_of(eta, arms), [eta * draw(gaps) for _ in range(K)]


@pytest.mark.parametrize("margin", [1e-10, 1e-11, 1e-12, 1e-13, 1e-15, 1e-300])
@pytest.mark.parametrize("arms", [[(1, 1), (1, 1)], [(7, 1), (3, 1), (1, 1)], [(1, 9), (1, 1)]])
def test_chances_are_numbers_where_a_margin_is_next_to_nothing(
    margin: float, arms: list[tuple[float, float]]
) -> None:
    for sign in (-1.0, 1.0):
        p = chances(state_of(1.0, arms), [sign * margin] * (len(arms) - 1))
        assert ((p > 0.0) & (p < 1.0)).all()
        assert p.sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.compiled
@pytest.mark.parametrize("users", [0, 30, 3_000])
def test_chances_of_a_hundred_treatments_are_the_shares_of_draws(users: int) -> None:
    K, n = 100, 20_000
    rng = np.random.default_rng(users)
    conversions = rng.binomial(users, 0.05, K + 1)
    state = state_of(1.0, [(1.0 + c, 1.0 + users - c) for c in conversions.tolist()])
    margin = -0.01 * rng.uniform(0.0, 1.0, K)
    theta = rng.beta(state.alpha, state.beta, (n, K + 1)) + np.concatenate([[0.0], margin])
    shares = np.bincount(theta.argmax(axis=1), minlength=K + 1) / n
    p = chances(state, margin.tolist())
    assert p.sum() == pytest.approx(1.0, abs=1e-6)
    assert (np.abs(p - shares) <= 5.0 * np.sqrt(p * (1.0 - p) / n) + 1.0 / n).all()


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 50), (50, 1), (2.5, 900), (1e4, 1e6), (1e7, 3)])
def test_next_to_nothing_lies_beyond_the_reach(a: float, b: float) -> None:
    mean = a / (a + b)
    assert stats.beta.sf(mean + reach(a, b), a, b) < 1e-15
    assert stats.beta.cdf(mean - reach(b, a), a, b) < 1e-15
    assert reach(a, b) < 60.0 * stats.beta.std(a, b)


@given(situations())
def test_chances_of_all_actions_sum_to_1(situation: tuple[State, list[float]]) -> None:
    p = chances(*situation)
    assert ((p >= 0.0) & (p <= 1.0)).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-6)


def test_equal_treatments_have_equal_chances() -> None:
    p = chances(state_of(0.1, [(5, 50), (3, 40), (3, 40)]), [0.001, 0.001])
    assert p[1] == pytest.approx(p[2], rel=1e-12)


def test_what_cannot_be_afforded_is_never_chosen_and_leaves_the_others_as_they_were() -> None:
    arms = [(5.0, 50.0), (3.0, 40.0), (9.0, 20.0)]
    with_it = chances(state_of(0.1, arms), [0.001, -INF])
    without = chances(state_of(0.1, arms[:2]), [0.001])
    np.testing.assert_allclose(with_it, [*without, 0.0], atol=1e-9)


def test_without_weight_the_best_margin_is_certain() -> None:
    arms = [(1.0, 1.0)] * 3
    assert chances(state_of(0.0, arms), [0.1, 0.2]).tolist() == [0.0, 0.0, 1.0]
    assert chances(state_of(0.0, arms), [-0.1, -INF]).tolist() == [1.0, 0.0, 0.0]
