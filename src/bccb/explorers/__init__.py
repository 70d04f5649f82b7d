"""Explorers: what is added to the effect so that a policy keeps learning. One per file."""

from __future__ import annotations

from bccb.explorers import beta_difference, coin, none, posterior_sampling, upper_confidence
from bccb.kernels.component import by_name

EXPLORERS = by_name(
    none.NONE,
    coin.COIN,
    beta_difference.BETA_DIFFERENCE,
    posterior_sampling.POSTERIOR_SAMPLING,
    upper_confidence.UPPER_CONFIDENCE,
)
