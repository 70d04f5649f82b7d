"""One round by contestant: decide on a user, learn the outcome; the seconds that a round takes.

Whatever is decided, the logged outcome is learned: this is about speed alone. Each contestant gets
its users in the form that it reads fastest, made before the clock starts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from importlib import import_module
from time import perf_counter
from typing import Any

import bccb
from bench.learners import texts_of
from bench.sizes import SEED, Sizes, log_of, policy_for


def bccb_rounds(sizes: Sizes) -> float:
    """``decide`` and ``observe``, the features an array."""
    log = log_of(sizes.rounds)
    return _bccb(sizes, log, list(log.features))


def bccb_list_rounds(sizes: Sizes) -> float:
    """``decide`` and ``observe``, the features a list of numbers."""
    log = log_of(sizes.rounds)
    return _bccb(sizes, log, log.features.tolist())


def pooled_rounds(sizes: Sizes) -> float:
    """The same with the default policy."""
    log = log_of(sizes.rounds)
    return _bccb(sizes, log, list(log.features), "pooled-bayes")


def trees_rounds(sizes: Sizes) -> float:
    """The same with a policy that was fitted again, between two fits."""
    log = log_of(sizes.rounds)
    return _bccb(sizes, log, list(log.features), "pooled-trees")


def _bccb(sizes: Sizes, log: bccb.Log, rows: Iterable[Any], name: str = "bccb") -> float:
    policy = policy_for(log, horizon=sizes.users, name=name)
    if policy.composition.refitted:
        policy.learn(log)
        policy.fit()
        policy.fits_itself = False
    policy.observe(policy.decide(log.features[0], 1.0), 0.0)  # compiles
    users = list(zip(rows, log.costs[:, 0].tolist(), log.outcomes.tolist(), strict=True))
    began = perf_counter()
    for x, cost, outcome in users:
        policy.observe(policy.decide(x, cost), outcome)
    return (perf_counter() - began) / len(users)


def vowpal_rounds(sizes: Sizes) -> float:
    """Vowpal Wabbit's contextual bandit: ``predict``, draw the action, label, ``learn``.

    The text is parsed once a round. A live system must write it too, which is not counted here.
    """
    log = log_of(sizes.rounds)
    model: Any = import_module("vowpalwabbit").Workspace(
        "--quiet --cb_explore 2 --cb_type dm --epsilon 0.05"
    )
    users = list(zip(texts_of(log), log.outcomes.tolist(), strict=True))
    draw = random.Random(SEED).random
    began = perf_counter()
    for text, outcome in users:
        example = model.parse(text)
        chances = model.predict(example)
        action = 0 if draw() < chances[0] else 1
        example.set_label_string(f"{action + 1}:{-outcome}:{chances[action]}")
        example.set_test_only(False)  # or else learn() passes over what was parsed unlabelled
        model.learn(example)
        model.finish_example(example)
    return (perf_counter() - began) / len(users)


def river_rounds(sizes: Sizes) -> float:
    """River's LinUCB: ``pull`` and ``update``."""
    log = log_of(sizes.slow_rounds)
    policy: Any = import_module("river.bandit").LinUCBDisjoint(seed=SEED)
    rows = [dict(zip(log.feature_names, row, strict=True)) for row in log.features.tolist()]
    users = list(zip(rows, log.outcomes.tolist(), strict=True))
    began = perf_counter()
    for x, outcome in users:
        action = policy.pull([0, 1], context=x)
        policy.update(action, x, outcome)
    return (perf_counter() - began) / len(users)


def mabwiser_rounds(sizes: Sizes) -> float:
    """MABWiser's LinUCB: ``predict`` and ``partial_fit``."""
    log = log_of(sizes.slow_rounds)
    module: Any = import_module("mabwiser.mab")
    bandit = module.MAB([0, 1], module.LearningPolicy.LinUCB(alpha=1.0), seed=SEED)
    bandit.fit([0, 1], [0.0, 0.0], log.features[:2])  # it cannot predict before it is fitted
    rows = [log.features[i : i + 1] for i in range(log.users)]
    users = list(zip(rows, log.outcomes.tolist(), strict=True))
    began = perf_counter()
    for x, outcome in users:
        action = bandit.predict(x)
        bandit.partial_fit([action], [outcome], x)
    return (perf_counter() - began) / len(users)


CONTESTANTS: dict[str, Callable[[Sizes], float]] = {
    "round: bccb": bccb_rounds,
    "round: bccb, from a list": bccb_list_rounds,
    "round: pooled-bayes": pooled_rounds,
    "round: pooled-trees": trees_rounds,
    "round: vowpalwabbit": vowpal_rounds,
    "round: river": river_rounds,
    "round: mabwiser": mabwiser_rounds,
}
