"""Segmented: whom the decisions of a log or of a policy treat, and the effect, by segment of users.

Effects are those of the default policy's model, which has learned all rows of the log
(:mod:`bccb.explanation`). Who is treated, and for how much money, is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bccb.assembly import assemble_for
from bccb.charge import AT_ONCE, Payment
from bccb.errors import InputError
from bccb.evaluate.compare import learn_history
from bccb.evaluate.proposals import drive
from bccb.evaluate.trials import Trial
from bccb.explanation import FeatureEffects, TreatmentEffects, rows_to_explain
from bccb.intervals import Interval
from bccb.policies import DEFAULT, spec_of
from bccb.policy import Policy
from bccb.segments import Segments, named, segments_of
from bccb.types import Ints, Log

MOST_LEARNED = 100_000  # rows of a log


@dataclass(frozen=True, slots=True)
class SegmentFigures:
    """Users who are alike in one feature: the effect on them, and how many were treated."""

    name: str
    share: float  # of all users
    effect: Interval
    treated: float  # share of them
    spend: float


@dataclass(frozen=True, slots=True)
class FeatureFigures:
    """The segments of one feature."""

    feature: str
    is_clear: bool  # whether the effect surely differs between them
    segments: tuple[SegmentFigures, ...]


@dataclass(frozen=True, slots=True)
class Segmented:
    """One treatment by the segments of each feature; the features that matter most come first."""

    treatment: str
    average: Interval
    features: tuple[FeatureFigures, ...]


def segmented(log: Log, actions: Ints) -> tuple[Segmented, ...]:
    """The effect of each treatment, and the users of the log to whom ``actions`` gave it.

    Empty where the log does not allow to learn effects: without features, or with far too many.

    >>> from bccb.data import simulate
    >>> log = simulate(500, seed=1, outcome="visit")
    >>> (only,) = segmented(log, log.actions)
    >>> round(sum(segment.spend for segment in only.features[0].segments))
    317
    """
    policy = _taught(log)
    if policy is None:
        return ()
    rows = rows_to_explain(policy, log.features)
    encoding = named(log.encoding or log.feature_names, policy.features)
    found = {each.feature: each for each in segments_of(rows, encoding)}
    explained = policy.explain(rows, encoding)
    return tuple(
        _treatment(log, actions, name, each, found)
        for name, each in zip(log.treatment_names, explained.treatments, strict=True)
    )


def _taught(log: Log) -> Policy | None:
    """The default policy, after it has learned the log, or as many rows of it as it takes."""
    try:
        policy = assemble_for(spec_of(DEFAULT), log, budget=1.0, horizon=1)
    except InputError:  # it needs too much memory for so many features
        return None
    policy.learn(log.take(np.arange(0, log.users, -(-log.users // MOST_LEARNED))))
    return policy


def _treatment(
    log: Log,
    actions: Ints,
    name: str,
    effects: TreatmentEffects,
    found: dict[str, Segments],
) -> Segmented:
    k = effects.treatment
    got = actions == k
    paid = np.where(got, log.costs[:, k - 1], 0.0)
    features = []
    for each in effects.features:
        places = found[each.feature].places(log.features)
        features.append(_feature(each, places, got, paid))
    return Segmented(name, effects.average, tuple(features))


def _feature(effects: FeatureEffects, places: Ints, got: Ints, paid: Ints) -> FeatureFigures:
    segments = []
    for place, segment in enumerate(effects.segments):
        own = places == place
        treated, spend = float(got[own].mean()), float(paid[own].sum())
        segments.append(
            SegmentFigures(segment.name, float(own.mean()), segment.effect, treated, spend)
        )
    return FeatureFigures(effects.feature, effects.is_clear, tuple(segments))


def replayed(
    trial: Trial, name: str, budget: float, seed: int, payment: Payment = AT_ONCE
) -> tuple[Log, Ints] | None:
    """The users of a stream, and what a policy proposes for them in replay.

    None where the policy needs what a log does not have, or cannot be fitted.
    """
    spec = spec_of(name)
    if spec.needs_effects:
        return None
    log, rows = trial.log, trial.order
    users = len(rows)
    policy = assemble_for(spec, log, budget=budget, horizon=users, seed=seed, payment=payment)
    if policy.needs_history and learn_history(policy, trial):
        return None
    logged = log.features, log.micros, log.actions, log.outcomes[:, None]
    return log.take(rows), drive(policy, rows, *logged, pays_all=False).actions
