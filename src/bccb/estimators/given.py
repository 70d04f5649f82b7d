"""Given: the first K features of a user are the true effects, which only a simulator knows.

>>> import numpy as np
>>> x, effect = np.array([0.1, -0.2, 7.0, 1.0]), np.zeros(2)
>>> predict(GIVEN.fresh(d=3, K=2), x, effect, np.zeros(2)), effect.tolist()
(True, [0.1, -0.2])
"""

from __future__ import annotations

from typing import Any

from bccb.kernels.component import Component
from bccb.kernels.jit import jit
from bccb.types import Floats


@jit
def predict(estimator: Any, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k = x_k"""
    for k in range(effect.shape[0]):
        effect[k] = z[k]
        spread[k] = 0.0
    return True


GIVEN = Component(
    name="given",
    about="true effects",
    sound=lambda memory, d, K: d >= K,
    reads="raw",
    kernels={"predict": predict},
)
