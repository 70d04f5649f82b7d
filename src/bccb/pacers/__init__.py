"""Pacers: the price of a unit of money, so that the budget lasts. One per file."""

from __future__ import annotations

from bccb.kernels.component import by_name
from bccb.pacers import budget_forecast, fixed_price, none, pace_ratio

PACERS = by_name(
    none.NONE,
    fixed_price.FIXED_PRICE,
    pace_ratio.PACE_RATIO,
    budget_forecast.BUDGET_FORECAST,
)
