from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bccb
from bccb.data import simulate
from bccb.errors import InputError
from bccb.evaluate import planning
from bccb.evaluate.assumptions import Assumed, Target, of_trial, simulated, world_of
from bccb.evaluate.planning import plan
from bccb.types import Floats, Log

VISITS = simulate(6_000, seed=2, outcome="visit")
TARGET = Target(0.1, 0.05)


def in_money(amounts: Floats | float) -> Log:
    """The trial, in which every visit brings such an amount."""
    return replace(VISITS, outcomes=VISITS.outcomes * amounts, kind="amount")


def orders(seed: int = 1, treated: float = 1.0) -> Floats:
    """Log-normal amounts, which the first feature tells, and treatment multiplies."""
    x = VISITS.features[:, 0]
    logs = 3.0 + 0.5 * (x - x.mean()) / x.std()
    noise = np.random.default_rng(seed).normal(0.0, 0.5, VISITS.users)
    amounts = np.exp(logs + noise) * np.where(VISITS.actions > 0, treated, 1.0)
    return np.asarray(amounts, np.float64)


def test_with_equal_amounts_it_is_the_plan_in_conversions_times_the_amount() -> None:
    counted = plan(400, 8_000, trial=VISITS, seeds=[1])
    valued = plan(400, 8_000, trial=in_money(20.0), largest=20.0, seeds=[1])
    assert valued.worth is not None
    assert (valued.worth.amount, valued.worth.spread) == pytest.approx((20.0, 0.0), abs=1e-9)
    assert valued.target == counted.target
    for one, other in zip(valued.outlooks, counted.outlooks, strict=True):
        assert (one.spend, one.treated) == pytest.approx((other.spend, other.treated), rel=0.02)
        assert one.caused == pytest.approx(20.0 * other.caused, rel=0.02)
        if one.measured is not None and other.measured is not None:  # enough were treated
            assert one.measured.low == pytest.approx(20.0 * other.measured.low, rel=0.05)
    assert valued.outlooks[-1].measured is not None
    assert counted.outlooks[-1].measured is not None


def test_what_is_caused_is_the_naive_sum_over_the_treated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "RESERVES", (0.1,))
    trial, factor, caused = in_money(orders(treated=1.5)), 0.0, 0.0
    assumed = of_trial(trial)
    assert assumed.worth is not None
    factor = assumed.worth.factor
    assert factor > 1.2
    world = world_of(600, 3, assumed)
    assert world.amounts is not None
    sizes: dict[str, Any] = {"budget": 60, "horizon": 600, "features": 12, "seed": 3}
    policy = bccb.make("pooled-bayes", **sizes, outcome="amount", reserve=0.1)
    for i in range(600):
        decision = policy.decide(world.features[i], world.costs[i])
        a = decision.action
        converts = world.draws[i] < world.rates[i, a]
        amount = world.amounts.drawn[i] * (factor if a else 1.0)
        policy.observe(decision, amount if converts else 0.0)
        if a:
            worth = world.amounts.worth[i]
            caused += world.rates[i, 1] * factor * worth - world.rates[i, 0] * worth
    usual = plan(60, 600, trial=trial, seeds=[3]).usual
    assert usual.caused == pytest.approx(caused, rel=1e-9)
    assert usual.spend == pytest.approx(policy.spent, rel=1e-9)


def test_amounts_of_the_trial_are_found_again() -> None:
    worth = of_trial(in_money(orders())).worth
    assert worth is not None
    won = VISITS.outcomes > 0
    assert worth.amount == pytest.approx(orders()[won].mean(), rel=0.1)
    assert worth.spread == pytest.approx(0.5, rel=0.15)
    assert worth.factor == 1.0
    brought = orders()[won]
    assert 0.98 <= (brought < worth.largest).mean() < 1.0


