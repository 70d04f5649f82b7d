"""What a conversion is worth: against NumPy and SciPy, and against what must not move it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import special, stats

from bccb.kernels.amount_errors import variance_of
from bccb.kernels.amounts import (
    AMOUNTS,
    FARTHEST,
    GROUPS,
    Amounts,
    amount_of,
    charged_share,
    sound,
    unit_of,
)
from bccb.kernels.moments import (
    ARM_SPREADS,
    GAINS,
    LEVEL_SPREAD,
    NOISE,
    ODDS,
    ROWS,
    SPREADS,
    learn_amount,
    solve,
)
from bccb.types import Floats

SIGMA, LEVEL = 0.8, 3.0


def fresh(d: int = 3, K: int = 1) -> Amounts:
    return AMOUNTS.view(np.zeros(AMOUNTS.size(d, K)), d, K)


def learned(slopes: Floats, n: int, seed: int, arm_effect: float = 0.0) -> Amounts:
    """After n amounts of users in both arms."""
    rng, amounts = np.random.default_rng(seed), fresh(len(slopes))
    for _ in range(n):
        z, arm = np.append(rng.normal(size=len(slopes)), 1.0), int(rng.integers(2))
        log = LEVEL + slopes @ z[:-1] + arm_effect * arm + SIGMA * rng.normal()
        learn_amount(amounts, 0, z, arm, math.exp(log))
    return amounts


def test_the_posterior_is_that_of_bayesian_regression() -> None:
    amounts = learned(np.array([0.6, 0.0, -0.3]), 300, seed=2)
    amounts.due[0] = 0.0  # solved with the last row
    learn_amount(amounts, 0, np.append(np.full(3, 0.1), 1.0), 0, math.exp(LEVEL))
    X, b, yy, n = amounts.products, amounts.sums, amounts.squares[0], amounts.weight[0]
    evidences, fits = [], []
    for spread, of_arms in product(SPREADS, ARM_SPREADS):
        P = np.diag([spread**-2.0] * 3 + [LEVEL_SPREAD**-2.0, of_arms**-2.0])
        A = X + P
        theta = np.linalg.solve(A, b)
        left = ROWS * NOISE + yy - theta @ b
        (_, of_P), (_, of_A) = np.linalg.slogdet(P), np.linalg.slogdet(A)
        evidence = 0.5 * (of_P - of_A - (n + ROWS) * math.log(left))
        evidences.append(evidence - (math.log(ODDS) if of_arms == ARM_SPREADS[1] else 0.0))
        fits.append((theta, left / (n + ROWS), np.linalg.inv(A)))
    weights = special.softmax(evidences)
    theta = sum(weight * theta for weight, (theta, _, _) in zip(weights, fits, strict=True))
    noise = sum(weight * noise for weight, (_, noise, _) in zip(weights, fits, strict=True))
    covariance = sum(
        weight * (noise * inverse + np.outer(own - theta, own - theta))
        for weight, (own, noise, inverse) in zip(weights, fits, strict=True)
    )
    found = np.r_[amounts.slopes, amounts.level, amounts.arms]
    np.testing.assert_allclose(found, theta, atol=1e-3)  # pairs of little evidence are left out
    assert amounts.noise[0] == pytest.approx(noise, rel=1e-3)
    np.testing.assert_allclose(amounts.covariance, covariance, atol=1e-5)


def test_it_finds_what_amounts_depend_on_and_their_mean() -> None:
    slopes = np.array([0.6, 0.0, -0.3])
    amounts = learned(slopes, 2_000, seed=3, arm_effect=-0.2)
    np.testing.assert_allclose(amounts.slopes, slopes, atol=0.06)
    assert amounts.arms[0] == pytest.approx(-0.2, abs=0.1)
    assert unit_of(amounts) == pytest.approx(math.exp(LEVEL + SIGMA**2 / 2), rel=0.1)
    z = np.array([1.0, 0.0, 0.0, 1.0])
    assert amount_of(amounts, z, 0) == pytest.approx(math.exp(0.6), rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_amounts_that_depend_on_nothing_stay_equal(seed: int) -> None:
    amounts = learned(np.zeros(12), 300, seed)
    z = np.append(np.random.default_rng(seed).normal(size=12), 1.0)
    assert abs(math.log(amount_of(amounts, z, 0))) < 0.1


def test_before_the_first_amount_a_conversion_is_worth_one_unit() -> None:
    amounts = fresh()
    assert (unit_of(amounts), amount_of(amounts, np.ones(4), 1)) == (1.0, 1.0)
    learn_amount(amounts, 0, np.ones(4), 0, 0.0)
    assert amounts.seen[0] == 0.0
    learn_amount(amounts, 0, np.ones(4), 0, 50.0)
    assert math.log(unit_of(amounts)) == pytest.approx(math.log(50.0), abs=0.6)


@pytest.mark.parametrize("amount", [5e-324, 1e-12, 1e9])
def test_any_amount_leaves_the_unit_within_bounds(amount: float) -> None:
    amounts = fresh()
    for sign in (1.0, -1.0, 1.0, -1.0):
        learn_amount(amounts, 0, np.ones(4), 0, sign * amount)
        assert 1e-10 < unit_of(amounts) <= 1e9


@pytest.mark.parametrize("at", [0, 20, 150])
def test_one_huge_order_moves_little(at: int) -> None:
    with_it, without = fresh(), fresh()
    rng = np.random.default_rng(4)
    for i in range(400):
        z, amount = np.append(rng.normal(size=3), 1.0), math.exp(LEVEL + SIGMA * rng.normal())
        learn_amount(without, 0, z, 0, amount)
        learn_amount(with_it, 0, z, 0, 1e5 if i == at else amount)
    assert unit_of(with_it) == pytest.approx(unit_of(without), rel=0.25)
    np.testing.assert_allclose(with_it.slopes, without.slopes, atol=0.05)


def test_one_odd_user_moves_little() -> None:
    amounts = learned(np.array([0.5, 0.0, 0.0]), 300, seed=5)
    before = amounts.slopes.copy()
    learn_amount(amounts, 0, np.array([1e6, 1e6, -1e6, 1.0]), 0, 20.0)
    amounts.due[0] = 0.0
    learn_amount(amounts, 0, np.array([0.0, 0.0, 0.0, 1.0]), 0, 20.0)
    np.testing.assert_allclose(amounts.slopes, before, atol=0.1)
    far, farther = np.array([FARTHEST, 0.0, 0.0, 1.0]), np.array([1e9, 0.0, 0.0, 1.0])
    assert amount_of(amounts, far, 0) == amount_of(amounts, farther, 0) < math.exp(3.1)


def test_negative_amounts_lower_the_mean_and_turn_its_sign() -> None:
    amounts = fresh()
    for i in range(100):
        learn_amount(amounts, 0, np.zeros(4), 0, -20.0 if i % 4 == 0 else 20.0)
    mean = unit_of(amounts) * amount_of(amounts, np.zeros(4), 0)
    assert mean == pytest.approx(20.0 * 0.5, rel=0.1)
    for _ in range(200):
        learn_amount(amounts, 0, np.zeros(4), 0, -20.0)
    assert amount_of(amounts, np.zeros(4), 0) < 0.0


def test_each_arm_has_losses_of_its_own() -> None:
    rng, amounts, z = np.random.default_rng(1), fresh(), np.zeros(4)
    for i in range(600):
        loss = i % 2 == 1 and rng.random() < 0.6
        learn_amount(amounts, 0, z, i % 2, (-30.0 if loss else 20.0) * rng.lognormal(0.0, 0.3))
    unit = unit_of(amounts)
    assert unit * amount_of(amounts, z, 0) == pytest.approx(20.0, rel=0.15)
    assert unit * amount_of(amounts, z, 1) == pytest.approx(0.4 * 20.0 - 0.6 * 30.0, rel=0.2)


def balances(amounts: Amounts) -> list[float]:
    """Each arm's balance, as James and Stein would have it, of equal amounts."""
    n = amounts.sizes / amounts.sizes.sum() * amounts.weight[0]
    raw = amounts.signed / amounts.sizes.sum() * amounts.weight[0]
    common = (raw.sum() + GAINS) / (n.sum() + GAINS)
    chance = (1.0 - common**2) * math.exp(amounts.noise[0]) / (n + 1.0)
    apart = (raw - common * n) / (n + 1.0)
    return list(common + apart * np.maximum(1.0 - chance / apart**2, 0.0))


