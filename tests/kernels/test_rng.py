from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bccb.kernels.rng import (
    EDGE,
    GOLDEN,
    HEIGHT,
    LAYER_AREA,
    TAIL,
    beta,
    gamma,
    key_of,
    mix,
    normal,
    uniform,
)
from bccb.types import Floats

Sized = Callable[[int, int], int]
BITS = (1 << 64) - 1
WORDS = st.integers(0, BITS)
LEAST_P = 1e-4  # fixed seeds: a test below this is wrong, not unlucky


def splitmix(z: int) -> int:
    """SplitMix64's output function, in whole numbers."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & BITS
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & BITS
    return z ^ (z >> 31)


def unmixed(z: int) -> int:
    """The number that ``mix`` turns into z."""
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        whole = z
        for _ in range(64 // shift + 1):
            whole = z ^ (whole >> shift)
        z = whole * pow(factor, -1, 1 << 64) & BITS
    return z


def key_at(seed: int, number: int, lane: int) -> np.uint64:
    return np.uint64(key_of(seed, number, lane))  # compiled code hands back a Python int


@cache
def keys(n: int, seed: int = 1, lane: int = 0) -> list[np.uint64]:
    return [key_at(seed, number, lane) for number in range(n)]


def uniforms(n: int, seed: int = 1, lane: int = 0, draw: int = 0) -> Floats:
    return np.array([uniform(key, draw) for key in keys(n, seed, lane)])


def assert_drawn_from(law: Any, x: Floats) -> None:
    """The whole distribution, then the mean and the variance to within 4 standard errors."""
    assert stats.kstest(x, law.cdf).pvalue > LEAST_P
    mean, variance, kurtosis = (float(m) for m in law.stats(moments="mvk"))
    n = len(x)
    assert abs(x.mean() - mean) < 4.0 * math.sqrt(variance / n)
    error_of_variance = variance * math.sqrt((kurtosis + 2.0) / n)
    assert abs(((x - mean) ** 2).mean() - variance) < 4.0 * error_of_variance


def test_mix_gives_the_published_outputs_of_splitmix64_seeded_with_zero() -> None:
    expected = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
    for k, output in enumerate(expected, start=1):
        assert int(mix(np.uint64(k * int(GOLDEN) & BITS))) == output


@given(WORDS)
def test_mix_is_splitmix64_on_all_words(z: int) -> None:
    assert int(mix(np.uint64(z))) == splitmix(z)
    assert int(mix(np.uint64(unmixed(z)))) == z


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**62), st.integers(0, 1_000))
def test_key_mixes_seed_then_number_then_lane(seed: int, number: int, lane: int) -> None:
    golden = int(GOLDEN)
    z = splitmix(seed + golden & BITS)
    z = splitmix(z ^ (number * golden & BITS))
    assert int(key_of(seed, number, lane)) == splitmix(z + lane * golden & BITS)


@given(WORDS, st.integers(0, 1_000))
def test_uniform_is_the_midpoint_of_one_of_two_to_the_52_cells(key: int, draw: int) -> None:
    cell = splitmix(key + draw * int(GOLDEN) & BITS) >> 12
    assert uniform(np.uint64(key), draw) == (2 * cell + 1) / 2**53


def test_uniform_is_never_0_and_never_1() -> None:
    assert uniform(np.uint64(unmixed(0)), 0) == 2.0**-53
    assert uniform(np.uint64(unmixed(BITS)), 0) == 1.0 - 2.0**-53


def test_draws_depend_on_seed_decision_lane_and_draw_alone(sized: Sized) -> None:
    places = list(itertools.product((0, 7), range(sized(50, 5)), range(3), range(3)))
    forwards = {p: uniform(key_at(*p[:3]), p[3]) for p in places}
    shuffled = [places[i] for i in np.random.default_rng(0).permutation(len(places))]
    for place in shuffled:
        normal(key_at(99, place[1], 0), 0)  # other draws in between change nothing
        assert uniform(key_at(*place[:3]), place[3]) == forwards[place]
    assert len(set(forwards.values())) == len(places)


def test_no_two_of_many_keys_are_equal(sized: Sized) -> None:
    n = sized(20_000, 200)
    results = {
        int(key_of(seed, number, lane))
        for seed in (0, 1, 2, 2**63 - 1)
        for number in range(n)
        for lane in range(3)
    }
    assert len(results) == 4 * n * 3


def test_uniforms_are_uniform(sized: Sized) -> None:
    assert_drawn_from(stats.uniform(), uniforms(sized(200_000, 2_000)))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"lane": 0}, {"lane": 1}),
        ({"lane": 1}, {"lane": 2}),
        ({"draw": 0}, {"draw": 1}),
        ({"seed": 1}, {"seed": 2}),
        ({"seed": 0}, {"seed": 2**32}),
        ({"lane": 1, "draw": 0}, {"lane": 0, "draw": 1}),
    ],
    ids=str,
)
def test_lanes_draws_and_seeds_are_independent(
    one: dict[str, int], two: dict[str, int], sized: Sized
) -> None:
    n = sized(100_000, 5_000)
    assert_independent(uniforms(n, **one), uniforms(n, **two))


@pytest.mark.parametrize("lag", [1, 2, 64])
def test_consecutive_decisions_are_independent(lag: int, sized: Sized) -> None:
    u = uniforms(sized(100_000, 5_000))
    assert_independent(u[lag:], u[:-lag])


def assert_independent(u: Floats, v: Floats) -> None:
    assert abs(np.corrcoef(u, v)[0, 1]) < 4.0 / math.sqrt(len(u))
    for bits in (0, 30):  # the three highest bits, and three in the middle
        cell_u, cell_v = ((w * 2.0**bits % 1.0 * 8.0).astype(int) for w in (u, v))
        table = np.bincount(cell_u * 8 + cell_v, minlength=64)
        assert stats.chisquare(table).pvalue > LEAST_P


def test_all_layers_of_the_ziggurat_have_the_same_area() -> None:
    upper = EDGE[1:256] * (HEIGHT[2:] - HEIGHT[1:256])
    np.testing.assert_allclose(upper, LAYER_AREA, rtol=1e-9)
    tail = math.sqrt(2.0 * math.pi) * stats.norm.sf(TAIL)
    assert math.isclose(TAIL * HEIGHT[1] + tail, LAYER_AREA, rel_tol=1e-9)
    assert EDGE[0] * HEIGHT[1] == pytest.approx(LAYER_AREA, rel=1e-12)


def test_normals_are_standard_normal(sized: Sized) -> None:
    x = np.array([normal(key, 0)[0] for key in keys(sized(300_000, 2_000))])
    assert_drawn_from(stats.norm(), x)
    assert abs((x**3).mean()) < 4.0 * math.sqrt(15.0 / len(x))
    assert abs((x**4).mean() - 3.0) < 4.0 * math.sqrt(96.0 / len(x))


def test_normals_reach_beyond_the_last_layer_as_often_as_they_should(sized: Sized) -> None:
    n = sized(300_000, 2_000)
    beyond = sum(abs(normal(key, 0)[0]) > TAIL for key in keys(n, seed=3))
    expected = n * 2.0 * stats.norm.sf(TAIL)
    assert abs(beyond - expected) < 4.0 * math.sqrt(expected)


def test_normals_beyond_the_last_layer_follow_the_normal_tail(sized: Sized) -> None:
    # the lowest layer, at a place to the right of TAIL, under either sign
    least = math.ceil(TAIL / EDGE[0] * 2**52)
    cells = np.linspace(least, 2**52 - 1, sized(20_000, 500)).astype(np.uint64)
    x = np.empty(len(cells))
    for i, cell in enumerate(cells):
        sign = i % 2
        key = unmixed((int(cell) << 12) | (sign << 8))
        x[i] = normal(np.uint64(key), 0)[0] * (1 if sign else -1)
    assert x.min() > TAIL
    assert stats.kstest(x, lambda v: 1.0 - stats.norm.sf(v) / stats.norm.sf(TAIL)).pvalue > LEAST_P


def test_normals_that_follow_each_other_in_one_key_are_independent(sized: Sized) -> None:
    first, second = np.empty((2, sized(50_000, 1_000)))
    for i, key in enumerate(keys(len(first))):
        first[i], draw = normal(key, 0)
        second[i], _ = normal(key, draw)
    assert stats.kstest(second, "norm").pvalue > LEAST_P
    assert_independent(stats.norm.cdf(first), stats.norm.cdf(second))


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5, 500.0, 20_000.0])
def test_gammas_follow_their_law(shape: float, sized: Sized) -> None:
    n = sized(1_000_000 if shape < 100.0 else 200_000, 3_000)  # sees 1 % of the shape
    x = np.array([gamma(key, 0, shape)[0] for key in keys(n)])
    assert_drawn_from(stats.gamma(shape), x)


def test_gamma_tells_the_next_free_draw(sized: Sized) -> None:
    n = sized(50_000, 500)
    first, second = np.empty((2, n))
    for i, key in enumerate(keys(n)):
        first[i], draw = gamma(key, 0, 0.7)
        second[i], _ = gamma(key, draw, 3.0)
    assert_drawn_from(stats.gamma(3.0), second)
    assert_independent(stats.gamma(0.7).cdf(first), stats.gamma(3.0).cdf(second))


@pytest.mark.parametrize(
    ("a", "b"),
    [(1.0, 1.0), (1.0, 50.0), (1.5, 2.25), (3.0, 3_000.0), (30.0, 9_000.0), (4_000.0, 2.0)],
)
def test_betas_follow_their_law(a: float, b: float, sized: Sized) -> None:
    x = np.array([beta(key, a, b) for key in keys(sized(200_000, 2_000))])
    assert 0.0 < x.min() <= x.max() < 1.0
    assert_drawn_from(stats.beta(a, b), x)
