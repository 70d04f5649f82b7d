"""Estimators: the effect of treating a user, learned from outcomes. One per file."""

from __future__ import annotations

from bccb.estimators import (
    boosted,
    constant,
    frozen,
    given,
    none,
    pooled_logistic,
    pooled_trees,
    ridge_pair,
    two_model,
)
from bccb.kernels.component import by_name

ESTIMATORS = by_name(
    none.NONE,
    constant.CONSTANT,
    two_model.TWO_MODEL,
    two_model.STANDARDISED,
    ridge_pair.RIDGE_PAIR,
    pooled_logistic.POOLED_LOGISTIC,
    pooled_trees.POOLED_TREES,
    frozen.FROZEN,
    boosted.BOOSTED,
    given.GIVEN,
)