def test_a_balance_is_that_of_all_and_what_chance_does_not_explain() -> None:
    amounts, z = fresh(K=2), np.zeros(4)
    for i in range(300):
        learn_amount(amounts, 0, z, i % 3, -20.0 if i % (4, 5, 2)[i % 3] == 0 else 20.0)
    assert len(set(amounts.lost.round(3))) > 1
    np.testing.assert_allclose(1.0 - amounts.lost, balances(amounts), rtol=1e-9)


def test_few_losses_of_one_arm_may_be_chance() -> None:
    amounts, z = fresh(), np.zeros(4)
    for i in range(40):
        learn_amount(amounts, 0, z, 0, -20.0 if i % 4 == 0 else 20.0)
    for y in (-20.0, 20.0, -20.0):
        learn_amount(amounts, 0, z, 1, y)
    own = 4.0 / 3.0  # two of three
    assert amounts.lost[1] < 0.5 * (amounts.lost[0] + own)
    for _ in range(30):
        learn_amount(amounts, 0, z, 1, -20.0)
    assert amounts.lost[1] > 1.3
    assert amounts.lost[0] < 0.7


def test_a_loss_as_the_first_amount_is_not_taken_for_all() -> None:
    amounts = fresh()
    learn_amount(amounts, 0, np.zeros(4), 1, -20.0)
    assert amounts.lost.max() < 0.5


