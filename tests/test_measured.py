from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from bccb.caused import Caused
from bccb.intervals import Interval
from bccb.measured import COUNTS, GRID, Measure
from bccb.types import Floats, Ints

fractions = st.floats(0.0, 1.0)


def users(
    n: int, seed: int, reserve: float = 0.05
) -> tuple[Ints, Floats, Floats, Floats, np.random.Generator]:
    """Actions, outcomes, probabilities of being left alone, and what each treatment caused."""
    draw = np.random.default_rng(seed)
    without = (draw.random(n) < 0.1).astype(float)
    treated = np.maximum(without, (draw.random(n) < 0.05).astype(float))
    alone = np.where(draw.random(n) < 0.3, reserve / 2.0, 1.0 - reserve / 4.0)
    actions = (draw.random(n) >= alone).astype(np.int64)
    caused = np.where(actions > 0, treated - without, 0.0)
    return actions, np.where(actions > 0, treated, without), alone, caused, draw


def reference(reserve: float, actions: Ints, outcomes: Floats, alone: Floats) -> Interval:
    """The definition, user by user, and the ends by SciPy's root finder."""
    treated, conversions = int((actions > 0).sum()), float(outcomes[actions > 0].sum())
    limit = -math.log(1.0 - reserve / 2.0)
    weights = [1.0 / j / sum(1.0 / i for i in range(1, GRID + 1)) for j in range(1, GRID + 1)]

    def evidence(b: float, grid: list[float]) -> float:
        total = 0.0
        for weight, step in zip(weights, grid, strict=True):
            product = step * b
            for action, y, p in zip(actions, outcomes, alone, strict=True):
                if action == 0:
                    product += math.log((1.0 - (1.0 - p) * math.exp(step * y)) / p)
            total += weight * math.exp(min(product, 700.0))
        return total - 1.0 / 0.025

    up = [0.9 * limit * 0.5 ** (j / 2) for j in range(GRID)]
    down = [-2.0 * 0.5**j for j in range(GRID)]
    high = treated if evidence(treated, up) <= 0 else brentq(evidence, 0, treated, args=(up,))
    low = 0.0 if evidence(0, down) <= 0 else brentq(evidence, 0, treated, args=(down,))
    left = actions == 0
    without = float(((1.0 - alone) / alone * outcomes)[left].sum())
    without = min(max(without, low), high)
    return Interval(conversions - without, conversions - high, conversions - low)


@pytest.mark.parametrize("seed", range(4))
def test_the_interval_is_that_of_the_definition(seed: int) -> None:
    actions, outcomes, alone, _, _ = users(300, seed, reserve=0.3)
    measure = Measure(0.3)
    measure.end_all(actions, outcomes, alone)
    expected, got = reference(0.3, actions, outcomes, alone), measure.interval()
    for name in ("value", "low", "high"):
        assert getattr(got, name) == pytest.approx(getattr(expected, name), abs=1e-6)


@pytest.mark.parametrize(("reserve", "n"), [(0.01, 20_000), (0.2, 5_000)])
def test_what_was_caused_is_inside_at_all_of_60_looks(reserve: float, n: int) -> None:
    inside, repetitions = 0, 100
    for seed in range(repetitions):
        actions, outcomes, alone, caused, _ = users(n, 1_000 + seed, reserve)
        measure, good = Measure(reserve), True
        for rows in np.array_split(np.arange(n), 60):
            measure.end_all(actions[rows], outcomes[rows], alone[rows])
            found, truth = measure.interval(), caused[: measure.users].sum()
            good = good and found.low - 1e-9 <= truth <= found.high + 1e-9
        inside += good
    assert inside >= 0.95 * repetitions


