from __future__ import annotations

import numpy as np
import pytest

from bccb.kernels.quadrature import NODES, ORDER, RUNNING, WEIGHTS


@pytest.mark.parametrize("power", range(2 * ORDER))
def test_nodes_integrate_polynomials_exactly(power: int) -> None:
    exact = 2.0 / (power + 1) if power % 2 == 0 else 0.0
    assert WEIGHTS @ NODES**power == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize("power", range(ORDER))
def test_running_weights_integrate_polynomials_up_to_each_node(power: int) -> None:
    exact = (NODES ** (power + 1) - (-1.0) ** (power + 1)) / (power + 1)
    np.testing.assert_allclose(RUNNING @ NODES**power, exact, atol=1e-13)


def test_running_weights_follow_a_smooth_function_to_seven_digits() -> None:
    np.testing.assert_allclose(RUNNING @ np.exp(NODES), np.exp(NODES) - np.exp(-1.0), atol=1e-7)
    assert RUNNING.shape == (ORDER, ORDER)
