r"""After history: what is estimated as caused, corrected by what the campaign's own users do.

The treated users are those of whom a model says most that has learned from others. Where that model
is wrong, it chooses those whose effect it overstates. And the base rate may have changed since. So
without treatment the odds may be off by delta_0 for everybody, and those of the treated by delta
more, in logits:

    delta_0 ~ N(0, (h ERROR)^2),    delta ~ N(0, (h ERROR)^2),

where h is the share of the treated users learned from that came with history. With evidence (a, b)
of the treated users, (a_0, b_0) of those left alone, and the model's scores eta of both,

    a_0 ~ b_0 mean sigma(eta_0 + delta_0),    a ~ b mean sigma(eta + delta_0 + delta)

are binomial. The means are over samples of those users, each with the weight that was learned of
it. The mode is found by Newton's method, and C, the inverse of the curvature there, is the
covariance of (delta_0, delta). Both shift the effects, and their error is common to all users.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bccb.estimated import Sums
from bccb.types import Floats

ERROR = 0.3  # of odds after history, in logits
STEPS, LONGEST, NEARLY = 50, 1.0, 1e-10


class Group(NamedTuple):
    """A sample of users who were treated, or left alone, and the evidence (a, b) of all of them."""

    rates: Floats  # P(conversion), by the model
    weights: Floats  # learned of each so far
    a: float
    b: float

    @property
    def shares(self) -> Floats:
        """The weights as shares of their sum."""
        total = float(self.weights.sum())
        return self.weights / total if total > 0.0 else np.zeros(len(self.weights))


class Values(NamedTuple):
    """Of the treated users."""

    worths: Floats  # of a conversion
    rates_alone: Floats  # without treatment
    worths_alone: Floats


def corrected(
    sums: Sums, treated: Group, alone: Group, values: Values, share: float, cells: int = 1
) -> Sums:
    """The sums where ``share`` of the treated users that were learned from came with history.

    Each of several ``cells`` has its own part of the evidence on errors that all have in common. So
    that the sum over cells is that of one campaign, each takes them for so many times as wide.
    """
    deltas, covariance = _mode(treated, alone, 1.0 / (cells * (share * ERROR) ** 2))
    rates = _shifted(treated.rates, deltas.sum())
    rates_alone = _shifted(values.rates_alone, deltas[0])
    slopes = values.worths * rates * (1.0 - rates)
    slopes_alone = values.worths_alone * rates_alone * (1.0 - rates_alone)
    m = len(rates)
    gradient = np.array([(slopes - slopes_alone).sum(), slopes.sum()]) / m
    pull_alone, pull = gradient @ covariance @ np.array([[1.0, 1.0], [0.0, 1.0]])
    effects = values.worths * rates - values.worths_alone * rates_alone
    # the users of a sample count in its mean rate, too
    share_of = treated.shares
    influence = effects - pull * treated.b * m * share_of * (rates - share_of @ rates)
    total, variance = float(effects.sum()), float(gradient @ covariance @ gradient)
    variance += (pull_alone * alone.b) ** 2 * _error_of_mean(alone, deltas[0])
    squares = m * float(influence.var()) + total**2 / m
    return Sums(total, sums.variance + m**2 * variance, squares)


def _mode(treated: Group, alone: Group, precision: float) -> tuple[Floats, Floats]:
    """The mode of (delta_0, delta), and their covariance."""
    deltas: npt.NDArray[Any] = np.zeros(2)
    for _ in range(STEPS):
        error_alone, known_alone = _evidence(alone, deltas[0])
        error, known = _evidence(treated, deltas.sum())
        gradient = np.array([error_alone + error, error]) - precision * deltas
        curvature = np.array([[known_alone + known, known], [known, known]])
        covariance: npt.NDArray[Any] = np.linalg.inv(curvature + precision * np.eye(2))
        step = np.clip(covariance @ gradient, -LONGEST, LONGEST)
        deltas += step
        if abs(step).max() < NEARLY:
            break
    return deltas, covariance


def _evidence(group: Group, delta: float) -> tuple[float, float]:
    """How many more converted than expected, and how much that tells of delta."""
    rates, share_of = _shifted(group.rates, delta), group.shares
    return (
        group.a - group.b * float(share_of @ rates),
        group.b * float(share_of @ (rates * (1.0 - rates))),
    )


def _error_of_mean(group: Group, delta: float) -> float:
    """The variance of the mean rate, because it is over a sample."""
    if not len(group.rates):
        return 0.0
    rates, share_of = _shifted(group.rates, delta), group.shares
    left_out = max(1.0 - len(rates) / max(group.b, 1.0), 0.0)
    return float(share_of**2 @ (rates - share_of @ rates) ** 2) * left_out


def _shifted(rates: Floats, delta: float) -> Floats:
    """Rates at odds that are off by delta."""
    odds = rates * np.exp(delta)
    shifted: Floats = odds / (1.0 - rates + odds)
    return shifted
