"""No pacing: money has no price, lambda = 0, and the hard budget alone ends the spending."""

from __future__ import annotations

from bccb.kernels.component import Component

NONE = Component(name="none", about="none", kernels={})
