from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bccb import ageing, drivers, estimated
from bccb.composition import TEMPLATES
from bccb.estimators import ESTIMATORS
from bccb.explorers import EXPLORERS
from bccb.kernels import amounts, corrections, moments, slots
from bccb.kernels.component import Component
from bccb.pacers import PACERS

SLOTS = {
    "estimator": {"predict", "learn_estimator", "rate_of", "effect_of", "sum_effects"},
    "explorer": {"explore", "learn_explorer", "reserve", "chance"},
    "pacer": {"note_arrival", "note_unknown", "forecast", "price"},
    "amounts": {
        *("view_amounts", "learn_amount", "correct_amount"),
        *("unit_of", "amount_of", "charged_share"),
    },
}


@pytest.mark.parametrize(
    ("kind", "component"),
    [
        pytest.param(kind, component, id=f"{kind} {component.name}")
        for kind, registry in (
            ("estimator", ESTIMATORS),
            ("explorer", EXPLORERS),
            ("pacer", PACERS),
        )
        for component in registry.values()
    ],
)
def test_components_fill_slots_of_their_own_kind_alone(kind: str, component: Component) -> None:
    assert set(component.kernels) <= SLOTS[kind]


def test_amounts_fill_slots_of_their_own_alone() -> None:
    assert set(amounts.KERNELS | moments.KERNELS | corrections.KERNELS) == SLOTS["amounts"]


@pytest.mark.parametrize("module", [drivers, ageing, estimated])
def test_every_driver_that_calls_a_kernel_of_a_component_is_compiled_for_it(module: Any) -> None:
    """Otherwise it would call the slot, which does nothing, and figures would be wrong."""
    bound = {template.__name__ for template in TEMPLATES}
    calls = {*set.union(*SLOTS.values()), *vars(slots), "AMOUNTS", "COPIES", "prepare"} | bound
    for name, each in vars(module).items():
        code = getattr(getattr(each, "py_func", each), "__code__", None)
        if getattr(each, "__module__", "") == module.__name__ and code is not None:
            assert name in bound or not calls & set(code.co_names), name


def test_every_slot_has_a_kernel_that_does_nothing() -> None:
    for name in set.union(*SLOTS.values()):
        assert callable(getattr(slots, name))


def test_empty_slots_estimate_add_and_charge_nothing() -> None:
    state = slots.Nothing(np.empty(0))
    effect, spread, bonus = np.full(2, 7.0), np.full(2, 7.0), np.full(2, 7.0)
    assert slots.predict(state, np.ones(3), effect, spread)
    slots.explore(state, 0, 1, spread, True, bonus)
    assert [*effect, *spread, *bonus] == [0.0] * 6
    assert slots.rate_of(state, np.ones(3), 1) == slots.amount_of(state, np.ones(3), 1) == 1.0
    assert slots.gain_of(0.4) == 0.4
    assert slots.charged_share(state, np.ones(3), 1, 0.2, 5.0) == 5.0
    assert slots.price(state, 0.5, 0.5) == slots.reserve(state) == 0.0


@pytest.mark.parametrize(
    ("margin", "best"),
    [
        ([0.1, 0.3, 0.2], 2),
        ([-0.1, -0.3, -0.2], 0),
        ([0.0, 0.0, 0.0], 0),
        ([-math.inf, 0.1, -math.inf], 2),
        ([-math.inf, -math.inf, -math.inf], 0),
        ([0.2, 0.2, 0.1], 1),
    ],
)
def test_without_draws_the_best_action_above_zero_is_certain(
    margin: list[float], best: int
) -> None:
    state = slots.Nothing(np.empty(0))
    chances = [
        slots.chance(state, np.array(margin), np.zeros(3), True, action) for action in range(4)
    ]
    assert chances == [1.0 if action == best else 0.0 for action in range(4)]
