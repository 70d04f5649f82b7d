from __future__ import annotations

import numpy as np

from bccb.estimators.given import GIVEN, predict
from bccb.kernels.slots import Nothing


def test_first_features_are_the_effects() -> None:
    effect, spread = np.full(2, np.nan), np.full(2, np.nan)
    assert predict(Nothing(np.empty(0)), np.array([0.3, -0.1, 9.0, 1.0]), effect, spread)
    assert effect.tolist() == [0.3, -0.1]
    assert spread.tolist() == [0.0, 0.0]


def test_features_are_read_as_they_come() -> None:
    assert GIVEN.reads == "raw"
