"""The state machine: many steps are single ones, in a row, and looking changes nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import bccb
from bccb.errors import InputError
from bccb.kernels import counts as count
from bccb.machine import NONE, Machine
from bccb.types import Floats, Ints

USERS, FEATURES, TREATMENTS = 40, 2, 2
POLICIES = ("pooled-bayes", "bccb", "budgeted-thompson", "cheapest-first")
HORIZONS = {
    "one horizon": NONE,
    "others": 50 + 7 * np.arange(USERS) % 60,
}


def machine(name: str, budget: float = 8.0) -> Machine:
    """One that has decided and learned a little."""
    made = bccb.make(
        name, budget=budget, horizon=60, features=FEATURES, treatments=TREATMENTS, seed=3
    )
    xs, costs = users(1)
    for i in range(10):
        _, action, *_, trace = made.step(xs[i], costs[i])
        made.learn_outcome(trace, action, float(i % 2))
    return made


def users(seed: int) -> tuple[Floats, Ints]:
    draws = np.random.default_rng(seed)
    features = draws.normal(size=(USERS, FEATURES))
    return features, draws.integers(100_000, 1_000_000, (USERS, TREATMENTS))


def same_state(one: Machine, other: Machine) -> bool:
    return bool((one.counts == other.counts).all()) and one.memory.tobytes() == (
        other.memory.tobytes()
    )


@pytest.mark.parametrize("horizons", HORIZONS.values(), ids=HORIZONS)
@pytest.mark.parametrize("name", POLICIES)
def test_steps_are_single_steps_in_a_row(name: str, horizons: Ints) -> None:
    (xs, costs), many, single = users(2), machine(name), machine(name)
    made = many.steps(xs, costs, horizons)
    for i in range(USERS):
        if len(horizons):
            single.counts[count.HORIZON] = horizons[i]
        number, action, paid, price, score, trace = single.step(xs[i], costs[i])
        assert number == 11 + i
        result = (made.actions[i], made.paid[i], made.prices[i], made.scores[i])
        assert result == (action, paid, price, score)
        assert made.traces[i].tobytes() == trace.tobytes()
    assert same_state(many, single)
    assert set(made.actions.tolist()) > {0}


def test_the_horizon_of_each_user_sets_their_price() -> None:
    (xs, costs), near, far = users(2), machine("cheapest-first"), machine("cheapest-first")
    soon = near.steps(xs, costs, np.full(USERS, 60))
    late = far.steps(xs, costs, np.full(USERS, 60_000))
    assert late.paid.sum() < soon.paid.sum()


def test_steps_with_one_bad_user_are_not_taken() -> None:
    (xs, costs), made, before = users(2), machine("bccb"), machine("bccb")
    xs[7, 1] = np.nan
    with pytest.raises(InputError, match="feature 1 of row 7 is nan"):
        made.steps(xs, costs)
    assert same_state(made, before)


@pytest.mark.parametrize("name", POLICIES)
def test_probabilities_are_those_one_by_one_and_add_up(name: str) -> None:
    made = machine(name)
    traces = made.steps(*users(2)).traces
    result = np.array(
        [made.probabilities(traces, np.full(USERS, action)) for action in range(TREATMENTS + 1)]
    )
    single = [[made.probability(trace, action) for trace in traces] for action in range(3)]
    assert result.tolist() == single
    assert result.sum(axis=0) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", POLICIES)
def test_warming_changes_nothing(name: str) -> None:
    made, before = machine(name), machine(name)
    made.warm()
    assert same_state(made, before)


@pytest.mark.compiled
def test_warming_compiles_what_reports_and_corrections_need() -> None:
    code = """
import bccb
policy = bccb.make("treat-all", budget=1, horizon=1, features=1, window=9.0)
policy.warm()
print([name for name in ("age", "end", "amend") if not policy.kernels[name].signatures])
"""  # in a process of its own, in which nothing else has compiled them
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
