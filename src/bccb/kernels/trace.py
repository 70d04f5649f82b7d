"""The trace of a decision, and the work space it is made in.

A trace is one row of float64: the user's raw features, then what the probability of the action is
computed from when somebody asks for it. Outcomes are learned from it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from bccb.kernels.layout import Layout
from bccb.types import Floats


class Trace(NamedTuple):
    """What a decision leaves behind; E is the size of the explorer's memory."""

    x: Annotated[Floats, "d"]  # the features as they came
    margin: Annotated[Floats, "K"]  # tau_k - lambda c_k, or minus infinity where it is too dear
    spread: Annotated[Floats, "K"]
    even: Annotated[Floats, "K"]  # the rate of each treatment in a random choice
    ready: Annotated[Floats, "1"]  # 1 after warm-up
    explorer: Annotated[Floats, "E"]  # its memory at that time


class Space(NamedTuple):
    """Work space of one decision."""

    z: Annotated[Floats, "d + 1"]  # the prepared features, then 1
    effect: Annotated[Floats, "K"]
    bonus: Annotated[Floats, "K"]
    costs: Annotated[Floats, "K"]  # in currency units


TRACE = Layout(Trace, "d, K, E")
SPACE = Layout(Space)
view_trace, view_space = TRACE.view, SPACE.view