@pytest.mark.parametrize("negative", [0.05, 0.6, 0.8])
def test_where_signs_go_with_sizes_the_mean_is_that_of_the_amounts(negative: float) -> None:
    """Fees of about 1 and orders of about 100: what most conversions are says nothing."""
    rng, amounts, drawn = np.random.default_rng(2), fresh(), []
    for _ in range(2_000):
        y = -1.0 if rng.random() < negative else 100.0
        drawn.append(y * rng.lognormal(0.0, 0.2))
        learn_amount(amounts, 0, np.zeros(4), 0, drawn[-1])
    mean = amount_of(amounts, np.zeros(4), 0) * unit_of(amounts)
    assert mean == pytest.approx(np.mean(drawn), rel=0.1)


def test_one_fee_among_large_orders_moves_the_typical_amount_little() -> None:
    """Where one order in twenty is a hundred times as large, it must not change how it is read."""
    rng, amounts, z = np.random.default_rng(3), fresh(), np.zeros(4)
    drawn = np.where(rng.random(1_000) < 0.05, 100.0, 1.0) * rng.lognormal(3.0, 0.5, 1_000)
    for y in drawn:
        learn_amount(amounts, 0, z, 0, float(y))
    before = unit_of(amounts)
    learn_amount(amounts, 0, z, 0, -1.0)
    assert unit_of(amounts) * amount_of(amounts, z, 0) == pytest.approx(before, rel=0.05)
    assert before == pytest.approx(drawn.mean(), rel=0.25)


def test_a_share_of_the_amount_up_to_a_ceiling_costs_its_mean() -> None:
    amounts = learned(np.zeros(3), 2_000, seed=6)
    z = np.array([0.0, 0.0, 0.0, 1.0])
    middle = amounts.level[0] + math.log(amount_of(amounts, z, 1))
    Y = stats.lognorm(s=math.sqrt(amounts.noise[0]), scale=math.exp(middle))
    for share, most in ((0.2, 3.0), (0.2, 50.0), (1.0, 5.0)):
        y = Y.ppf((np.arange(200_000) + 0.5) / 200_000)
        reference = np.minimum(share * y, most).mean()
        assert charged_share(amounts, z, 1, share, most) == pytest.approx(reference, rel=0.03)
    assert charged_share(fresh(), z, 1, 0.2, 3.0) == 3.0  # before the first amount


