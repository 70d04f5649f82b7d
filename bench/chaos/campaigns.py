"""The campaigns of the harness, which differ in what may go wrong."""

from __future__ import annotations

from typing import Any

from bench.service.memory import LATE

GREEDY = "treat-all"  # the policy that spends until nothing is left
PAUSES = "pauses"  # the campaign that an operator pauses again and again
DAY = 86_400


def campaign_requests() -> list[dict[str, Any]]:
    """Windows that pass, money that runs out, costs on conversion, amounts, cells, fits, pauses."""
    base = {
        "horizon": {"users": 100_000},
        "features": ["age", "visits", "basket"],
        "treatments": ["email"],
        "outcome_window_seconds": DAY,
        "seed": 7,
    }
    greedy = {**base, "policy": {"name": GREEDY}}
    conversion = {**base, "charge": "conversion"}
    amounts = {"outcome": {"kind": "amount", "largest": "100"}, "share": 0.02}
    return [
        {**base, "name": "windows that pass", "budget": "1000", "outcome_window_seconds": 3},
        {**base, "name": LATE, "budget": "1000", "outcome_window_seconds": 6},
        {**base, "name": "two treatments", "budget": "1000", "treatments": ["email", "call"]},
        {**greedy, "name": "little money", "budget": "10.0000009"},
        {**greedy, "name": "little for two", "budget": "10", "treatments": ["email", "call"]},
        {**greedy, "name": "in cells", "budget": "15", "cells": 3},
        {**base, "name": "cells that learn", "budget": "1000", "cells": 4},
        {**conversion, "name": "coupons", "budget": "100", "cost_cap": "2.5"},
        {**conversion, "name": "coupons that end", "budget": "50", "outcome_window_seconds": 2},
        {**conversion, **amounts, "name": "20 % off", "budget": "100"},
        {**base, "name": PAUSES, "budget": "1000"},
        {
            **base,
            "name": "fits",
            "budget": "1000",
            "policy": {"name": "pooled-trees", "params": {"first_fit": 50}},
        },
    ]
