"""The oracle's price: what a policy that knows every effect would charge for a unit of money."""

from __future__ import annotations

import numpy as np

from bccb.types import Floats

HALVINGS = 60


def best_fixed_price(effects: Floats, costs: Floats, shares: Floats, budget: float) -> float:
    """The smallest price at which these users, n by K, are expected to cost at most ``budget``.

    ``shares[k]`` is the chance that a proposal of treatment k is carried out and paid for: in
    replay the trial's share of that arm, in live use 1.

    >>> effects, costs = np.array([[0.4], [0.2], [0.1]]), np.ones((3, 1))
    >>> 0.1 < best_fixed_price(effects, costs, np.ones(2), budget=2.0) <= 0.2
    False
    >>> round(best_fixed_price(effects, costs, np.ones(2), budget=2.0), 9)
    0.1
    """
    low, high = 0.0, float((effects / costs).max(initial=0.0))
    if _spend(effects, costs, shares, low) <= budget:
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _spend(effects, costs, shares, middle) <= budget:
            high = middle
        else:
            low = middle
    return high


def _spend(effects: Floats, costs: Floats, shares: Floats, price: float) -> float:
    value = effects - price * costs
    best = value.argmax(axis=1)
    rows = np.arange(len(value))
    paid = costs[rows, best] * shares[1 + best]
    return float(paid[value[rows, best] > 0].sum())
