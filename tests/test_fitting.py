"""Fitting again: inside observe, by hand or elsewhere, what is learned is the same to the bit."""

from __future__ import annotations

import math
import pickle
import sys
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import bccb
from bccb import fitting
from bccb.data.worlds import make_world, trial_in
from bccb.errors import InputError, MissingExtraError, StateError
from bccb.estimators.pooled_trees import POOLED_TREES
from bccb.evaluate.live import live, outcomes_in
from bccb.evaluate.replay import replay
from bccb.kernels import counts as count
from bccb.kernels.sample import SAMPLE, earlier_size
from bccb.kernels.scaling import SCALER, standardise_and_keep, view_scaler
from bccb.kernels.store import view_store
from bccb.policy import from_bytes
from bccb.types import Floats

USERS = 4_500
WORLD, THREE = make_world("bump", USERS, seed=3), make_world("three", 2_500, seed=3)
OUTCOMES = outcomes_in(WORLD)
D = WORLD.features.shape[1]
compiled = pytest.mark.compiled


def made(
    window: float | None = None,
    fits_itself: bool = True,
    seed: int = 7,
    first_fit: float = 2_000.0,
) -> bccb.Policy:
    policy = bccb.make(
        "pooled-trees",
        budget=2_000,
        horizon=2 * USERS,
        features=D,
        seed=seed,
        window=window,
        first_fit=first_fit,
    )
    policy.fits_itself = fits_itself
    return policy


def lived(policy: bccb.Policy, users: int) -> bccb.Policy:
    """Decide on users, and learn every outcome at once."""
    for _ in range(users):
        i = policy.decisions
        decision = policy.decide(WORLD.features[i], float(WORLD.costs[i, 0]))
        policy.observe(decision, OUTCOMES[i, decision.action])
    return policy


def lived_late(policy: bccb.Policy, first: int, last: int, delay: int = 100) -> bccb.Policy:
    """One user at a time, whose conversions are reported later, and zeros of every third."""
    for i in range(first, last):
        decision = policy.decide(WORLD.features[i], float(WORLD.costs[i, 0]), at=float(i))
        REPORTS[policy].setdefault(i + 1 + (i * 37) % delay, []).append(decision)
        for each in REPORTS[policy].pop(i, []):
            y = OUTCOMES[each.number - 1, each.action]
            if y > 0.0 or each.number % 3 == 0:
                policy.observe(each, y, at=float(i))
    return policy


REPORTS: dict[bccb.Policy, dict[int, list[bccb.Decision]]] = defaultdict(dict)


def estimator_of(policy: bccb.Policy) -> Floats:
    return policy.memory[policy.counts[count.AT_ESTIMATOR] : policy.counts[count.AT_EXPLORER]]


def state_of(policy: bccb.Policy) -> tuple[Any, ...]:
    """What the estimator has learned, without its work space."""
    state: Any = POOLED_TREES.layout.view(estimator_of(policy), D, 1)
    return tuple(state[: state._fields.index("u")])


def same(one: bccb.Policy, other: bccb.Policy) -> bool:
    return (one.counts.tobytes(), one.memory.tobytes()) == (
        other.counts.tobytes(),
        other.memory.tobytes(),
    )


@compiled
def test_a_fit_within_observe_is_a_fit_by_hand() -> None:
    own, by_hand = lived(made(), 2_100), made(fits_itself=False)
    due = [lived(by_hand, 1_999).fit_due, lived(by_hand, 1).fit_due, by_hand.fit(), by_hand.fit_due]
    assert due == [False, True, True, False]
    lived(by_hand, 100)
    assert own.fits == by_hand.fits == 1
    assert same(own, by_hand)


@compiled
def test_a_list_of_outcomes_is_learned_as_one_after_the_other() -> None:
    policies = one, many = made(), made()
    decisions = [
        policy.decide_many(WORLD.features, WORLD.costs[:, 0])[:4_200] for policy in policies
    ]
    ys = [OUTCOMES[i, decision.action] for i, decision in enumerate(decisions[0])]
    for decision, y in zip(decisions[0], ys, strict=True):
        one.observe(decision, y)
    many.observe_many(decisions[1], ys)
    assert one.fits == many.fits == 2
    assert same(one, many)


