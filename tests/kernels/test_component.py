from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bccb.estimators import ESTIMATORS
from bccb.explorers import EXPLORERS
from bccb.kernels.component import Component
from bccb.kernels.scaling import SCALER, view_scaler
from bccb.pacers import PACERS
from bccb.types import Floats

SHAPES = [(0, 1), (1, 1), (3, 1), (2, 2), (5, 3)]
COMPONENTS = pytest.mark.parametrize(
    "component",
    [
        pytest.param(component, id=f"{slot} {component.name}")
        for slot, registry in (
            ("estimator", ESTIMATORS),
            ("explorer", EXPLORERS),
            ("pacer", PACERS),
        )
        for component in registry.values()
    ],
)


def numbered(size: int, spare: int = 0) -> Floats:
    """Slots that hold their own places, then spare ones that nobody may see."""
    return np.append(np.arange(float(size)), np.full(spare, -1.0))


def places_in(state: Any) -> list[float]:
    arrays = [part.ravel() for part in state if isinstance(part, np.ndarray)]
    return sorted(np.concatenate([np.empty(0), *arrays]).tolist())


@pytest.mark.parametrize(("d", "K"), SHAPES)
@COMPONENTS
def test_views_tile_the_memory_after_the_parameters(component: Component, d: int, K: int) -> None:
    size, first = component.layout.size(d, K), len(component.parameters)
    expected = [float(place) for place in range(first, size)]
    assert places_in(component.layout.view(numbered(size), d, K)) == expected
    # nor do they reach beyond their end
    assert places_in(component.layout.view(numbered(size, spare=10), d, K)) == expected


@pytest.mark.parametrize(("d", "K"), SHAPES)
@COMPONENTS
def test_views_share_the_memory(component: Component, d: int, K: int) -> None:
    memory = np.zeros(component.layout.size(d, K))
    count = 0.0
    for part in component.layout.view(memory, d, K):
        if isinstance(part, np.ndarray):
            part[...] = count + np.arange(1.0, part.size + 1.0).reshape(part.shape)
            count += part.size
    assert sorted(memory[memory > 0].tolist()) == np.arange(1.0, count + 1.0).tolist()


@COMPONENTS
def test_parameters_come_first_in_the_order_of_their_defaults(component: Component) -> None:
    state = component.layout.view(numbered(component.layout.size(2, 2)), 2, 2)
    numbers = [name for name in state._fields if not isinstance(getattr(state, name), np.ndarray)]
    assert set(numbers) <= set(component.parameters)
    for name in numbers:
        assert getattr(state, name) == list(component.parameters).index(name)


@COMPONENTS
def test_start_leaves_the_parameters_and_gives_finite_numbers(component: Component) -> None:
    memory = np.zeros(component.layout.size(3, 2))
    defaults = [parameter.default for parameter in component.parameters.values()]
    memory[: len(defaults)] = defaults
    if component.start is not None:
        component.start(memory, 3, 2)
    assert memory[: len(defaults)].tolist() == defaults
    assert np.isfinite(memory).all()


@pytest.mark.parametrize("d", [0, 1, 12])
def test_views_of_the_scaler_tile_its_memory(d: int) -> None:
    size = SCALER.size(d)
    assert places_in(view_scaler(numbered(size, spare=10), d)) == numbered(size).tolist()
