"""No exploration: nothing is added to the effects.

>>> import numpy as np
>>> from bccb.kernels.slots import chance  # a component without a kernel keeps the slot's own
>>> margin = np.array([0.2, 0.5])  # of two treatments: the second is always chosen
>>> [chance(NONE.fresh(), margin, np.zeros(2), True, action) for action in range(3)]
[0.0, 0.0, 1.0]
"""

from __future__ import annotations

from bccb.kernels.component import Component

NONE = Component(name="none", about="none", kernels={})
