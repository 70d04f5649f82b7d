from __future__ import annotations

import numpy as np
import pytest

from bccb.pacers.fixed_price import LAYOUT, price


@pytest.mark.parametrize("budget_left", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("time_left", [0.0, 0.5, 1.0])
def test_price_is_the_threshold_whatever_is_left(budget_left: float, time_left: float) -> None:
    assert price(LAYOUT.view(np.array([0.03]), 4, 2), budget_left, time_left) == 0.03
