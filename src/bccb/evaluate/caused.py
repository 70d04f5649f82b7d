"""Caused: what the treatments of a log caused, as a running campaign tells it."""

from __future__ import annotations

import numpy as np

from bccb.assembly import assemble_for
from bccb.caused import Caused
from bccb.errors import InputError
from bccb.evaluate.overlap import chance_of
from bccb.intervals import Interval
from bccb.measured import Measure
from bccb.policies import DEFAULT, spec_of
from bccb.types import LEAST_PROBABILITY, Log

MOST_SUMMED = 10_000  # treated users over which a model's effects are summed


def caused_by(log: Log) -> Caused:
    """What the treatments of a log caused, as a running campaign tells it.

    Estimated by the model of the default policy, which learns all rows. Measured by the draws, with
    the log's probabilities or, of a trial, its shares. The least chance of being left alone must be
    known for all users: it is not where treated ones of several treatments have none in the log.
    Amounts are not measured: without a model that needs a bound on them.

    >>> from bccb.data import simulate
    >>> caused = caused_by(simulate(20_000, seed=1, outcome="visit"))
    >>> caused.estimated.low < caused.value < caused.estimated.high
    True
    """
    estimated, alone = _estimated(log), chance_of(log, 0)
    smallest = float(alone.min(initial=1.0))  # NaN where it is not known of everybody
    if log.amounts or not smallest >= LEAST_PROBABILITY:
        return Caused(estimated, None, 0)
    # down to a power of two, so that it hardly depends on the draws which chance was the least
    least = 2.0 ** np.floor(np.log2(smallest))
    measure = Measure(reserve=min(2.0 * float(least), 1.0))
    measure.end_all(log.actions, log.outcomes, alone)
    return Caused.told(estimated, measure)


def _estimated(log: Log) -> Interval | None:
    """By the default policy's model; None where that needs too much memory for so many features."""
    try:
        policy = assemble_for(spec_of(DEFAULT), log, budget=1.0, horizon=1)
    except InputError:
        return None
    policy.learn(log)
    treated = np.flatnonzero(log.actions)
    sample = treated[:: -(-len(treated) // MOST_SUMMED) or 1]
    arms = log.actions[sample].astype(np.float64)
    return policy.estimate(log.features[sample], arms, len(treated))
