from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bccb.estimators import ESTIMATORS
from bccb.explorers import EXPLORERS
from bccb.kernels import slots
from bccb.kernels.component import Component
from bccb.kernels.scaling import scaler_size, view_scaler
from bccb.pacers import PACERS
from bccb.types import Floats

SHAPES = [(0, 1), (1, 1), (3, 1), (2, 2), (5, 3)]
VIEWS = [
    pytest.param(component, view, id=f"{view.removeprefix('view_')} {component.name}")
    for view, registry in (
        ("view_estimator", ESTIMATORS),
        ("view_explorer", EXPLORERS),
        ("view_pacer", PACERS),
    )
    for component in registry.values()
]


def numbered(size: int, spare: int = 0) -> Floats:
    """Slots that hold their own places, then spare ones that nobody may see."""
    return np.append(np.arange(float(size)), np.full(spare, -1.0))


def state_of(component: Component, view: str, memory: Floats, d: int, K: int) -> Any:
    return component.kernels.get(view, getattr(slots, view))(memory, d, K)


def places_in(state: Any) -> list[float]:
    arrays = [part.ravel() for part in state if isinstance(part, np.ndarray)]
    return sorted(np.concatenate([np.empty(0), *arrays]).tolist())


@pytest.mark.parametrize(("d", "K"), SHAPES)
@pytest.mark.parametrize(("component", "view"), VIEWS)
def test_views_tile_the_memory_after_the_parameters(
    component: Component, view: str, d: int, K: int
) -> None:
    size, first = component.size(d, K), len(component.parameters)
    expected = [float(place) for place in range(first, size)]
    assert places_in(state_of(component, view, numbered(size), d, K)) == expected
    if view in component.kernels:  # nor do they reach beyond their end
        state = state_of(component, view, numbered(size, spare=10), d, K)
        assert places_in(state) == expected


@pytest.mark.parametrize(("d", "K"), SHAPES)
@pytest.mark.parametrize(("component", "view"), VIEWS)
def test_views_share_the_memory(component: Component, view: str, d: int, K: int) -> None:
    memory = np.zeros(component.size(d, K))
    count = 0.0
    for part in state_of(component, view, memory, d, K):
        if isinstance(part, np.ndarray):
            part[...] = count + np.arange(1.0, part.size + 1.0).reshape(part.shape)
            count += part.size
    assert sorted(memory[memory > 0].tolist()) == np.arange(1.0, count + 1.0).tolist()


@pytest.mark.parametrize(("component", "view"), VIEWS)
def test_parameters_come_first_in_the_order_of_their_defaults(
    component: Component, view: str
) -> None:
    state = state_of(component, view, numbered(component.size(2, 2)), 2, 2)
    numbers = [name for name in state._fields if not isinstance(getattr(state, name), np.ndarray)]
    assert set(numbers) <= set(component.parameters)
    for name in numbers:
        assert getattr(state, name) == list(component.parameters).index(name)


@pytest.mark.parametrize(("component", "view"), VIEWS)
def test_start_leaves_the_parameters_and_gives_finite_numbers(
    component: Component, view: str
) -> None:
    memory = np.zeros(component.size(3, 2))
    defaults = [parameter.default for parameter in component.parameters.values()]
    memory[: len(defaults)] = defaults
    if component.start is not None:
        component.start(memory, 3, 2)
    assert memory[: len(defaults)].tolist() == defaults
    assert np.isfinite(memory).all()


@pytest.mark.parametrize("d", [0, 1, 12])
def test_views_of_the_scaler_tile_its_memory(d: int) -> None:
    size = scaler_size(d)
    assert places_in(view_scaler(numbered(size, spare=10), d)) == numbered(size).tolist()
