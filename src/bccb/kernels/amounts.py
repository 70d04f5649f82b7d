r"""Amounts: what a conversion is worth, learned from the conversions alone.

Where outcomes are amounts of money, mostly zero, a user's expected outcome is P(y != 0) times the
amount of a conversion. The estimator learns the first factor, this part the second: logarithms of
amounts are linear in the features and the arm,

    log |y| = c + b . z + a_k + e,    e ~ N(0, s^2),

by Bayesian regression with a conjugate prior. How far the b and a are spread is weighed by the
evidence; so where amounts depend neither on the features nor on the arm, both stay near zero. One
huge order moves little, and so does one odd user: residuals are cut at three standard deviations,
features at five. Learning needs only the moments of the rows; they are solved again when there are
an eighth more of them.

Amounts need not be log-normal. Where the mean of the recent ones is clearly another one than that
of a log-normal, the typical amount is multiplied by their ratio, and so is that of an arm where its
amounts are clearly of another shape than those of all. What a share of an amount costs,
up to a ceiling, is expected by how the recent ones are spread.

Amounts below 0 are returns and losses, and a treatment can be what causes them. So each arm has a
balance, its gains less its losses relative to the sum of both, by which the size is multiplied. It
is that of all arms, as far as chance explains the difference.

The policy compares amounts relative to :func:`unit_of`, the typical amount. So its scores stay in
units of a conversion, its price does not jump when the first amount becomes known, and with equal
amounts it decides as a policy that counts conversions.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import fill
from bccb.kernels.soundness import LARGE, counted, within
from bccb.outcome import MOST_AMOUNT
from bccb.types import Floats

FARTHEST = 5.0  # standard deviations at which features are cut
REACH = 3.0  # of the logarithm of an amount, relative to the unit
LEAST_AMOUNT = 1e-6
MOST_MISFIT = 7.0  # of a logarithm: a factor of a thousand
GROUPS = 20  # of recent amounts, from the least to the largest
RECENT = 1_024  # amounts of which it is known how they were learned, at most,
FEWEST_RECENT, MOST_NUMBERS = 64, 100_000  # and with their features so many numbers
USER, LOG, SIZE, WEIGHT, EXACT, ARM, FEATURES = range(7)  # columns of one


class Amounts(NamedTuple):
    """The moments of m = d + 1 + K inputs (features, 1, arms) and of the logarithms of amounts."""

    seen: Annotated[Floats, "1"]  # conversions
    due: Annotated[Floats, "1"]  # how many must be seen for the moments to be solved again
    noise: Annotated[Floats, "1"]  # s^2; 0 before the first amount ever
    weight: Annotated[Floats, "1"]  # of the conversions in the moments
    squares: Annotated[Floats, "1"]  # the sum of squared logarithms
    slopes: Annotated[Floats, "d"]  # b
    level: Annotated[Floats, "1"]  # c
    arms: Annotated[Floats, "K"]  # a
    misfit: Annotated[Floats, "2"]  # the logarithm of the mean relative to a log-normal; its error
    groups: Annotated[Floats, "GROUPS"]  # the mean of each, relative to that of all
    sizes: Annotated[Floats, "K + 1"]  # of amounts by arm, without what b and a explain
    signed: Annotated[Floats, "K + 1"]  # the same with their signs
    lost: Annotated[Floats, "K + 1"]  # 1 - balance
    apart: Annotated[Floats, "K + 1"]  # the logarithm of an arm's mean relative to what is expected
    unsure: Annotated[Floats, "K + 1"]  # the error of that
    sums: Annotated[Floats, "m"]  # of inputs times logarithms
    newest: Annotated[Floats, "1"]  # the place of the newest of the recent ones
    recent: Annotated[Floats, "r", "FEATURES + d"]  # users, how they were learned, and their rows
    input: Annotated[Floats, "m"]  # work space
    products: Annotated[Floats, "m", "m"]  # of inputs
    covariance: Annotated[Floats, "m", "m"]  # of b, c and a


AMOUNTS = Layout(
    Amounts,
    m="d + 1 + K",
    r="min(RECENT, max(FEWEST_RECENT, MOST_NUMBERS // max(d, 1)))",
)


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether this can be the memory of amounts."""
    amounts = AMOUNTS.view(memory, d, K)
    seen = float(amounts.seen[0])
    return (
        counted(amounts.seen)
        and within(memory[:5], 0.0, LARGE)
        and within(amounts.groups, 0.0, LARGE)
        and within(amounts.sizes, 0.0, LARGE)
        and within(amounts.lost, 0.0, 2.0)
        and within(amounts.apart, -MOST_MISFIT, MOST_MISFIT)
        and within(amounts.unsure, 0.0, MOST_MISFIT)
        and bool((abs(amounts.signed) <= amounts.sizes).all())
        and counted(amounts.newest)
        and amounts.newest[0] < len(amounts.recent)
        and counted(amounts.recent[:, ARM])
        and within(amounts.recent[:, ARM], 0.0, float(K))
        and counted(amounts.recent[:, USER])
        and within(amounts.recent[:, SIZE], 0.0, LARGE)
        and within(amounts.recent[:, WEIGHT], 0.0, 1.0)
        and within(amounts.misfit, -MOST_MISFIT, MOST_MISFIT)
        and within(memory, -LARGE, LARGE)
        and (seen == 0.0 or amounts.noise[0] > 0.0)
    )


