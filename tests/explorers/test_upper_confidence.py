from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bccb.explorers.upper_confidence import State, chance, explore

NUMBERS = st.floats(-10.0, 10.0)
ARMS = st.lists(
    st.tuples(st.one_of(NUMBERS, st.just(-math.inf)), st.floats(0.0, 10.0)), min_size=1, max_size=4
)


@pytest.mark.parametrize("width", [0.0, 1.0, 2.5])
def test_bonus_is_the_width_times_the_standard_error(width: float) -> None:
    spread, bonus = np.array([0.5, 0.0, 3.0]), np.full(3, np.nan)
    for seed, number in ((0, 1), (1, 1), (0, 2)):  # nothing is drawn
        explore(State(width), seed, number, spread, True, bonus)
        assert bonus.tolist() == [0.5 * width, 0.0, 3.0 * width]


@given(ARMS, st.floats(0.0, 3.0))
@example([(0.1, 1.0), (0.2, 0.5)], 0.1)
@example([(0.1, 1.0), (0.2, 0.5)], 1.0)
@example([(-1.0, 0.6)], 2.0)
@example([(-1.0, 2.0)], 0.25)
@example([(-math.inf, 1.0), (-0.5, 1.0)], 1.0)
def test_the_best_action_is_certain(arms: list[tuple[float, float]], width: float) -> None:
    margin, spread = (np.array(values) for values in zip(*arms, strict=True))
    chances = [
        chance(State(width), margin, spread, True, action) for action in range(len(arms) + 1)
    ]
    scores = [0.0, *(m + width * s for m, s in arms)]
    assert chances == [float(action == int(np.argmax(scores))) for action in range(len(scores))]
