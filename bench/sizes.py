"""How much is measured, and on which users: the same for every contestant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import bccb
from bccb.assembly import assemble
from bccb.data import simulate
from bccb.policies import spec_of

SEED = 42
DOLLARS_A_USER = 0.05  # $5,000 for 100,000 users
DEFAULTS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of users, of rounds, and of times that each thing is measured."""

    users: int = 100_000
    growth: int = 10
    rounds: int = 20_000
    slow_rounds: int = 1_000
    repeats: int = 7
    slow_repeats: int = 2  # of scikit-learn's loop, which takes 20 seconds
    processes: int = 5  # of a kind


FULL = Sizes()
QUICK = Sizes(users=10_000, rounds=2_000, slow_rounds=100, repeats=2, slow_repeats=1, processes=1)


@cache
def log_of(users: int) -> bccb.Log:
    """The log of a simulated trial."""
    return simulate(users, seed=SEED)


def policy_for(
    log: bccb.Log,
    horizon: int | None = None,
    parameters: Mapping[str, float] = DEFAULTS,
    name: str = "bccb",
) -> bccb.Policy:
    """A new policy with the paper's budget for each user of the horizon."""
    users = horizon or log.users
    return assemble(
        spec_of(name).changed(**parameters),
        budget=users * DOLLARS_A_USER,
        horizon=users,
        features=log.features.shape[1],
        treatments=log.treatments,
        seed=SEED,
    )
