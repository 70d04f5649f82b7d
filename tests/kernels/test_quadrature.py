from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from bccb.explorers import beta_difference, posterior_sampling
from bccb.kernels.quadrature import NODES, ORDER, RUNNING, WEIGHTS
from bccb.types import Floats


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


def evaluations(explorer: types.ModuleType, K: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many places of densities and distribution functions one probability looks at."""
    plain = {
        name: getattr(getattr(explorer, name), "py_func", getattr(explorer, name))
        for name in ("density", "distribution", "largest", "below")
    }
    seen = []

    def counting(name: str) -> Any:
        def counted(scores: Any, j: int, s: Floats, *rest: Any) -> Any:
            seen.append(len(s))
            return plain[name](scores, j, s, *rest)

        return counted

    scope = plain["largest"].__globals__
    for name in ("density", "distribution"):
        monkeypatch.setitem(scope, name, counting(name))
    generator = np.random.default_rng(K)
    if explorer is beta_difference:
        alpha = generator.uniform(1.0, 10.0, K + 1)
        state: Any = beta_difference.State(1.0, alpha, generator.uniform(10.0, 900.0, K + 1))
    else:
        state = posterior_sampling.State(1.0, 0.0)
    margin, spread = generator.normal(0.0, 0.01, K), generator.uniform(0.001, 0.1, K)
    chance = getattr(explorer.chance, "py_func", explorer.chance)
    scope = chance.__globals__
    monkeypatch.setitem(scope, "largest", plain["largest"])
    if "_integral" in scope:
        monkeypatch.setitem(
            scope, "_integral", getattr(scope["_integral"], "py_func", scope["_integral"])
        )
    chance(state, margin, spread, True, 1)
    return sum(seen)


@pytest.mark.parametrize("explorer", [beta_difference, posterior_sampling])
def test_the_work_grows_with_the_number_of_treatments_and_not_with_its_square(
    explorer: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (evaluations(explorer, K, monkeypatch) for K in (10, 100))
    assert many < 3 * 10 * few
