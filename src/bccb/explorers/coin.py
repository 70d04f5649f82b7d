"""Coin in warm-up: until the estimator is ready, all actions have the same probability.

Without it a greedy policy that starts by treating would never see a control (section 4.5). The
coin chooses among all K + 1 actions; if it chooses a treatment that is not affordable, the user is
left alone. The bonus is +FORCE or -FORCE, which outweighs any effect and any lower price.

>>> margin, spread = np.array([0.2]), np.zeros(1)
>>> chance(COIN.fresh(), margin, spread, False, 1), chance(COIN.fresh(), margin, spread, True, 1)
(0.5, 1.0)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bccb.kernels.component import Component
from bccb.kernels.jit import jit
from bccb.kernels.linalg import fill
from bccb.kernels.rng import key_of, uniform
from bccb.kernels.slots import chance as certain
from bccb.types import Floats

FORCE = 1e9


@jit
def explore(
    explorer: Any, seed: int, number: int, spread: Floats, ready: bool, bonus: Floats
) -> None:
    """+FORCE for the chosen treatment, -FORCE for the others; 0 after warm-up."""
    if ready:
        fill(bonus, 0.0)
        return
    K = bonus.shape[0]
    chosen = int(uniform(key_of(seed, number, 0), 0) * (K + 1))
    fill(bonus, -FORCE)
    if chosen > 0:
        bonus[chosen - 1] = FORCE


@jit
def chance(explorer: Any, margin: Floats, spread: Floats, ready: bool, action: int) -> float:
    """1 / (K + 1) for each affordable treatment, the rest for leaving alone."""
    if ready:
        return certain(explorer, margin, spread, ready, action)
    K = len(margin)
    if action > 0:
        return 0.0 if margin[action - 1] == -np.inf else 1.0 / (K + 1)
    out_of_reach = 0
    for k in range(K):
        if margin[k] == -np.inf:
            out_of_reach += 1
    return (1.0 + out_of_reach) / (K + 1.0)


COIN = Component(
    name="coin", about="coin in warm-up", kernels={"explore": explore, "chance": chance}
)
