"""The moments of amounts: how what a conversion is worth is learned, row by row."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from bccb.kernels.amounts import (
    ARM,
    EXACT,
    FEATURES,
    GROUPS,
    LEAST_AMOUNT,
    LOG,
    MOST_MISFIT,
    SIZE,
    USER,
    WEIGHT,
    Amounts,
    log_relative,
    write_input,
)
from bccb.kernels.jit import jit
from bccb.kernels.linalg import (
    add_to_row,
    copy,
    factor,
    fill,
    invert,
    row_dot,
    squares_within,
)
from bccb.kernels.special import normal_cdf
from bccb.outcome import MOST_AMOUNT
from bccb.types import Floats

# standard deviations of the prior, in units of s
SPREADS = (0.01, 0.03, 0.1, 0.3, 1.0)  # of b
ARM_SPREADS = (0.1, 1.0)  # of a_k: treatments are expected to change amounts little
ODDS = 1_000.0  # of the small one: the two are hard to tell apart while few are treated
LEVEL_SPREAD = 1e4  # of c: any currency
PRIOR_OF_SLOPES = sum(spread**2 for spread in SPREADS) / len(SPREADS)  # variances, relative to s^2
PRIOR_OF_ARMS = (ODDS * ARM_SPREADS[0] ** 2 + ARM_SPREADS[1] ** 2) / (ODDS + 1.0)
NOISE, ROWS = 1.0, 5.0  # of s^2 before any amount, and how many amounts that counts for
CUT = 3.0  # standard deviations at which residuals are cut
EARLY, FADING = (8.0, 16.0, 32.0), 0.25  # after so many amounts, what is kept of them
CLEAR = 2.0  # standard errors of a difference between arms, below which it is chance
ROUNDING = 1e-6  # of a sum of squares
NEGLIGIBLE = 1e-3  # weight of a pair of spreads, relative to the largest
SHARE = 0.125  # more rows, and the moments are solved again
MOST_NOISE = 3.0  # in how far sizes spread
GAINS = 5.0  # amounts above 0 that count for the balance of all arms
CHANCE = 3  # the largest amounts count as the third: two huge orders may be chance
# of a normal, at the ends of its twentieths
ENDS = (-math.inf, *(NormalDist().inv_cdf(j / GROUPS) for j in range(1, GROUPS)), math.inf)


@jit
def weigh_losses(amounts: Amounts) -> None:
    """The balance of each arm: that of all, and what chance does not explain of the difference.

    As for the misfit (James and Stein). Otherwise a few returns among the first treated users
    would stop a treatment that works.
    """
    sizes, signed = amounts.sizes, amounts.signed
    whole, gains = 0.0, 0.0
    for k in range(sizes.shape[0]):
        sizes[k] = max(sizes[k], 0.0)  # what was taken back may have been learned otherwise
        signed[k] = min(max(signed[k], -sizes[k]), sizes[k])
        whole += sizes[k]
        gains += signed[k]
    if whole <= 0.0 or amounts.weight[0] <= 0.0:
        return
    size = whole / amounts.weight[0]
    common = (gains + GAINS * size) / (whole + GAINS * size)
    for k in range(sizes.shape[0]):
        apart = (signed[k] - common * sizes[k]) / (sizes[k] + size)
        chance = balance_spread(amounts, common) * size / (sizes[k] + size)
        kept = 1.0 - chance / apart**2 if apart**2 > chance else 0.0
        amounts.lost[k] = min(max(1.0 - common - kept * apart, 0.0), 2.0)


@jit
def balance_spread(amounts: Amounts, balance: float) -> float:
    """How far amounts are from the balance times their size: the variance, relative to the mean."""
    return (1.0 - balance**2) * math.exp(min(amounts.noise[0], MOST_NOISE))


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
        # of what the moments hold: soon, where they were forgotten
        rows = min(amounts.seen[0], amounts.weight[0])
        amounts.due[0] = amounts.seen[0] + max(math.floor(SHARE * rows), 1.0)


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
    """Begin with new moments, and keep the typical amount, as well known as from one amount.

    Of the effects of features and arms nothing is known then: their variances are the prior's.
    """
    amounts.level[0] += amounts.misfit[0]
    for part in (amounts.weight, amounts.squares, amounts.sums, amounts.sizes, amounts.signed):
        fill(part, 0.0)
    for part in (amounts.slopes, amounts.arms, amounts.misfit, amounts.apart, amounts.unsure):
        fill(part, 0.0)
    for i in range(amounts.recent.shape[0]):
        amounts.recent[i, WEIGHT] = 0.0
    d = amounts.slopes.shape[0]
    for i in range(amounts.products.shape[0]):
        fill(amounts.products[i], 0.0)
        fill(amounts.covariance[i], 0.0)
        prior = PRIOR_OF_SLOPES if i < d else 1.0 if i == d else PRIOR_OF_ARMS
        amounts.covariance[i, i] = amounts.noise[0] * prior


@jit
def are_of_rows(amounts: Amounts) -> bool:
    """Whether the moments can be of rows: neither an input nor the logarithms vary less than 0.

    Features are scaled anew all the time. So what was taken back can be more than what was learned.
    """
    n, d = amounts.weight[0], amounts.slopes.shape[0]
    for i in range(amounts.products.shape[0]):
        if n * amounts.products[i, i] < (1.0 - ROUNDING) * amounts.products[d, i] ** 2:
            return False
    return bool(n * amounts.squares[0] >= (1.0 - ROUNDING) * amounts.sums[d] ** 2)


@jit
def solve(amounts: Amounts) -> None:
    """The posterior of b, c and a: its mean and covariance over the spreads of b and a.

    Each pair of spreads counts by its evidence. Where they disagree, as they do while there are few
    amounts of treated users, that is a part of the covariance.
    """
    S, theta, d, m = amounts.covariance, amounts.input, len(amounts.slopes), len(amounts.covariance)
    weights, lefts = weigh_pairs(amounts)
    if weights.sum() == 0.0 or not are_of_rows(amounts):
        forget(amounts)
        return
    noise, mean, products = 0.0, np.zeros(m), np.zeros((m, m))
    for pair in range(weights.shape[0]):
        if weights[pair] == 0.0:
            continue
        own = lefts[pair] / (amounts.weight[0] + ROWS)
        noise += weights[pair] * own
        write_precision(amounts, pair)
        invert(S)
        for i in range(m):
            theta[i] = row_dot(S, i, amounts.sums)
            mean[i] += weights[pair] * theta[i]
        for i in range(m):
            for k in range(m):
                products[i, k] += weights[pair] * (own * S[i, k] + theta[i] * theta[k])
    amounts.noise[0], amounts.level[0] = noise, mean[d]
    copy(amounts.slopes, mean[:d])
    copy(amounts.arms, mean[d + 1 :])
    for i in range(m):
        for k in range(m):
            S[i, k] = products[i, k] - mean[i] * mean[k]
    note_shape(amounts)


@jit
def weigh_pairs(amounts: Amounts) -> tuple[Floats, Floats]:
    """The weight of each pair of spreads, and the residuals; no weights if these are below 0.

    With the prior precision P, A = X'X + P and left = ROWS NOISE + l'l - l'X A^-1 X'l, the
    logarithm of the evidence is, up to a constant, (log |P| - log |A| - (n + ROWS) log left) / 2.
    """
    S, d, m = amounts.covariance, len(amounts.slopes), len(amounts.covariance)
    n, pairs = amounts.weight[0] + ROWS, len(SPREADS) * len(ARM_SPREADS)
    weights, lefts = np.zeros(pairs), np.empty(pairs)
    for pair in range(pairs):
        spread, of_arms = write_precision(amounts, pair)
        evidence = -2.0 * (d * math.log(spread) + (m - d - 1) * math.log(of_arms)) - factor(S)
        evidence -= 2.0 * math.log(ODDS) if of_arms > ARM_SPREADS[0] else 0.0
        lefts[pair] = ROWS * NOISE + max(amounts.squares[0], 0.0)
        lefts[pair] -= squares_within(S, amounts.sums, amounts.input)
        if not (lefts[pair] >= 0.5 * ROWS * NOISE and evidence > -math.inf):
            return np.zeros(pairs), lefts
        weights[pair] = 0.5 * (evidence - n * math.log(lefts[pair]))
    weights = np.exp(weights - weights.max())
    for pair in range(pairs):
        if weights[pair] < NEGLIGIBLE:
            weights[pair] = 0.0
    return weights / weights.sum(), lefts


@jit
def write_precision(amounts: Amounts, pair: int) -> tuple[float, float]:
    """Write A = X'X + P with a pair of spreads, and return these."""
    S, d = amounts.covariance, len(amounts.slopes)
    spread, of_arms = SPREADS[pair % len(SPREADS)], ARM_SPREADS[pair // len(SPREADS)]
    for i in range(S.shape[0]):
        copy(S[i], amounts.products[i])
        own = spread if i < d else LEVEL_SPREAD if i == d else of_arms
        S[i, i] += 1.0 / own**2
    return spread, of_arms


@jit
def note_shape(amounts: Amounts) -> None:
    """Compare the recent amounts with what is expected of them: their mean, and how they spread.

    The part of the difference to the mean of a log-normal is kept that chance does not explain
    (James and Stein). While there are few, a log-normal is what they are.
    """
    deviation, ratios = math.sqrt(amounts.noise[0]), sorted_ratios(amounts)
    n = ratios.shape[0]
    for part in (amounts.misfit, amounts.apart, amounts.unsure):
        fill(part, 0.0)
    if min(n, amounts.weight[0]) < GROUPS:
        for j in range(GROUPS):
            below = normal_cdf(ENDS[j + 1] - deviation) - normal_cdf(ENDS[j] - deviation)
            amounts.groups[j] = GROUPS * below
        return
    mean = ratios.mean()
    variance, kept = ratios.var() / n, 0.0
    if (mean - 1.0) ** 2 > variance:
        kept = 1.0 - variance / (mean - 1.0) ** 2
    ratio = max(1.0 + kept * (mean - 1.0), math.exp(-MOST_MISFIT))
    amounts.misfit[0] = min(math.log(ratio), MOST_MISFIT)
    amounts.misfit[1] = min(math.sqrt(variance) / ratio, MOST_MISFIT)
    note_arms(amounts, n, mean, ratios[-1])
    total = 0.0
    for j in range(GROUPS):
        amounts.groups[j] = ratios[j * n // GROUPS : (j + 1) * n // GROUPS].mean()
        total += amounts.groups[j]
    for j in range(GROUPS):
        amounts.groups[j] *= GROUPS / total


@jit
def note_arms(amounts: Amounts, rows: int, mean: float, most: float) -> None:
    """Compare the recent amounts of each arm with those of all, up to ``most`` each.

    A treatment may win orders of another kind. A difference counts where it is clear, less what
    chance explains of it; its error counts in any case.
    """
    for arm in range(amounts.apart.shape[0]):
        n, total, squares = 0, 0.0, 0.0
        for i in range(amounts.recent.shape[0]):
            row = amounts.recent[i]
            if row[WEIGHT] > 0.0 and int(row[ARM]) == arm:
                ratio = min(ratio_of(amounts, row), most)
                n += 1
                total += ratio
                squares += ratio * ratio
        if n < GROUPS:
            continue
        gap = total / n - mean
        chance = max(squares / n - (total / n) ** 2, 0.0) / n * (1.0 - n / rows)
        amounts.unsure[arm] = min(math.sqrt(chance) / mean, MOST_MISFIT)
        if gap**2 > CLEAR**2 * chance + ROUNDING * mean**2:
            kept = 1.0 - CLEAR**2 * chance / gap**2
            amounts.apart[arm] = math.log(max(1.0 + kept * gap / mean, math.exp(-MOST_MISFIT)))


@jit
def ratio_of(amounts: Amounts, row: Floats) -> float:
    """A recent amount relative to the mean of a log-normal."""
    expected = amounts.level[0] + log_relative(amounts, row[FEATURES:], int(row[ARM]))
    return math.exp(row[EXACT] - expected - 0.5 * amounts.noise[0])


@jit
def sorted_ratios(amounts: Amounts) -> Floats:
    """The recent amounts relative to the mean of a log-normal, from the least to the largest."""
    ratios, n = np.empty(amounts.recent.shape[0]), 0
    for i in range(amounts.recent.shape[0]):
        row = amounts.recent[i]
        if row[WEIGHT] > 0.0:
            ratios[n] = ratio_of(amounts, row)
            n += 1
    ratios = np.sort(ratios[:n])
    for i in range(max(n - CHANCE, 0), n):
        ratios[i] = ratios[max(n - CHANCE, 0)]
    return ratios


KERNELS = {"learn_amount": learn_amount}
