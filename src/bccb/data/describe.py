"""What a log looks like: its arms, their rates and effects, and whether it looks randomised."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bccb import checks
from bccb.data.chances import Fit, fit_to_probabilities
from bccb.data.leakage import Leak, leaks
from bccb.data.readers import read_complete_rows
from bccb.data.schema import Columns
from bccb.data.sources import Source
from bccb.errors import InputError
from bccb.intervals import Interval, mean_amount, newcombe, wilson
from bccb.outcome import Kind
from bccb.types import Floats, Log

LARGE_DIFFERENCE = 0.1  # in standard deviations: the usual bound for a balanced feature
CHANCE = 0.01  # a p-value below this is no longer put down to chance
BLOCK = 65_536  # rows whose moments are taken at a time, so that memory does not double
ROUNDING = 1e-6  # a standard deviation below this part of another is rounding
GIVEN = "given the probabilities of the log"
RANK_TOLERANCE = 1e-10  # eigenvalues of the correlations below this count as collinearity


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of the trial; the first is the control."""

    name: str
    users: int
    share: float
    rate: Interval  # the mean outcome
    effect: Interval | None  # its rate minus the control's; None for the control


@dataclass(frozen=True, slots=True)
class Balance:
    """Whether the arms have the same features, as they do when chance alone chose the arm.

    In a log with probabilities everything is given these: differences are of weighted means.
    """

    differences: dict[str, dict[str, float]]  # by treatment and feature: standardised, to control
    largest: float  # the largest of them in absolute value
    statistic: float  # of all differences in means together
    degrees: int  # of freedom of its chi-square distribution
    p_value: float
    looks_randomised: bool  # or differs by so little that it does no harm
    verdict: str


@dataclass(frozen=True, slots=True)
class Description:
    """A log in figures. `dataclasses.asdict` makes plain JSON types of it."""

    users: int  # the rows described
    incomplete: int  # rows of the file that are left out, because something is missing in them
    missing: dict[str, int]  # missing or infinite values by column of the file; empty without one
    arms: tuple[Arm, ...]
    balance: Balance
    leaks: tuple[Leak, ...]  # features that alone tell the outcome
    outcome_values: dict[str, int]  # which text counts as which outcome; empty for numbers
    notes: tuple[str, ...] = ()  # sentences about features that are not as they stand in the file
    kind: str = Kind.CONVERSION  # of the outcomes: the mean of amounts is no rate


def describe(log: Log) -> Description:
    """Describe a log.

    Rates have Wilson's score interval, effects Newcombe's interval built on it; for outcomes
    between 0 and 1 that are not all 0 or 1 both err on the wide side. Amounts of money have means
    in place of rates.

    >>> log = Log(np.zeros((4, 1)), [0, 0, 1, 1], [0, 0, 0, 1], [[500_000]] * 4)
    >>> [(arm.name, arm.share, arm.rate.value) for arm in describe(log).arms]
    [('control', 0.5, 0.0), ('treatment-1', 0.5, 0.5)]
    """
    checks.instance("log", log, Log, "a Log")
    names = ("control", *log.treatment_names)
    counts = np.bincount(log.actions, minlength=len(names)).tolist()
    for name, count in zip(names, counts, strict=True):
        if not count:
            raise InputError(f"the number of rows of arm {name!r}", 0, "at least 1")
    if log.amounts:
        rates = [mean_amount(log.outcomes[log.actions == arm]) for arm in range(len(names))]
    else:
        sums = np.bincount(log.actions, weights=log.outcomes, minlength=len(names)).tolist()
        rates = [wilson(total / count, count) for total, count in zip(sums, counts, strict=True)]
    effects = [None, *(newcombe(rate, rates[0]) for rate in rates[1:])]
    arms = tuple(
        Arm(name, count, count / log.users, rate, effect)
        for name, count, rate, effect in zip(names, counts, rates, effects, strict=True)
    )
    return Description(log.users, 0, {}, arms, check_balance(log), leaks(log), {}, kind=log.kind)


