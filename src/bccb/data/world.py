"""A world: users who can be decided on live, because the outcome of every action is known.

Each user has one uniform draw U, and action a brings them the outcome

    y_a = 1[U < P(outcome | x, a)],

so that all policies meet the same users, who answer the same to the same action. The true effect
of treatment k is P(outcome | x, k) - P(outcome | x, 0). Where outcomes are amounts of money, a
conversion brings a log-normal amount, whose mean depends on the features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bccb.data.simulator import BLOCK, Outcome, load_model, outcome_rates, simulate
from bccb.money import MICROS
from bccb.outcome import Kind
from bccb.types import Floats, Ints, Log

STREAM, AMOUNTS_STREAM = 3, 5  # keep these draws apart from those of the simulator
MOST_DEVIATIONS = 3.0  # from the mean, of what moves amounts
VARIATION = 0.5  # of the logarithm of amounts by the features, where nothing else is asked for
SPREAD = 0.8  # of the logarithm of amounts beyond that, likewise


class Amounts(NamedTuple):
    """What a conversion of each user brings."""

    worth: Floats  # (n,), on average
    drawn: Floats  # (n,), to this user
    spread: float  # of the logarithm, beyond what the features say


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Users in the order they come: n users, d features, K treatments."""

    features: Floats  # (n, d)
    micros: Ints  # (n, K), costs
    rates: Floats  # (n, K+1), of the outcome under each action
    draws: Floats  # (n,), U
    amounts: Amounts | None = None  # where outcomes are amounts of money

    @property
    def users(self) -> int:
        """The number of users, n."""
        return len(self.draws)

    @property
    def costs(self) -> Floats:
        """What each treatment would cost for each user, in currency units, of shape (n, K)."""
        return self.micros / MICROS

    @property
    def effects(self) -> Floats:
        """The true effects, of shape (n, K)."""
        effects = self.rates[:, 1:] - self.rates[:, :1]
        if self.amounts is not None:
            effects = effects * self.amounts.worth[:, None]
        return np.ascontiguousarray(effects)

    @property
    def kind(self) -> Kind:
        """The kind of outcomes."""
        return Kind.CONVERSION if self.amounts is None else Kind.AMOUNT


def simulate_world(
    users: int, seed: int = 0, outcome: Outcome = "conversion", treatments: int = 1
) -> World:
    """The users of ``simulate`` with the same arguments, to be decided on live.

    >>> world = simulate_world(1_000, seed=7)
    >>> world.rates.shape, world.effects.shape
    ((1000, 2), (1000, 1))
    """
    log = simulate(users, seed, outcome, treatments)
    assert log.effects is not None
    control, model = np.empty(users), load_model()
    for start in range(0, users, BLOCK):
        rows = slice(start, start + BLOCK)
        control[rows] = outcome_rates(model, log.features[rows], outcome)[0]
    return World(
        features=log.features,
        micros=log.micros,
        rates=np.column_stack((control, control[:, None] + log.effects)),
        draws=np.random.default_rng((seed, STREAM)).random(users),
    )


def with_amounts(
    world: World, variation: float, seed: int = 0, *, level: float = 3.0, spread: float = SPREAD
) -> World:
    """The same users, whose conversions bring log-normal amounts.

    The mean of the logarithm is ``level``, plus ``variation`` times a random direction of the
    standardised features, cut at three deviations: features with heavy tails would otherwise make
    a handful of users worth more than all others.

    >>> world = with_amounts(simulate_world(1_000, seed=7), variation=0.5, seed=7)
    >>> world.kind, world.amounts.worth.shape
    (<Kind.AMOUNT: 'amount'>, (1000,))
    """
    return replace(
        world, amounts=_amounts(world.features, world.features, variation, seed, level, spread)
    )


def trial_with_amounts(log: Log, seed: int = 0, *, past: tuple[Log, int] | None = None) -> Log:
    """The same trial, in which the simulated conversions bring amounts, as :func:`with_amounts`
    makes them with the usual variation.

    ``past`` is an earlier trial with the seed of its draws: its amounts are returned, which depend
    on the features as those of ``log``.

    >>> log = trial_with_amounts(simulate(1_000, seed=7, outcome="visit"), seed=7)
    >>> log.kind, bool(log.outcomes.max() > 1.0)
    (<Kind.AMOUNT: 'amount'>, True)
    """
    of, drawn = (log, None) if past is None else past
    amounts = _amounts(of.features, log.features, VARIATION, seed, drawn=drawn)
    effects = None if of.effects is None else of.effects * amounts.worth[:, None]
    return replace(of, outcomes=of.outcomes * amounts.drawn, effects=effects, kind=Kind.AMOUNT)


def _amounts(
    features: Floats,
    like: Floats,
    variation: float,
    seed: int,
    level: float = 3.0,
    spread: float = SPREAD,
    *,
    drawn: int | None = None,
) -> Amounts:
    """Amounts of these users. The direction comes from ``seed``, and features are standardised as
    those of users ``like`` them; ``drawn`` is another seed for what each user brings.
    """
    rng = np.random.default_rng((seed, AMOUNTS_STREAM))
    direction = rng.normal(size=features.shape[1])
    if drawn is not None:
        rng = np.random.default_rng((drawn, AMOUNTS_STREAM, 1))
    centre, deviation = like.mean(axis=0), like.std(axis=0)
    scale = np.where(deviation > 0.0, deviation, 1.0)
    length = max(float(np.linalg.norm(direction)), 1e-9)
    along, theirs = (((x - centre) / scale) @ direction / length for x in (features, like))
    along /= max(float(theirs.std()), 1e-9)
    logs = level + variation * np.clip(along, -MOST_DEVIATIONS, MOST_DEVIATIONS)
    brought = np.exp(logs + spread * rng.normal(size=len(features)))
    return Amounts(np.exp(logs + 0.5 * spread**2), brought, spread)
