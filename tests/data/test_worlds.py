from __future__ import annotations

import numpy as np
import pytest

from bccb.data.worlds import ABOUT, make_world, trial_in
from bccb.errors import InputError
from bccb.evaluate.live import best
from bccb.types import Floats

N = 20_000


def logit(rates: Floats) -> Floats:
    return np.asarray(np.log(rates / (1.0 - rates)))


@pytest.mark.parametrize("name", ABOUT)
def test_every_world_is_sound_and_the_same_again(name: str) -> None:
    world, again = make_world(name, 2_000, seed=3), make_world(name, 2_000, seed=3)
    assert ((world.rates >= 0.0) & (world.rates <= 1.0)).all()
    assert np.isfinite(world.features).all()
    for field in ("features", "micros", "rates", "draws"):
        assert (getattr(world, field) == getattr(again, field)).all()
    assert (make_world(name, 2_000, seed=4).draws != world.draws).any()
    assert best(world, 100.0).run.value > 0.0  # there is something to find


def test_rates_are_those_of_the_definitions() -> None:
    world = make_world("linear", N, seed=1)
    x, rates = world.features, world.rates
    base, lift = logit(rates[:, 0]), logit(rates[:, 1]) - logit(rates[:, 0])
    assert base == pytest.approx(-3.0 + 0.7 * x[:, 0] + 0.5 * x[:, 1])
    assert lift == pytest.approx(0.3 + 0.3 * x[:, 2])
    bump = make_world("bump", N, seed=1)
    lifts = logit(bump.rates[:, 1]) - logit(bump.rates[:, 0])
    assert lifts == pytest.approx(np.where(abs(bump.features[:, 2]) < 0.6, 0.8, -0.1))
    against = make_world("against", N, seed=1)
    assert (against.effects[against.features[:, 0] >= -0.5] == 0.0).all()
    assert make_world("additive", N).effects == pytest.approx(0.02)
    mixed = make_world("mixed", N, seed=1)
    assert (mixed.effects > 0.0).mean() == pytest.approx(0.5, abs=0.01)
    drift = make_world("drift", N, seed=1)
    helped = drift.effects[:, 0] > 0.0
    assert (helped[: N // 2] == (drift.features[: N // 2, 1] > 0)).all()
    assert (helped[N // 2 :] == (drift.features[N // 2 :, 1] < 0)).all()


@pytest.mark.parametrize(("name", "least", "most"), [("rare", 0.002, 0.006), ("common", 0.25, 0.4)])
def test_base_rates_are_as_told(name: str, least: float, most: float) -> None:
    assert least < make_world(name, N).rates[:, 0].mean() < most


def test_a_trial_is_randomised_and_has_the_outcomes_of_the_world() -> None:
    world = make_world("three", N, seed=2)
    log = trial_in(world, seed=5)
    assert np.bincount(log.actions) / N == pytest.approx(log.known_shares, abs=0.02)
    assert log.effects is not None
    for arm in range(4):
        rows = log.actions == arm
        assert log.outcomes[rows].mean() == pytest.approx(world.rates[:, arm].mean(), abs=0.02)


def test_an_unknown_world_is_refused_with_a_hint() -> None:
    with pytest.raises(InputError, match="did you mean 'bump'"):
        make_world("bumps", 10)
