"""The state of a policy: its money adds up, and it is kept to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pasts import earlier_memory, without_charges

import bccb
from bccb.errors import InputError, StateError
from bccb.kernels import counts as count
from bccb.machine import Machine
from bccb.money import MICROS


def machine(name: str) -> Machine:
    """One that has decided and learned a little."""
    made = bccb.make(name, budget=8.0, horizon=60, features=2, treatments=2, seed=3)
    draws = np.random.default_rng(1)
    costs = draws.integers(100_000, 1_000_000, (10, 2))
    for number, x in enumerate(draws.normal(size=(10, 2))):
        _, action, *_, trace = made.step(x, costs[number])
        made.learn_outcome(trace, action, float(number % 2))
    return made


def test_a_refund_is_money_and_nothing_else() -> None:
    made, before = machine("treat-all"), machine("treat-all")
    micros = round(made.spent * MICROS)
    assert micros > 0
    for wrong in (-1, micros + 1):
        with pytest.raises(InputError, match="refund"):
            made.refund(wrong)
    made.refund(0)
    assert made.snapshot() == before.snapshot()
    made.refund(micros)
    assert (made.remaining, made.spent) == (made.budget, 0.0)
    before.counts[count.REMAINING] += micros
    assert made.snapshot() == before.snapshot()


def test_added_money_begins_a_plan_of_what_is_left() -> None:
    made = machine("treat-all")
    left = made.remaining_micros
    made.add_micros(3 * MICROS)
    assert made.budget == 11.0
    assert made.planned == (left + 3 * MICROS, 10)
    for wrong in (0, -1):
        with pytest.raises(InputError, match="what is added to the budget"):
            made.add_micros(wrong)


def test_added_money_begins_a_plan_with_what_is_held_and_will_return() -> None:
    size: dict[str, Any] = {"budget": 8.0, "horizon": 60, "features": 2, "seed": 3}
    made = bccb.make("pooled-bayes", **size, charge="conversion")
    for x in np.random.default_rng(1).normal(size=(20, 2)):
        made.step(x, np.array([500_000]))
    left, returns = made.remaining_micros, count.to_return(made.counts)
    assert 0.0 < returns < made.held_micros
    made.add_micros(MICROS)
    assert made.planned == (left + MICROS + int(returns), 20)


def earlier_snapshot(snapshot: bytes, made: Machine) -> bytes:
    memory = np.frombuffer(snapshot[8 * count.COUNTS :])
    before = earlier_memory(memory, made.counts, made.composition)
    return without_charges(snapshot[: 8 * count.COUNTS]) + before.tobytes()


@pytest.mark.parametrize("name", ["pooled-trees", "bccb"])
def test_a_snapshot_is_restored_to_the_bit(name: str) -> None:
    made = machine(name)
    fresh = bccb.make(name, budget=8.0, horizon=60, features=2, treatments=2, seed=3)
    kept = made.snapshot()
    earlier = earlier_snapshot(kept, made)
    assert len(earlier) == made.earlier_sizes[0]
    fresh.restore(earlier)  # of the version before costs were charged on conversion
    assert earlier_snapshot(fresh.snapshot(), made) == earlier
    fresh.restore(kept)
    assert (fresh.snapshot(), fresh.decisions) == (kept, 10)
    with pytest.raises(StateError, match="bytes is not one of this"):
        fresh.restore(kept[:-8])