def test_a_job_that_is_run_elsewhere_and_applied_at_once_is_a_fit() -> None:
    one, other = lived(made(), 300), lived(made(), 300)
    assert one.fit()
    job = pickle.loads(pickle.dumps(other.fit_job()))
    before = other.memory.tobytes()
    fitted = fitting.run(job)
    assert other.memory.tobytes() == before
    other.apply_fit(pickle.loads(pickle.dumps(fitted)))
    assert same(one, other)


def test_a_fit_that_is_applied_later_learns_what_came_since_row_by_row() -> None:
    policy = lived(made(), 300)
    fitted = fitting.run(policy.fit_job())
    assert fitted.estimator is not None
    lived(policy, 200)
    memory, scaler = fitted.estimator.copy(), view_scaler(policy.memory[: SCALER.size(D)], D)
    rows, z = view_store(policy.memory, D, 1).row[300:500], np.empty(2 * D + 1)
    assert rows[:, 5:].tolist() == WORLD.features[300:500].tolist()
    for _, _, arm, a, b, *x in rows.tolist():
        standardise_and_keep(scaler, np.array(x), z)
        POOLED_TREES.kernels["learn_estimator"](
            POOLED_TREES.layout.view(memory, D, 1), z, int(arm), a, b
        )
    policy.apply_fit(fitted)
    assert estimator_of(policy).tobytes() == memory.tobytes()
    assert (policy.fits, view_store(policy.memory, D, 1).tried[0]) == (1, 300.0)


@compiled
def test_live_and_replay_decide_as_one_call_after_the_other() -> None:
    policy, driven = lived(made(), USERS), made()
    live(driven, WORLD)
    assert policy.fits == driven.fits == 2
    assert same(policy, driven)
    log, replayed, called = trial_in(WORLD, seed=1), made(), made()
    replay(replayed, log)
    for i in range(USERS):
        decision = called.decide(log.features[i], float(log.costs[i, 0]))
        if decision.action == log.actions[i]:
            called.observe(decision, log.outcomes[i])
        else:
            called.refund(round(decision.cost * 1e6))
            called._waiting.pop(decision.number)
    assert replayed.fits == called.fits == 1
    assert estimator_of(replayed).tobytes() == estimator_of(called).tobytes()


@compiled
def test_a_saved_policy_goes_on_to_the_bit() -> None:
    policy = lived(made(), 2_500)
    kept = policy.to_bytes()
    assert len(kept) < 8 * (len(policy.memory) / 10)
    again = from_bytes(kept)
    assert (again.fits, again.fit_due) == (1, False)
    assert same(policy, again)
    lived(policy, 1_700)
    lived(again, 1_700)
    assert policy.fits == 2
    assert same(policy, again)


@compiled
def test_a_snapshot_has_used_rows_alone_and_restores_all() -> None:
    policy, other = lived(made(), 2_100), made()
    kept = policy.snapshot()
    added = SAMPLE.size(policy.features) - earlier_size(policy.features)
    more = count.COUNTS - count.EARLIER + added
    assert len(kept) == policy.earlier_sizes[0] + 8 * more < 8 * len(policy.memory) / 10
    other.restore(kept)
    assert same(policy, other)
    for wrong in (kept[:-8], kept + bytes(8), kept[:-3]):
        with pytest.raises(StateError, match="is not one of this pooled-trees"):
            other.restore(wrong)
    assert same(policy, other)


@compiled
def test_a_policy_adopts_the_outcomes_of_another_and_fits_on_them() -> None:
    source, policy = lived(made(), 2_100), made(seed=8)
    policy.adopt(source)
    assert estimator_of(policy).tobytes() == estimator_of(source).tobytes()
    assert len(policy.fit_job().rows.b) == policy.rows == 2_100
    assert (policy.fit_due, policy.fits, source.fits) == (False, 0, 1)