@pytest.mark.parametrize("both", [False, True])
def test_treatments_that_are_not_delivered_do_not_bend_it(both: bool) -> None:
    """One in ten is cancelled: treated users alone, or whoever would be, treated or not."""
    inside, repetitions, errors = 0, 60, []
    for seed in range(repetitions):
        actions, outcomes, alone, caused, draw = users(10_000, seed, reserve=0.2)
        cancelled = (draw.random(10_000) < 0.1) & (both | (actions > 0))
        measure = Measure(0.2)
        for i in range(10_000):
            if cancelled[i]:
                measure.drop(i + 1, bool(actions[i] > 0))
            else:
                measure.end(i + 1, bool(actions[i] > 0), float(outcomes[i]), float(alone[i]))
        found, truth = measure.interval(), caused[~cancelled].sum()
        inside += found.low <= truth <= found.high
        errors.append(found.value - truth)
    assert inside >= 0.95 * repetitions
    assert abs(np.mean(errors)) < 4 * np.std(errors) / math.sqrt(repetitions)


def test_the_interval_is_of_use() -> None:
    """Effects are found where enough decisions are random, and it is not wider than possible."""
    actions, outcomes, alone, caused, _ = users(400_000, 7, reserve=0.2)
    measure = Measure(0.2)
    measure.end_all(actions, outcomes, alone)
    found = measure.interval()
    assert 0.0 < found.low < caused.sum() < found.high
    assert abs(found.value - caused.sum()) < 0.2 * caused.sum()
    few = Measure(0.01)
    few.end_all(np.array([1, 1, 1]), np.array([1.0, 0.0, 0.0]), np.full(3, 0.005))
    assert few.interval() == Interval(1.0, -2.0, 1.0)  # from all but one to none would have


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_order_of_reports_does_not_matter(data: st.DataObject) -> None:
    """Users count in the order of their decisions, up to the first without an outcome."""
    n = data.draw(st.integers(1, 40))
    actions, outcomes, alone, _, _ = users(n, data.draw(st.integers(0, 1_000)), reserve=0.3)
    order = data.draw(st.permutations(range(n)))
    cancelled = data.draw(st.sets(st.integers(0, n - 1)))
    reported = data.draw(st.integers(0, n))
    measure = Measure(0.3)
    for i in order[:reported]:
        if i in cancelled:
            measure.drop(i + 1, bool(actions[i] > 0))
        else:
            measure.end(i + 1, bool(actions[i] > 0), float(outcomes[i]), float(alone[i]))
    known = set(order[:reported])
    prefix = next((i for i in range(n) if i not in known), n)
    rows = np.array([i for i in range(prefix) if i not in cancelled], np.int64)
    expected = Measure(0.3)
    expected.end_all(actions[rows], outcomes[rows], alone[rows])
    assert measure.users == prefix
    assert measure.treated == expected.treated
    assert measure.undelivered == sum(actions[i] > 0 for i in cancelled if i < prefix)
    assert measure.conversions == expected.conversions
    assert measure.logs == pytest.approx(expected.logs, abs=1e-9)
    again = Measure(0.3)
    assert again.restore(*measure.kept())
    for i in order[reported:]:
        for each in (measure, again):
            each.end(i + 1, bool(actions[i] > 0), float(outcomes[i]), float(alone[i]))
    assert again.interval() == measure.interval()
    assert measure.users == n
    assert not measure.converted
    assert not measure.states


def test_losses_are_counted_as_long_as_they_stand() -> None:
    """Without a model they would count as 0, so what is measured may have the wrong sign."""
    measure = Measure(0.1, largest=50.0)
    for number, y in enumerate((20.0, -5.0, -1.0), 1):
        measure.end(number, True, y, 1.0)
    measure.end(5, False, -2.0, 0.5)  # waits for the fourth
    assert measure.losses == 3
    again = Measure(0.1, largest=50.0)
    assert again.restore(*measure.kept())
    for each in (measure, again):
        each.correct(2, True, -5.0, 5.0, 1.0)
        each.correct(5, False, -2.0, 0.0, 0.5)
        assert each.losses == 1
        assert Caused.told(None, each).measured is None
        assert Caused.told(None, each).losses == 1
        each.correct(3, True, -1.0, 0.0, 1.0)
        assert Caused.told(None, each).measured is not None
    sums, states = measure.kept()
    older = np.delete(sums, COUNTS - 1)
    assert Measure(0.1, largest=50.0).restore(older, states)
    many = Measure(0.1)
    many.end_all(np.array([1, 0, 1]), np.array([-1.0, -2.0, 3.0]), np.full(3, 0.5))
    assert many.losses == 2