def describe_file(source: Source, columns: Columns | None = None) -> Description:
    """Describe the complete rows of a file or a frame, and count what is missing in the others."""
    read = read_complete_rows(source, columns)
    return replace(
        describe(read.log),
        missing=read.missing,
        incomplete=read.incomplete,
        outcome_values=read.outcome_values,
        notes=read.notes,
    )


def check_balance(log: Log) -> Balance:
    r"""Compare the features of the arms; given the probabilities of actions, where a log has them
    (see `bccb.data.chances`).

    With :math:`\bar x_a` the means of arm a, :math:`\bar x` and S those of all n users and their
    covariance, the statistic is :math:`\sum_a n_a (\bar x_a - \bar x)' S^+ (\bar x_a - \bar x)`.
    If chance alone chose the arms, its mean is K rank(S), and with many users it is chi-square
    with as many degrees of freedom.
    """
    checks.instance("log", log, Log, "a Log")
    if log.probabilities is not None:
        return _balance_given(log)
    counts, means, covariances = _moments(log)
    centred = means - counts @ means / log.users
    within = np.tensordot(counts - 1, covariances, axes=1)
    total = (within + (counts[:, None] * centred).T @ centred) / (log.users - 1)
    spread = np.sqrt(total.diagonal())
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    values, vectors = np.linalg.eigh(total * np.outer(unit, unit))
    kept = values > RANK_TOLERANCE * max(1, values.size)
    scores = (centred * unit) @ vectors[:, kept] / np.sqrt(values[kept])
    statistic = float((counts[:, None] * scores**2).sum())
    degrees = log.treatments * int(kept.sum())
    differences = _standardised(means, covariances, spread)
    verdict = _verdict(log, differences, chi_square_tail(statistic, degrees))
    harmless = bool((np.abs(differences) < LARGE_DIFFERENCE).all())
    return _balance(log, differences, statistic, degrees, harmless, verdict)


def _balance(
    log: Log, differences: Floats, statistic: float, degrees: int, harmless: bool, verdict: str
) -> Balance:
    p_value = chi_square_tail(statistic, degrees)
    return Balance(
        differences={
            treatment: dict(zip(log.feature_names, row, strict=True))
            for treatment, row in zip(log.treatment_names, differences.tolist(), strict=True)
        },
        largest=float(np.abs(differences).max(initial=0.0)),
        statistic=statistic,
        degrees=degrees,
        p_value=p_value,
        looks_randomised=p_value >= CHANCE or harmless,
        verdict=verdict,
    )


def _balance_given(log: Log) -> Balance:
    """Whether chance alone chose, given the probabilities."""
    fit = fit_to_probabilities(log)
    off = np.abs(fit.ratios - 1)
    small = (np.abs(fit.differences) < LARGE_DIFFERENCE).all() and (off < LARGE_DIFFERENCE).all()
    p_value = chi_square_tail(fit.statistic, fit.degrees)
    how = f"p = {p_value:.2g}"
    if log.treatments > 1:
        how += ", by weights of 1 / probability: every action must have had a chance"
    if not fit.degrees:
        verdict = f"cannot be checked, {GIVEN}: too few decisions were left to chance"
    elif p_value >= CHANCE:
        verdict = f"looks randomised, {GIVEN} ({how})"
    elif small:
        verdict = f"differs a little from what chance would do, {GIVEN} ({how})"
    else:
        verdict = f"does not look randomised, {GIVEN}: {_misfit(log, fit)} ({how})"
    return _balance(log, fit.differences, fit.statistic, fit.degrees, bool(small), verdict)


