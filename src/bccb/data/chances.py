r"""Whether chance chose the actions of a log with the probabilities that the log says.

The log of a policy is never balanced: it treats those whom it believes to respond. What can be
tested is whether, given the probabilities p of the actions, chance alone decided.

With one treatment and features x (and a 1 among them) the score :math:`\sum_i (a_i - p_i) x_i` has
mean 0 and the variance :math:`\sum_i p_i (1 - p_i) x_i x_i'`, also where the policy learns, because
the sum is a martingale. With several treatments a log holds the probability of the action taken
alone. Then :math:`z_{ik} = (1[a_i = k] / p_i - 1) x_i` has mean 0 for every action k that had a
chance, and :math:`\sum_i z_i z_i'` stands for the variance. The sum in units of its variance is
chi-square where no row makes up much of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bccb.types import Flags, Floats, Ints, Log

# A sum is far from normal where one row has more than a part of its variance,
MOST_SHARE = 0.05  # as things came out,
MOST_WORST = 0.1  # or if the row had come out at its worst: about ten rare events are expected
MOST_ROWS = 200_000  # enough to see it
SEED = 0  # of the rows that are looked at where there are more
RANK_TOLERANCE = 1e-10  # eigenvalues of the correlations below this count as collinearity


@dataclass(frozen=True, slots=True)
class Fit:
    """How well the actions of a log fit its probabilities."""

    statistic: float
    degrees: int  # of freedom; 0 where too little was left to chance
    differences: Floats  # (K, d), standardised, of weighted means to the control's
    ratios: Floats  # (K,), how often each treatment was chosen, over how often p lets expect it


def fit_to_probabilities(log: Log) -> Fit:
    """Test the actions against the probabilities, in those rows where chance had a say."""
    assert log.probabilities is not None
    rows = np.flatnonzero(log.probabilities < 1.0)
    if rows.size > MOST_ROWS:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, MOST_ROWS, replace=False))
    actions, p = log.actions[rows], log.probabilities[rows]
    if not rows.size:
        shape = log.treatments, log.features.shape[1]
        return Fit(0.0, 0, np.zeros(shape), np.ones(log.treatments))
    x = log.features[rows] - log.features[rows].mean(axis=0)
    spread = x.std(axis=0)
    x /= np.where(spread > 0, spread, 1.0)
    design = np.column_stack((np.ones(rows.size), x))
    if log.treatments == 1:
        statistic, degrees = _one_treatment(design, actions, p)
        weights = 1.0 - p  # those of the score: they are never large
        chance = np.where(actions == 1, p, 1.0 - p)
        ratios = np.array([(actions == 1).sum() / chance.sum()])
    else:
        statistic, degrees = _several_treatments(design, actions, p, log.treatments)
        weights = 1.0 / p
        sums = np.bincount(actions, weights, minlength=log.treatments + 1)
        ratios = sums[1:] / rows.size
    return Fit(statistic, degrees, _differences(x, actions, weights, log.treatments), ratios)


def _one_treatment(design: Floats, actions: Ints, p: Floats) -> tuple[float, int]:
    treated = actions == 1
    chance = np.where(treated, p, 1.0 - p)
    variances = (chance * (1.0 - chance))[:, None]
    worst = np.maximum(chance, 1.0 - chance)[:, None] ** 2
    kept = _enough(worst * design**2, variances * design**2, MOST_WORST)
    score = design.T @ (treated - chance)
    return _chi_square(score, design.T @ (variances * design), kept)


def _several_treatments(
    design: Floats, actions: Ints, p: Floats, treatments: int
) -> tuple[float, int]:
    taken = actions[:, None] == np.arange(treatments + 1)
    # What was not taken had the chance 1 - p at most, and so at least this weight.
    weights = np.where(taken, 1.0 / p[:, None], 1.0 / (1.0 - p[:, None])) - 1.0
    z = _products(taken / p[:, None] - 1.0, design)
    kept = _enough(_products(weights**2, design**2), _products(weights, design**2), MOST_WORST)
    kept &= _enough(z**2, z**2, MOST_SHARE)
    return _chi_square(z.sum(axis=0), z.T @ z, kept)


def _products(by_action: Floats, design: Floats) -> Floats:
    """Every column of the one times every column of the other."""
    return (by_action[:, :, None] * design[:, None, :]).reshape(len(design), -1)


def _enough(squares: Floats, variances: Floats, most: float) -> Flags:
    """The columns in which no row has more than a part of the variance."""
    total = variances.sum(axis=0)
    return np.asarray((squares.max(axis=0) <= most * total) & (total > 0))


def _chi_square(score: Floats, variance: Floats, kept: Flags) -> tuple[float, int]:
    """The kept part of the score in units of its variance, and its rank."""
    if not kept.any():
        return 0.0, 0
    unit = 1.0 / np.sqrt(variance.diagonal()[kept])
    values, vectors = np.linalg.eigh(variance[np.ix_(kept, kept)] * np.outer(unit, unit))
    full = values > RANK_TOLERANCE * values.size
    scores = (score[kept] * unit) @ vectors[:, full]
    return float((scores**2 / values[full]).sum()), int(full.sum())


def _differences(x: Floats, actions: Ints, weights: Floats, treatments: int) -> Floats:
    means = np.zeros((treatments + 1, x.shape[1]))
    for arm in range(treatments + 1):
        rows = actions == arm
        if not rows.any():
            return np.zeros((treatments, x.shape[1]))
        means[arm] = np.average(x[rows], axis=0, weights=weights[rows])
    return np.asarray(means[1:] - means[0])