def test_while_there_are_few_a_share_of_the_amount_costs_that_of_a_log_normal() -> None:
    amounts = learned(np.zeros(3), 12, seed=6)
    z = np.array([0.0, 0.0, 0.0, 1.0])
    middle = amounts.level[0] + math.log(amount_of(amounts, z, 1))
    Y = stats.lognorm(s=math.sqrt(amounts.noise[0]), scale=math.exp(middle))
    y = Y.ppf((np.arange(200_000) + 0.5) / 200_000)
    for share, most in ((0.2, 3.0), (0.2, 500.0), (1.0, 5.0)):
        reference = np.minimum(share * y, most).mean()
        assert charged_share(amounts, z, 1, share, most) == pytest.approx(reference, rel=0.01)
    np.testing.assert_allclose(amounts.groups.mean(), 1.0)


@pytest.mark.parametrize("most", [10.0, 50.0, 1_000.0])
@pytest.mark.parametrize("shape", ["one in ten much larger", "fees", "two prices", "exponential"])
def test_a_share_of_amounts_that_are_not_log_normal_costs_their_mean(
    shape: str, most: float
) -> None:
    rng, amounts, z = np.random.default_rng(9), fresh(), np.zeros(4)
    one = rng.random(2_000)
    drawn = {
        "one in ten much larger": np.where(one < 0.1, 50.0, 1.0) * rng.lognormal(3.0, 0.6, 2_000),
        "fees": np.where(one < 0.6, -1.0, 100.0) * rng.lognormal(0.0, 0.2, 2_000),
        "two prices": np.where(one < 0.5, 20.0, 200.0),
        "exponential": rng.exponential(40.0, 2_000),
    }[shape]
    for y in drawn:
        learn_amount(amounts, 0, z, 0, float(y))
    solve(amounts)
    reference = np.minimum(0.2 * np.maximum(drawn, 0.0), most).mean()
    assert charged_share(amounts, z, 0, 0.2, most) == pytest.approx(reference, rel=0.15)


def test_the_variance_of_a_sum_holds() -> None:
    """In 95 of 100 samples or more: what is not known of the mean of any shape counts in full."""
    truth, z = math.exp(LEVEL + SIGMA**2 / 2), np.array([0.0, 0.0, 0.0, 1.0])
    means, deviations = [], []
    for seed in range(100):
        amounts = learned(np.zeros(3), 150, seed)
        mean = unit_of(amounts) * amount_of(amounts, z, 0)
        gradient = mean * np.array([0.0, 0.0, 0.0, 1.0, 0.0])
        means.append(mean)
        deviations.append(math.sqrt(variance_of(amounts, mean, gradient, np.array([mean, 0.0]))))
    held = (abs(np.array(means) - truth) < 1.96 * np.array(deviations)).sum()
    assert held >= 90
    assert 1.0 < np.mean(deviations) / np.std(means) < 1.7


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_variance_of_a_sum_holds_where_some_are_losses(share: float) -> None:
    mean_size, held, z = math.exp(LEVEL + SIGMA**2 / 2), 0, np.array([0.0, 0.0, 0.0, 1.0])
    for seed in range(100):
        rng, amounts = np.random.default_rng(seed), fresh()
        for _ in range(150):
            sign = -1.0 if rng.random() < share else 1.0
            learn_amount(amounts, 0, z, 0, sign * rng.lognormal(LEVEL, SIGMA))
        mean = unit_of(amounts) * amount_of(amounts, z, 0)
        gradient = mean * np.array([0.0, 0.0, 0.0, 1.0, 0.0])
        variance = variance_of(amounts, mean, gradient, np.array([unit_of(amounts), 0.0]))
        held += abs(mean - (1.0 - 2.0 * share) * mean_size) < 1.96 * math.sqrt(variance)
    assert held >= 88