@compiled
def test_a_correction_is_of_its_own_user_and_not_of_one_that_was_adopted() -> None:
    source, policy = made(window=1_000.0), made(seed=8, window=1_000.0)
    for i in range(3):
        source.observe(source.decide([float(i)] * D, cost=0.5, at=1.0), 1, at=1.0)
    policy.adopt(source)
    decision = policy.decide([9.0] * D, cost=0.5, at=2.0)  # the number 1, as one of the others
    policy.observe(decision, 1, at=2.0)
    policy.correct(decision, 0, at=3.0)
    rows = policy.fit_job().rows
    assert rows.x[:, 0].tolist() == [0.0, 1.0, 2.0, 9.0]
    assert rows.a.tolist() == [1.0, 1.0, 1.0, 0.0]


@compiled
@pytest.mark.parametrize("rows", [1_500, 2_500])
def test_history_is_fitted_once_if_it_is_long_enough(rows: int) -> None:
    log = trial_in(WORLD, seed=1).take(np.arange(rows))
    policy, by_hand = made(), made(fits_itself=False)
    policy.learn(log)
    assert policy.fits == int(rows >= 2_000)
    assert len(policy.fit_job().rows.b) == rows
    by_hand.kernels["absorb"](
        *(by_hand.counts, by_hand.memory, log.features, log.actions, log.outcomes, by_hand._space)
    )
    if rows >= 2_000:
        by_hand.fit()
    for one, other in zip(*map(state_of, (policy, by_hand)), strict=True):
        assert np.array_equal(one, other)
    price = policy.decide(WORLD.features[0], 0.5).price
    assert price > 0.0  # the pacer has noted the last rows


@compiled
def test_several_treatments_have_trees_and_lifts_of_their_own() -> None:
    policy = bccb.make("pooled-trees", budget=1_000, horizon=4_000, features=12, treatments=3)
    live(policy, THREE)
    assert policy.fits == 1
    state = POOLED_TREES.layout.view(estimator_of(policy), 12, 3)
    assert state.feature.max() == 12  # the arm
    assert len(set(state.scores.tolist())) > 2
    assert from_bytes(policy.to_bytes()).fits == 1


# Outcomes that come late


@compiled
def test_users_who_wait_are_rows_with_what_was_learned_of_them() -> None:
    policy = lived_late(made(window=400.0, fits_itself=False), 0, 1_200)
    pending, store = policy.pending, view_store(policy.memory, D, 1)
    assert pending is not None
    rows = policy.fit_job().rows
    assert rows.b.sum() == pytest.approx(store.learned[0], rel=1e-12)
    assert (np.diff(rows.user) > 0).all()  # not all conversions first
    waiting = {
        number: pending.ring.weight[pending.place(number)] for number in pending.open_numbers()
    }
    for user, arm, a, b, x in zip(rows.user, rows.arm, rows.a, rows.b, rows.x, strict=True):
        assert x.tolist() == WORLD.features[user - 1].tolist()
        if user in waiting:
            assert (a, b) == (0.0, waiting[user])
        else:
            assert b == 1.0
            assert a in (0.0, OUTCOMES[user - 1, arm])
    assert 0 < len(waiting) < 500
    assert sum(weight == 0.0 for weight in waiting.values()) == len(waiting) + store.rows[0] - len(
        rows.b
    )


@compiled
def test_a_fit_that_is_applied_later_has_learned_every_weight_once() -> None:
    policy = lived_late(made(window=400.0, fits_itself=False), 0, 1_000)
    fitted = fitting.run(policy.fit_job())
    lived_late(policy, 1_000, 1_500)
    policy.apply_fit(fitted)
    learned = POOLED_TREES.layout.view(estimator_of(policy), D, 1).base[0]
    assert learned == pytest.approx(view_store(policy.memory, D, 1).learned[0], rel=1e-9)


