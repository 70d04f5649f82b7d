"""Worlds: users of many kinds, to see where a policy is good and where it fails. One per row.

A world draws features x and says how likely each action makes the outcome. Most do so by the logit
of the rate without treatment, ``base``, and what each treatment adds to it, ``lift``. Costs are the
paper's. The effects that a policy must find are known, so that it can be compared with the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.random import Generator

from bccb import checks
from bccb.data import costs
from bccb.data.schema import one_of
from bccb.data.simulator import MOST_USERS
from bccb.data.world import World, simulate_world
from bccb.errors import InputError
from bccb.types import Floats, Log

STREAM = 11  # keeps these draws apart from others of the same seed
TREATED = 0.5  # of a trial on such users


def normal(draw: Generator, users: int, features: int) -> Floats:
    """Independent standard normal features."""
    return draw.normal(size=(users, features))


def heavy(draw: Generator, users: int, features: int) -> Floats:
    """Features with heavy tails: one value in a hundred is beyond 7."""
    return draw.standard_t(2.0, size=(users, features))


def binary(draw: Generator, users: int, features: int) -> Floats:
    """Features that are 0 or 1, the later ones more seldom 1."""
    rates = 0.5 / np.sqrt(np.arange(1, features + 1))
    return (draw.random((users, features)) < rates).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Kind:
    """Users of one kind: how features are drawn, and the rates of all actions, (n, K+1)."""

    name: str
    about: str
    rates: Callable[[Floats], Floats]
    features: int = 12
    treatments: int = 1
    drawn: Callable[[Generator, int, int], Floats] = normal


def sigmoid(logit: Floats) -> Floats:
    """1 / (1 + exp(-logit))"""
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


def shifted(base: Floats, *lifts: Floats | float) -> Floats:
    """The rates where each treatment adds a lift to the logit."""
    return np.column_stack([sigmoid(base), *(sigmoid(base + lift) for lift in lifts)])


def _bump(x: Floats) -> Floats:
    base = -3.0 + 1.5 * (abs(x[:, 0]) < 0.5) + 0.8 * (abs(x[:, 1]) > 1.2)
    return shifted(base, np.where(abs(x[:, 2]) < 0.6, 0.8, -0.1))


def _additive(x: Floats) -> Floats:
    alone = sigmoid(-3.0 + 0.7 * x[:, 0])
    return np.column_stack((alone, alone + 0.02))


def _three(x: Floats) -> Floats:
    base = -3.0 + 0.7 * x[:, 0]
    return shifted(base, 0.2, 0.4 + 0.4 * np.sign(x[:, 1]), np.where(x[:, 2] > 0.5, 1.2, -0.2))


def _drift(x: Floats) -> Floats:
    """Others respond in the second half of the users."""
    first = np.arange(len(x)) < len(x) // 2
    return shifted(-3.0 + 0.7 * x[:, 0], np.where(np.where(first, x[:, 1], -x[:, 1]) > 0, 0.7, 0.0))


KINDS = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind(
                "linear",
                "base rates and lifts are linear in the features",
                lambda x: shifted(-3.0 + 0.7 * x[:, 0] + 0.5 * x[:, 1], 0.3 + 0.3 * x[:, 2]),
            ),
            Kind("bump", "those in the middle respond, and those in the middle buy", _bump),
            Kind(
                "interaction",
                "who responds depends on the product of two features",
                lambda x: shifted(
                    -3.0 + 0.8 * np.sign(x[:, 0] * x[:, 1]),
                    np.where(x[:, 2] * x[:, 3] > 0, 0.8, -0.2),
                ),
            ),
            Kind(
                "against",
                "those who hardly ever buy respond, the others do not",
                lambda x: shifted(-3.0 + 0.9 * x[:, 0], np.where(x[:, 0] < -0.5, 1.2, 0.0)),
            ),
            Kind("additive", "a treatment adds the same to everybody's rate", _additive),
            Kind(
                "few",
                "one feature says everything",
                lambda x: shifted(-2.0 + 0.8 * x[:, 0], np.where(x[:, 0] > 0, 0.6, 0.0)),
                features=1,
            ),
            Kind(
                "many",
                "sixty features, of which four matter",
                lambda x: shifted(
                    -3.0 + 0.7 * x[:, 0] + 0.5 * x[:, 1], 0.3 + 0.4 * x[:, 2] - 0.3 * x[:, 3]
                ),
                features=60,
            ),
            Kind(
                "rare",
                "0.4 % convert",
                lambda x: shifted(-6.0 + 0.8 * x[:, 0], 0.5 + 0.4 * x[:, 1]),
            ),
            Kind(
                "common",
                "30 % convert",
                lambda x: shifted(-1.0 + 0.7 * x[:, 0], 0.2 - 0.3 * x[:, 1]),
            ),
            Kind("three", "three treatments for different people", _three, treatments=3),
            Kind(
                "heavy",
                "features with heavy tails",
                lambda x: shifted(-3.0 + 0.6 * np.tanh(x[:, 0]), np.where(x[:, 1] > 1.0, 0.9, 0.0)),
                drawn=heavy,
            ),
            Kind(
                "binary",
                "features that are 0 or 1",
                lambda x: shifted(
                    -3.0 + 1.0 * x[:, 0] + 0.7 * x[:, 1], 0.8 * x[:, 2] - 0.4 * x[:, 3]
                ),
                drawn=binary,
            ),
            Kind("drift", "from the middle on others respond", _drift),
            Kind(
                "harm",
                "a treatment harms most, and helps one in six",
                lambda x: shifted(-3.0 + 0.7 * x[:, 0], np.where(x[:, 1] > 1.0, 1.0, -0.4)),
            ),
        )
    }
)
CRITEO, MIXED = "criteo", "mixed"
ABOUT = MappingProxyType(
    {name: kind.about for name, kind in KINDS.items()}
    | {
        CRITEO: "like the Criteo trial: a treatment multiplies everybody's odds",
        MIXED: "like its visits, but half of the users are helped, the others harmed",
    }
)


def make_world(name: str, users: int, seed: int = 0) -> World:
    """Users of one kind, in the order they come.

    >>> world = make_world("bump", 1_000, seed=7)
    >>> world.features.shape, world.rates.shape, bool((world.effects < 0).any())
    ((1000, 12), (1000, 2), True)
    """
    if name not in ABOUT:
        raise InputError("world", name, one_of(name, ABOUT))
    checks.whole("users", users, 1, MOST_USERS)
    checks.whole("seed", seed, 0, 2**63 - 1)
    if name == CRITEO:
        return simulate_world(users, seed)
    if name == MIXED:
        world = simulate_world(users, seed, "visit")
        first = world.features[:, 0]
        factor = np.where(first > np.median(first), 1.6, 0.8)
        alone = world.rates[:, 0]
        return replace(world, rates=np.column_stack((alone, np.minimum(alone * factor, 1.0))))
    kind, draw = KINDS[name], np.random.default_rng((seed, STREAM))
    features = kind.drawn(draw, users, kind.features)
    return World(
        features=features,
        micros=costs.lognormal(users, kind.treatments, seed),
        rates=kind.rates(features),
        draws=draw.random(users),
    )


def trial_in(world: World, seed: int = 0) -> Log:
    """The log of a randomised trial on these users, half of whom are treated.

    >>> trial_in(make_world("three", 1_000)).known_shares.round(3).tolist()
    [0.5, 0.167, 0.167, 0.167]
    """
    n, K = world.micros.shape
    shares = np.array([1.0 - TREATED, *(TREATED / K for _ in range(K))])
    draw = np.random.default_rng((seed, STREAM, 1))
    drawn = np.searchsorted(np.cumsum(shares)[:-1], draw.random(n), side="right")
    outcomes = 1.0 * (world.draws < world.rates[np.arange(n), drawn])
    if world.amounts is not None:
        outcomes *= world.amounts.drawn
    return Log(
        features=world.features,
        actions=np.asarray(drawn, np.int64),
        outcomes=outcomes,
        micros=world.micros,
        feature_names=tuple(f"x{j}" for j in range(world.features.shape[1])),
        known_shares=shares,
        effects=world.effects,
        kind=world.kind,
    )
