r"""Amounts: what a conversion is worth, learned from the conversions alone.

Where outcomes are amounts of money, mostly zero, a user's expected outcome is P(y != 0) times the
amount of a conversion. The estimator learns the first factor, this part the second: logarithms of
amounts are linear in the features and the arm,

    log |y| = c + b . z + a_k + e,    e ~ N(0, s^2),

by Bayesian regression with a conjugate prior. How far the b and a are spread is chosen by the
evidence; so where amounts depend neither on the features nor on the arm, both stay near zero. One
huge order moves little, and so does one odd user: residuals are cut at three standard deviations,
features at five. Learning needs only the moments of the rows; they are solved again when there are
an eighth more of them.

Amounts need not be log-normal. Where the mean of the recent ones is clearly another one than that
of a log-normal, the typical amount is multiplied by their ratio.

Amounts below 0 are returns and losses, and a treatment can be what causes them. So each arm has a
balance, its gains less its losses relative to the sum of both, by which the size is multiplied.

The policy compares amounts relative to :func:`unit_of`, the typical amount. So its scores stay in
units of a conversion, its price does not jump when the first amount becomes known, and with equal
amounts it decides as a policy that counts conversions.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import add_to_row, copy, fill, invert, quadratic, row_dot
from bccb.kernels.soundness import LARGE, counted, within
from bccb.kernels.special import normal_cdf
from bccb.outcome import MOST_AMOUNT
from bccb.types import Floats

# standard deviations of the prior, in units of s
SPREADS = (0.01, 0.03, 0.1, 0.3, 1.0)  # of b
ARM_SPREADS = (0.1, 1.0)  # of a_k: treatments are expected to change amounts little,
ODDS = 1_000.0  # against one that changes them more: who is not treated teaches no better
LEVEL_SPREAD = 100.0  # of c: any currency
NOISE, ROWS = 1.0, 5.0  # of s^2 before any amount, and how many amounts that counts for
CUT = 3.0  # standard deviations at which residuals are cut
FEWEST = 20.0  # recent amounts that have a mean
FARTHEST = 5.0  # standard deviations at which features are cut
REACH = 3.0  # of the logarithm of an amount, relative to the unit
EARLY, FADING = (8.0, 16.0, 32.0), 0.25  # after so many amounts, what is kept of them
APART = 2.0  # of the level from the mean logarithm, at most
SHARE = 0.125  # more rows, and the moments are solved again
LEAST_AMOUNT = 1e-6
MOST_MISFIT = 7.0  # of a logarithm: a factor of a thousand
SHARED = 5.0  # amounts of all arms that count for the balance of each
RECENT = 1_024  # amounts of which it is known how they were learned, at most,
FEWEST_RECENT, MOST_NUMBERS = 64, 100_000  # and with their features so many numbers
USER, LOG, SIZE, WEIGHT, EXACT, ARM, FEATURES = range(7)  # columns of one
ROUNDING = 1e-9  # of sums of sizes


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
    sizes: Annotated[Floats, "K + 1"]  # of amounts by arm, without what b and a explain
    signed: Annotated[Floats, "K + 1"]  # the same with their signs
    lost: Annotated[Floats, "K + 1"]  # 1 - balance
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
        and within(amounts.sizes, 0.0, LARGE)
        and within(amounts.lost, 0.0, 2.0)
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

    It is exp(c + s^2 / 2), the mean of a log-normal, times the misfit. Where some amounts are
    negative it is the mean size: orders of 100 with fees of -1 are not log-normal.
    """
    log = amounts.level[0] + 0.5 * amounts.noise[0] + amounts.misfit[0]
    log = min(log, math.log(MOST_AMOUNT))
    sizes, lost = 0.0, 0.0
    for k in range(amounts.sizes.shape[0]):
        sizes += amounts.sizes[k]
        lost += amounts.sizes[k] - amounts.signed[k]
    if lost > ROUNDING * sizes and amounts.weight[0] > 0.0:
        return float(min(max(sizes / amounts.weight[0], LEAST_AMOUNT), MOST_AMOUNT))
    return float(math.exp(log))


@jit
def amount_of(amounts: Amounts, z: Floats, arm: int) -> float:
    """The expected amount of a conversion of a user ``z`` in ``arm``, in units."""
    return float(math.exp(log_relative(amounts, z, arm)) * (1.0 - amounts.lost[arm]))


