from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from bccb.explorers.posterior_sampling import LAYOUT, State, chance, explore, reserve
from bccb.types import Floats

Sized = Callable[[int, int], int]
INF = math.inf

# margins and spreads of the treatments
CASES: list[tuple[list[float], list[float]]] = [
    ([0.0], [1.0]),
    ([-0.3], [0.2]),
    ([0.001], [0.0004]),
    ([-8.0], [1.0]),
    ([-INF], [1.0]),
    ([0.1], [0.0]),
    ([-0.1], [0.0]),
    ([0.0], [0.0]),
    ([0.0, 0.0], [1.0, 1.0]),
    ([0.1, 0.2], [0.3, 0.1]),
    ([0.1, 0.2], [0.3, 0.0]),
    ([0.1, 0.2], [0.0, 0.3]),
    ([-0.1, -0.2], [0.3, 0.2]),
    ([-INF, 0.2], [0.3, 0.2]),
    ([0.2, -INF], [0.3, 0.2]),
    ([-INF, -INF], [0.3, 0.2]),
    ([0.2, 0.2], [0.0, 0.0]),
    ([0.0, 0.0], [0.0, 0.0]),
    ([0.001, 0.0], [1e-6, 1.0]),
    ([0.0, 0.001], [1.0, 1e-9]),
    ([-0.001, -1e-9], [1e-6, 1e-9]),
    ([5.0, 5.0], [1.0, 1e-7]),
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
    ([0.1, -0.05, 0.2], [0.3, 0.5, 0.05]),
    ([0.1, -INF, 0.2], [0.3, 0.5, 0.0]),
    ([0.2, 0.2, 0.2], [0.0, 0.1, 0.0]),
    ([0.2, 0.2, 0.2], [0.0, 0.0, 0.0]),
    ([0.3, 0.31, 0.305], [1e-5, 1.0, 1e-2]),
]
every_case = pytest.mark.parametrize(("margin", "spread"), CASES)


def bonuses(width: float, spread: list[float], n: int, seed: int = 1) -> Floats:
    bonus = np.full((n, len(spread)), np.nan)
    for number in range(n):
        explore(State(width, 0.0), seed, number, np.array(spread), True, bonus[number])
    return bonus


def chances(margin: list[float], spread: list[float], width: float = 1.0) -> Floats:
    m, s = np.array(margin), np.array(spread)
    actions = range(len(margin) + 1)
    return np.array([chance(State(width, 0.0), m, s, True, action) for action in actions])


def chance_by_quadrature(margin: list[float], spread: list[float], action: int) -> float:
    """P(action) by SciPy: over the score of the action, piece by piece, for spreads above zero."""
    law = [stats.norm(m, s) for m, s in zip(margin, spread, strict=True) if m > -INF]
    if action == 0:
        return float(np.prod([one.cdf(0.0) for one in law]))
    m, s = margin[action - 1], spread[action - 1]
    if m == -INF:
        return 0.0
    others = [
        stats.norm(m, s)
        for k, (m, s) in enumerate(zip(margin, spread, strict=True))
        if k != action - 1 and m > -INF
    ]

    def density(score: float) -> float:
        ahead = math.prod(float(special.ndtr((score - o.mean()) / o.std())) for o in others)
        return math.exp(-0.5 * ((score - m) / s) ** 2) / (s * math.sqrt(2 * math.pi)) * ahead

    steps = (-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0)
    marks = {one.mean() + step * one.std() for one in [*others, stats.norm(m, s)] for step in steps}
    low, high = max(0.0, m - 9.0 * s), max(0.0, m + 9.0 * s)
    ends = sorted({low, high, *(mark for mark in marks if low < mark < high)})
    pieces = itertools.pairwise(ends)
    return sum(integrate.quad(density, a, b, epsabs=1e-13, epsrel=1e-11)[0] for a, b in pieces)


@every_case
def test_chance_is_the_share_over_many_decisions(
    margin: list[float], spread: list[float], sized: Sized
) -> None:
    n = sized(40_000, 500)
    scores = np.column_stack([np.zeros(n), np.array(margin) + bonuses(1.0, spread, n)])
    # of equal ones the first is taken
    shares = np.bincount(scores.argmax(axis=1), minlength=len(margin) + 1) / n
    for share, p in zip(shares, chances(margin, spread), strict=True):
        assert abs(share - p) <= 4.0 * math.sqrt(p * (1.0 - p) / n) + 1.0 / n


@pytest.mark.parametrize(("margin", "spread"), [case for case in CASES if min(case[1]) > 0])
def test_chance_is_scipys_integral(margin: list[float], spread: list[float]) -> None:
    actions = range(len(margin) + 1)
    expected = [chance_by_quadrature(margin, spread, action) for action in actions]
    np.testing.assert_allclose(chances(margin, spread), expected, rtol=1e-7, atol=1e-10)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    """Margins and spreads of up to twelve orders of magnitude, some equal, some zero."""
    K = draw(st.integers(1, 4))
    sizes = st.one_of(st.just(0.0), st.floats(-12.0, 0.0).map(lambda exponent: 10.0**exponent))
    gaps = st.one_of(st.just(-INF), st.just(0.1), sizes, sizes.map(lambda size: -size))
    return [draw(gaps) for _ in range(K)], [draw(sizes) for _ in range(K)]


