"""No estimate: every effect is zero, and only the explorer adds to it.

>>> import numpy as np
>>> from bccb.kernels.slots import predict  # a component without a kernel keeps the slot's own
>>> effect = np.ones(2)
>>> predict(NONE.fresh(), np.ones(1), effect, np.zeros(2)), effect.tolist()
(True, [0.0, 0.0])
"""

from __future__ import annotations

from bccb.kernels.component import Component

NONE = Component(name="none", about="none", kernels={})
