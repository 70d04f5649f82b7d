from __future__ import annotations

import numpy as np
import pytest

from bccb.estimators.constant import CONSTANT, LAYOUT, predict


@pytest.mark.parametrize("effect", [1.0, 0.002, -3.0, 0.0])
@pytest.mark.parametrize("K", [1, 2])
def test_every_treatment_has_the_same_effect_on_everybody(effect: float, K: int) -> None:
    state = LAYOUT.view(np.array([effect]), 2, K)
    for z in (np.zeros(3), np.array([1e9, -1e9, 1.0])):
        effects, spread = np.full(K, np.nan), np.full(K, np.nan)
        assert predict(state, z, effects, spread)  # there is nothing to warm up
        assert effects.tolist() == [effect] * K
        assert spread.tolist() == [0.0] * K


def test_effect_is_1_unless_told() -> None:
    assert CONSTANT.parameters["effect"].default == 1.0