@pytest.mark.parametrize("width", [5e-324, 7.3e-310, 1e-200, 1e-90])
def test_a_width_next_to_nothing_gives_numbers(width: float) -> None:
    for margin in ([0.1, 0.2, -0.1], [-1.0, 1e-300, 0.0], [0.3, 0.3, 0.3], [1.0, -INF, 1.0]):
        for spread in ([0.1, 1e-9, 1.0], [0.0, 1e-160, 3.0], [1.0, 1.0, 1.0]):
            p = chances(margin, spread, width)
            assert ((p >= 0.0) & (p <= 1.0)).all()
            assert p.sum() == pytest.approx(1.0, abs=1e-8)
    assert np.isfinite(bonuses(width, [1.0, 1e-300], 3)).all()


@pytest.mark.compiled
@pytest.mark.parametrize("orders", [0.0, 3.0, 9.0])
def test_chances_of_a_hundred_treatments_are_the_shares_of_draws(orders: float) -> None:
    K, n = 100, 20_000
    rng = np.random.default_rng(1)
    spread = 0.01 * 10.0 ** -rng.uniform(0.0, orders, K)
    margin = rng.normal(-0.01, 0.01, K) * (spread / spread.max())
    scores = np.column_stack([np.zeros(n), rng.normal(margin, spread, (n, K))])
    shares = np.bincount(scores.argmax(axis=1), minlength=K + 1) / n
    p = chances(margin.tolist(), spread.tolist())
    assert p.sum() == pytest.approx(1.0, abs=1e-8)
    assert (np.abs(p - shares) <= 5.0 * np.sqrt(p * (1.0 - p) / n) + 1.0 / n).all()


@given(situations())
def test_chances_of_all_actions_sum_to_1(situation: tuple[list[float], list[float]]) -> None:
    p = chances(*situation)
    assert ((p >= 0.0) & (p <= 1.0)).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-8)
    assert not p[1:][np.isinf(situation[0])].any()


@given(situations())
def test_the_order_of_treatments_does_not_matter(
    situation: tuple[list[float], list[float]],
) -> None:
    margin, spread = situation
    sure = [m for m, s in zip(margin, spread, strict=True) if s == 0]
    if len(set(sure)) < len(sure):
        return  # a tie: the first is taken
    forth, back = chances(margin, spread), chances(margin[::-1], spread[::-1])
    np.testing.assert_allclose(forth[1:], back[:0:-1], atol=1e-9)


def test_what_cannot_be_afforded_leaves_the_others_as_they_were() -> None:
    with_it, without = chances([0.1, -INF], [0.2, 0.3]), chances([0.1], [0.2])
    np.testing.assert_allclose(with_it, [*without, 0.0], atol=1e-12)


def test_of_equal_treatments_without_spread_the_first_is_taken() -> None:
    assert chances([0.2, 0.2, 0.1], [0.0, 0.0, 0.0]).tolist() == [0.0, 1.0, 0.0, 0.0]
    assert chances([0.0, 0.0], [0.0, 0.0]).tolist() == [1.0, 0.0, 0.0]


def test_width_scales_the_spread_in_draws_and_chances() -> None:
    spread = [0.2, 0.5]
    narrow, scaled = bonuses(0.25, spread, 50), bonuses(1.0, [0.05, 0.125], 50)
    np.testing.assert_allclose(narrow, scaled, rtol=1e-14)
    np.testing.assert_allclose(
        chances([0.1, 0.0], spread, 0.25), chances([0.1, 0.0], [0.05, 0.125]), rtol=1e-12
    )
    assert not bonuses(0.0, spread, 50).any()
    assert chances([0.1, 0.2], spread, 0.0).tolist() == [0.0, 0.0, 1.0]


def test_draws_are_normal_and_those_of_the_treatments_independent(sized: Sized) -> None:
    spread = [0.2, 5.0, 1e-6]
    drawn = bonuses(0.5, spread, sized(50_000, 1_000)) / (0.5 * np.array(spread))
    for column in drawn.T:
        assert stats.kstest(column, "norm").pvalue > 1e-4
    correlation = np.atleast_2d(np.corrcoef(drawn.T))[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 4.5 / math.sqrt(len(drawn))


def test_draws_are_a_function_of_seed_number_and_treatment() -> None:
    one, two, again = (bonuses(1.0, [1.0, 1.0], 50, seed=seed) for seed in (1, 2, 1))
    np.testing.assert_array_equal(one, again)
    assert len(np.unique([one, two])) == 200


def test_the_memory_holds_width_and_reserve() -> None:
    state = LAYOUT.view(np.array([0.25, 0.01]), 3, 2)
    assert (state.width, reserve(state)) == (0.25, 0.01)