@jit
def weigh_losses(amounts: Amounts) -> None:
    """The balance of each arm, a little nearer to that of all: an arm may have few amounts."""
    sizes, signed = amounts.sizes, amounts.signed
    whole, gains = 0.0, 0.0
    for k in range(sizes.shape[0]):
        sizes[k] = max(sizes[k], 0.0)  # what was taken back may have been learned otherwise
        signed[k] = min(max(signed[k], -sizes[k]), sizes[k])
        whole += sizes[k]
        gains += signed[k]
    if whole <= 0.0 or amounts.weight[0] <= 0.0:
        return
    shared = SHARED * whole / amounts.weight[0]
    for k in range(sizes.shape[0]):
        balance = (signed[k] + shared * gains / whole) / (sizes[k] + shared)
        amounts.lost[k] = min(max(1.0 - balance, 0.0), 2.0)


@jit
def log_of(y: float) -> float:
    """The logarithm of an amount; those below a millionth count as that."""
    return math.log(max(abs(y), LEAST_AMOUNT))


@jit
def cut(amounts: Amounts, z: Floats, arm: int, y: float, least: float) -> float:
    """The logarithm of an amount, not too far from what is expected, or ``least`` at least."""
    expected = amounts.level[0] + log_relative(amounts, z, arm)
    most = max(CUT * math.sqrt(amounts.noise[0]), least)
    return float(expected + min(max(log_of(y) - expected, -most), most))


@jit
def add(amounts: Amounts, z: Floats, arm: int, log: float, weight: float) -> None:
    """Add a row to the moments."""
    write_input(amounts, z, arm)
    q = amounts.input
    for i in range(q.shape[0]):
        if q[i] != 0.0:
            add_to_row(amounts.products, i, weight * q[i], q)
            amounts.sums[i] += weight * q[i] * log
    amounts.squares[0] += weight * log * log
    amounts.weight[0] += weight


@jit
def size_of(amounts: Amounts, z: Floats, arm: int, log: float) -> float:
    """The size of an amount with this logarithm, without what b and a explain."""
    return math.exp(min(log - log_relative(amounts, z, arm), math.log(MOST_AMOUNT)))


@jit
def add_size(amounts: Amounts, arm: int, y: float, size: float) -> None:
    """Add the size of an amount with the sign of y."""
    amounts.sizes[arm] += size
    amounts.signed[arm] += size if y > 0.0 else -size


@jit
def learn_amount(amounts: Amounts, user: int, z: Floats, arm: int, y: float) -> None:
    """Learn the amount of a conversion; nothing where there was none.

    It can be corrected (:mod:`.corrections`), exactly as long as it is one of the recent ones,
    except for ``user`` 0.
    """
    if y == 0.0:
        return
    amounts.seen[0] += 1.0
    if amounts.noise[0] == 0.0:
        log = log_of(y)
        amounts.noise[0] = NOISE
    else:
        log = cut(amounts, z, arm, y, 0.0)
    size = size_of(amounts, z, arm, log)
    add(amounts, z, arm, log, 1.0)
    add_size(amounts, arm, y, size)
    amounts.newest[0] = (amounts.newest[0] + 1.0) % amounts.recent.shape[0]
    row = amounts.recent[int(amounts.newest[0])]
    row[USER], row[LOG], row[SIZE], row[WEIGHT] = user, log, size, 1.0
    row[EXACT], row[ARM] = log_of(y), arm
    for j in range(amounts.slopes.shape[0]):
        row[FEATURES + j] = z[j]
    # not once more, where an amount was taken back and another one came
    if amounts.seen[0] in EARLY and amounts.weight[0] > 0.5 * amounts.seen[0]:
        fade(amounts)
    solve_if_due(amounts)
    weigh_losses(amounts)


@jit
def solve_if_due(amounts: Amounts) -> None:
    """Solve the moments again, once enough was learned or corrected."""
    if amounts.seen[0] >= amounts.due[0]:
        solve(amounts)
        amounts.due[0] = amounts.seen[0] + max(math.floor(SHARE * amounts.seen[0]), 1.0)


