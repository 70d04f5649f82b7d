"""No exploration: nothing is added."""

from __future__ import annotations

from bccb.kernels.component import Component

NONE = Component(name="none", about="none", kernels={})
