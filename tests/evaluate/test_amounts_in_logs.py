"""Logs whose outcomes are amounts of money: estimates, charges and what is withheld."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import bccb
from bccb.charge import Payment
from bccb.errors import InputError
from bccb.evaluate.advice import advise
from bccb.evaluate.charged import (
    charged_for,
    charged_in_all,
    due_rates,
    expected_charges,
    paid_in,
    part_due,
    running_rates,
    seen_in,
)
from bccb.evaluate.compare import compare, summarise
from bccb.evaluate.estimates import Weighted, estimate_proposed, estimate_treated
from bccb.evaluate.evaluation import Evaluation, evaluate_proposals, evaluate_with_others
from bccb.evaluate.outcome_model import outcome_rates, predict_amounts
from bccb.evaluate.proposals import Proposals, propose_on
from bccb.evaluate.replay import replay
from bccb.evaluate.rivals import rivals_of
from bccb.evaluate.trials import LoggedTrials
from bccb.outcome import typical_size
from bccb.types import Floats, Log

Z = 1.959963984540054
SHARE = Payment("conversion", None, 0.2)


def trial(users: int, seed: int, rate: float = 0.2, effect: float = 0.1) -> tuple[Log, Floats]:
    """A trial of a shop, and the true effect on each user in money."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(users, 1))
    treated = (draw.random(users) < 0.5).astype(np.int64)
    converts = draw.random(users) < rate + effect * treated
    amounts = np.exp(3.0 + 0.4 * x[:, 0] + 0.8 * draw.normal(size=users))
    log = Log(
        features=x,
        actions=treated,
        outcomes=np.where(converts, amounts, 0.0),
        micros=draw.integers(1, 9, (users, 1)) * 1_000_000,
        known_shares=np.array([0.5, 0.5]),
        kind="amount",
    )
    return log, effect * np.exp(3.0 + 0.4 * x[:, 0] + 0.5 * 0.8**2)


LOG, EFFECTS = trial(2_000, 1)


def test_a_typical_size_makes_the_variance_of_a_sum() -> None:
    rates, worth = 0.2, np.exp(3.0 + 0.8 * np.random.default_rng(2).normal(size=400_000))
    y = worth * (np.random.default_rng(3).random(len(worth)) < rates)
    assert typical_size(y, "amount") * y.mean() - y.mean() ** 2 == pytest.approx(y.var())
    assert typical_size(y, "conversion") == 1.0
    assert typical_size(np.zeros(3), "amount") == 0.0


def reach(value: float, variance: float) -> tuple[float, float]:
    shift = Z**2 * variance / value / 2
    half = math.sqrt(Z**2 * variance + shift**2)
    return half - shift, half + shift


def test_what_was_caused_in_money_is_what_loops_give() -> None:
    y, treated = LOG.outcomes, LOG.actions > 0
    typical = sum(v * v for v in y) / sum(y)
    left = Weighted((~treated).astype(np.float64), np.full(LOG.users, 4.0), np.full(LOG.users, 2.0))
    found = {line.method: line for line in estimate_treated(y, treated, left, "amount")}
    for method, guess in (("IPW", 0.0), ("DR", 4.0)):
        brought = without = seen = expected = own = 0.0
        for amount, is_treated in zip(y.tolist(), treated.tolist(), strict=True):
            expected += 2.0 * (typical * 4.0 - 16.0 + (4.0 - guess) ** 2)
            if is_treated:
                brought += amount
                without += guess
            else:
                without += amount - guess
                seen += (amount - guess) ** 2
        effect = (brought - without) / treated.sum()
        own = sum((a - guess - effect) ** 2 for a in y[treated].tolist())
        below, above = reach(brought, own)
        control_below, control_above = reach(without, max(seen, expected))
        line = found[method]
        assert line.incremental == pytest.approx(brought - without)
        assert line.low == pytest.approx(brought - without - math.hypot(below, control_above))
        assert line.high == pytest.approx(brought - without + math.hypot(above, control_below))


def test_estimates_in_money_are_not_cut_to_the_number_of_users() -> None:
    y = np.array([500.0, 0.0, 900.0, 0.0] * 30)
    half = np.arange(120) < 60
    taken = Weighted(np.where(half, 2.0, 0.0), np.full(120, 300.0))
    control = Weighted(np.where(half, 0.0, 2.0), np.full(120, 1.0))
    assert all(abs(line.high) > 120 for line in estimate_proposed(y, taken, control, "amount"))
    assert estimate_treated(y, half, control, "amount")[0].low < -120


def test_intervals_in_money_hold_the_truth() -> None:
    hits, errors = [], []
    for seed in range(60):
        log, effects = trial(1_500, 100 + seed)
        wanted = (log.micros[:, 0] < 5_000_000).astype(np.int64)
        rates = outcome_rates(log)
        result = evaluate_proposals("cheap", log, rates, Proposals(wanted, 1.0, 1))
        assert not result.withheld
        assert result.headline is not None
        truth = float(effects[wanted > 0].sum())
        hits.append(result.headline.low <= truth <= result.headline.high)
        errors.append(result.headline.incremental - truth)
    assert np.mean(hits) >= 0.9
    assert abs(np.mean(errors)) < 3 * np.std(errors) / math.sqrt(len(errors))


