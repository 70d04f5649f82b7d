from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from bccb.explorers.coin import FORCE, chance, explore
from bccb.kernels.slots import Nothing
from bccb.types import Floats

STATE = Nothing(np.empty(0))
Sized = Callable[[int, int], int]


def bonuses(n: int, K: int, ready: bool, seed: int = 4) -> Floats:
    bonus = np.full((n, K), np.nan)
    for number in range(n):
        explore(STATE, seed, number, np.zeros(K), ready, bonus[number])
    return bonus


def chances(margin: list[float], ready: bool) -> list[float]:
    K = len(margin)
    return [chance(STATE, np.array(margin), np.zeros(K), ready, a) for a in range(K + 1)]


@pytest.mark.parametrize("K", [1, 2, 3])
def test_coin_names_every_action_equally_often_in_warm_up(K: int, sized: Sized) -> None:
    n = sized(50_000, 2_000)
    bonus = bonuses(n, K, ready=False)
    assert set(np.unique(bonus)) == {-FORCE, FORCE}
    treated = (bonus > 0).sum(axis=0)
    counts = np.array([n - treated.sum(), *treated])
    assert ((bonus > 0).sum(axis=1) <= 1).all()
    assert (np.abs(counts - n / (K + 1)) < 4.0 * math.sqrt(n * K) / (K + 1)).all()


def test_nothing_is_added_after_warm_up() -> None:
    assert not bonuses(100, 2, ready=True).any()


def test_coin_outweighs_effects_and_prices() -> None:
    bonus = bonuses(200, 1, ready=False)
    for margin in (-1e6, 1.0):
        np.testing.assert_array_equal(margin + bonus > 0, bonus > 0)


@pytest.mark.parametrize(
    ("margin", "expected"),
    [
        ([0.5], [1 / 2, 1 / 2]),
        ([-0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]),
        ([-math.inf], [1.0, 0.0]),
        ([0.1, -math.inf, 0.2], [2 / 4, 1 / 4, 0.0, 1 / 4]),
    ],
)
def test_in_warm_up_the_share_of_what_cannot_be_afforded_goes_to_leaving_alone(
    margin: list[float], expected: list[float]
) -> None:
    assert chances(margin, ready=False) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("margin", "best"), [([0.5], 1), ([-0.5], 0), ([0.1, 0.2], 2), ([-math.inf, 0.1], 2)]
)
def test_after_warm_up_the_best_action_is_certain(margin: list[float], best: int) -> None:
    assert chances(margin, ready=True) == [float(a == best) for a in range(len(margin) + 1)]


@pytest.mark.parametrize("margin", [[0.3], [-0.2, 0.4], [0.1, -math.inf, -0.3]])
def test_chance_is_the_share_over_many_decisions(margin: list[float], sized: Sized) -> None:
    n, K = sized(20_000, 1_000), len(margin)
    scores = np.column_stack([np.zeros(n), np.array(margin) + bonuses(n, K, ready=False, seed=9)])
    shares = np.bincount(scores.argmax(axis=1), minlength=K + 1) / n
    for share, p in zip(shares, chances(margin, ready=False), strict=True):
        assert abs(share - p) <= 4.0 * math.sqrt(p * (1.0 - p) / n)
