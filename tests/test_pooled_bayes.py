"""What our own policies promise on simulated users, whatever the seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bccb
from bccb import Log, Policy, StateError
from bccb.data import simulate
from bccb.data.simulator import Outcome
from bccb.data.world import World, simulate_world
from bccb.evaluate.live import live
from bccb.evaluate.proposals import KNOWN, drive
from bccb.evaluate.replay import replay
from bccb.money import MICROS
from bccb.types import Ints

USERS, BUDGET, SEEDS = 20_000, 1_000.0, range(20)
both_outcomes = pytest.mark.parametrize("outcome", ["conversion", "visit"])

pytestmark = pytest.mark.compiled


def actions_in(world: World, policy: Policy) -> Ints:
    """Decide on all users one after the other, each outcome drawn at its true rate: the actions."""
    outcomes = (world.draws[:, None] < world.rates).astype(float)
    order = np.arange(world.users)
    return drive(policy, order, world.features, world.micros, KNOWN, outcomes).actions


def value(world: World, actions: Ints) -> float:
    """What the actions cause, in truth."""
    treated = np.flatnonzero(actions)
    return float(world.effects[treated, actions[treated] - 1].sum())


def fresh(world: World, seed: int, name: str = "pooled-bayes") -> Policy:
    return bccb.make(
        name,
        budget=BUDGET,
        horizon=world.users,
        features=world.features.shape[1],
        treatments=world.micros.shape[1],
        seed=seed,
    )


@both_outcomes
def test_no_seed_collapses_and_each_spends_its_budget(outcome: Outcome) -> None:
    values = []
    for seed in SEEDS:
        world = simulate_world(USERS, seed, outcome)
        run = live(fresh(world, seed), world)
        values.append(run.value)
        assert 0.98 * BUDGET <= run.spend <= BUDGET
    assert min(values) >= 0.7 * np.median(values)


@both_outcomes
def test_no_replay_collapses_and_each_spends_its_budget(outcome: Outcome) -> None:
    conversions = []
    for seed in SEEDS:
        log = simulate(USERS, seed=seed, outcome=outcome)
        policy = bccb.make("pooled-bayes", budget=BUDGET, horizon=USERS, features=12, seed=seed)
        result = replay(policy, log)
        conversions.append(result.conversions)
        assert 0.98 * BUDGET <= result.spend <= BUDGET
    # two standard deviations of a count below 60 % of the middle one
    middle = np.median(conversions)
    assert min(conversions) >= 0.6 * middle - 2.0 * np.sqrt(0.6 * middle)


@both_outcomes
def test_spoilt_features_cost_little(outcome: Outcome) -> None:
    values: dict[str, list[float]] = {"plain": [], "spoilt": [], "blind": []}
    for seed in range(6):
        world = simulate_world(USERS, seed, outcome)
        generator = np.random.default_rng(seed)
        spoilt = world.features.copy()
        spoilt[generator.random(spoilt.shape) < 0.01] = 1e6
        constant = np.full((USERS, 1), 3.0)
        columns = (spoilt, constant, spoilt[:, :3], spoilt[:, :3])
        for kind, features in (
            ("plain", world.features),
            ("spoilt", np.hstack(columns)),
            ("blind", constant),
        ):
            seen = replace(world, features=features)
            values[kind].append(live(fresh(seen, seed), seen).value)
    plain, spoilt_, blind = (np.mean(values[kind]) for kind in ("plain", "spoilt", "blind"))
    assert spoilt_ > 0.8 * plain
    assert spoilt_ > blind


@pytest.mark.parametrize("seed", range(4))
def test_a_harmful_treatment_soon_does_little_harm(seed: int) -> None:
    """Money may still go to users whom it hardly moves, because their effect is not known."""
    world = simulate_world(USERS, seed, "visit")
    control = world.rates[:, 0]
    harmful = replace(world, rates=np.column_stack([control, 0.4 * control]))
    harm, treated = {}, {}
    for name in ("pooled-bayes", "cheapest-first"):
        actions = actions_in(harmful, fresh(harmful, seed, name))
        actions[: -USERS // 4] = 0  # only the last quarter counts
        harm[name], treated[name] = -value(harmful, actions), np.count_nonzero(actions)
    average = -float(harmful.effects.mean())
    assert harm["cheapest-first"] > 0.8 * average * treated["cheapest-first"]
    assert harm["pooled-bayes"] < average / 3.0 * treated["pooled-bayes"]
    assert harm["pooled-bayes"] < 0.2 * harm["cheapest-first"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("rates", "costs"),
    [
        ([0.05, 0.06, 0.09], [1.0, 1.0]),  # more effect for the same money
        ([0.05, 0.08, 0.08], [2.0, 1.0]),  # the same effect for less
        ([0.05, 0.07, 0.10], [0.5, 2.5]),  # more effect, but for much more
    ],
)
def test_of_two_treatments_the_better_per_cost_is_used_more(
    rates: list[float], costs: list[float], seed: int
) -> None:
    generator = np.random.default_rng(seed)
    responsive = generator.normal(size=(USERS, 3))
    prices = generator.lognormal(0.0, 0.3, (USERS, 2)) * costs
    world = World(
        features=responsive,
        micros=np.ceil(prices * MICROS).astype(np.int64),
        rates=np.array(rates) * np.exp(0.3 * responsive[:, :1]),
        draws=generator.random(USERS),
    )
    used = np.bincount(actions_in(world, fresh(world, seed))[USERS // 2 :], minlength=3)[1:]
    better = np.argmax((np.array(rates[1:]) - rates[0]) / costs)
    assert used[better] > 2 * used[1 - better]


def test_hybrid_waits_for_history_and_then_knows_a_price() -> None:
    world = simulate_world(USERS, 1)
    policy = fresh(world, 1, "hybrid")
    with pytest.raises(StateError, match="hybrid has learned nothing"):
        policy.decide(world.features[0], world.costs[0])
    policy.learn(simulate(10_000, seed=77))
    assert policy.decide(world.features[0], world.costs[0]).price > 0


def test_history_helps() -> None:
    gains = []
    for seed in range(8):
        world = simulate_world(USERS, seed)
        history: Log = simulate(50_000, seed=1_000 + seed)
        values = []
        for name in ("hybrid", "pooled-trees"):
            policy = fresh(world, seed, name)
            if policy.needs_history:
                policy.learn(history)
            values.append(live(policy, world).value)
            assert 0.98 * BUDGET <= policy.spent <= BUDGET
        gains.append(values[0] / values[1])
    assert np.mean(gains) > 1.02
