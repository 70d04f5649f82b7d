"""What our own policies promise on simulated users, whatever the seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import bccb
from bccb import Log, Policy, StateError
from bccb.data import simulate
from bccb.data.simulator import Outcome, load_model, outcome_rates
from bccb.evaluate.replay import replay
from bccb.types import Floats, Ints

USERS, BUDGET, SEEDS = 20_000, 1_000.0, range(20)
both_outcomes = pytest.mark.parametrize("outcome", ["conversion", "visit"])

pytestmark = pytest.mark.compiled


class World(NamedTuple):
    """Users as they come, with the true rate of each action."""

    features: Floats  # (n, d)
    costs: Floats  # (n, K)
    rates: Floats  # (n, K+1)

    @property
    def effects(self) -> Floats:
        """What each treatment adds to the rate, of shape (n, K)."""
        return self.rates[:, 1:] - self.rates[:, :1]


def world(seed: int, outcome: Outcome, treatments: int = 1, users: int = USERS) -> World:
    log = simulate(users, seed=seed, outcome=outcome, treatments=treatments)
    assert log.effects is not None
    control = outcome_rates(load_model(), log.features, outcome)[0]
    rates = np.column_stack([control, control[:, None] + log.effects])
    return World(log.features, log.costs, rates)


def live(policy: Policy, users: World, seed: int) -> Ints:
    """Decide on all users one after the other, each outcome drawn at its true rate: the actions."""
    drawn = np.random.default_rng((seed, 99)).random(len(users.costs))
    actions = np.empty(len(drawn), np.int64)
    for i in range(len(drawn)):
        decision = policy.decide(users.features[i], users.costs[i])
        actions[i] = decision.action
        policy.observe(decision, float(drawn[i] < users.rates[i, decision.action]))
    return actions


def value(users: World, actions: Ints) -> float:
    """What the actions cause, in truth."""
    treated = np.flatnonzero(actions)
    return float(users.effects[treated, actions[treated] - 1].sum())


def fresh(users: World, seed: int, name: str = "pooled-bayes") -> Policy:
    return bccb.make(
        name,
        budget=BUDGET * len(users.costs) / USERS,
        horizon=len(users.costs),
        features=users.features.shape[1],
        treatments=users.costs.shape[1],
        seed=seed,
    )


@both_outcomes
def test_no_seed_collapses_and_each_spends_its_budget(outcome: Outcome) -> None:
    values = []
    for seed in SEEDS:
        users = world(seed, outcome)
        policy = fresh(users, seed)
        values.append(value(users, live(policy, users, seed)))
        assert 0.98 * BUDGET <= policy.spent <= BUDGET
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
        users = world(seed, outcome)
        generator = np.random.default_rng(seed)
        spoilt = users.features.copy()
        spoilt[generator.random(spoilt.shape) < 0.01] = 1e6
        constant = np.full((USERS, 1), 3.0)
        columns = (spoilt, constant, spoilt[:, :3], spoilt[:, :3])
        for kind, features in (
            ("plain", users.features),
            ("spoilt", np.hstack(columns)),
            ("blind", constant),
        ):
            seen = users._replace(features=features)
            values[kind].append(value(users, live(fresh(seen, seed), seen, seed)))
    plain, spoilt_, blind = (np.mean(values[kind]) for kind in ("plain", "spoilt", "blind"))
    assert spoilt_ > 0.8 * plain
    assert spoilt_ > blind


@pytest.mark.parametrize("seed", range(4))
def test_a_harmful_treatment_soon_does_little_harm(seed: int) -> None:
    """Money may still go to users whom it hardly moves, because their effect is not known."""
    users = world(seed, "visit")
    control = users.rates[:, 0]
    harmful = users._replace(rates=np.column_stack([control, 0.4 * control]))
    late = slice(-USERS // 4, None)
    ended = World(*(part[late] for part in harmful))
    harm, treated = {}, {}
    for name in ("pooled-bayes", "cheapest-first"):
        actions = live(fresh(harmful, seed, name), harmful, seed)[late]
        harm[name], treated[name] = -value(ended, actions), np.count_nonzero(actions)
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
    users = World(
        features=responsive,
        costs=generator.lognormal(0.0, 0.3, (USERS, 2)) * costs,
        rates=np.array(rates) * np.exp(0.3 * responsive[:, :1]),
    )
    used = np.bincount(live(fresh(users, seed), users, seed)[USERS // 2 :], minlength=3)[1:]
    better = np.argmax((np.array(rates[1:]) - rates[0]) / costs)
    assert used[better] > 2 * used[1 - better]


def test_hybrid_waits_for_history_and_then_knows_a_price() -> None:
    users = world(1, "conversion")
    policy = fresh(users, 1, "hybrid")
    with pytest.raises(StateError, match="hybrid has learned nothing"):
        policy.decide(users.features[0], users.costs[0])
    policy.learn(simulate(10_000, seed=77))
    assert policy.decide(users.features[0], users.costs[0]).price > 0


def test_history_helps() -> None:
    gains = []
    for seed in range(8):
        users = world(seed, "conversion")
        history: Log = simulate(50_000, seed=1_000 + seed)
        values = []
        for name in ("hybrid", "pooled-bayes"):
            policy = fresh(users, seed, name)
            if policy.needs_history:
                policy.learn(history)
            values.append(value(users, live(policy, users, seed)))
            assert 0.98 * BUDGET <= policy.spent <= BUDGET
        gains.append(values[0] / values[1])
    assert np.mean(gains) > 1.02