def test_the_model_of_amounts_is_near_the_truth_and_stands_a_huge_order() -> None:
    draw = np.random.default_rng(5)
    x = draw.normal(size=(20_000, 2))
    worth = np.exp(3.0 + 0.5 * x[:, 0])
    y = worth * np.exp(0.8 * draw.normal(size=20_000)) * (draw.random(20_000) < 0.2)
    truth = 0.2 * worth * math.exp(0.32)
    near = predict_amounts(x, y, x)
    assert np.corrcoef(near, truth)[0, 1] > 0.98
    assert near.mean() == pytest.approx(truth.mean(), rel=0.08)
    y[int(np.flatnonzero(y)[0])] = 1e5
    moved = predict_amounts(x, y, x)
    assert moved.mean() == pytest.approx(near.mean(), rel=0.01)
    back = predict_amounts(x, -y, x)
    np.testing.assert_allclose(back, -moved)


def test_few_amounts_have_one_mean() -> None:
    y = np.array([30.0, 0.0, 0.0, 10.0])
    others = np.zeros((3, 1))
    assert predict_amounts(np.zeros((4, 1)), y, others).tolist() == [10.0] * 3
    assert predict_amounts(np.zeros((4, 1)), np.zeros(4), others).tolist() == [0.0] * 3


def everybody(log: Log) -> Evaluation:
    """What treating everybody would cause."""
    proposals = Proposals(np.ones(log.users, np.int64), 1.0, 1)
    return evaluate_proposals("everybody", log, outcome_rates(log), proposals)


@pytest.mark.parametrize("orders", [6, 60])
def test_a_handful_of_orders_gives_no_figure(orders: int) -> None:
    y = np.zeros(LOG.users)
    y[np.flatnonzero(LOG.actions == 0)[:orders]] = 25.0
    y[np.flatnonzero(LOG.actions == 1)[:60]] = 25.0
    result = everybody(replace(LOG, outcomes=y))
    assert bool(result.withheld) == (orders < 10)
    if orders < 10:
        assert "The users left alone brought the equivalent of 6.0 equal amounts" in result.withheld
        assert result.headline is None
        assert not result.figures()["estimates"]


def test_one_order_that_is_most_of_the_value_gives_no_figure() -> None:
    y = LOG.outcomes.copy()
    y[np.flatnonzero(LOG.actions == 1)[0]] = 1e5
    log = replace(LOG, outcomes=y)
    assert "An order of 100,000 is 9" in everybody(log).withheld
    with pytest.raises(InputError, match="An order of 100,000 is 9"):
        advise(100.0, 500, log, seeds=range(4))


def test_a_share_of_the_amount_is_due_up_to_the_cost() -> None:
    for row, part in enumerate(part_due(LOG, 0.2).tolist()):
        cost = LOG.costs[row, 0]
        assert part == pytest.approx(min(0.2 * LOG.outcomes[row], cost) / cost)
    paid = paid_in(LOG, SHARE)
    rows = np.flatnonzero(LOG.actions)
    expected = [min(0.2 * LOG.outcomes[i], LOG.costs[i, 0]) for i in rows]
    assert paid.sum() == pytest.approx(sum(expected))
    before = running_rates(LOG, 0.2)
    parts = part_due(LOG, 0.2)[:500][LOG.actions[:500] == 1]
    assert before[500, 1] == pytest.approx((parts.sum() + 0.5) / (len(parts) + 1))
    assert (expected_charges(LOG, share=0.2) <= LOG.micros).all()


def test_what_is_charged_of_amounts_is_estimated_without_bias() -> None:
    found, truth = [], []
    for seed in range(40):
        log, _ = trial(1_000, 500 + seed)
        rows = np.flatnonzero(log.micros[:, 0] > 3_000_000)
        rates = due_rates(log, np.zeros((log.users, 2)), SHARE)
        assert rates[900:].min() > 0.0
        asked = log, rows, np.ones(len(rows), np.int64), np.full(len(rows), 0.5)
        terms = charged_for(*asked, rates[rows, 1], 0.2)
        found.append(charged_in_all(terms, seen_in(*asked, 0.2)))
        z = np.random.default_rng(seed).normal(size=4_000)
        worth = np.exp(3.0 + 0.4 * log.features[rows] + 0.8 * z)
        truth.append(0.3 * np.minimum(0.2 * worth, log.costs[rows]).mean(axis=1).sum())
    errors = np.array([one.value for one in found]) - truth
    assert abs(errors.mean()) < 3 * errors.std() / math.sqrt(len(errors))
    assert np.mean([f.low <= t <= f.high for f, t in zip(found, truth, strict=True)]) > 0.85


