"""Common checks over every registered policy: what any of them must do."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bccb
from bccb import Decision, Log, Policy, StateError, drivers
from bccb.assembly import assemble
from bccb.estimators import ESTIMATORS
from bccb.explorers import EXPLORERS
from bccb.kernels import counts as count
from bccb.kernels.scaling import view_scaler
from bccb.money import MICROS
from bccb.pacers import PACERS, budget_forecast
from bccb.policies import DEFAULT, POLICIES
from bccb.policy import from_bytes
from bccb.types import Floats

NAMES = list(POLICIES)
ARMS = (1, 2)
D = 3

every_policy = pytest.mark.parametrize("name", NAMES)
one_and_two_treatments = pytest.mark.parametrize("treatments", ARMS)


def users(count: int, treatments: int, seed: int = 7) -> tuple[Floats, Floats, Floats]:
    """Features whose first columns can pass for effects, costs, and outcomes."""
    generator = np.random.default_rng(seed)
    x = generator.normal(0.02, 0.1, (count, D))
    costs = generator.lognormal(-0.5, 0.7, (count, treatments)).round(6)
    outcomes = (generator.random(count) < 0.2).astype(float)
    return x, costs, outcomes


def fresh(name: str, treatments: int = 1, seed: int = 5, **options: Any) -> Policy:
    """A policy ready to decide: those that need history have seen some."""
    settings_ = {"budget": 60.0, "horizon": 400, "features": D, **options}
    policy = bccb.make(name, treatments=treatments, seed=seed, **settings_)
    if policy.composition.fitted:
        policy.adopt(fitted(name, treatments, settings_["features"]))
    elif policy.needs_history:
        policy.learn(history(treatments, features=settings_["features"]))
    return policy


@cache
def fitted(name: str, treatments: int, features: int) -> Policy:
    """A policy whose models are fitted, once for all tests."""
    policy = bccb.make(name, budget=1, horizon=1, features=features, treatments=treatments)
    policy.learn(history(treatments, features=features))
    return policy


def history(treatments: int, count: int = 400, features: int = D) -> Log:
    generator = np.random.default_rng(3)
    return Log(
        features=generator.normal(size=(count, features)),
        actions=np.arange(count) % (treatments + 1),
        outcomes=(generator.random(count) < 0.4).astype(float),
        micros=np.full((count, treatments), MICROS),
    )


def drive(policy: Policy, count: int = 200, seed: int = 7) -> list[Decision]:
    x, costs, outcomes = users(count, policy.treatments, seed)
    decisions = []
    for i in range(count):
        decision = policy.decide(x[i], costs[i])
        policy.observe(decision, outcomes[i])
        decisions.append(decision)
    return decisions


def digest(policy: Policy, decisions: list[Decision]) -> str:
    """A hash of every bit of the state and of every decision."""
    answer = hashlib.sha256(policy.counts.tobytes() + policy.memory.tobytes())
    for decision in decisions:
        row = np.array([decision.action, decision.cost, decision.price, decision.score])
        answer.update(row.tobytes())
    return answer.hexdigest()


@every_policy
@one_and_two_treatments
def test_the_same_seed_gives_the_same_decisions(name: str, treatments: int) -> None:
    first, second = fresh(name, treatments), fresh(name, treatments)
    assert digest(first, drive(first)) == digest(second, drive(second))


@pytest.mark.parametrize(
    "name", ["thompson", "budgeted-thompson", "hte-greedy", "bccb", "pooled-bayes"]
)
def test_another_seed_gives_other_decisions_where_a_policy_draws(name: str) -> None:
    actions = [[d.action for d in drive(fresh(name, seed=seed))] for seed in (1, 2)]
    assert actions[0] != actions[1]


@every_policy
@one_and_two_treatments
def test_inputs_are_left_as_they_were(name: str, treatments: int) -> None:
    policy = fresh(name, treatments)
    x, costs, outcomes = users(50, treatments)
    before = x.tobytes(), costs.tobytes(), outcomes.tobytes()
    for i in range(50):
        policy.observe(policy.decide(x[i], costs[i]), outcomes[i])
    assert (x.tobytes(), costs.tobytes(), outcomes.tobytes()) == before


@every_policy
@one_and_two_treatments
def test_inputs_may_be_changed_after_deciding(name: str, treatments: int) -> None:
    policy, twin = fresh(name, treatments), fresh(name, treatments)
    x, costs, _ = users(20, treatments)
    for i in range(20):
        row, price = x[i].copy(), costs[i].copy()
        decision = policy.decide(row, price)
        row[:], price[:] = np.nan, np.nan
        policy.observe(decision, 1.0)
        twin.observe(twin.decide(x[i], costs[i]), 1.0)
    assert policy.memory.tobytes() == twin.memory.tobytes()


@every_policy
@one_and_two_treatments
@settings(max_examples=15)
@given(
    budget=st.floats(0.01, 20.0),
    cents=st.lists(st.integers(1, 300), min_size=1, max_size=60),
    seed=st.integers(0, 2**31),
)
def test_the_budget_is_never_exceeded(
    name: str, treatments: int, budget: float, cents: list[int], seed: int
) -> None:
    policy = fresh(name, treatments, seed=seed, budget=budget, horizon=len(cents))
    spent, x = 0, np.full(D, 0.5)
    for cost in cents:
        decision = policy.decide(x, [cost * (k + 1) / 100 for k in range(treatments)])
        policy.observe(decision, 1.0)
        spent += cost * 10_000 * decision.action
        assert policy.counts[count.BUDGET] - policy.counts[count.REMAINING] == spent
        assert spent <= budget * 1_000_000
    assert policy.remaining >= 0


def test_a_cost_that_equals_what_is_left_is_affordable_to_the_micro() -> None:
    policy = fresh("treat-all", budget=1.1, horizon=3)
    assert policy.decide(np.zeros(D), 1.1).action == 1  # 1.1 * 1e6 is 1100000.0000000002
    assert policy.remaining == 0
    assert policy.decide(np.zeros(D), 0.000001).action == 0


@every_policy
@one_and_two_treatments
def test_a_saved_policy_continues_bit_for_bit(name: str, treatments: int, tmp_path: Path) -> None:
    policy = fresh(name, treatments)
    drive(policy, 120)
    waiting = policy.decide(np.full(D, 0.1), [0.3] * treatments)
    policy.save(tmp_path / "policy")
    again = bccb.load(tmp_path / "policy")
    for one in (policy, again):
        one.observe(waiting, 1.0)
    assert digest(policy, drive(policy, 150, seed=8)) == digest(again, drive(again, 150, seed=8))
    assert (again.name, again.budget, again.spent) == (policy.name, policy.budget, policy.spent)
    assert again.parameters == policy.parameters
    assert [file.name for file in tmp_path.iterdir()] == ["policy"]


@every_policy
@one_and_two_treatments
def test_batches_give_the_same_decisions_as_one_at_a_time(name: str, treatments: int) -> None:
    one, many = fresh(name, treatments), fresh(name, treatments)
    x, costs, outcomes = users(90, treatments)
    for start in range(0, 90, 30):
        rows = slice(start, start + 30)
        singles = [one.decide(x[i], costs[i]) for i in range(start, start + 30)]
        batch = many.decide_many(x[rows], costs[rows])
        for single, other in zip(singles, batch, strict=True):
            assert repr(single) == repr(other)
            assert single.probability == other.probability
        for decision, outcome in zip(singles, outcomes[rows], strict=True):
            one.observe(decision, outcome)
        many.observe_many(batch, outcomes[rows])
    assert one.memory.tobytes() == many.memory.tobytes()
    assert one.counts.tobytes() == many.counts.tobytes()


@every_policy
@one_and_two_treatments
def test_the_probability_of_an_action_agrees_with_monte_carlo(name: str, treatments: int) -> None:
    policy = fresh(name, treatments, warm_up=5) if "hte" in name else fresh(name, treatments)
    x, costs, outcomes = users(240, treatments)
    repeats = 1_500 if policy_is_compiled() else 40
    for i in range(240):
        counts, memory = policy.counts.copy(), policy.memory.copy()
        before = Policy(name, policy.composition, counts, memory, "twin", {})
        decision = policy.decide(x[i], costs[i])
        if i in (0, 7, 60, 239):
            check_probability(before, x[i], costs[i], decision, repeats)
        policy.observe(decision, outcomes[i])


def check_probability(
    before: Policy, x: Floats, costs: Floats, decision: Decision, repeats: int
) -> None:
    """Decide on the same user again and again with other seeds, from the state before."""
    chances = np.array([decision.probability_of(a) for a in range(before.treatments + 1)])
    assert chances.sum() == pytest.approx(1.0, abs=1e-6)
    assert decision.probability == chances[decision.action]
    seen = np.zeros(before.treatments + 1)
    counts, memory = before.counts.copy(), before.memory.copy()
    for seed in range(repeats):
        before.counts[:], before.memory[:] = counts, memory
        before.counts[count.SEED] = seed
        seen[before.decide(x, costs).action] += 1
    error = np.sqrt(chances * (1 - chances) / repeats)
    assert (np.abs(seen / repeats - chances) <= 4.5 * error + 1e-9).all()


def policy_is_compiled() -> bool:
    return hasattr(drivers.propose, "py_func")


@every_policy
def test_outcomes_may_come_late_and_in_any_order(name: str) -> None:
    policy = fresh(name)
    x, costs, outcomes = users(60, 1)
    decisions = [policy.decide(x[i], costs[i]) for i in range(60)]
    assert policy.waiting == 60
    order = np.random.default_rng(1).permutation(60)
    twin = fresh(name)
    others = [twin.decide(x[i], costs[i]) for i in range(60)]
    for i in order:
        policy.observe(decisions[i], outcomes[i])
    twin.observe_many([others[i] for i in order], outcomes[order])
    assert policy.waiting == 0
    assert policy.memory.tobytes() == twin.memory.tobytes()
    if POLICIES[name].composition.explorer == "beta-difference":
        at = policy.counts[count.AT_EXPLORER]
        assert policy.memory[at + 1 : at + 5].sum() == 4 + 60  # every outcome is in a posterior


@every_policy
def test_an_outcome_counts_once(name: str) -> None:
    policy = fresh(name)
    decision = policy.decide(np.zeros(D), 0.5)
    policy.observe(decision, 1.0)
    before = policy.memory.tobytes()
    with pytest.raises(StateError, match="decision 1 was observed or cancelled already"):
        policy.observe(decision, 1.0)
    assert policy.memory.tobytes() == before


def test_a_decision_of_another_policy_is_refused() -> None:
    policy, other = fresh("bccb"), fresh("bccb")
    drive(other, 5)
    stranger = other.decide(np.zeros(D), 0.5)
    with pytest.raises(StateError, match="decision 6 was not made by this policy"):
        policy.observe(stranger, 1.0)


def test_a_batch_of_outcomes_is_learned_whole_or_not_at_all() -> None:
    policy = fresh("bccb")
    decisions = policy.decide_many(*users(3, 1)[:2])
    before = policy.memory.tobytes()
    with pytest.raises(StateError, match="in this list twice"):
        policy.observe_many([decisions[0], decisions[1], decisions[0]], [0, 1, 0])
    with pytest.raises(bccb.InputError, match="outcome 2 is 1.5"):
        policy.observe_many(decisions, [0, 1, 1.5])
    assert policy.memory.tobytes() == before
    policy.observe_many(decisions, [0, 1, 1])
    assert policy.waiting == 0


@every_policy
@pytest.mark.compiled
def test_the_python_form_equals_the_compiled_form(name: str, python_digests: Any) -> None:
    for treatments in ARMS:
        policy = fresh(name, treatments)
        assert python_digests[f"{name} {treatments}"] == digest(policy, drive(policy))


@pytest.fixture(scope="module")
def python_digests() -> dict[str, str]:
    """Every policy driven by the same kernels as plain Python, in a process of its own."""
    code = (
        "from test_policies import *\n"
        "for name in NAMES:\n"
        "    for treatments in ARMS:\n"
        "        policy = fresh(name, treatments)\n"
        "        print(name, treatments, digest(policy, drive(policy)))\n"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


@every_policy
def test_history_is_learned_before_the_first_user_only(name: str) -> None:
    policy = fresh(name)
    policy.decide(np.zeros(D), 0.5)
    with pytest.raises(StateError, match="1 users were decided on"):
        policy.learn(history(1))


@pytest.mark.parametrize("name", ["bccb", "thompson", "uplifting-bandit"])
def test_learning_history_equals_having_observed_it(name: str) -> None:
    log = history(1, count=150)
    learned, lived = fresh(name), fresh(name)
    learned.learn(log)
    scaler = view_scaler(lived.memory, D)
    for i in range(log.users):
        lived.kernels["see"](scaler, log.features[i])
        space = np.empty(lived.composition.space_size(D, 1))
        trace = np.append(log.features[i], np.empty(lived.trace_size - D))
        lived.kernels["observe"](
            lived.counts, lived.memory, trace, log.actions[i], log.outcomes[i], 1.0, space
        )
    end = learned.counts[count.END]  # the sample after it tells history from the campaign
    assert learned.memory[:end].tobytes() == lived.memory[:end].tobytes()
    assert learned.counts[count.HISTORY] == log.users


def test_a_policy_that_needs_history_refuses_to_decide_without() -> None:
    policy = bccb.make("offline-uplift", budget=1, horizon=10, features=D)
    with pytest.raises(StateError, match=r"learned nothing: call learn\(log\)"):
        policy.decide(np.zeros(D), 0.5)
    with pytest.raises(StateError, match=r"learned nothing: call learn\(log\)"):
        policy.decide_many(np.zeros((1, D)), [0.5])


def warm(name: str = "bccb") -> Policy:
    """A policy that learns row by row, but begins with history."""
    spec = replace(POLICIES[name], name="warm", after_history=True)
    return assemble(spec, budget=60, horizon=400, features=D, seed=5)


def test_a_policy_after_history_waits_for_it_saved_or_not() -> None:
    policy = warm()
    for waiting in (policy, from_bytes(policy.to_bytes())):
        with pytest.raises(StateError, match=r"warm has learned nothing: call learn\(log\)"):
            waiting.decide(np.zeros(D), 0.5)
        assert waiting.needs_history
    policy.learn(history(1))
    for ready in (policy, from_bytes(policy.to_bytes())):
        assert not ready.needs_history
        assert ready.decide(np.zeros(D), 0.5).number == 1


def test_a_policy_after_history_has_learned_what_the_same_without_would_have() -> None:
    policy, plain = warm(), fresh("bccb")
    for one in (policy, plain):
        one.learn(history(1))
    assert digest(policy, drive(policy)) == digest(plain, drive(plain))


FORECASTING = [n for n in NAMES if POLICIES[n].composition.pacer == "budget-forecast"]


@pytest.mark.parametrize("name", FORECASTING)
@one_and_two_treatments
@pytest.mark.parametrize("rows", [37, 400, 2_300])
def test_the_first_price_is_that_of_the_end_of_history(
    name: str, treatments: int, rows: int
) -> None:
    if not policy_is_compiled():
        rows = min(rows, 300)
    still: dict[str, Any] = (
        {"width": 0.0, "reserve": 0.0} if "pooled" in name or name == "hybrid" else {}
    )
    policy = bccb.make(
        name, budget=20, horizon=400, features=D, treatments=treatments, seed=5, **still
    )
    log = history(treatments, count=rows)
    policy.learn(log)
    at, end = policy.counts[count.AT_PACER], policy.counts[count.END]
    pacer = budget_forecast.LAYOUT.view(policy.memory[at:end], D, treatments)
    n = min(rows, budget_forecast.WINDOW)
    assert pacer.seen[0] == n
    parts = policy.kernels["view"](policy.counts, policy.memory)
    effects, spread = np.empty((n, treatments)), np.empty(treatments)
    z = np.empty(policy.kernels["COPIES"] * D + 1)
    for i in range(n):
        policy.kernels["prepare"](parts.scaler, log.features[rows - n + i], z)
        policy.kernels["predict"](parts.estimator, z, effects[i], spread)
    np.testing.assert_array_equal(pacer.score[:n], effects)
    np.testing.assert_array_equal(pacer.costs[:n], log.costs[rows - n :])
    price = policy.decide(np.zeros(D), [1.0] * treatments).price
    young = n // 2 if n < budget_forecast.WINDOW else 0  # only the later half of a young window
    haste = policy.parameters["haste"]
    left = 20 / 400 * (n + 2 * haste) / (n + haste)
    expected = budget_forecast.exhausting_price(effects[young:], pacer.costs[young:n], left)
    assert price == pytest.approx(expected, rel=1e-6)
    assert price > 0


def test_users_of_a_second_history_are_drawn_for_anew() -> None:
    policy = bccb.make("hybrid", budget=20, horizon=400, features=D, width=100.0)
    log = history(1, count=100)
    for _ in range(2):
        policy.learn(log)
    at, end = policy.counts[count.AT_PACER], policy.counts[count.END]
    scores = budget_forecast.LAYOUT.view(policy.memory[at:end], D, 1).score
    assert np.corrcoef(scores[:100, 0], scores[100:200, 0])[0, 1] < 0.5


@pytest.mark.parametrize("name", ["pooled-bayes", "hybrid"])
def test_a_pooled_model_learns_two_histories_as_it_would_one(name: str) -> None:
    log = history(1)
    twice, once = (bccb.make(name, budget=60, horizon=400, features=D) for _ in range(2))
    twice.learn(log.take(np.arange(150)))
    twice.learn(log.take(np.arange(150, 400)))
    once.learn(log)
    assert twice.counts.tobytes() == once.counts.tobytes()
    ours = slice(0, int(once.counts[count.AT_EXPLORER]))  # the scaler and the model
    work = D + 1 + 2 * D + 1 + 3 * D + 2
    assert twice.memory[ours][:-work].tobytes() == once.memory[ours][:-work].tobytes()


@pytest.mark.parametrize("name", ["bccb", "thompson", "uplifting-bandit", "hte-greedy"])
def test_learning_twice_adds_up(name: str) -> None:
    log, twice, once = history(1), fresh(name), fresh(name)
    twice.learn(log.take(np.arange(150)))
    twice.learn(log.take(np.arange(150, 400)))
    once.learn(log)
    assert digest(twice, drive(twice)) == digest(once, drive(once))
    assert once.counts[count.HISTORY] == 400


@pytest.mark.parametrize("name", [name for name in NAMES if POLICIES[name].composition.fitted])
def test_a_fitted_policy_takes_history_once(name: str) -> None:
    policy = fresh(name)
    before = policy.memory.tobytes()
    with pytest.raises(StateError, match=f"{name} was fitted on 400 rows: it takes history once"):
        policy.learn(history(1))
    assert policy.memory.tobytes() == before


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["bccb", "uplifting-bandit"])
def test_a_long_history_is_learned_in_well_under_a_second(name: str) -> None:
    policy = fresh(name, features=12)
    policy.learn(history(1, features=12))  # compiles
    log = history(1, count=50_000, features=12)
    began = time.perf_counter()
    policy.learn(log)
    assert time.perf_counter() - began < 0.5


def test_a_history_that_does_not_fit_the_policy_leaves_it_as_it_was() -> None:
    policy = warm()
    before = policy.to_bytes()
    for log, what in ((history(1, features=D + 1), "features"), (history(2), "treatments")):
        with pytest.raises(bccb.InputError, match=f"the number of {what} in the log"):
            policy.learn(log)
    assert policy.to_bytes() == before
    assert policy.needs_history


def test_a_history_that_cannot_be_fitted_leaves_the_policy_as_it_was() -> None:
    log = history(1)
    barren = Log(log.features, log.actions, np.zeros(log.users), log.micros)
    policy = bccb.make("offline-uplift", budget=1, horizon=10, features=D)
    before = policy.memory.tobytes()
    with pytest.raises(bccb.FitError, match="in the control has only outcome 0"):
        policy.learn(barren)
    assert policy.memory.tobytes() == before
    assert policy.needs_history


def test_scaling_the_features_by_powers_of_two_changes_no_decision() -> None:
    x, costs, outcomes = users(150, 1)
    plain, scaled = fresh("uplifting-bandit"), fresh("uplifting-bandit")
    for i in range(150):
        one = plain.decide(x[i], costs[i])
        other = scaled.decide(x[i] * 1024.0, costs[i])
        assert one.score == other.score
        plain.observe(one, outcomes[i])
        scaled.observe(other, outcomes[i])


def test_policies_run_without_features() -> None:
    for name in ("thompson", "budgeted-thompson", "cheapest-first", "treat-all", "pooled-bayes"):
        policy = fresh(name, features=0)
        for _ in range(30):
            policy.observe(policy.decide([], 0.5), 0)
        assert policy.decisions == 30


def test_every_component_is_used_by_a_policy_and_parameters_do_not_clash() -> None:
    used = {part.name for spec in POLICIES.values() for part in spec.composition.components}
    assert {*ESTIMATORS, *EXPLORERS, *PACERS} - used == {"two-model-standardised"}  # an ablation
    for spec in POLICIES.values():
        names = [key for part in spec.composition.components for key in part.parameters]
        assert len(set(names)) == len(names)
        assert set(spec.parameters) <= set(names)
    assert DEFAULT in POLICIES
