"""What an outcome model expects of each user under each action, for doubly robust estimates.

One logistic regression per arm, on standardised features. Amounts of money have a second part, the
amount of a conversion: a ridge regression of its logarithm, which one huge order moves little.
A user's rates come from a model of the rows *before* that user, in blocks that double in size:
models of other folds, as in the usual cross-fitting, would know actions that a learning policy
chose because of this very outcome.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from bccb.errors import MissingExtraError
from bccb.estimators.threads import one_thread
from bccb.outcome import Kind
from bccb.types import Floats, Log

BLOCKS = 5  # the first is a sixteenth of the log and has no model
FEWEST = 10  # conversions, and users without one, from which a regression is fitted
MOST_ROWS = 200_000  # of an arm, the latest, which are plenty for a regression
MOST_DEVIATIONS = 10.0  # at which a standardised feature is cut off
PENALTY = 10.0  # of the squared slopes of amounts
MOST_RESIDUAL = 3.0  # deviations of the logarithm of an amount from what is expected
MOST_LOG = 2.0  # how far features may move the logarithm of an amount


def outcome_rates(log: Log) -> Floats:
    """E[Y | x, a] for each row and action 0..K, of shape (n, K+1); 0 in the first block.

    >>> from bccb.data import simulate
    >>> rates = outcome_rates(simulate(1_600, seed=1, outcome="visit"))
    >>> bool(rates[:100].any()), bool((rates[100:] > 0).all()), rates.shape
    (False, True, (1600, 2))
    """
    rates, model = np.zeros((log.users, log.treatments + 1)), model_of(log.kind)
    edges = [log.users >> power for power in range(BLOCKS - 1, -1, -1)]
    for start, end in pairwise(edges):
        for arm in range(log.treatments + 1):
            past = np.flatnonzero(log.actions[:start] == arm)[-MOST_ROWS:]
            if len(past) and end > start:
                rates[start:end, arm] = model(
                    log.features[past], log.outcomes[past], log.features[start:end]
                )
    return rates


Model: TypeAlias = Callable[[Floats, Floats, Floats], Floats]


def model_of(kind: str) -> Model:
    """The model of outcomes of a kind."""
    return predict_amounts if kind == Kind.AMOUNT else predict


class AmountModel(NamedTuple):
    """What a conversion brings: log |y| = c + b . z + e, by ridge regression."""

    centre: Floats  # (d,), of the features
    scale: Floats  # (d,)
    origin: Floats  # (d,), the mean of z over conversions
    slopes: Floats  # (d,), b
    typical: float  # at the origin: the mean of sign(y) e^(c + e)
    residuals: Floats  # (conversions,), e, those beyond three deviations cut off there
    cut: Floats  # (conversions,), the amounts with these residuals, without their sign

    def expected(self, features: Floats) -> Floats:
        """The amount that a conversion of each of these users brings."""
        along = (_standardised(features, self.centre, self.scale) - self.origin) @ self.slopes
        return np.asarray(self.typical * np.exp(np.clip(along, -MOST_LOG, MOST_LOG)))


def fit_amounts(features: Floats, outcomes: Floats) -> AmountModel:
    """The model of those outcomes that are not 0; there must be one.

    >>> model = fit_amounts(np.zeros((3, 1)), np.array([0.0, 40.0, 10.0]))
    >>> round(model.typical, 9), model.expected(np.zeros((1, 1))).round(9).tolist()
    (25.0, [25.0])
    """
    won = np.flatnonzero(outcomes)
    centre, scale = _moments(features)
    z, logs = _standardised(features[won], centre, scale), np.log(np.abs(outcomes[won]))
    level, origin = float(logs.mean()), z.mean(axis=0)
    z -= origin
    precision = z.T @ z + PENALTY * np.eye(z.shape[1])
    slopes = np.asarray(np.linalg.solve(precision, z.T @ (logs - level)), np.float64)
    left = logs - level - z @ slopes
    most = MOST_RESIDUAL * float(left.std())
    left = np.clip(left, -most, most)
    typical = float((np.sign(outcomes[won]) * np.exp(level + left)).mean())
    cut = np.exp(level + z @ slopes + left)
    return AmountModel(centre, scale, origin, slopes, typical, left, cut)


def predict_amounts(features: Floats, outcomes: Floats, others: Floats) -> Floats:
    """The expected amounts of ``others``: the chance of any, times what a conversion brings.

    With few conversions that is their mean for everybody.
    """
    rates = predict(features, (outcomes != 0.0).astype(np.float64), others)
    won = np.flatnonzero(outcomes)
    if not len(won):
        return np.zeros(len(others))
    if len(won) < FEWEST or not features.shape[1]:
        return rates * float(outcomes[won].mean())
    return np.asarray(rates * fit_amounts(features, outcomes).expected(others))


def predict(features: Floats, outcomes: Floats, others: Floats) -> Floats:
    """The rates of ``others``: a regression on these users or, where that says little, their mean.

    An outcome y between 0 and 1 counts as a conversion of weight y and none of weight 1 - y.
    """
    conversions = float(outcomes.sum())
    few = min(conversions, len(outcomes) - conversions) < FEWEST
    if few or not features.shape[1]:
        return np.full(len(others), conversions / len(outcomes))
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtraError("scikit-learn", "lab") from None
    centre, spread = _moments(features)
    yes, no = np.flatnonzero(outcomes > 0), np.flatnonzero(outcomes < 1)
    rows = np.concatenate((yes, no))
    label = np.arange(len(rows)) < len(yes)
    weight = np.where(label, outcomes[rows], 1 - outcomes[rows])
    model = LogisticRegression(solver="newton-cholesky")
    # one thread: the same log gives the same figures on every machine
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any model keeps the estimate unbiased
        model.fit(_standardised(features[rows], centre, spread), label, weight)
    rates = model.predict_proba(_standardised(others, centre, spread))[:, 1]
    return np.asarray(rates, np.float64)


def _moments(features: Floats) -> tuple[Floats, Floats]:
    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread == 0] = 1.0
    return centre, spread


def _standardised(features: Floats, centre: Floats, spread: Floats) -> Floats:
    """Cut off far out, where a model that was fitted on the past would only be extrapolated."""
    return np.clip((features - centre) / spread, -MOST_DEVIATIONS, MOST_DEVIATIONS)
