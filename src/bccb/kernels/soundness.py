"""Whether numbers can be the memory of a component. All are known to be finite."""

from __future__ import annotations

from typing import Any

import numpy as np

from bccb.types import Floats

MOST_SEEN = 1e16  # more users than any policy decides on
LARGE = 1e100  # sums of products of two such numbers are finite
NEARLY = 1e-9  # the rounding errors of a matrix, relative to its prior


def within(values: Floats, least: float, most: float) -> bool:
    """Whether all of them are within a range.

    >>> within(np.array([0.0, 1.0]), 0.0, 1.0), within(np.array([np.nan]), 0.0, 1.0)
    (True, False)
    """
    return bool(((values >= least) & (values <= most)).all())


def counted(values: Floats) -> bool:
    """Whether all of them are numbers of users."""
    return within(values, 0.0, MOST_SEEN) and bool((values == np.floor(values)).all())


def narrowed(covariance: Floats, prior: Floats) -> bool:
    """Whether a matrix is a covariance, and not wider than the prior variances.

    >>> narrowed(np.eye(2), np.ones(2)), narrowed(np.eye(2), np.full(2, 0.5))
    (True, False)
    >>> narrowed(np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones(2))
    False
    """
    deviation = np.sqrt(prior)
    with np.errstate(over="ignore"):  # infinity is refused below
        share: Any = covariance / deviation / deviation[:, None]
    if not within(share, -1.0 - NEARLY, 1.0 + NEARLY) or abs(share - share.T).max() > NEARLY:
        return False
    try:
        np.linalg.cholesky(share + NEARLY * np.eye(len(prior)))
    except np.linalg.LinAlgError:
        return False
    return True