def _misfit(log: Log, fit: Fit) -> str:
    """What differs most from what the probabilities let expect."""
    off = np.abs(fit.ratios - 1)
    arm = int(off.argmax())
    if off[arm] >= np.abs(fit.differences).max(initial=0.0):
        name, ratio = log.treatment_names[arm], fit.ratios[arm]
        return f"{name} was chosen {ratio:.2g} times as often as they say"
    at = np.unravel_index(np.abs(fit.differences).argmax(), fit.differences.shape)
    name, feature = log.treatment_names[at[0]], log.feature_names[at[1]]
    amount = f"{abs(fit.differences[at]):.2g} standard deviations between {name} and control"
    return f"feature {feature} differs by {amount} once weighted"


def chi_square_tail(statistic: float, degrees: int) -> float:
    """P(X > statistic) for X chi-square: with h = statistic / 2 and a from 0 or 1/2 in steps of 1,
    [degrees odd] erfc(sqrt(h)) + sum of h^a exp(-h) / Gamma(a + 1) over a < degrees / 2.

    >>> round(chi_square_tail(3.841459, 1), 6), round(chi_square_tail(5.991465, 2), 6)
    (0.05, 0.05)
    """
    half, odd = statistic / 2, degrees % 2
    if degrees == 0 or half <= 0:
        return 1.0
    exponents = (odd / 2 + step for step in range(degrees // 2))
    terms = (math.exp(a * math.log(half) - half - math.lgamma(a + 1)) for a in exponents)
    return min(1.0, odd * math.erfc(math.sqrt(half)) + sum(terms))


def _moments(log: Log) -> tuple[Floats, Floats, Floats]:
    """Users, means (K+1, d) and covariances (K+1, d, d) of the features of each arm."""
    arms, features = log.treatments + 1, log.features.shape[1]
    # The median: a constant feature is then exactly zero, and rounding makes no spread of it.
    origin = np.median(log.features[:BLOCK], axis=0)
    sums, squares = np.zeros((arms, features)), np.zeros((arms, features, features))
    for start in range(0, log.users, BLOCK):
        block = log.features[start : start + BLOCK] - origin
        for arm in range(arms):
            rows = block[log.actions[start : start + BLOCK] == arm]
            sums[arm] += rows.sum(axis=0)
            squares[arm] += rows.T @ rows
    counts = np.bincount(log.actions, minlength=arms).astype(np.float64)
    means = sums / counts[:, None]
    squares -= sums[:, :, None] * means[:, None, :]
    return counts, means, squares / np.maximum(counts - 1, 1)[:, None, None]


def _standardised(means: Floats, covariances: Floats, spread: Floats) -> Floats:
    """(mean_k - mean_0) / sqrt((variance_k + variance_0) / 2) for each treatment and feature."""
    variances = np.diagonal(covariances, axis1=1, axis2=2).clip(min=0.0)
    pooled = np.sqrt((variances[1:] + variances[0]) / 2)
    # A feature that is constant within both arms, up to rounding, has no spread there.
    scale = np.where(pooled > ROUNDING * spread, pooled, spread)
    scale[scale == 0] = 1.0  # constant in all arms: the differences are zero
    return np.asarray((means[1:] - means[0]) / scale)


def _verdict(log: Log, differences: Floats, p_value: float) -> str:
    if not differences.size:
        return "cannot be checked: the log has no features"
    treatment, feature = np.unravel_index(np.abs(differences).argmax(), differences.shape)
    largest = abs(differences[treatment, feature])
    name, arm = log.feature_names[feature], log.treatment_names[treatment]
    amount = f"{largest:.2g} standard deviations between {arm} and control (p = {p_value:.2g})"
    if p_value >= CHANCE:
        return f"looks randomised: the largest difference, in feature {name}, is {amount}"
    if largest >= LARGE_DIFFERENCE:
        return f"does not look randomised: feature {name} differs by {amount}"
    clear = f"small differences, statistically clear but below {LARGE_DIFFERENCE}"
    return f"{clear}: the largest, in feature {name}, is {amount}"
