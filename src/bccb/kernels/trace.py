"""The trace of a decision, and the work space for making one.

A trace is one row of float64: the user's raw features, then what is needed to compute the
probability of an action on demand. Outcomes are learned from it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from bccb.kernels.layout import Layout
from bccb.types import Floats


class Trace(NamedTuple):
    """What a decision leaves behind; E is the size of the explorer's memory."""

    x: Annotated[Floats, "d"]  # the features as given
    margin: Annotated[Floats, "K"]  # tau_k - lambda c_k, or minus infinity if not affordable
    spread: Annotated[Floats, "K"]
    even: Annotated[Floats, "K"]  # the rate of each treatment in a random choice
    ready: Annotated[Floats, "1"]  # 1 after warm-up
    explorer: Annotated[Floats, "E"]  # its memory before the decision


class Space(NamedTuple):
    """Work space of one decision."""

    z: Annotated[Floats, "n"]  # the prepared features
    effect: Annotated[Floats, "K"]
    bonus: Annotated[Floats, "K"]
    costs: Annotated[Floats, "K"]  # in currency units


TRACE = Layout(Trace, "d, K, E")
SPACE = Layout(Space, "n, K")
view_trace, view_space = TRACE.view, SPACE.view