def test_drawn_amounts_have_the_mean_and_the_spread() -> None:
    world = world_of(50_000, 1, simulated(TARGET, 25.0, 0.5))
    assert world.amounts is not None
    assert world.amounts.drawn.mean() == pytest.approx(25.0, rel=0.02)
    assert np.log(world.amounts.drawn).std() == pytest.approx(0.8, rel=0.02)
    assert (world.amounts.worth == 25.0).all()
    assert (world.costs == 0.5).all()
    other = world_of(1_000, 1, Assumed(TARGET))
    assert world_of(1_000, 1, simulated(TARGET, 25.0, None)).draws.tolist() == other.draws.tolist()


def test_a_huge_order_moves_little() -> None:
    log = simulate(3_000, seed=3, outcome="visit")
    brought = log.outcomes * np.exp(3.0 + np.random.default_rng(1).normal(0.0, 0.5, log.users))
    huge = brought.copy()
    huge[np.flatnonzero(brought)[7]] = 1e5  # of some 140
    both = [of_trial(replace(log, outcomes=y, kind="amount")).worth for y in (brought, huge)]
    usual, moved = both
    assert usual is not None
    assert moved is not None
    assert moved.amount == pytest.approx(usual.amount, rel=0.08)
    assert moved.spread == pytest.approx(usual.spread, rel=0.08)
    assert moved.largest == pytest.approx(usual.largest, rel=0.4)


def test_large_orders_that_recur_are_in_the_mean() -> None:
    """One in twenty is a hundred times as large: cutting outliers must not cut them all."""
    large = np.random.default_rng(6).random(VISITS.users) < 0.05
    brought = np.where(large, 500.0, 5.0)
    assumed = of_trial(in_money(brought))
    assert assumed.worth is not None
    assert assumed.worth.amount == pytest.approx(brought[VISITS.outcomes > 0].mean(), rel=0.25)
    assert assumed.worth.largest == 500.0
    amounts = world_of(20_000, 1, assumed).amounts
    assert amounts is not None
    assert (amounts.drawn > 100.0).mean() == pytest.approx(0.05, abs=0.02)
    assert np.median(amounts.drawn) == pytest.approx(5.0, rel=0.2)


def test_smaller_orders_of_treated_users_are_charged_for() -> None:
    assumed = of_trial(in_money(orders(treated=0.6)))
    assert assumed.worth is not None
    assert assumed.worth.factor == pytest.approx(0.6, rel=0.15)
    same = of_trial(in_money(orders())).worth
    assert same is not None
    assert assumed.worth.amount == pytest.approx(same.amount, rel=0.1)  # of those left alone
    less = plan(40, 800, trial=in_money(orders(treated=0.6)), seeds=[1]).usual
    more = plan(40, 800, trial=in_money(orders()), seeds=[1]).usual
    assert less.caused < more.caused - 1.0


def test_refunds_are_as_large_a_share_as_in_the_trial() -> None:
    brought = orders()
    won = np.flatnonzero(VISITS.outcomes)
    brought[won[::4]] *= -1.0
    assumed = of_trial(in_money(brought))
    world = world_of(20_000, 1, assumed)
    assert assumed.worth is not None
    assert world.amounts is not None
    drawn, share = world.amounts.drawn, -brought[won[::4]].sum() / abs(brought[won]).sum()
    assert -drawn[drawn < 0].sum() / abs(drawn).sum() == pytest.approx(share, abs=0.03)
    assert world.amounts.worth.mean() == pytest.approx(world.amounts.drawn.mean(), rel=0.1)
    with pytest.raises(InputError, match="the share of losses in the amounts of the trial"):
        of_trial(in_money(-orders()))


