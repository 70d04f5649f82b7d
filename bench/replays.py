"""Replay by contestant: each takes the sizes, and returns the seconds that one user takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np

import bccb
from bccb.evaluate.replay import replay
from bench.learners import ScikitLearn, VowpalWabbit, labelled_texts
from bench.loops import Learner, replay_in_python, stream_of
from bench.sizes import SEED, Sizes, log_of, policy_for

Contestant = Callable[[Sizes], float]
SLOW = frozenset({"replay: scikit-learn"})


def bccb_replay(sizes: Sizes, growth: int = 1, shuffled: bool = False, name: str = "bccb") -> float:
    """The compiled replay: the whole call, with its checks."""
    log = log_of(sizes.users * growth)
    policy = policy_for(log, name=name)
    replay(policy_for(log, name=name), log, np.arange(1))  # compiles
    order = np.random.default_rng(SEED).permutation(log.users) if shuffled else None
    began = perf_counter()
    encountered = replay(policy, log, order).encountered
    return (perf_counter() - began) / encountered


def scikit_replay(sizes: Sizes) -> float:
    """scikit-learn in a Python loop."""
    log = log_of(sizes.users)
    return _clocked(ScikitLearn(log, policy_for(log).parameters), log)


def vowpal_replay(sizes: Sizes) -> float:
    """Vowpal Wabbit in a Python loop."""
    log = log_of(sizes.users)
    return _clocked(VowpalWabbit(labelled_texts(log)), log)


def _clocked(learner: Learner, log: bccb.Log) -> float:
    policy, stream = policy_for(log), stream_of(log)
    began = perf_counter()
    tally = replay_in_python(learner, stream, policy.budget, policy.parameters, SEED)
    return (perf_counter() - began) / tally.encountered


def contestants(growth: int) -> dict[str, Contestant]:
    """All of them, by name."""
    return {
        "replay: bccb": bccb_replay,
        "replay: bccb, shuffled": partial(bccb_replay, shuffled=True),
        "replay: bccb, grown": partial(bccb_replay, growth=growth),
        "replay: bccb, grown and shuffled": partial(bccb_replay, growth=growth, shuffled=True),
        "replay: pooled-bayes": partial(bccb_replay, name="pooled-bayes"),
        "replay: vowpalwabbit": vowpal_replay,
        "replay: scikit-learn": scikit_replay,
    }
