"""One policy: bad input, the paper's rule, saving."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bccb
from bccb import Decision, InputError, Policy, StateError
from bccb.kernels import counts as count
from bccb.kernels import rng
from bccb.policy import from_bytes
from bccb.saved import FORMAT


def policy_of(name: str = "bccb", **options: Any) -> Policy:
    return bccb.make(name, **{"budget": 10, "horizon": 100, "features": 2, "seed": 1, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "bcbc"}, "policy is 'bcbc', but must be one of thompson, "),
        ({"budget": 0}, "budget is 0.0, but must be at least 0.000001 and at most 9,000,000,000"),
        ({"budget": -5}, "budget is -5.0, but must be at least"),
        ({"budget": math.nan}, "budget is nan, but must be a finite number"),
        ({"budget": "much"}, "budget is 'much', but must be a number"),
        ({"horizon": 0}, "horizon is 0, but must be a whole number from 1 to"),
        ({"horizon": 1.5}, "horizon is 1.5, but must be a whole number"),
        ({"features": -1}, "features is -1, but must be a whole number from 0 to"),
        ({"treatments": 0}, "treatments is 0, but must be a whole number from 1 to"),
        ({"seed": -1}, "seed is -1, but must be a whole number from 0 to"),
        ({"seed": True}, "seed is True, but must be a whole number"),
        ({"eta": math.inf}, "eta is inf, but must be a finite number"),
        ({"etta": 0.1}, "a parameter of bccb is 'etta', but must be one of alpha, "),
        ({"name": "thompson", "price": 1}, "a parameter of thompson is 'price', but must be one"),
    ],
)
def test_make_refuses_in_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy_of(**options)


@pytest.mark.parametrize(
    ("x", "cost", "message"),
    [
        ([1.0], 1.0, "the number of features in x is 1, but must be 2"),
        (1.0, 1.0, r"the shape of x is \(\), but must be \(2,\)"),
        ([[1.0, 2.0]], 1.0, r"the shape of x is \(1, 2\), but must be \(2,\)"),
        ([1.0, math.nan], 1.0, "feature 1 is nan, but must be a finite number"),
        ([-math.inf, 0.0], 1.0, "feature 0 is -inf, but must be a finite number"),
        (["a", "b"], 1.0, r"x is \['a', 'b'\], but must be numbers"),
        (np.array(["a", "b"]), 1.0, "but must be numbers"),
        ([1.0, 2.0], 0.0, "cost is 0.0, but must be at least 0.000001 and at most 1,000,000"),
        ([1.0, 2.0], -1, "cost is -1.0, but must be at least"),
        ([1.0, 2.0], math.nan, "cost is nan, but must be at least"),
        ([1.0, 2.0], math.inf, "cost is inf, but must be at least"),
        ([1.0, 2.0], 2e6, "cost is 2000000.0, but must be at least 0.000001 and at most 1,000,000"),
        ([1.0, 2.0], "dear", "cost is 'dear', but must be numbers"),
        ([1.0, 2.0], [1.0, 2.0], "the number of costs is 2, but must be 1"),
        ([1.0, 2.0], None, "cost is None, but must be a number: fill in what is missing"),
        ([1.0, None], 1.0, r"x\[1\] is None, but must be a number: fill in what is missing"),
    ],
)
def test_decide_refuses_in_one_sentence_and_changes_nothing(
    x: Any, cost: Any, message: str
) -> None:
    policy = policy_of()
    policy.observe(policy.decide([0.5, 1.0], 0.5), 1)
    before = policy.memory.tobytes(), policy.counts.tobytes(), policy.waiting
    with pytest.raises(InputError, match=message):
        policy.decide(x, cost)
    assert (policy.memory.tobytes(), policy.counts.tobytes(), policy.waiting) == before


def test_a_batch_with_one_bad_user_decides_on_nobody() -> None:
    policy = policy_of()
    before = policy.memory.tobytes(), policy.counts.tobytes()
    cases: list[tuple[Any, Any, str]] = [
        ([[1, 2], [3, math.nan]], [1, 1], "feature 1 of row 1 is nan"),
        ([[1, 2], [None, 4]], [1, 1], r"x\[1, 0\] is None, but must be a number"),
        ([[1, 2], [3, 4]], [1, -1], "cost of row 1 is -1.0"),
        ([[1, 2], [3, 4]], [1], "the number of costs is 1, but must be 2"),
        ([[1], [3]], [1, 1], r"the shape of x is \(2, 1\), but must be \(users, 2\)"),
    ]
    for x, costs, message in cases:
        with pytest.raises(InputError, match=message):
            policy.decide_many(x, costs)
    assert (policy.memory.tobytes(), policy.counts.tobytes()) == before


@pytest.mark.parametrize("outcome", [-0.1, 1.1, math.nan, "yes", None])
def test_observe_refuses_outcomes_out_of_range_and_keeps_waiting(outcome: Any) -> None:
    policy = policy_of()
    decision = policy.decide([0.0, 0.0], 0.5)
    with pytest.raises(InputError, match="outcome is"):
        policy.observe(decision, outcome)
    policy.observe(decision, 1)
    assert policy.waiting == 0


@pytest.mark.parametrize("cost", [1, 1.0, np.float32(1), Decimal("1"), [1], (1.0,), np.ones(1)])
def test_costs_may_be_any_kind_of_number(cost: Any) -> None:
    assert policy_of("treat-all").decide([0, 0], cost).cost == 1.0


@pytest.mark.parametrize(
    "x",
    [
        [1, 2],
        (1.0, 2.0),
        np.array([1, 2], np.int32),
        np.array([1, 2], np.float32),
        np.array([[1.0, 9.0], [2.0, 9.0]])[:, 0],
        np.broadcast_to(np.array([1.0, 2.0]), (3, 2))[1],
    ],
)
def test_features_may_be_any_kind_of_row(x: Any) -> None:
    decision = policy_of().decide(x, 1)
    assert decision.features.tolist() == [1.0, 2.0]


def test_budgets_round_down_and_costs_round_up_to_the_micro() -> None:
    policy = policy_of("treat-all", budget=1.0000019)
    assert policy.budget == 1.000001
    assert policy.decide([0, 0], 0.5000001).action == 1
    assert policy.spent == 0.500001


def test_a_decision_can_be_kept_elsewhere_and_still_be_observed() -> None:
    policy = policy_of()
    decision = policy.decide([0.3, 0.1], 0.5)
    kept = Decision.from_dict(json.loads(json.dumps(decision.to_dict(), allow_nan=False)))
    assert kept.probability == decision.probability
    loaded = from_bytes(policy.to_bytes())
    policy.observe(decision, 1)
    loaded.observe(kept, 1)
    assert policy.to_bytes() == loaded.to_bytes()


def unchanged(policy: Policy, call: Callable[[], object], why: str) -> None:
    """A call that is refused leaves a policy as it was."""
    before = policy.to_bytes()
    with pytest.raises(StateError, match=why):
        call()
    assert policy.to_bytes() == before


def test_a_decision_of_a_twin_is_refused_and_returns_no_money() -> None:
    """Two policies with the same seed: one cancels what the other has paid."""
    ours, twin = (bccb.make("treat-all", budget=1, horizon=9, features=1, seed=1) for _ in "ab")
    decision = ours.decide([0.0], 0.6)
    own = twin.decide([0.0], 0.01)
    calls: list[Callable[[], object]] = [
        lambda: twin.cancel(decision),
        lambda: twin.observe(decision, 1),
        lambda: twin.observe_many([own, decision], [1, 1]),
        lambda: twin.cancel(Decision.from_dict(decision.to_dict())),
    ]
    for call in calls:
        unchanged(twin, call, "decision 1 was not made by this policy$")
    twin.cancel(own)
    assert (ours.spent, twin.spent) == (0.6, 0.0)


def test_a_decision_of_a_copy_that_went_another_way_is_refused() -> None:
    policy = bccb.make("treat-all", budget=1, horizon=9, features=1)
    copy = from_bytes(policy.to_bytes())
    cheap, dear, other = policy.decide([0.0], 0.1), copy.decide([0.0], 0.9), copy.decide([1.0], 0.1)
    unchanged(policy, lambda: policy.cancel(dear), "not made by this policy, or was changed since")
    unchanged(policy, lambda: policy.cancel(other), "not made by this policy")
    unchanged(copy, lambda: copy.cancel(cheap), "not made by this policy, or was changed since")
    same = from_bytes(policy.to_bytes())  # whereas of a copy that knows it, it is as good
    same.cancel(cheap)
    assert same.spent == 0.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("action", 0),
        ("action", 1 + 2**32),
        ("action", 1 - 2**32),
        ("action", "1"),
        ("cost", 0.7),
        ("cost", None),
        ("number", 2),
        ("number", 3),
        ("number", "1"),
        ("number", [1]),
        ("_trace", np.zeros(5)),
        ("_trace", None),
    ],
)
def test_a_decision_that_was_changed_is_refused(field: str, value: Any) -> None:
    policy = bccb.make("treat-all", budget=2, horizon=9, features=1)
    decision = policy.decide([0.0], 0.6)
    policy.decide([0.0], 0.5)
    setattr(decision, field, value)
    for call in (lambda: policy.cancel(decision), lambda: policy.observe(decision, 1)):
        unchanged(policy, call, "was not made by this policy")


def test_features_that_were_written_into_are_not_learned() -> None:
    policy = policy_of()
    decision = policy.decide([0.3, 0.1], 0.5)
    decision.features[0] = 9.0
    unchanged(policy, lambda: policy.observe(decision, 1), "or was changed since")


def test_what_is_cancelled_twice_or_was_refunded_before_changes_nothing() -> None:
    policy = bccb.make("treat-all", budget=1, horizon=9, features=1)
    decision = policy.decide([0.0], 0.6)
    policy.refund(600_000)
    before = policy.to_bytes()
    with pytest.raises(InputError, match="a refund is 0.6, but must be from 0 to the 0.0 spent"):
        policy.cancel(decision)
    assert policy.to_bytes() == before


def test_a_decision_that_nothing_was_affordable_for_is_reported_in_json() -> None:
    decision = policy_of(budget=0.1).decide([0.0, 0.0], 5.0)
    kept = Decision.from_dict(json.loads(json.dumps(decision.to_dict(), allow_nan=False)))
    assert (decision.action, decision.score, kept.probability_of(1)) == (0, 0.0, 0.0)


@pytest.mark.parametrize("change", [{"trace": "?"}, {"origin": {}}, {"origin": None}])
def test_a_decision_is_not_made_from_anything(change: dict[str, Any]) -> None:
    kept = policy_of().decide([0.0, 0.0], 0.5).to_dict()
    with pytest.raises(InputError, match="what to_dict returned"):
        Decision.from_dict({**kept, **change})


@pytest.mark.parametrize(
    "other", [{"treatments": 5}, {"features": 3}, {"seed": 2}, {"name": "thompson"}]
)
def test_a_decision_of_another_policy_is_refused_and_nothing_is_learned(
    other: dict[str, Any],
) -> None:
    policy, stranger = policy_of(), policy_of(**other)
    policy.decide([0.0, 0.0], 0.5)
    decision = stranger.decide([0.0] * stranger.features, [0.5] * stranger.treatments)
    decision.action = stranger.treatments
    before = policy.memory.tobytes()
    with pytest.raises(StateError, match="decision 1 was not made by this policy"):
        policy.observe(decision, 1)
    assert policy.memory.tobytes() == before


def test_an_action_out_of_range_is_not_learned() -> None:
    policy = policy_of()
    decision = policy.decide([0.0, 0.0], 0.5)
    decision.action = 2
    with pytest.raises(StateError, match="was not made by this policy"):
        policy.observe(decision, 1)


def test_bccb_decides_as_the_papers_algorithm_does() -> None:
    """Algorithm 1 of the paper, written out in NumPy, on the same draws."""
    n, d, seed, budget = 700, 4, 9, 60.0
    generator = np.random.default_rng(2)
    xs, cs = generator.normal(size=(n, d)), generator.lognormal(-0.5, 0.7, n)
    ys = (generator.random(n) < 0.3).astype(float)
    policy = bccb.make("bccb", budget=budget, horizon=n, features=d, seed=seed, warm_up=20)
    eta, lam, eps_pace, eps_time, tau_0, warm_up = 0.1, 1e-3, 0.1, 0.01, 0.002, 20
    left = budget
    alpha, beta, seen = np.ones(2), np.ones(2), np.zeros(2)
    live, scoring = np.zeros((2, d + 1)), np.zeros((2, d + 1))
    treated = 0
    for t in range(1, n + 1):
        z = np.append(xs[t - 1], 1.0)
        decision = policy.decide(xs[t - 1], cs[t - 1])
        if cs[t - 1] > left:
            action = 0
        else:
            f = 1 / (1 + np.exp(-scoring @ z))
            tau = f[1] - f[0] if seen.min() >= warm_up else tau_0
            keys = [np.uint64(rng.key_of(seed, t, a)) for a in (0, 1)]
            theta = [rng.beta(keys[a], alpha[a], beta[a]) for a in (0, 1)]
            s = tau + eta * (theta[1] - theta[0])
            pace = (left / budget) / max((n - t) / n, eps_time)
            action = int(s / cs[t - 1] > lam / max(pace, eps_pace))
        assert decision.action == action, t
        treated += action
        y = ys[t - 1]
        policy.observe(decision, y)
        if action:
            left -= math.ceil(cs[t - 1] * 1e6) / 1e6
        alpha[action] += y
        beta[action] += 1 - y
        step = 1 / (1e-4 * (1_000 + seen[action]))
        error = 1 / (1 + np.exp(-live[action] @ z)) - y
        live[action, :d] *= 1 - 1e-4 * step
        live[action] -= step * error * z
        seen[action] += 1
        if seen[action] % 50 == 0:
            scoring[action] = live[action]
    assert 30 < treated < n - 30  # or the comparison would prove little


def test_the_best_affordable_treatment_is_chosen_by_effect_less_price_times_cost() -> None:
    policy = bccb.make(
        "oracle", budget=1.0, horizon=10, features=2, treatments=2, seed=0, threshold=0.1
    )
    assert policy.decide([0.30, 0.25], [2.0, 0.5]).action == 2  # the first cannot be afforded
    assert policy.decide([0.30, 0.25], [0.4, 0.1]).action == 1  # 0.26 against 0.24
    assert policy.decide([0.30, 0.29], [0.4, 0.1]).action == 2  # 0.28 beats 0.26, and both fit
    assert policy.decide([-0.3, 0.005], [0.1, 0.1]).action == 0  # nothing is above zero
    assert policy.spent == pytest.approx(0.5 + 0.4 + 0.1)


def test_load_refuses_what_is_not_a_saved_policy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a file that can be read"):
        bccb.load(tmp_path / "absent")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(
        InputError, match=r"'.*', but must be a file that Policy.save wrote, which this is not$"
    ):
        bccb.load(tmp_path / "text")
    policy = policy_of()
    policy.save(tmp_path / "good")
    whole = (tmp_path / "good").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="must be a saved policy without damage; a saved"):
        bccb.load(tmp_path / "cut")


def test_load_refuses_other_formats_and_layouts(tmp_path: Path) -> None:
    policy = policy_of()
    policy.save(tmp_path / "good")
    with np.load(tmp_path / "good") as file:
        parts = dict(file)
    header = json.loads(parts["header"].tobytes())
    for change, message in (
        ({"format": 99}, f"the format of a saved policy is 99, but must be 6 or 7 or {FORMAT}"),
        ({"composition": {**header["composition"], "estimator": "ridge-pair"}}, "the layout of"),
        ({"composition": {**header["composition"], "estimator": "crystal-ball"}}, "composition is"),
        ({"name": None, "composition": []}, "a saved policy"),
    ):
        text = json.dumps({**header, **change}).encode()
        with (tmp_path / "other").open("wb") as file:
            np.savez(file, **{**parts, "header": np.frombuffer(text, np.uint8)})
        with pytest.raises(InputError, match=message):
            bccb.load(tmp_path / "other")


def test_load_refuses_arrays_that_cannot_be_a_policys(tmp_path: Path) -> None:
    policy = policy_of()
    policy.save(tmp_path / "good")
    with np.load(tmp_path / "good") as file:
        parts = dict(file)
    rich_counts = parts["counts"].copy()
    rich_counts[count.REMAINING] = 10**12
    cases: list[tuple[dict[str, Any], str]] = [
        ({"memory": parts["memory"].astype(np.float32)}, "the memory of a saved policy"),
        ({"memory": parts["memory"][:-1]}, "the memory of a saved policy"),
        ({"memory": np.full_like(parts["memory"], np.nan)}, "finite numbers"),
        ({"counts": rich_counts}, "the remaining of a saved policy is 1000000000000, but"),
        ({"counts": parts["counts"][:-1]}, "the counts of a saved policy"),
    ]
    for change, message in cases:
        with (tmp_path / "other").open("wb") as file:
            np.savez(file, **{**parts, **change})
        with pytest.raises(InputError, match=message):
            bccb.load(tmp_path / "other")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    policy = policy_of()
    target = tmp_path / "policy"
    policy.save(target)
    before = target.read_bytes()
    for bad in (tmp_path / "no folder" / "policy", target / "below a file"):
        with pytest.raises(InputError, match="a file that can be written"):
            policy.save(bad)
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "parameter", "value", "allowed"),
    [
        ("bccb", "eta", -0.1, "at least 0"),
        ("bccb", "refresh", 0, "at least 1"),
        ("uplifting-bandit", "ridge", 0, "at least 1e-09"),
        ("cheapest-first", "every", 0, "at least 1"),
    ],
)
def test_parameters_out_of_range_are_refused(
    name: str, parameter: str, value: float, allowed: str
) -> None:
    with pytest.raises(InputError, match=f"{parameter} is {value}, but must be {allowed}"):
        policy_of(name, **{parameter: value})


def test_a_cancelled_decision_returns_its_money_and_teaches_nothing() -> None:
    policy = bccb.make("treat-all", budget=1.0, horizon=10, features=1)
    first = policy.decide([0.0], cost=0.7)
    memory = policy.memory.copy()
    policy.cancel(first)
    assert policy.remaining == 1.0
    assert policy.waiting == 0
    assert policy.memory.tobytes() == memory.tobytes()
    with pytest.raises(StateError, match="decision 1 was observed or cancelled already"):
        policy.cancel(first)
    assert policy.decide([0.0], cost=1.0).action == 1


def test_added_money_is_planned_over_the_users_to_come() -> None:
    shares = []
    for top_up in (0.0, 20.0):
        policy = bccb.make("cheapest-first", budget=20, horizon=2_000, features=1, seed=3)
        rng = np.random.default_rng(1)
        for i in range(2_000):
            if i == 1_000:
                before = policy.remaining
                if top_up:
                    policy.add_budget(top_up)
            if i == 1_200:
                shares.append((before + top_up - policy.remaining) / (before + top_up))
            decision = policy.decide(rng.normal(size=1), rng.uniform(0.02, 0.1))
            policy.observe(decision, float(rng.random() < 0.1))
        assert policy.spent <= policy.budget == 20 + top_up
    # what the next fifth of the users to come spends, of what was left
    assert all(0.1 < share < 0.3 for share in shares)


@pytest.mark.parametrize("money", [0, -1, 9e9, math.nan, "5"])
def test_money_that_cannot_be_added_is_refused_and_changes_nothing(money: Any) -> None:
    policy = bccb.make("bccb", budget=100, horizon=10, features=1)
    counts = policy.counts.copy()
    with pytest.raises(InputError, match="money|added to the budget"):
        policy.add_budget(money)
    assert (policy.counts == counts).all()


def test_a_refund_cannot_exceed_what_was_spent() -> None:
    policy = bccb.make("treat-all", budget=1.0, horizon=10, features=1)
    policy.decide([0.0], cost=0.5)
    for micros in (-1, 500_001):
        with pytest.raises(InputError, match="refund"):
            policy.refund(micros)
    policy.refund(500_000)
    assert policy.remaining == 1.0


def test_money_is_paced_over_the_users_that_are_expected_now() -> None:
    left = []
    for users in (1_000, 10_000):
        policy = bccb.make("cheapest-first", budget=100, horizon=500, features=1, seed=3)
        rng = np.random.default_rng(1)
        for i in range(1_000):
            policy.expect(users - i)
            policy.decide(rng.normal(size=1), rng.uniform(0.5, 1.5))
        left.append(policy.remaining)
    assert left[0] < 10
    assert 75 < left[1] < 95  # a tenth of the users came


def test_users_that_cannot_be_expected_are_refused() -> None:
    policy = bccb.make("bccb", budget=100, horizon=10, features=1)
    for users in (-1, math.nan, math.inf):
        with pytest.raises(InputError, match="users"):
            policy.expect(users)


def test_decisions_under_a_cap_that_binds_are_kept_until_their_outcome() -> None:
    """While users are tried at random, their rates are above 1: in units of the reserve."""
    policy = bccb.make(budget=60, horizon=1_000, features=2, charge="conversion", cost_cap=1.0)
    rng = np.random.default_rng(1)
    for _ in range(300):
        decision = policy.decide(rng.normal(size=2), cost=float(rng.uniform(0.05, 2.0)))
        kept = Decision.from_dict(json.loads(json.dumps(decision.to_dict(), allow_nan=False)))
        assert kept.probability == decision.probability
        policy.observe(kept, 0.0)
    assert policy.held == 0.0
