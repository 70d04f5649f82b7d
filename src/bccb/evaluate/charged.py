r"""What is charged on conversion, estimated from a log.

A treatment a > 0 of a user costs c if they convert, so that a policy with these proposals pays

    sum_{a>0} c_a ( m_a + 1[A = a] (1[Y > 0] - m_a) / p )

in expectation: the doubly robust estimate, with A the action that was taken, p its probability and
m_a the rate that a model expects. With m = 0 it is inverse propensity weighting.
"""

from __future__ import annotations

import math

import numpy as np

from bccb.charge import CONVERSION
from bccb.intervals import QUANTILE, Interval
from bccb.types import Floats, Ints, Log


def paid_in(log: Log, charge: str) -> Floats:
    """What the log's own treatments cost, row by row.

    >>> log = Log(np.zeros((3, 1)), [1, 1, 0], [1, 0, 1], np.full((3, 1), 10**6))
    >>> paid_in(log, "treatment").tolist(), paid_in(log, "conversion").tolist()
    ([1.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    """
    due = log.actions > 0
    if charge == CONVERSION:
        due &= log.outcomes > 0.0
    return np.where(due, log.costs[np.arange(log.users), log.actions - 1], 0.0)


def running_rates(log: Log) -> Floats:
    """The conversion rate of each action over the users before each, of shape (n, K+1).

    Half a conversion of one more user is added, for the first ones.

    >>> log = Log(np.zeros((3, 1)), [1, 1, 0], [1, 0, 1], np.full((3, 1), 10**6))
    >>> running_rates(log).tolist()
    [[0.5, 0.5], [0.5, 0.75], [0.5, 0.5]]
    """
    took = log.actions[:, None] == np.arange(log.treatments + 1)
    converted = took & (log.outcomes > 0.0)[:, None]
    users, conversions = (np.cumsum(each, axis=0) - each for each in (took, converted))
    return np.asarray((conversions + 0.5) / (users + 1.0))


def expected_charges(log: Log, rates: Floats | None = None) -> Ints:
    """What each treatment of each user is expected to be charged, in micros, of shape (n, K).

    ``rates`` are those of a model; where it has none, those of the users before stand in.
    """
    before = running_rates(log)
    expected = before if rates is None else np.where(rates > 0.0, rates, before)
    return np.ceil(log.micros * np.minimum(expected[:, 1:], 1.0)).astype(np.int64)


def charged_for(log: Log, rows: Ints, actions: Ints, chance: Floats, rates: Floats) -> Floats:
    """The terms of the estimate: what treating each of ``rows`` with its action is charged.

    ``chance`` and ``rates`` are those of these actions; the chance counts where the log took them.

    >>> log = Log(np.zeros((2, 1)), [1, 0], [1, 1], np.full((2, 1), 3 * 10**6))
    >>> rows, half = np.array([0, 1]), np.full(2, 0.5)
    >>> charged_for(log, rows, np.array([1, 1]), half, np.full(2, 0.1)).tolist()
    [5.7, 0.3]
    """
    followed = log.actions[rows] == actions
    converted = (log.outcomes[rows] > 0.0).astype(np.float64)
    error = np.zeros(len(rows))
    np.divide(converted - rates, chance, out=error, where=followed)
    return np.asarray(log.costs[rows, actions - 1] * (rates + error))


def charged_in_all(terms: Floats) -> Interval:
    """The sum with its 95 % interval, which nothing below 0 belongs to.

    The variance is that of the terms, because proposals do not depend on the log's own draws.
    """
    total = float(terms.sum())
    reach = QUANTILE * math.sqrt(len(terms) * float(terms.var())) if len(terms) else 0.0
    return Interval(max(total, 0.0), max(total - reach, 0.0), max(total + reach, 0.0))
