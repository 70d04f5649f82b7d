"""What a treatment costs where the log does not say: the paper's cost model, or a constant."""

from __future__ import annotations

import numpy as np

from bccb import checks
from bccb.errors import InputError
from bccb.types import COST_RANGE, LEAST_COST, MOST_COST, Floats

LOG_MEAN, LOG_DEVIATION = -0.5, 0.7
LEAST, MOST = 0.05, 5.00
MEAN = 0.77  # of what is drawn, rounded


def lognormal(users: int, treatments: int, seed: int = 0) -> Floats:
    """The paper's costs, min(max(exp(z), 0.05), 5.00) with z ~ N(-0.5, 0.7²), of shape (n, K).

    Costs belong to rows: for the same K and seed, row i costs the same whatever the number of
    users, because the draws fill the matrix row by row.

    >>> lognormal(2, 1).round(3).tolist() == lognormal(9, 1)[:2].round(3).tolist()
    True
    """
    _check_counts(users, treatments)
    checks.whole("seed", seed, 0, 2**63 - 1)
    costs = np.random.default_rng(seed).normal(LOG_MEAN, LOG_DEVIATION, (users, treatments))
    np.exp(costs, out=costs)
    return np.clip(costs, LEAST, MOST, out=costs)


def constant(users: int, treatments: int, cost: float) -> Floats:
    """The same cost for every user and every treatment, of shape (n, K).

    >>> constant(2, 1, 0.5).tolist()
    [[0.5], [0.5]]
    """
    _check_counts(users, treatments)
    if not LEAST_COST <= checks.number("cost", cost) <= MOST_COST:
        raise InputError("cost", cost, COST_RANGE)
    return np.full((users, treatments), cost, dtype=np.float64)


def _check_counts(users: int, treatments: int) -> None:
    for field, count in (("users", users), ("treatments", treatments)):
        checks.whole(field, count, 1, 2**53)