def leave_users(memory: Floats, d: int, K: int) -> None:
    """Forget of whom the recent amounts are: none of them is corrected."""
    AMOUNTS.view(memory, d, K).recent[:, USER] = 0.0


@jit
def write_input(amounts: Amounts, z: Floats, arm: int) -> None:
    """The features of z, then 1, then which arm; z may hold more than features."""
    q, d = amounts.input, amounts.slopes.shape[0]
    fill(q, 0.0)
    for j in range(d):
        q[j] = min(max(z[j], -FARTHEST), FARTHEST)
    q[d] = 1.0
    if arm > 0:
        q[d + arm] = 1.0


@jit
def log_relative(amounts: Amounts, z: Floats, arm: int) -> float:
    """B . z + a_k, within REACH: the logarithm of an amount, less that of the unit."""
    total = amounts.arms[arm - 1] if arm > 0 else 0.0
    for j in range(amounts.slopes.shape[0]):
        total += amounts.slopes[j] * min(max(z[j], -FARTHEST), FARTHEST)
    return float(min(max(total, -REACH), REACH))


@jit
def unit_of(amounts: Amounts) -> float:
    """The typical amount of a conversion, without its sign; 1 at first.

    It is exp(c + s^2 / 2), the mean of a log-normal, times the misfit.
    """
    log = amounts.level[0] + 0.5 * amounts.noise[0] + amounts.misfit[0]
    return float(math.exp(min(log, math.log(MOST_AMOUNT))))


@jit
def size_in(amounts: Amounts, z: Floats, arm: int) -> float:
    """The expected size of an amount of a user ``z`` in ``arm``, in units."""
    return float(math.exp(log_relative(amounts, z, arm) + amounts.apart[arm]))


@jit
def amount_of(amounts: Amounts, z: Floats, arm: int) -> float:
    """The expected amount of a conversion of a user ``z`` in ``arm``, in units."""
    return float(size_in(amounts, z, arm) * (1.0 - amounts.lost[arm]))


@jit
def charged_share(amounts: Amounts, z: Floats, arm: int, share: float, most: float) -> float:
    """The expected cost of a conversion that costs a share of its amount, at most ``most``.

    E min(share Y, most) by the mean of each group of Y, times the share of gains: losses cost
    nothing.
    """
    if amounts.noise[0] == 0.0:
        return most
    expected = share * unit_of(amounts) * size_in(amounts, z, arm)
    total = 0.0
    for j in range(GROUPS):
        total += min(expected * amounts.groups[j], most)
    return float((1.0 - 0.5 * amounts.lost[arm]) * total / GROUPS)


@jit
def gain_of(y: float) -> float:
    """Whether there was a conversion, which is what the estimator learns."""
    return 1.0 if y != 0.0 else 0.0


KERNELS = {
    "view_amounts": AMOUNTS.view,
    "unit_of": unit_of,
    "amount_of": amount_of,
    "charged_share": charged_share,
}