def test_a_policy_pays_the_share_that_is_expected_elsewhere() -> None:
    policy = bccb.make(
        "treat-all", budget=300, horizon=LOG.users, features=1, seed=1,
        outcome="amount", charge="conversion", share=0.2,
    )  # fmt: skip
    proposals = propose_on(policy, LOG)
    charges, own = expected_charges(LOG, share=0.2), paid_in(LOG, SHARE)
    paid, remaining = 0.0, 300.0
    for row, wanted in enumerate(proposals.actions.tolist()):
        if not wanted:
            continue
        paid += own[row] if LOG.actions[row] == 1 else charges[row, 0] / 1e6
        remaining = 300.0 - paid
    assert remaining >= 0.0
    assert proposals.spend == pytest.approx(paid, abs=1e-3)


def test_replay_counts_refunds() -> None:
    draw = np.random.default_rng(6)
    log = replace(LOG, outcomes=np.where(draw.random(LOG.users) < 0.3, -LOG.outcomes, LOG.outcomes))
    policy = bccb.make(
        "treat-all", budget=1e6, horizon=log.users, features=1, seed=1, outcome="amount"
    )
    result = replay(policy, log)
    treated, alone = log.outcomes[log.actions == 1].sum(), log.outcomes[log.actions == 0].sum()
    assert result.incremental == pytest.approx(treated - alone)
    assert result.conversions == pytest.approx(treated)


def test_a_comparison_in_money_has_intervals_and_withholds_what_few_orders_say() -> None:
    names = ["treat-all", "pooled-bayes"]
    trials = LoggedTrials(LOG, LOG.users, 0)
    runs = list(compare(trials, names, [400.0], [1, 2], charge="conversion", share=0.2))
    for line in summarise(runs, LOG):
        assert line.kind == "amount"
        assert line.interval is not None
        assert line.interval.low < line.incremental < line.interval.high
        assert not line.withheld
        assert line.spend <= 400.0
        assert line.return_on_spend is not None
        assert line.return_on_spend.low == pytest.approx(line.interval.low / line.spend)
    (few,) = summarise(compare(trials, ["treat-all"], [40.0], [1]), LOG)
    assert "so none is given" in few.withheld
    y = LOG.outcomes.copy()
    y[np.flatnonzero(LOG.actions == 1)[0]] = 1e5
    huge = replace(LOG, outcomes=y)
    hits = compare(LoggedTrials(huge, LOG.users, 0), ["treat-all"], [1e5], [1, 2])
    (hit,) = summarise(hits, huge)
    assert "An order of 100,000 is 9" in hit.withheld


def test_a_policy_does_not_take_outcomes_of_the_other_kind() -> None:
    counting = bccb.make("pooled-bayes", budget=100, horizon=LOG.users, features=1)
    message = 'outcomes in the log is .amount., but must be "conversion", as the policy'
    with pytest.raises(InputError, match=message):
        counting.learn(LOG)
    with pytest.raises(InputError, match=message):
        replay(counting, LOG)
    with pytest.raises(InputError, match=message):
        propose_on(counting, LOG)
    in_money = bccb.make("pooled-bayes", budget=100, horizon=9, features=1, outcome="amount")
    rates = replace(LOG, outcomes=np.zeros(LOG.users), kind="conversion")
    with pytest.raises(InputError, match='make it with outcome="conversion"'):
        in_money.learn(rates)


def test_advice_in_money_leaves_out_who_learns_rates() -> None:
    assert set(rivals_of(0)) - set(rivals_of(0, "amount")) >= {"bccb", "thompson"}
    made = advise(60.0, 500, LOG, seeds=range(4), charge="conversion", share=0.2)
    assert made.setting.kind == "amount"
    assert {one.policy for one in made.rivals} == set(rivals_of(1, "amount"))
    assert made.figures()["setting"]["share"] == 0.2


def test_a_share_needs_amounts() -> None:
    rates = replace(LOG, outcomes=(LOG.outcomes > 0).astype(np.float64), kind="conversion")
    message = "share is 0.2, but must be left out: the outcomes of this log are conversions"
    with pytest.raises(InputError, match=message):
        evaluate_with_others(rates, [], charge="conversion", share=0.2)
    with pytest.raises(InputError, match="share is 0.2, but must be given with a trial whose"):
        advise(60.0, 500, 0, seeds=range(4), charge="conversion", share=0.2)
    with pytest.raises(InputError, match='share is 0.2, but must be left out: .* charge="conversi'):
        evaluate_with_others(LOG, [], share=0.2)


def test_the_log_itself_is_told_in_money() -> None:
    own, other = evaluate_with_others(LOG, ["cheapest-first"], **SHARE._asdict())
    assert own.kind == other.kind == "amount"
    assert own.spend == pytest.approx(paid_in(LOG, SHARE).sum())
    assert own.headline is not None
    back = own.return_on_spend(own.headline)
    assert back is not None
    assert back.value == pytest.approx(own.headline.incremental / own.spend)
    assert own.figures()["estimates"][0]["return_on_spend"]["low"] < back.value
    assert own.caused is not None
    assert own.caused.measured is None
    assert own.caused.estimated is not None
    truth = float(EFFECTS[LOG.actions > 0].sum())
    assert own.caused.estimated.low < truth < own.caused.estimated.high
    assert other.charged is not None
