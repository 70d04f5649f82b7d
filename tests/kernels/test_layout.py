from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import pytest

from bccb.kernels.layout import Layout
from bccb.types import Floats

ROWS = 2


class State(NamedTuple):
    eta: float
    weights: Annotated[Floats, "K + 1", "m"]
    constant: Annotated[Floats, "ROWS"]
    cube: Annotated[Floats, "ROWS", "K", "d"]


LAYOUT = Layout(State, m="2 * d + 1")


@pytest.mark.parametrize(("d", "K"), [(0, 1), (1, 1), (3, 2)])
def test_fields_lie_one_after_the_other_in_their_shapes(d: int, K: int) -> None:
    size = LAYOUT.size(d, K)
    assert size == 1 + (K + 1) * (2 * d + 1) + ROWS + ROWS * K * d
    state = LAYOUT.view(np.arange(float(size)), d, K)
    assert state.eta == 0.0
    assert state.weights.shape == (K + 1, 2 * d + 1)
    assert state.cube.shape == (ROWS, K, d)
    parts = (state.weights, state.constant, state.cube)
    np.testing.assert_array_equal(
        np.concatenate([part.ravel() for part in parts]), np.arange(1, size)
    )


def test_a_view_shares_the_memory() -> None:
    memory = np.zeros(LAYOUT.size(1, 1))
    LAYOUT.view(memory, 1, 1).cube[1, 0, 0] = 7.0
    assert memory.tolist()[-1] == 7.0


def test_scalars_are_listed_in_order() -> None:
    assert LAYOUT.scalars == ("eta",)
