from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bccb
from bccb import Log
from bccb.assembly import assemble
from bccb.composition import Composition
from bccb.data import simulate
from bccb.evaluate.replay import replay
from bccb.money import cost_micros
from bccb.pacers.budget_forecast import (
    BUDGET_FORECAST,
    LAYOUT,
    WINDOW,
    State,
    bracket,
    exhausting_price,
    forecast,
    mean_spend,
    note_arrival,
    price,
)
from bccb.spec import Spec
from bccb.types import Floats

Sized = Callable[[int, int], int]


def fresh(K: int, every: float = 250.0, haste: float = 0.0) -> State:
    memory = np.zeros(BUDGET_FORECAST.layout.size(0, K))
    memory[:2] = every, haste
    return LAYOUT.view(memory, 0, K)


def naive_spend(score: Floats, costs: Floats, at: float) -> float:
    """What the users cost on average at a price just above ``at``."""
    at = at * (1.0 + 1e-9) + 1e-12
    total = 0.0
    for s, c in zip(score, costs, strict=True):
        values = s - at * c
        if values.max() > 0.0:
            total += c[values.argmax()]
    return float(total / len(score))


def naive_price(score: Floats, costs: Floats, left: float) -> float:
    """The lowest of all prices at which any user changes his action, 0 among them, that does."""
    breaks = {0.0}
    for s, c in zip(score, costs, strict=True):
        breaks.update((s / c).tolist())
        for j, k in itertools.combinations(range(len(s)), 2):
            if c[j] != c[k]:
                breaks.add(float((s[j] - s[k]) / (c[j] - c[k])))
    able = (b for b in sorted(breaks) if b >= 0.0 and naive_spend(score, costs, b) <= left)
    return next(able)


@st.composite
def windows(draw: st.DrawFn, K: int) -> tuple[Floats, Floats, float]:
    """Scores and costs on coarse grids, so that ties are common and no two prices are close."""
    n = draw(st.integers(1, 12))
    cells = st.lists(st.integers(-20, 40), min_size=K, max_size=K)
    score = np.array(draw(st.lists(cells, min_size=n, max_size=n)), np.float64) / 16.0
    coins = st.lists(st.integers(1, 20), min_size=K, max_size=K)
    costs = np.array(draw(st.lists(coins, min_size=n, max_size=n)), np.float64) / 4.0
    left = draw(st.integers(0, 5 * n)) + 0.4375  # between any two sums of costs
    return score, costs, left / n


@pytest.mark.parametrize("K", [1, 2, 3])
def test_exhausting_price_is_the_smallest_that_a_search_of_all_breaks_finds(K: int) -> None:
    @given(windows(K))
    def search(window: tuple[Floats, Floats, float]) -> None:
        score, costs, left = window
        result = exhausting_price(score, costs, left)
        assert result == pytest.approx(naive_price(score, costs, left), rel=1e-9, abs=1e-12)
        assert mean_spend(score, costs, result) <= left

    search()


def test_price_is_zero_where_the_money_is_enough_for_everybody() -> None:
    score, costs = np.array([[0.5], [0.1]]), np.array([[2.0], [4.0]])
    assert exhausting_price(score, costs, 3.0) == 0.0
    assert exhausting_price(-score, costs, 0.0) == 0.0


def test_price_stops_everybody_where_nothing_is_left(sized: Sized) -> None:
    rng = np.random.default_rng(0)
    n = sized(2_000, 100)
    score, costs = rng.lognormal(-6.0, 1.0, (n, 2)), rng.uniform(0.05, 5.0, (n, 2))
    result = exhausting_price(score, costs, 0.0)
    assert mean_spend(score, costs, result) == 0.0
    assert result == pytest.approx((score / costs).max(), rel=1e-9)


@given(windows(2), st.floats(0.0, 3.0))
def test_mean_spend_is_that_of_the_best_actions(
    window: tuple[Floats, Floats, float], at: float
) -> None:
    score, costs, _ = window
    spend = mean_spend(score, costs, at)
    expected = []
    for s, c in zip(score, costs, strict=True):
        values = [0.0, *(s - at * c)]
        expected.append([0.0, *c][int(np.argmax(values))])
    assert spend == pytest.approx(np.mean(expected), rel=1e-12)