def test_a_treatment_that_loses_money_in_the_trial_loses_it_in_the_plan() -> None:
    """As many convert more, but half of what treated users bring are losses."""
    rng, brought = np.random.default_rng(4), orders()
    lost = (VISITS.actions > 0) & (rng.random(VISITS.users) < 0.6)
    trial = in_money(np.where(lost, -brought, brought))
    worth = of_trial(trial).worth
    assert worth is not None
    won = VISITS.outcomes > 0
    own = won & (VISITS.actions > 0)
    share = brought[own & lost].sum() / brought[own].sum()
    assert worth.lost == 0.0
    assert worth.lost_treated == pytest.approx(share, abs=0.05)
    usual = plan(40, 800, trial=trial, seeds=[1, 2]).usual
    truth = trial.outcomes[VISITS.actions > 0].mean() - trial.outcomes[VISITS.actions == 0].mean()
    assert truth < 0.0
    assert usual.caused < 0.0
    assert usual.measured is None
    assert usual.shown is None


def test_losses_that_do_not_clearly_differ_are_the_same_for_all() -> None:
    rng, brought = np.random.default_rng(5), orders()
    trial = in_money(np.where(rng.random(VISITS.users) < 0.2, -brought, brought))
    worth = of_trial(trial).worth
    assert worth is not None
    assert worth.lost == worth.lost_treated == pytest.approx(0.2, abs=0.07)
    made = plan(40, 800, trial=trial, seeds=[1])
    assert made.has_losses
    assert made.enough is None


def test_without_any_conversion_in_money_it_asks_for_more_users() -> None:
    with pytest.raises(InputError, match="nobody converts in any of the simulated campaigns"):
        plan(1, 100, Target(1e-6, 1e-6), amount=25.0, seeds=[1])


def test_a_share_costs_a_part_of_what_comes_in() -> None:
    terms: dict[str, Any] = {"amount": 10.0, "cost": 5.0, "seeds": [1], "charge": "conversion"}
    whole = plan(1e5, 500, TARGET, **terms)
    part = plan(1e5, 500, TARGET, share=0.1, **terms)
    assert part.usual.spend < 0.5 * whole.usual.spend
    assert part.payment.share == 0.1


def test_figures_carry_the_kind_and_what_is_assumed() -> None:
    made = plan(40, 300, TARGET, amount=25.0, largest=90.0, seeds=[1], cost_cap=2.0)
    figures = json.loads(json.dumps(made.figures()))
    assert figures["kind"] == "amount"
    assert figures["worth"]["amount"] == 25.0
    assert figures["worth"]["largest"] == 90.0
    assert figures["cost_cap"] == 2.0
    usual = figures["outlooks"][0]
    assert usual["return_on_spend"] == pytest.approx(usual["caused"] / usual["spend"])
    counted = json.loads(json.dumps(plan(40, 300, TARGET, seeds=[1]).figures()))
    assert (counted["kind"], counted["worth"]) == ("conversion", None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"amount": 0.0}, "amount is 0.0, but must be at least 0.000001"),
        ({"amount": float("nan")}, "amount is nan, but must be a finite number"),
        ({"amount": 2e9}, "amount is 2000000000.0, but must be"),
        ({"amount": 5.0, "largest": 0.0}, "largest is 0.0, but must be at least 0.000001"),
        ({"largest": 9.0}, "largest is 9.0, but must be left out: it is about amounts"),
        ({"share": 0.2, "charge": "conversion"}, "share is 0.2, but must be left out, or given"),
        ({"amount": 5.0, "share": 0.2}, 'needs charge="conversion"'),
        ({"amount": 5.0, "cost": 0.0}, "cost is 0.0"),
        ({"seeds": [1, 1]}, r"seeds is \[1, 1\], but must be different ones, at least one"),
        (
            {"trial": VISITS, "amount": 5.0},
            "amount is 5.0, but must be left out: it is taken from the trial",
        ),
        (
            {"trial": VISITS, "cost": 5.0},
            "cost is 5.0, but must be left out: it is taken from the trial",
        ),
        (
            {"trial": VISITS, "share": 0.2, "charge": "conversion"},
            "share is 0.2, but must be left out: the outcomes of this log are conversions",
        ),
    ],
)
def test_bad_input_names_field_and_value(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(100, 1_000, **given)