@compiled
@pytest.mark.parametrize("parts", [False, True])
def test_what_is_corrected_while_a_fit_is_under_way_is_learned_by_its_result(parts: bool) -> None:
    """Also of users who came since its job, whose rows are right when the result learns them."""

    def lived_to(users: int) -> tuple[bccb.Policy, list[bccb.Decision]]:
        policy, decided = made(window=1e6, fits_itself=False), []
        while policy.decisions < users:
            decided.append(decide_next(policy))
        return policy, decided

    def decide_next(policy: bccb.Policy) -> bccb.Decision:
        i = policy.decisions
        decision = policy.decide(WORLD.features[i], float(WORLD.costs[i, 0]), at=float(i))
        policy.observe(decision, OUTCOMES[i, decision.action], at=float(i))
        return decision

    def correct(policy: bccb.Policy, decided: list[bccb.Decision]) -> None:
        for each in decided:
            if each.action and OUTCOMES[each.number - 1, each.action]:
                policy.correct(each, 0.0, at=float(policy.decisions))

    def estimated(policy: bccb.Policy) -> float:
        found = policy.caused().estimated
        assert found is not None
        return found.value

    first, decided = lived_to(2_500)
    correct(first, decided)
    job = first.fit_job()
    decided = [decide_next(first) for _ in range(200)]
    first.apply_fit(fitting.run(job))
    correct(first, decided)

    between, decided = lived_to(2_500)
    fitted = fitting.run(between.fit_job())
    decided += [decide_next(between) for _ in range(200)]
    if parts:
        fitted = between.refitting().caught_up(fitted, 100)
    correct(between, decided)
    between.apply_fit(fitted)

    without, decided = lived_to(2_700)
    without.fit()
    apart = abs(estimated(without) - estimated(first))
    assert abs(estimated(between) - estimated(first)) < 0.25 * apart
    assert not between._corrections


@pytest.mark.parametrize("later", ["fit", "fit_job", "apply_fit"])
def test_a_fit_is_refused_where_its_corrections_are_no_longer_known(later: str) -> None:
    policy, decisions = made(window=1e6, fits_itself=False), []
    for i in range(500):
        each = policy.decide(WORLD.features[i], float(WORLD.costs[i, 0]), at=float(i))
        policy.observe(each, OUTCOMES[i, each.action], at=float(i))
        decisions.append(each)
    fitted = fitting.run(policy.fit_job())
    won = next(each for each in decisions if OUTCOMES[each.number - 1, each.action])
    policy.correct(won, 0.0, at=500.0)
    twin = from_bytes(policy.to_bytes())
    if later == "apply_fit":
        policy.apply_fit(fitted)
    else:
        assert getattr(policy, later)()
    with pytest.raises(StateError, match="another fit was begun or applied"):
        policy.apply_fit(fitted)
    if later == "fit":  # its rows were right already: nothing was learned twice
        twin.fit()
        assert same(policy, twin)


@compiled
@pytest.mark.parametrize("name", ["pooled-bayes", "pooled-trees"])
def test_orders_that_come_back_late_leave_what_was_caused_right(name: str) -> None:
    """Four in ten of both arms alike, long after they were learned, many in the very end."""
    users, delay, estimates, truths = 6_000, 3_000, [], []
    for seed in range(2):
        draw = np.random.default_rng((seed, 9))
        xs, costs = draw.normal(size=(users, 4)), draw.uniform(0.2, 1.2, users)
        base = 0.6 * xs[:, 0] - 0.3 * xs[:, 1]
        rates = 1.0 / (1.0 + np.exp(-np.column_stack((base, base + 0.5 + 0.4 * xs[:, 2]))))
        converts, returned = draw.random((users, 2)) < rates, draw.random(users) < 0.4
        size: dict[str, Any] = {"horizon": users, "features": 4, "seed": seed, "window": 1e6}
        policy = bccb.make(name, budget=1_500, **size)
        decisions, arms = [], np.zeros(users, np.int64)
        for i in range(users):
            decisions.append(policy.decide(xs[i], float(costs[i]), at=float(i)))
            arms[i] = decisions[i].action
            policy.observe(decisions[i], float(converts[i, arms[i]]), at=float(i))
            back = i - delay
            if back >= 0 and returned[back] and converts[back, arms[back]]:
                policy.correct(decisions[back], 0.0, at=float(i))
        for i in range(users - delay, users):
            if returned[i] and converts[i, arms[i]]:
                policy.correct(decisions[i], 0.0, at=float(users))
        estimated = policy.caused().estimated
        assert estimated is not None
        truth = 0.6 * (rates[:, 1] - rates[:, 0])[arms > 0].sum()
        assert estimated.low < truth < estimated.high
        estimates.append(estimated.value)
        truths.append(truth)
    assert np.mean(estimates) == pytest.approx(np.mean(truths), rel=0.4)