@given(windows(3), st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_spend_falls_as_the_price_rises(
    window: tuple[Floats, Floats, float], one: float, two: float
) -> None:
    low, high = sorted((one, two))
    assert mean_spend(*window[:2], low) >= mean_spend(*window[:2], high)


def test_window_is_a_ring_of_the_last_users() -> None:
    pacer = fresh(2)
    extra = 7
    for i in range(WINDOW + extra):
        note_arrival(pacer, np.array([i, -i], np.float64), np.array([i + 0.5, i + 1.5]))
    assert pacer.seen[0] == WINDOW + extra
    users = np.arange(extra, WINDOW + extra)
    assert sorted(pacer.score[:, 0]) == users.tolist()
    np.testing.assert_array_equal(pacer.score[:, 1], -pacer.score[:, 0])
    np.testing.assert_array_equal(pacer.costs[:, 0], pacer.score[:, 0] + 0.5)
    np.testing.assert_array_equal(pacer.costs[:, 1], pacer.score[:, 0] + 1.5)


def test_users_who_left_the_window_no_longer_count() -> None:
    pacer = fresh(1, every=1.0)
    for cost in (1.0, 100.0):
        for _ in range(WINDOW):
            note_arrival(pacer, np.ones(1), np.array([cost]))
    forecast(pacer, 1.0, False)
    assert price(pacer, 0.5, 0.5) == pytest.approx(1.0 / 100.0)


@pytest.mark.parametrize("every", [250, 10, 1])
def test_price_is_looked_up_at_powers_of_two_and_then_every_so_often(every: int) -> None:
    pacer = fresh(1, every=float(every))
    due = []
    for t in range(1, 600):
        note_arrival(pacer, np.ones(1), np.ones(1))
        pacer.prices[1] = -1.0
        forecast(pacer, 2.0, False)
        if pacer.prices[1] != -1.0:
            due.append(t)
    powers = {2**i for i in range(10) if 2**i <= every}
    assert due == sorted(powers | set(range(every, 600, every)))


@pytest.mark.parametrize("seen", [1, 3, 249, 251, 1_999])
def test_price_is_looked_up_before_the_first_decision_whoever_was_seen(seen: int) -> None:
    pacer = fresh(1)
    for _ in range(seen):
        note_arrival(pacer, np.ones(1), np.ones(1))
    forecast(pacer, 0.5, True)
    assert price(pacer, 0.5, 0.5) == pytest.approx(1.0)


def test_nothing_is_charged_before_anybody_was_seen() -> None:
    pacer = fresh(1)
    forecast(pacer, 0.0, True)
    assert price(pacer, 1.0, 1.0) == 0.0


def seen_by(pacer: State, n: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Scores and costs of n users, whom the pacer notes."""
    rng = np.random.default_rng(seed)
    K = pacer.score.shape[1]
    score, costs = rng.lognormal(-1.0, 1.0, (n, K)), rng.uniform(0.05, 5.0, (n, K))
    for s, c in zip(score, costs, strict=True):
        note_arrival(pacer, s, c)
    return score, costs


@pytest.mark.parametrize("haste", [0.0, 1.0, 500.0, 2_000.0])
@pytest.mark.parametrize("n", [1, 40, 750, 3_000])
def test_haste_counts_what_is_left_more_than_once(n: int, haste: float) -> None:
    pacer = fresh(2, haste=haste)
    score, costs = seen_by(pacer, n)
    forecast(pacer, 0.2, True)
    begin = n // 2 if n < WINDOW else n - WINDOW
    aim = 0.2 * (n + 2.0 * haste) / (n + haste)
    assert 0.2 <= aim < 0.4
    expected = naive_price(score[begin:], costs[begin:], aim) if n < 100 else None
    if expected is None:
        expected = exhausting_price(score[begin:], costs[begin:], aim)
    assert price(pacer, 0.5, 0.5) == pytest.approx(expected, rel=1e-6)


def test_without_haste_what_is_left_counts_once_and_haste_lowers_the_price() -> None:
    results = []
    for haste in (0.0, 100.0, 2_000.0):
        pacer = fresh(1, haste=haste)
        seen_by(pacer, 400)
        forecast(pacer, 0.2, True)
        results.append(price(pacer, 0.5, 0.5))
    assert results[0] > results[1] > results[2] > 0.0


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 256, 1_750, WINDOW - 1])
def test_only_the_later_half_of_a_young_window_counts(n: int) -> None:
    """The earlier users cost a hundredth, which would let the price fall to theirs."""
    pacer = fresh(1)
    for i in range(n):
        note_arrival(pacer, np.ones(1), np.array([0.01 if i < n // 2 else 1.0]))
    forecast(pacer, 0.9, True)
    assert price(pacer, 0.5, 0.5) == pytest.approx(1.0)
    score, costs = pacer.score[:n], pacer.costs[:n]
    if n > 1:
        assert exhausting_price(score, costs, 0.9) == 0.0  # what all of them would give


@pytest.mark.parametrize("extra", [0, 250, 1_000])
def test_all_of_a_full_window_counts(extra: int) -> None:
    pacer = fresh(2)
    score, costs = seen_by(pacer, WINDOW + extra, seed=1)
    forecast(pacer, 0.3, False)
    expected = exhausting_price(score[-WINDOW:], costs[-WINDOW:], 0.3)
    assert price(pacer, 0.5, 0.5) == pytest.approx(expected, rel=1e-6)
    later = exhausting_price(score[-WINDOW // 2 :], costs[-WINDOW // 2 :], 0.3)
    assert price(pacer, 0.5, 0.5) != pytest.approx(later, rel=1e-3)


@pytest.mark.parametrize("guess", [0.0, 1e-9, 0.7, 1.0, 1e9])
def test_the_price_found_does_not_depend_on_the_price_before(guess: float, sized: Sized) -> None:
    rng = np.random.default_rng(3)
    n = sized(2_000, 100)
    score, costs = rng.lognormal(-1.0, 1.0, (n, 2)), rng.uniform(0.05, 5.0, (n, 2))
    low, high = bracket(score, costs, 0.3, guess, 1e-7)
    assert high == pytest.approx(exhausting_price(score, costs, 0.3), rel=2e-7)
    assert low < high
    assert mean_spend(score, costs, low) > 0.3 >= mean_spend(score, costs, high)


def test_history_sets_the_first_price() -> None:
    log = simulate(4_000, seed=3)
    policy = bccb.make("offline-forecast", budget=50, horizon=1_000, features=12)
    policy.learn(log)
    first = policy.decide(log.features[0], float(log.costs[0, 0]))
    assert first.price > 0


def test_the_coin_of_a_warm_up_does_not_drive_up_the_price() -> None:
    spec = Spec("mixed", "", Composition("two-model", "coin", "budget-forecast"))
    policy = assemble(spec, budget=20, horizon=300, features=2, seed=1)
    generator = np.random.default_rng(0)
    treated = 0
    for _ in range(200):
        decision = policy.decide(generator.normal(size=2), 0.5)
        assert decision.price < 1
        treated += decision.action
        policy.observe(decision, 0)
    assert treated > 10


@pytest.mark.parametrize("treatments", [1, 2])
def test_the_budget_is_spent_evenly_where_all_costs_are_equal(
    treatments: int, sized: Sized
) -> None:
    horizon = sized(3_000, 300)
    policy = bccb.make(
        "cheapest-first", budget=horizon / 10, horizon=horizon, features=1, treatments=treatments
    )
    half = 0.0
    for i in range(horizon):
        policy.observe(policy.decide([0.0], [1.0] * treatments), 0)
        half = policy.spent if i == horizon // 2 else half
    assert policy.remaining < 1
    assert half == pytest.approx(horizon / 20, abs=0.02 * horizon / 10 + 1)


@pytest.mark.compiled
@pytest.mark.parametrize("share", [0.85, 0.5, 0.2])
def test_the_budget_is_spent_whatever_share_of_proposals_is_paid(share: float) -> None:
    """A trial that treats a smaller share follows fewer proposals; the pacer learns that."""
    generator = np.random.default_rng(1)
    n = 30_000
    log = Log(
        features=np.zeros((n, 1)),
        actions=(generator.random(n) < share).astype(np.int64),
        outcomes=np.zeros(n),
        micros=cost_micros(generator.lognormal(-0.5, 0.7, (n, 1))),
    )
    budget = 1_000 * share
    policy = bccb.make("cheapest-first", budget=budget, horizon=n, features=1)
    result = replay(policy, log)
    assert result.spend > 0.98 * budget
    half = result.trajectory[len(result.trajectory) // 2, 1]
    assert 0.4 * budget < half < 0.6 * budget
