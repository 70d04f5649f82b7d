"""A world: users who can be decided on live, because the outcome of every action is known.

Each user has one uniform draw U, and action a brings them the outcome

    y_a = 1[U < P(outcome | x, a)],

so that all policies meet the same users, who answer the same to the same action. The true effect
of treatment k is P(outcome | x, k) - P(outcome | x, 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bccb.data.simulator import BLOCK, Outcome, load_model, outcome_rates, simulate
from bccb.money import MICROS
from bccb.types import Floats, Ints

STREAM = 3  # keeps these draws apart from those of the simulator


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Users in the order they come: n users, d features, K treatments."""

    features: Floats  # (n, d)
    micros: Ints  # (n, K), costs
    rates: Floats  # (n, K+1), of the outcome under each action
    draws: Floats  # (n,), U

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
        return np.ascontiguousarray(self.rates[:, 1:] - self.rates[:, :1])


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