def test_a_fit_whose_result_never_comes_keeps_no_more_corrections_than_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bccb.machine.MOST_CORRECTIONS", 3)
    policy = made(window=1e6, fits_itself=False)
    decisions = [policy.decide(WORLD.features[i], cost=0.5, at=1.0) for i in range(8)]
    for decision in decisions:
        policy.observe(decision, 1.0, at=1.0)
    fitted = fitting.run(policy.fit_job())
    for decision in decisions[:3]:
        policy.correct(decision, 0.0, at=2.0)
    assert policy.refitting().awaits(fitted)
    policy.correct(decisions[3], 0.0, at=2.0)
    with pytest.raises(StateError, match="outcomes were corrected: make a new job"):
        policy.apply_fit(fitted)
    assert not policy.refitting().corrections
    assert policy.fit_job().rows.a.sum() == 4.0


def test_a_policy_that_was_loaded_knows_no_job_of_before() -> None:
    """Also where it has begun one of its own, after which other outcomes were corrected."""
    policy = made(window=1e6, fits_itself=False)
    decision = policy.decide(WORLD.features[0], cost=0.5, at=1.0)
    policy.observe(decision, 1.0, at=1.0)
    job = policy.fit_job()
    policy.correct(decision, 0.0, at=2.0)
    loaded = from_bytes(policy.to_bytes())
    loaded.fit_job()
    with pytest.raises(StateError, match="the policy was loaded"):
        loaded.apply_fit(fitting.run(job))


@compiled
def test_late_users_are_driven_as_one_call_after_the_other() -> None:
    policy, other, window = made(), made(window=500.0), 500.0
    delays = np.random.default_rng(5).exponential(150.0, USERS)
    live(policy, WORLD, delays=delays, window=window)
    due: dict[int, list[bccb.Decision]] = defaultdict(list)
    for i in range(USERS):
        other.advance(float(i))
        for decision in due[i]:
            other.observe(decision, 1, at=float(i))
        decision = other.decide(WORLD.features[i], cost=WORLD.costs[i], at=float(i))
        reported = max(math.ceil(i + delays[i]), i + 1)
        if OUTCOMES[i, decision.action] and reported - i <= window:
            due[reported].append(decision)
    assert policy.fits == other.fits == 2
    assert same(policy, other)
    again = from_bytes(other.to_bytes())
    assert same(again, other)
    again.fit()
    other.fit()
    assert same(again, other)


@compiled
def test_very_many_who_wait_are_a_sample_that_counts_for_all() -> None:
    policy = lived_late(made(window=1_000.0, fits_itself=False), 0, 1_200, delay=2_000)
    whole = policy.fit_job().rows
    small = policy.refitting()
    small.store = small.store._replace(row=small.store.row[:300])
    rows = small.job().rows
    waiting = whole.user[whole.b < 1.0]
    assert len(waiting) > 600
    assert 0 < np.isin(rows.user, waiting).sum() <= 300
    assert rows.b.sum() == pytest.approx(whole.b.sum(), rel=0.1)