@jit
def fade(amounts: Amounts) -> None:
    """Forget most of the first amounts: nothing was known yet by which to cut them."""
    for part in (amounts.weight, amounts.squares, amounts.sums, amounts.sizes, amounts.signed):
        for i in range(part.shape[0]):
            part[i] *= FADING
    for i in range(amounts.recent.shape[0]):
        amounts.recent[i, WEIGHT] *= FADING
    for i in range(amounts.products.shape[0]):
        for j in range(amounts.products.shape[0]):
            amounts.products[i, j] *= FADING


@jit
def forget(amounts: Amounts) -> None:
    """Begin with new moments, and keep the typical amount.

    Features are scaled anew all the time. So what was taken back can be more than what was learned.
    """
    for part in (amounts.weight, amounts.squares, amounts.sums, amounts.sizes, amounts.signed):
        fill(part, 0.0)
    for part in (amounts.slopes, amounts.arms, amounts.misfit):
        fill(part, 0.0)
    for i in range(amounts.recent.shape[0]):
        amounts.recent[i, WEIGHT] = 0.0
    for i in range(amounts.products.shape[0]):
        fill(amounts.products[i], 0.0)
        fill(amounts.covariance[i], 0.0)


@jit
def solve(amounts: Amounts) -> None:
    """The posterior of b, c and a at the spreads of b and a that explain the amounts best.

    With the prior precision P, A = X'X + P and theta = A^-1 X'l, the logarithm of the evidence is,
    up to a constant, (log |P| - log |A| - (n + ROWS) log(ROWS NOISE + l'l - theta . X'l)) / 2.
    """
    S, n, theta = amounts.covariance, amounts.weight[0], amounts.input
    d, m, best, chosen, noise = amounts.slopes.shape[0], S.shape[0], -math.inf, 0, 0.0
    trials = len(SPREADS) * len(ARM_SPREADS)
    for trial in range(trials + 1):
        pair = trial if trial < trials else chosen
        spread = SPREADS[pair % len(SPREADS)]
        of_arms = ARM_SPREADS[pair // len(SPREADS)]
        evidence = -2.0 * (d * math.log(spread) + (m - d - 1) * math.log(of_arms))
        evidence -= 2.0 * math.log(ODDS) if of_arms > ARM_SPREADS[0] else 0.0
        for i in range(m):
            copy(S[i], amounts.products[i])
            own = spread if i < d else LEVEL_SPREAD if i == d else of_arms
            S[i, i] += 1.0 / own**2
        evidence -= invert(S)
        left = ROWS * NOISE + max(amounts.squares[0], 0.0)
        for i in range(m):
            theta[i] = row_dot(S, i, amounts.sums)
            left -= theta[i] * amounts.sums[i]
        if left < 0.5 * ROWS * NOISE:  # residuals below 0: more was taken back than was learned
            forget(amounts)
            return
        noise = left / (n + ROWS)
        evidence -= (n + ROWS) * math.log(noise)
        if trial < trials and evidence > best:
            best, chosen = evidence, trial
        if trial == trials - 1 and best == -math.inf:
            forget(amounts)
            return
    if abs(theta[d] - amounts.sums[d] / max(n, 1.0)) > APART and n >= 1.0:
        forget(amounts)  # features have a mean near 0: the moments are of no rows
        return
    amounts.noise[0] = noise
    for i in range(m):
        for j in range(m):
            S[i, j] *= amounts.noise[0]
        if i < d:
            amounts.slopes[i] = theta[i]
        elif i == d:
            amounts.level[0] = theta[i]
        else:
            amounts.arms[i - d - 1] = theta[i]
    note_misfit(amounts)


@jit
def note_misfit(amounts: Amounts) -> None:
    """Compare the mean of the recent amounts with that of a log-normal.

    The largest two count as the third. The part of the difference is kept that chance does not
    explain (James and Stein).
    """
    n, total, squares, most = 0.0, 0.0, 0.0, third_largest(amounts)
    for i in range(amounts.recent.shape[0]):
        weight = amounts.recent[i, WEIGHT]
        if weight > 0.0:
            ratio = math.exp(min(residual(amounts, i), most) - 0.5 * amounts.noise[0])
            n += weight
            total += weight * ratio
            squares += weight * ratio * ratio
    fill(amounts.misfit, 0.0)
    if n < FEWEST:
        return
    mean = total / n
    variance, kept = max(squares / n - mean * mean, 0.0) / n, 0.0
    if (mean - 1.0) ** 2 > variance:
        kept = 1.0 - variance / (mean - 1.0) ** 2
    ratio = max(1.0 + kept * (mean - 1.0), math.exp(-MOST_MISFIT))
    amounts.misfit[0] = min(math.log(ratio), MOST_MISFIT)
    amounts.misfit[1] = min(math.sqrt(variance) / ratio, MOST_MISFIT)


@jit
def residual(amounts: Amounts, place: int) -> float:
    """What the logarithm of a recent amount is more than expected."""
    row = amounts.recent[place]
    relative = log_relative(amounts, row[FEATURES:], int(row[ARM]))
    return float(row[EXACT] - amounts.level[0] - relative)


@jit
def third_largest(amounts: Amounts) -> float:
    """The third largest residual of the recent amounts: two huge orders may be chance."""
    first, second, third = -math.inf, -math.inf, -math.inf
    for i in range(amounts.recent.shape[0]):
        if amounts.recent[i, WEIGHT] > 0.0:
            e = residual(amounts, i)
            if e > first:
                first, second, third = e, first, second
            elif e > second:
                second, third = e, second
            elif e > third:
                third = e
    return third


@jit
def charged_share(amounts: Amounts, z: Floats, arm: int, share: float, most: float) -> float:
    """The expected cost of a conversion that costs a share of its amount, at most ``most``.

    E min(share Y, most) of a log-normal Y, times the share of gains: losses cost nothing.
    """
    deviation = math.sqrt(amounts.noise[0])
    if deviation == 0.0:
        return most
    middle = amounts.level[0] + log_relative(amounts, z, arm)
    end = (math.log(most / share) - middle) / deviation
    below = share * math.exp(middle + 0.5 * deviation**2) * normal_cdf(end - deviation)
    positive = 1.0 - 0.5 * amounts.lost[arm]
    return float(positive * min(below + most * normal_cdf(-end), most))


@jit
def scale_variance(amounts: Amounts) -> float:
    """The variance of the typical amount relative to itself, beyond that of c.

    It is in proportion to exp(s^2 / 2), and s^2 is an estimate, too. So is the misfit.
    """
    of_noise = 0.5 * amounts.noise[0] * math.sqrt(2.0 / max(amounts.weight[0], 1.0))
    return float(of_noise**2 + amounts.misfit[1] ** 2)


@jit
def balance_variance(amounts: Amounts, arm: int) -> float:
    """The variance of the balance of gains and losses of an arm."""
    lost, whole = amounts.lost[arm], 0.0
    for k in range(amounts.sizes.shape[0]):
        whole += amounts.sizes[k]
    if lost <= 0.0 or whole <= 0.0:
        return 0.0
    rows = amounts.weight[0] * amounts.sizes[arm] / whole + SHARED
    return float(lost * (2.0 - lost) / rows * math.exp(min(amounts.noise[0], 3.0)))


@jit
def variance_of(amounts: Amounts, total: float, gradient: Floats, sizes: Floats) -> float:
    """The variance of a sum of amounts with a gradient in b, c and a, and sizes in each arm."""
    variance = max(quadratic(amounts.covariance, 0, gradient), 0.0)
    variance += total**2 * scale_variance(amounts)
    for k in range(sizes.shape[0]):
        variance += sizes[k] ** 2 * balance_variance(amounts, k)
    return float(variance)


def joint_covariance(of_rates: Floats, memory: Floats, d: int, K: int) -> Floats:
    """The covariance of a model of rates, then that of b, c and a, the scale and the balances.

    The parts are independent of each other.
    """
    amounts = AMOUNTS.view(memory, d, K)
    balances = [balance_variance(amounts, k) for k in range(K + 1)]
    n, m = len(of_rates), len(amounts.covariance)
    joint = np.zeros((n + m + K + 2, n + m + K + 2))
    joint[:n, :n], joint[n : n + m, n : n + m] = of_rates, amounts.covariance
    joint[range(n + m, len(joint)), range(n + m, len(joint))] = [scale_variance(amounts), *balances]
    return joint


@jit
def gain_of(y: float) -> float:
    """Whether there was a conversion, which is what the estimator learns."""
    return 1.0 if y != 0.0 else 0.0


KERNELS = {
    "view_amounts": AMOUNTS.view,
    "learn_amount": learn_amount,
    "unit_of": unit_of,
    "amount_of": amount_of,
    "charged_share": charged_share,
}