def test_damage_is_noticed() -> None:
    measure = Measure(0.1)
    measure.end(1, True, 1.0, 1.0)
    measure.end(3, False, 1.0, 0.5)
    sums, states = measure.kept()
    assert Measure(0.1).restore(sums, states)
    for place, value in ((0, 0.5), (1, 2.0), (len(sums) - 1, 0.0), (len(sums) - 3, 99.0)):
        broken = sums.copy()
        broken[place] = value
        assert not Measure(0.1).restore(broken, states)
    assert not Measure(0.1).restore(sums[:-1], states)
    assert not Measure(0.1).restore(sums, states + np.uint8(5))


@pytest.mark.parametrize(("place", "value"), [(4, -1e-4), (4, 2.0001), (5, -1e-4)])
def test_sums_of_outcomes_that_are_out_of_range_by_more_than_rounding_are_damage(
    place: int, value: float
) -> None:
    measure = Measure(0.1)
    measure.end(1, True, 1.0, 1.0)
    measure.end(2, True, 1.0, 1.0)
    measure.end(3, False, 1.0, 0.05)
    sums, states = measure.kept()
    assert Measure(0.1).restore(sums, states)
    sums[place] = value
    assert not Measure(0.1).restore(sums, states)


@given(st.lists(st.tuples(st.booleans(), fractions, fractions, fractions), max_size=40))
def test_what_is_kept_after_corrections_is_no_damage(
    ends: list[tuple[bool, float, float, float]],
) -> None:
    measure = Measure(1e-5)
    for number, (treated, outcome, _, chance) in enumerate(ends, 1):
        measure.end(number, treated, outcome, chance)
    for number, (treated, outcome, later, chance) in enumerate(ends, 1):
        measure.correct(number, treated, outcome, later, chance)
    assert Measure(1e-5).restore(*measure.kept())


@pytest.mark.parametrize("reserve", [1e-4, 0.01, 0.3, 1.0])
def test_with_fewer_users_than_needed_all_who_converted_may_have_done_so_anyway(
    reserve: float,
) -> None:
    needed = Measure(reserve).needed
    for treated, says in ((needed - 1, False), (needed + 1, True)):
        measure = Measure(reserve)
        measure.users = measure.treated = treated
        assert measure.is_enough is says
        assert (measure.interval().low > -treated) is says


def test_a_reserve_of_next_to_nothing_never_has_enough_users() -> None:
    for reserve in (5e-324, 1e-300, 1e-16):
        measure = Measure(reserve)
        measure.users = measure.treated = 10**12
        assert measure.needed > 10**12
        assert not measure.is_enough


def test_on_few_users_what_is_measured_jumps_from_end_to_end() -> None:
    """One user who was left alone and converts stands for two hundred: it is not to be shown."""
    measure = Measure(0.01)
    for number in range(1, 101):
        measure.end(number, number % 2 == 0, float(number % 20 == 0), 0.005)
    before = Caused.told(None, measure)
    measure.end(101, False, 1.0, 0.005)
    after = Caused.told(None, measure)
    assert before.measured is not None
    assert after.measured is not None
    assert (before.measured.value, after.measured.value) == (5.0, -45.0)
    assert before.needed == after.needed == 1_050


def test_of_amounts_it_is_wide_until_it_excludes_a_loss_of_all_that_was_brought() -> None:
    """The largest amount is ten times the usual one, and every seventh user converts."""
    measures = Measure(0.1, largest=100.0), Measure(0.1)
    found = []
    for number in range(1, 40_001):
        y = 0.1 * (number % 7 == 0)
        for measure in measures:
            measure.end(number, number % 20 > 0, y * measure.largest, 0.05)
        if number in (2_000, 40_000):
            found.append((measures[0].is_enough, measures[0].is_wide, measures[1].is_wide))
    assert found == [(True, True, False), (True, False, False)]
    interval, brought = measures[0].interval(), 100.0 * measures[0].conversions
    assert -brought <= interval.low < interval.high <= brought
