"""What a treatment costs where the log does not say: the paper's cost model, or a constant."""

from __future__ import annotations

import numpy as np

from bccb import checks
from bccb.money import cost_in_micros, cost_micros
from bccb.types import Floats, Ints

LOG_MEAN, LOG_DEVIATION = -0.5, 0.7
LEAST, MOST = 0.05, 5.00
MEAN = 0.77  # of what is drawn, rounded


def lognormal(users: int, treatments: int, seed: int = 0, scale: float | Floats = 1.0) -> Ints:
    """The paper's costs, min(max(exp(z), 0.05), 5.00) with z ~ N(-0.5, 0.7²), in micros.

    ``scale`` multiplies them, one factor for all or one per treatment. The shape is (n, K).

    Costs belong to rows: for the same K and seed, row i costs the same whatever the number of
    users, because the draws fill the matrix row by row.

    >>> lognormal(2, 1).tolist() == lognormal(9, 1)[:2].tolist()
    True
    """
    _check_counts(users, treatments)
    checks.whole("seed", seed, 0, 2**63 - 1)
    costs = np.random.default_rng(seed).normal(LOG_MEAN, LOG_DEVIATION, (users, treatments))
    np.exp(costs, out=costs)
    return cost_micros(np.clip(costs, LEAST, MOST, out=costs) * scale)


def constant(users: int, treatments: int, cost: float) -> Ints:
    """The same cost for every user and every treatment, in micros, of shape (n, K).

    >>> constant(2, 1, 0.5).tolist()
    [[500000], [500000]]
    """
    _check_counts(users, treatments)
    return np.full((users, treatments), cost_in_micros(checks.number("cost", cost)))


def _check_counts(users: int, treatments: int) -> None:
    for field, count in (("users", users), ("treatments", treatments)):
        checks.whole(field, count, 1, 2**53)
