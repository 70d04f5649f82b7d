from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bccb.data import simulate
from bccb.errors import InputError
from bccb.estimators import trees
from bccb.evaluate.assumptions import Assumed, Target, of_trial, world_of
from bccb.evaluate.planning import OFTEN, RESERVES, plan


@pytest.mark.parametrize("target", [Target(0.05, 0.01), Target(0.5, -0.2), Target(0.001, 0.0005)])
def test_the_world_has_the_rate_and_the_effect_asked_for(target: Target) -> None:
    world = world_of(5_000, 1, Assumed(target))
    assert world.rates[:, 0].mean() == pytest.approx(target.rate, rel=1e-9)
    assert world.effects.mean() == pytest.approx(target.effect, rel=1e-9)
    odds = world.rates / (1.0 - world.rates)
    assert np.ptp(odds[:, 1] / odds[:, 0]) < 1e-6  # the same factor for everybody


def test_a_trial_gives_users_costs_rate_and_effect() -> None:
    trial = simulate(4_000, seed=2, outcome="visit", treatments=2)
    world = world_of(1_000, 1, of_trial(trial)._replace(target=Target(0.1, 0.05)))
    assert world.rates.shape == (1_000, 3)
    kept = {tuple(row) for row in trial.features.round(9).tolist()}
    assert {tuple(row) for row in world.features.round(9).tolist()} <= kept
    made = plan(50, 1_000, trial=trial, seeds=[1])
    treated = trial.actions > 0
    rates = [float(trial.outcomes[rows].mean()) for rows in (~treated, treated)]
    assert made.target == pytest.approx((rates[0], rates[1] - rates[0]))
    assert not made.simulated


def test_more_at_random_costs_value_and_narrows_what_is_measured() -> None:
    made = plan(500, 10_000, Target(0.2, 0.1), seeds=[1, 2])
    assert [each.reserve for each in made.outlooks] == list(RESERVES)
    first, last = made.outlooks[0], made.outlooks[-1]
    assert last.caused < first.caused
    assert first.measured is not None
    assert last.measured is not None
    assert last.measured.high - last.measured.low < first.measured.high - first.measured.low
    assert all(each.spend <= 500 for each in made.outlooks)
    assert made.enough is None or (made.enough.shown or 0.0) >= OFTEN


def test_nothing_is_measured_where_too_few_are_treated() -> None:
    made = plan(5, 300, Target(0.1, 0.05), cost=0.05, seeds=[1, 2])
    first, last = made.outlooks[0], made.outlooks[-1]
    assert (first.measured, first.shown, first.needed) == (None, None, 1_050)
    assert (last.measured is None) == (last.needed > 0)
    assert not made.has_losses


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target(0.0, 0.1), "rate is 0.0, but must be above 0 and below 1"),
        (Target(0.1, 0.95), "effect is 0.95, but must be such that the rate 0.1"),
        (Target(0.1, -0.1), "effect is -0.1, but must be such that"),
        (Target(float("nan"), 0.1), "rate is nan"),
    ],
)
def test_impossible_rates_are_refused(target: Target, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(100, 1_000, target)


def test_a_trial_without_conversions_is_refused() -> None:
    with pytest.raises(InputError, match="give --rate and --effect"):
        plan(100, 1_000, trial=simulate(500, seed=1))
    with pytest.raises(InputError, match="users is 5"):
        plan(100, 5)


def test_a_log_of_decisions_is_no_trial() -> None:
    log = simulate(4_000, seed=2, outcome="visit")
    with pytest.raises(InputError, match="a plan needs a randomised trial"):
        plan(50, 1_000, trial=replace(log, probabilities=np.full(4_000, 0.5)))
    with pytest.raises(InputError, match="seeds"):
        plan(50, 1_000, seeds=[])


def test_a_plan_fits_no_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "classifier", lambda *_: pytest.fail("trees were fitted"))
    assert plan(50, 3_000, Target(0.1, 0.05), seeds=[1]).usual.caused > 0
