"""No pacing: the price of money is lambda = 0, and only the hard budget ends the spending.

>>> from bccb.kernels.slots import price  # a component without a kernel keeps the slot's own
>>> price(NONE.fresh(), 0.1, 0.9)
0.0
"""

from __future__ import annotations

from bccb.kernels.component import Component

NONE = Component(name="none", about="none", kernels={})