def test_memory_that_cannot_be_is_told() -> None:
    amounts = learned(np.zeros(3), 50, seed=7)
    memory = np.concatenate([np.ravel(part) for part in amounts])
    assert sound(memory, 3, 1)
    sizes = 5 + 3 + 1 + 1 + 2 + GROUPS
    lost = sizes + 4
    places = ((0, 1.5), (1, -1.0), (2, 0.0), (3, -1.0), (4, -1.0), (9, math.inf))
    for at, value in (*places, (sizes, -1.0), (lost, 2.5), (lost + 1, -0.1)):
        damaged = memory.copy()
        damaged[at] = value
        assert not sound(damaged, 3, 1), at


@pytest.mark.parametrize(
    ("shape", "tolerance"),
    [("one in twenty a hundred times larger", 0.25), ("gamma", 0.3), ("exponential", 0.15)],
)
def test_amounts_that_are_not_log_normal_have_their_own_mean(shape: str, tolerance: float) -> None:
    rng, amounts, z = np.random.default_rng(8), fresh(), np.array([0.0, 0.0, 0.0, 1.0])
    drawn = {
        "one in twenty a hundred times larger": np.where(rng.random(1_000) < 0.05, 500.0, 5.0),
        "gamma": rng.gamma(0.5, 40.0, 1_000),
        "exponential": rng.exponential(20.0, 1_000),
    }[shape]
    for y in drawn:
        learn_amount(amounts, 0, z, 0, float(y))
    solve(amounts)
    assert unit_of(amounts) == pytest.approx(drawn.mean(), rel=tolerance)
    far = abs(math.log(unit_of(amounts) / drawn.mean()))
    assert far < 3.0 * math.sqrt(
        variance_of(amounts, 1.0, np.r_[np.zeros(3), 1.0, 0.0], np.zeros(2))
    )


@pytest.mark.parametrize("won", [5.0, 20.0])
def test_orders_of_another_kind_that_a_treatment_wins_count_by_their_mean(won: float) -> None:
    """A third of the treated users' orders are small ones; the others are as without treatment."""
    z, errors = np.array([0.0, 0.0, 0.0, 1.0]), []
    for seed in range(10):
        rng, amounts = np.random.default_rng(seed), fresh()
        own = 40.0 * rng.lognormal(-0.125, 0.5, 800)
        brought = np.where(rng.random(800) < 1 / 3, won, own)
        for i in range(800):
            learn_amount(amounts, 0, z, i % 2, float(brought[i] if i % 2 else own[i]))
        solve(amounts)
        unit = unit_of(amounts)
        ratio = amount_of(amounts, z, 1) / amount_of(amounts, z, 0)
        assert unit * amount_of(amounts, z, 0) == pytest.approx(own[::2].mean(), rel=0.15)
        errors.append(ratio / (brought[1::2].mean() / own[::2].mean()) - 1.0)
        sizes = np.array([0.0, unit * amount_of(amounts, z, 1)])
        reach = 1.96 * math.sqrt(variance_of(amounts, sizes[1], np.r_[np.zeros(3), 1, 1], sizes))
        assert reach > 0.0
    assert np.mean(errors) == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_arms_with_amounts_of_one_kind_are_seldom_told_apart(spread: float) -> None:
    z, apart = np.array([0.0, 0.0, 0.0, 1.0]), []
    for seed in range(40):
        rng, amounts = np.random.default_rng(seed), fresh()
        for i in range(300):
            learn_amount(amounts, 0, z, i % 2, rng.lognormal(3.0, spread))
        solve(amounts)
        apart.append(amounts.apart.copy())
    assert (np.array(apart) == 0.0).mean() > 0.6
    assert abs(np.array(apart)).max() < 0.3


def test_a_treatment_that_halves_amounts_is_found() -> None:
    """How far treatments change amounts is chosen by the evidence, as for the features."""
    halved = learned(np.zeros(3), 600, seed=9, arm_effect=math.log(0.5))
    assert halved.arms[0] == pytest.approx(math.log(0.5), abs=0.15)
    same = learned(np.zeros(3), 600, seed=9)
    assert abs(same.arms[0]) < 0.06
