"""Compile what most tests use, before the processes that run them start.

Otherwise each of those processes compiles the same kernels at the same time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import bccb
from bccb.data import simulate
from bccb.data.world import simulate_world, with_amounts
from bccb.evaluate.live import live
from bccb.evaluate.replay import replay
from bccb.kernels.jit import cache_folder
from bccb.policies import POLICIES

PACKAGE = Path(bccb.__file__).parent
# One policy for each composition, from the last, which compiles longest, to the first.
COMPOSITIONS = [*{spec.composition: name for name, spec in POLICIES.items()}.values()][::-1]
IN_MONEY = ["pooled-bayes", "pooled-trees"]  # that tests use most where outcomes are amounts


def stamp() -> Path:
    """A file that tells that this was done for the sources in this folder.

    Numba looks for compiled code by the path of its source, and checkouts share a cache.
    """
    return Path(cache_folder()) / f"warm-{hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:16]}"


def warm() -> None:
    """Use every policy once, in a process for each core; nothing where that was done before."""
    done = stamp()
    if done.exists():
        return
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        list(pool.map(use_amounts, IN_MONEY))
        list(pool.map(use, COMPOSITIONS))
    done.parent.mkdir(parents=True, exist_ok=True)  # there is none where it cannot be written
    done.touch()


def use(name: str) -> None:
    """Decide and learn with a policy in every way that tests do."""
    log, world, spec = simulate(200, seed=1), simulate_world(200, seed=1), POLICIES[name]
    ways: list[Callable[[bccb.Policy], object]] = [
        lambda policy: replay(policy, log),
        lambda policy: live(policy, world),
        by_hand,
    ]
    if spec.composition.explorer != "none":  # who learns nothing does not wait for outcomes
        ways.append(lambda policy: live(policy, world, np.ones(200), window=9.0))
    for run in ways:
        policy = bccb.make(name, budget=10, horizon=200, features=12, seed=1)
        if policy.needs_history:
            policy.learn(simulate(1_000, seed=2, outcome="visit"))
        run(policy)
        if policy.composition.refitted:
            policy.fit()
    if not (spec.composition.fitted or spec.needs_effects):  # the service has neither
        bccb.make(name, budget=10, horizon=200, features=12, seed=1, window=9.0).warm()


def use_amounts(name: str) -> None:
    """Decide and learn where outcomes are amounts of money."""
    world = with_amounts(simulate_world(200, seed=1), variation=0.5, seed=1)
    live(bccb.make(name, budget=10, horizon=200, features=12, outcome="amount"), world)
    bccb.make(
        name, budget=10, horizon=200, features=12, outcome="amount", window=9.0, largest=100.0
    ).warm()


def by_hand(policy: bccb.Policy) -> None:
    """Decide on one user and on several, and report their outcomes."""
    policy.warm()
    one = policy.decide([0.0] * 12, 0.5)
    several = policy.decide_many([[0.0] * 12] * 2, [[0.5]] * 2)
    policy.observe(one, 1.0)
    policy.observe_many(several, [0.0, 1.0])
    assert 0.0 <= one.probability_of(0) <= 1.0
