"""Whether a column differs between groups of rows beyond chance, or tells the outcome."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bccb.data.describe import chi_square_tail
from bccb.data.leakage import MOST_AREA, area_under_curve, constant_side, outcomes_by_value
from bccb.data.profile import Profile
from bccb.types import Floats, Ints

FEWEST = 20  # outcomes of both kinds, below which chance may look like telling
FEW = 5  # rows that chance puts into each cell of a table, below which levels are put together


@dataclass(frozen=True, slots=True)
class Difference:
    """Between groups of rows."""

    p_value: float  # how often chance alone would give one as large
    size: float  # the largest between two groups, in standard deviations

    def or_larger(self, other: Difference) -> Difference:
        """The clearer of the two."""
        return min(self, other, key=lambda one: (one.p_value, -one.size))


NO_DIFFERENCE = Difference(1.0, 0.0)


def difference(column: Profile, groups: Ints) -> Difference:
    """How a column differs between the groups: in its values, or in how many are missing.

    Rows of group -1 are left out.
    """
    rows = groups >= 0
    present = column.values.is_not_null().to_numpy()
    missing = between_levels((~present[rows]).astype(np.int64), groups[rows])
    if column.is_number:
        used = rows & present
        return missing.or_larger(between_ranks(column.numbers()[used], groups[used]))
    if not column.levels:
        return missing
    codes, _ = column.codes()
    used = rows & (codes >= 0)
    return missing.or_larger(between_levels(codes[used], groups[used]))


def between_ranks(values: Floats, groups: Ints) -> Difference:
    """The test of Kruskal and Wallis, which heavy tails do not disturb.

    With r the ranks, ties shared, and N rows, the statistic is
    (N - 1) sum_g n_g (mean_g r - mean r)² / sum (r - mean r)², chi-square with G - 1 degrees.

    >>> between_ranks(np.arange(8.0), np.repeat([0, 1], 4)).p_value < 0.03
    True
    """
    counts = np.bincount(groups) if groups.size else np.zeros(0, np.int64)
    if np.count_nonzero(counts) < 2:
        return NO_DIFFERENCE
    ranks = _ranks(values)
    ranks -= ranks.mean()
    squares = float(ranks @ ranks)
    if squares == 0:
        return NO_DIFFERENCE
    kept = counts > 0
    means = np.bincount(groups, weights=ranks)[kept] / counts[kept]
    statistic = (groups.size - 1) * float(counts[kept] @ means**2) / squares
    size = float(np.ptp(means)) / np.sqrt(squares / groups.size)
    return Difference(chi_square_tail(statistic, int(kept.sum()) - 1), size)


def between_levels(levels: Ints, groups: Ints) -> Difference:
    """Pearson's chi-square test of a table; levels too rare for it are put together."""
    if not groups.size:
        return NO_DIFFERENCE
    shape = int(levels.max()) + 1, int(groups.max()) + 1
    cells = np.bincount(levels * shape[1] + groups, minlength=shape[0] * shape[1])
    table = cells.reshape(shape).astype(np.float64)
    table = table[:, table.sum(axis=0) > 0]
    share = table.sum(axis=1) / table.sum()
    rare = share * table.sum(axis=0).min() < FEW
    table = np.vstack((table[~rare], table[rare].sum(axis=0)))
    table = table[table.sum(axis=1) > 0]
    if min(table.shape) < 2:
        return NO_DIFFERENCE
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    share = table.sum(axis=1) / table.sum()
    within = table / table.sum(axis=0)
    size = float((np.ptp(within, axis=1) / np.sqrt(share * (1 - share))).max())
    degrees = (table.shape[0] - 1) * (table.shape[1] - 1)
    return Difference(chi_square_tail(statistic, degrees), size)


def tells(column: Profile, outcomes: Floats) -> str | None:
    """In words how a column alone tells the outcome, None where it does not.

    Rows without an outcome are left out.
    """
    known = ~np.isnan(outcomes)
    y = outcomes[known]
    missing = column.values.is_null().to_numpy()[known].astype(np.float64)
    if missing.any() and (said := _tells(missing, y)):
        return f"whether it is missing tells the outcome: {said}"
    if column.is_number:
        values = column.numbers()[known]
    elif column.levels:
        values = _by_rate(column.codes()[0][known], y)
    else:
        return None
    present = ~np.isnan(values)
    return _tells(values[present], y[present])


def _tells(values: Floats, y: Floats) -> str | None:
    if min(y.sum(), (1 - y).sum()) < FEWEST:
        return None
    ones, zeros = outcomes_by_value(values, y)
    area = area_under_curve(ones, zeros)
    if max(area, 1 - area) > MOST_AREA:
        return f"it alone tells the outcome (area under the ROC curve {max(area, 1 - area):.3f})"
    if side := constant_side(ones, zeros):
        return f"on one side of a threshold, {side}"
    return None


def _by_rate(codes: Ints, y: Floats) -> Floats:
    """Levels as numbers, in the order of their mean outcome; NaN where they are missing."""
    present = codes >= 0
    counts = np.bincount(codes[present])
    sums = np.bincount(codes[present], weights=y[present])
    order = np.argsort(np.argsort(sums / np.maximum(counts, 1))).astype(np.float64)
    values = np.full(codes.size, np.nan)
    values[present] = order[codes[present]]
    return values


def _ranks(values: Floats) -> Floats:
    """From 0 on; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts + 1) / 2)[places]
    return ranks
