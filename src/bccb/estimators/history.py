"""History by arm: the rows on which the model of each arm is fitted.

>>> log = Log(np.zeros((4, 1)), [0, 1, 0, 1], [0, 1, 1, 0], np.full((4, 1), 500_000))
>>> [outcomes.tolist() for _, outcomes in by_arm(log)]
[[0.0, 1.0], [1.0, 0.0]]
"""

from __future__ import annotations

import numpy as np

from bccb.errors import FitError
from bccb.types import Floats, Log


def by_arm(log: Log) -> list[tuple[Floats, Floats]]:
    """Features and outcomes of each arm, the control first; refused if an arm cannot be fitted."""
    if not log.features.shape[1]:
        raise FitError("history has no features: nothing to fit")
    arms = []
    for arm in range(log.treatments + 1):
        rows = log.actions == arm
        _check(log.outcomes[rows], "the control" if arm == 0 else f"treatment {arm}")
        arms.append((log.features[rows], log.outcomes[rows]))
    return arms


def _check(outcomes: Floats, name: str) -> None:
    """Refuse outcomes that are not both of 0 and 1."""
    if len(np.unique(outcomes)) < 2:
        only = f"only outcome {outcomes[0]:g}" if len(outcomes) else "no rows"
        raise FitError(f"history of {len(outcomes)} rows in {name} has {only}: nothing to fit")
    if not np.isin(outcomes, (0.0, 1.0)).all():
        raise FitError(f"history in {name} has outcomes other than 0 and 1")