def test_those_who_wait_take_no_more_room_than_the_store_has() -> None:
    d, users = 300, 5_000
    policy = bccb.make("pooled-trees", budget=1, horizon=users, features=d, window=10.0)
    assert policy.pending is not None
    arms, times = np.zeros(users, np.int64), np.zeros(users)
    policy.pending.enter(1, np.zeros((users, d)), arms, times, 1)
    policy.pending.ring.weight[policy.pending.places()] = 0.5
    rows = policy.fit_job().rows
    assert len(rows.b) <= len(view_store(policy.memory, d, 1).row) < users
    assert rows.b.sum() == pytest.approx(0.5 * users, rel=0.1)


# What cannot be


def test_rows_that_do_not_allow_a_fit_change_nothing_but_the_next_count() -> None:
    policy = made()
    for i in range(100):
        policy.observe(policy.decide(WORLD.features[i], float(WORLD.costs[i, 0])), 0.0)
    before = estimator_of(policy).tobytes()
    assert not policy.fit()
    assert estimator_of(policy).tobytes() == before
    assert (policy.fits, view_store(policy.memory, D, 1).tried[0]) == (0, 100.0)


def test_other_policies_are_not_fitted_again() -> None:
    policy = bccb.make("pooled-bayes", budget=1, horizon=10, features=1)
    assert (policy.fit_due, policy.fits) == (False, 0)
    with pytest.raises(StateError, match="pooled-logistic is not fitted again"):
        policy.fit()


def test_what_was_fitted_for_another_policy_is_refused() -> None:
    one, other = lived(made(), 100), bccb.make("pooled-trees", budget=1, horizon=9, features=2)
    fitted = fitting.run(one.fit_job())
    with pytest.raises(StateError, match="for another policy"):
        other.apply_fit(fitted)
    twin = lived(made(), 100)
    before = twin.to_bytes()
    with pytest.raises(StateError, match="for another policy"):  # of the same shape, even so
        twin.apply_fit(fitted)
    assert twin.to_bytes() == before
    with pytest.raises(InputError, match="what bccb.fitting.run returned"):
        twin.apply_fit(None)  # type: ignore[arg-type]


def test_what_was_fitted_is_refused_by_an_older_copy_and_after_a_later_fit() -> None:
    policy = lived(made(), 60)
    older, first = from_bytes(policy.to_bytes()), policy.fit_job()
    lived(policy, 40)
    second = policy.fit_job()
    before = older.to_bytes()
    with pytest.raises(StateError, match="more than this older copy"):
        older.apply_fit(fitting.run(second))
    assert older.to_bytes() == before
    policy.apply_fit(fitting.run(second))
    after = policy.to_bytes()
    with pytest.raises(StateError, match="another fit was begun or applied"):
        policy.apply_fit(fitting.run(first))
    assert policy.to_bytes() == after


def test_a_list_of_outcomes_is_refused_whole_where_a_fit_would_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = made(first_fit=10.0)
    decisions = policy.decide_many(WORLD.features[:20], WORLD.costs[:20, 0])
    monkeypatch.setitem(sys.modules, "sklearn", None)
    before = policy.to_bytes()
    with pytest.raises(MissingExtraError):
        policy.observe_many(decisions, np.zeros(20))
    assert policy.to_bytes() == before
    policy.fits_itself = False
    policy.observe_many(decisions, np.zeros(20))
    assert policy.waiting == 0


@compiled
def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = lived(made(), 1_999)
    kept = policy.to_bytes()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    what = r"scikit-learn is not installed: pip install 'bccb\[lab\]'"
    with pytest.raises(MissingExtraError, match=what):
        made()
    again = from_bytes(kept)
    with pytest.raises(MissingExtraError, match=what):
        lived(again, 1)
    assert (again.decisions, again.waiting, again.fit_due) == (2_000, 0, True)  # it was learned
    again.fits_itself = False
    lived(again, 10)
    history = trial_in(WORLD).take(np.arange(50))
    new = from_bytes(made_bytes())
    before = new.memory.tobytes()
    with pytest.raises(MissingExtraError, match=what):
        new.learn(history)
    assert new.memory.tobytes() == before


def made_bytes() -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "sklearn")
        return made().to_bytes()
