"""No estimate: every effect is zero, and the explorer alone speaks."""

from __future__ import annotations

from bccb.kernels.component import Component

NONE = Component(name="none", about="none", kernels={})
