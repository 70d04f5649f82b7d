"""Amounts that are corrected: what stays is what would have been learned from the right ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bccb.kernels.amounts import (
    AMOUNTS,
    WEIGHT,
    Amounts,
    amount_of,
    sound,
    unit_of,
)
from bccb.kernels.corrections import correct_amount, unlearn_amount
from bccb.kernels.moments import learn_amount, solve, solve_if_due


def fresh(d: int = 3, K: int = 1) -> Amounts:
    return AMOUNTS.view(np.zeros(AMOUNTS.size(d, K)), d, K)


def is_sound(amounts: Amounts) -> bool:
    memory = np.concatenate([np.ravel(part) for part in amounts])
    return sound(memory, len(amounts.slopes), len(amounts.arms))


@pytest.mark.parametrize("n", [1, 5, 20, 40, 100])
def test_what_is_taken_back_leaves_the_rest_sound(n: int) -> None:
    """Also where features were scaled otherwise when the amount was learned."""
    rng, amounts = np.random.default_rng(n), fresh()
    rows = [np.append(0.1 * rng.normal(size=3), 1.0) for _ in range(n)]
    for z in rows:
        learn_amount(amounts, 0, z, 0, 20.0)
    for z in rows:
        unlearn_amount(amounts, 0, np.append(30.0 * z[:3], 1.0), 0, 20.0)
        amounts.due[0] = 0.0
        learn_amount(amounts, 0, np.append(rng.normal(size=3), 1.0), 1, 30.0)
        assert is_sound(amounts)
        assert 1.0 < unit_of(amounts) < 500.0
    assert amounts.seen[0] == n


@pytest.mark.parametrize("y", [0.0, 60.0])
def test_a_recent_amount_is_corrected_as_it_was_learned_also_where_features_were_scaled_otherwise(
    y: float,
) -> None:
    """Each row is scaled anew when it is corrected; moments of no rows would be forgotten."""
    rng, right, corrected = np.random.default_rng(5), fresh(), fresh()
    rows = [(np.append(rng.normal(size=3), 1.0), rng.lognormal(4.0, 0.3)) for _ in range(300)]
    for user, (z, amount) in enumerate(rows, 1):
        learn_amount(right, user, z, 0, amount)
        learn_amount(corrected, user, z, 0, amount)
    for user, (z, amount) in enumerate(rows, 1):
        if user % 3 == 0:
            now = np.append(0.4 * z[:3] + 1.5, 1.0)
            correct_amount(right, user, z, 0, amount, y)
            correct_amount(corrected, user, now, 0, amount, y)
    for each in (right, corrected):
        solve(each)
    np.testing.assert_allclose(corrected.products, right.products, atol=1e-9)
    np.testing.assert_allclose(corrected.sums, right.sums, atol=1e-9)
    assert unit_of(corrected) == unit_of(right)


@pytest.mark.parametrize("factor", [0.01, 0.5, 2.0, 100.0])
@pytest.mark.parametrize("n", [1, 10, 40, 100, 400])
def test_amounts_that_were_all_corrected_are_as_if_they_had_been_right(
    n: int, factor: float
) -> None:
    """Orders in cents, or half of what they were."""
    rng, right, corrected = np.random.default_rng(n), fresh(), fresh()
    rows = [(np.append(rng.normal(size=3), 1.0), rng.lognormal(4.0, 0.3)) for _ in range(n)]
    for user, (z, y) in enumerate(rows, 1):
        learn_amount(right, user, z, 0, y)
        learn_amount(corrected, user, z, 0, factor * y)
    for user, (z, y) in enumerate(rows, 1):
        correct_amount(corrected, user, z, 0, factor * y, y)
    for amounts in (right, corrected):
        solve(amounts)
    # not to the bit: where most amounts were wrong, others are beyond the cut
    assert unit_of(corrected) == pytest.approx(unit_of(right), rel=0.005)
    np.testing.assert_allclose(corrected.slopes, right.slopes, atol=0.005)
    assert is_sound(corrected)


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("n", [10, 40, 100, 400])
def test_amounts_that_are_not_recent_are_corrected_nearly(n: int, factor: float) -> None:
    """The typical amount at once, and how far amounts vary once as many others came."""
    rng, right, corrected = np.random.default_rng(n), fresh(), fresh()
    rows = [(np.append(rng.normal(size=3), 1.0), rng.lognormal(4.0, 0.3)) for _ in range(2 * n)]
    for z, y in rows[:n]:
        learn_amount(right, 0, z, 0, y)
        learn_amount(corrected, 0, z, 0, factor * y)
    for each in (right, corrected):
        each.recent[:, WEIGHT] = 0.0  # others have taken their places
    for z, y in rows[:n]:
        correct_amount(corrected, 0, z, 0, factor * y, y)
    assert corrected.seen[0] == right.seen[0] == n
    assert unit_of(corrected) == pytest.approx(unit_of(right), rel=0.25)
    for z, y in rows[n:]:
        learn_amount(right, 0, z, 0, y)
        learn_amount(corrected, 0, z, 0, y)
    assert unit_of(corrected) == pytest.approx(unit_of(right), rel=0.15)
    assert corrected.noise[0] > 0.04
    assert is_sound(corrected)


@pytest.mark.parametrize("n", [1, 5, 12, 30, 200])
def test_an_amount_that_came_back_leaves_nothing(n: int) -> None:
    """An order of 5,000 by mistake, among some of about 50; also as the first of all."""
    rng, z = np.random.default_rng(1), np.array([0.0, 0.0, 0.0, 1.0])
    for at in (0, n // 2, n):
        amounts, never = fresh(), fresh()
        for user in range(n + 1):
            y = rng.lognormal(4.0, 0.3)
            if user == at:
                learn_amount(amounts, 1_000, z, 0, 5_000.0)
                correct_amount(amounts, 1_000, z, 0, 5_000.0, 0.0)
            learn_amount(amounts, user + 1, z, 0, y)
            learn_amount(never, user + 1, z, 0, y)
        for each in (amounts, never):
            solve(each)
        assert amounts.seen[0] == never.seen[0] == n + 1
        assert unit_of(amounts) == pytest.approx(unit_of(never), rel=0.05)


def test_amounts_that_all_came_back_leave_a_sound_memory_that_learns_again() -> None:
    rng, amounts = np.random.default_rng(1), fresh()
    rows = [(np.append(rng.normal(size=3), 1.0), rng.lognormal(4.0, 0.3)) for _ in range(50)]
    for z, y in rows:
        learn_amount(amounts, 0, z, 1, y)
    for z, y in rows:
        correct_amount(amounts, 0, z, 1, y, 0.0)
        assert is_sound(amounts)
    assert amounts.seen[0] == 0.0
    for z, y in rows:
        learn_amount(amounts, 0, z, 1, y)
    assert unit_of(amounts) == pytest.approx(math.exp(4.0 + 0.045), rel=0.3)


@pytest.mark.parametrize("shape", ["log-normal", "gamma"])
def test_moments_that_no_rows_can_have_are_forgotten_and_learned_anew(shape: str) -> None:
    """The typical amount stays, but nothing is sure then, until others have come."""
    rng, amounts = np.random.default_rng(1), fresh()

    def learn(n: int) -> None:
        for _ in range(n):
            y = rng.lognormal(4.0, 0.3) if shape == "log-normal" else rng.gamma(0.5, 100.0)
            learn_amount(amounts, 0, np.append(rng.normal(size=3), 1.0), 1, y)

    learn(2_000)
    known, unit = amounts.covariance[3, 3], unit_of(amounts)
    amounts.products[0, 0] = 0.5 * amounts.products[3, 0] ** 2 / amounts.weight[0]
    amounts.due[0] = 0.0
    solve_if_due(amounts)
    assert amounts.weight[0] == 0.0
    assert unit_of(amounts) == pytest.approx(unit, rel=1e-9)
    unsure = amounts.covariance[3, 3]
    assert unsure > 20.0 * known
    assert (np.diag(amounts.covariance) > 0.0).all()
    assert is_sound(amounts)
    learn(50)
    assert amounts.covariance[3, 3] < 0.5 * unsure


@pytest.mark.parametrize("early", [1, 2, 4, 8])
def test_an_old_amount_of_a_rare_arm_takes_no_more_than_itself_with_it(early: int) -> None:
    """Most of the first amounts is forgotten, so its arm may hold less than one of them."""
    rng, amounts = np.random.default_rng(early), fresh()
    rows = [(np.append(rng.normal(size=3), 1.0), rng.lognormal(4.0, 0.3)) for _ in range(1_200)]
    for user, (z, y) in enumerate(rows, 1):
        learn_amount(amounts, user, z, int(user <= early), y)
    weight = float(amounts.weight[0])
    for y in (0.0, 2.0 * rows[1][1]):
        correct_amount(amounts, 1 if y == 0.0 else 2, *(rows[0][0], 1, rows[0][1]), y)
        assert amounts.weight[0] >= weight - 1.0
    solve(amounts)
    assert amounts.weight[0] >= weight - 1.0
    assert is_sound(amounts)


def test_where_all_came_back_the_memory_is_that_of_before_the_first_amount() -> None:
    amounts, z = fresh(), np.array([0.5, -1.0, 0.0, 1.0])
    learn_amount(amounts, 1, z, 1, 30.0)
    correct_amount(amounts, 1, z, 1, 30.0, 0.0)
    for kept, new in zip(amounts, fresh(), strict=True):
        if kept is not amounts.input:
            np.testing.assert_array_equal(kept, new)


@pytest.mark.parametrize("n", [5, 20, 60, 400])
def test_signs_that_were_all_corrected_are_as_if_they_had_been_right(n: int) -> None:
    """Orders of one arm were booked as losses, and then corrected; slopes changed meanwhile."""
    rng, right, corrected = np.random.default_rng(n), fresh(), fresh()
    rows = []
    for i in range(n):
        z = np.append(rng.normal(size=3), 1.0)
        rows.append((z, i % 2, math.exp(3.0 + 0.8 * z[0] + 0.3 * rng.normal())))
    for user, (z, arm, y) in enumerate(rows, 1):
        learn_amount(right, user, z, arm, y)
        learn_amount(corrected, user, z, arm, -2.0 * y if arm else y)
    for user, (z, arm, y) in enumerate(rows, 1):
        if arm:
            correct_amount(corrected, user, z, arm, -2.0 * y, y)
    for each in (right, corrected):
        solve(each)
    z = np.zeros(4)
    for arm in (0, 1):
        worth = [amount_of(each, z, arm) * unit_of(each) for each in (corrected, right)]
        assert worth[0] == pytest.approx(worth[1], rel=0.03)
    np.testing.assert_allclose(corrected.lost, 0.0, atol=1e-9)
    assert is_sound(corrected)


def test_the_very_first_amount_can_be_corrected_again() -> None:
    """It was the only one when it came back, so all was forgotten: also where it was kept."""
    rng, z = np.random.default_rng(3), np.array([0.0, 0.0, 0.0, 1.0])
    amounts, right = fresh(), fresh()
    learn_amount(amounts, 1, z, 0, 100.0)
    correct_amount(amounts, 1, z, 0, 100.0, 50.0)
    learn_amount(right, 1, z, 0, 500.0)
    for user in range(2, 41):
        y = rng.lognormal(4.0, 0.3)
        learn_amount(amounts, user, z, 0, y)
        learn_amount(right, user, z, 0, y)
    correct_amount(amounts, 1, z, 0, 50.0, 500.0)
    assert amounts.sums[3] == pytest.approx(right.sums[3], rel=1e-3)
    weight = float(amounts.weight[0])
    correct_amount(amounts, 1, z, 0, 500.0, 0.0)
    assert amounts.weight[0] < weight


def test_where_recent_amounts_cannot_be_is_told() -> None:
    amounts = fresh()
    learn_amount(amounts, 7, np.ones(4), 1, -20.0)
    assert is_sound(amounts)
    for column, value in ((0, 1.5), (0, -1.0), (2, -1.0), (3, 1.5), (3, -0.1), (5, 2.0), (5, 0.5)):
        kept = amounts.recent[1].copy()
        amounts.recent[1, column] = value
        assert not is_sound(amounts), column
        amounts.recent[1] = kept
    amounts.signed[1] = -2.0 * amounts.sizes[1]
    assert not is_sound(amounts)
