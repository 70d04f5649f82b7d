r"""What a policy has learned: the effect of each treatment in each segment of users, and who is
treated.

The average effect over users i with weights w_i, which add up to 1, is T = sum_i w_i tau_i. With
the gradients g_i of tau_i in the model's weights and their covariance S, its variance is

    (sum w_i g_i)' S (sum w_i g_i) + (MISFIT sum w_i s_i)^2 + sum w_i^2 (tau_i - T)^2.

The second part is the error that the treated have in common (:mod:`bccb.kernels.slots`), with the
slope s_i of the base rate. The third is that these users are a sample. For the difference of two
segments, weights of one are negative. A feature matters as much as its segments differ: weights of
a logit model, or splits of trees, are no effects.

Everything here is as good as the model. Where that does not fit, estimates are off by up to a third
and intervals may miss the truth: docs/decisions/0021-what-was-learned.md says how often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bccb import checks
from bccb.encoding import Encoding, Kind
from bccb.errors import InputError, StateError
from bccb.intervals import QUANTILE, Interval, wilson
from bccb.kernels.sample import Sample
from bccb.kernels.slots import MISFIT
from bccb.kernels.store import rows_of
from bccb.machine import Effects, Machine
from bccb.segments import Segments, named, segments_of
from bccb.types import Floats, Ints

MOST_ROWS, MOST_NUMBERS = 8_192, 1 << 23  # users whose effects are averaged; of their gradients
FEWEST_ROWS = 100
FIXED = 1e-5  # a spread of lifts below this is assumed, and not learned


@dataclass(frozen=True, slots=True)
class Segment:
    """Users who are alike in one feature."""

    name: str
    share: float  # of all users
    effect: Interval  # of the treatment, on average
    treated: Interval | None  # the share of them who got it; None where nobody counted


@dataclass(frozen=True, slots=True)
class FeatureEffects:
    """The effect of a treatment in each segment of a feature.

    ``difference`` is that between the segments ``most`` and ``least``, with the largest and the
    smallest effect. Its interval allows for having chosen these two.
    """

    feature: str
    kind: Kind
    segments: tuple[Segment, ...]
    most: str
    least: str
    difference: Interval

    @property
    def is_clear(self) -> bool:
        """Whether the effect surely differs between segments."""
        return self.difference.low > 0.0


@dataclass(frozen=True, slots=True)
class TreatmentEffects:
    """What was learned about one treatment; the features that matter most come first."""

    treatment: int
    average: Interval  # over all users
    features: tuple[FeatureEffects, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a policy has learned, with 95 % intervals."""

    policy: str
    users: int  # over whom effects are averaged
    decisions: int
    treated: int | None
    treatments: tuple[TreatmentEffects, ...]

    def figures(self) -> dict[str, Any]:
        """The explanation in plain types."""
        figures = asdict(self)
        for treatment, own in zip(figures["treatments"], self.treatments, strict=True):
            for feature, each in zip(treatment["features"], own.features, strict=True):
                feature["is_clear"] = each.is_clear
        return figures

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def explain(
    machine: Machine,
    rows: npt.ArrayLike | None = None,
    names: Encoding | Sequence[str] | None = None,
) -> Explanation:
    """What the policy has learned, averaged over users: ``rows`` of features, or those it keeps."""
    _check(machine)
    x, weights = _kept(machine) if rows is None else _given(machine, rows)
    weights = weights / weights.sum()
    segments = segments_of(x, named(names, machine.features), weights)
    sample = machine.sample()
    counted = None if sample is None else _Treated(machine, sample)
    treatments = tuple(
        _treatment(machine, k, x, weights, segments, counted) for k in range(machine.treatments)
    )
    treated = None if counted is None else counted.users
    return Explanation(machine.name, len(x), machine.decisions, treated, treatments)


def _check(machine: Machine) -> None:
    """Refuse policies that cannot tell."""
    if not machine.composition.explains:
        raise StateError(
            f"{machine.name} cannot tell what it has learned: it does not know how sure it is of "
            "any effect; use pooled-trees"
        )
    if machine.parameters["lift_spread"] < FIXED:
        raise StateError(f"{machine.name} takes the effect of a treatment as given: it learns none")
    if not machine.knows_amounts:
        raise StateError(
            f"{machine.name} knows no amount yet: the first conversion says what one is worth"
        )


# Users


def rows_to_explain(machine: Machine, rows: npt.ArrayLike) -> Floats:
    """The rows over which :func:`explain` averages, of those that it is given."""
    return _given(machine, rows)[0]


def _given(machine: Machine, rows: npt.ArrayLike) -> tuple[Floats, Floats]:
    x = checks.matrix("rows", rows, machine.features)
    if not len(x):
        raise InputError("the number of rows", 0, "at least 1")
    return _sampled(x, np.ones(len(x)), _most(machine))


def _kept(machine: Machine) -> tuple[Floats, Floats]:
    """The users whose outcomes the policy keeps, with their weights."""
    if not machine.composition.refitted:
        raise StateError(
            f"{machine.name} keeps no users to average effects over: give rows, the features of "
            "some thousand users"
        )
    rows = rows_of(machine.memory, machine.features, machine.treatments)
    if len(rows.b) < FEWEST_ROWS:
        raise StateError(
            f"{machine.name} has learned {len(rows.b)} outcomes, of {FEWEST_ROWS} needed to "
            "explain anything"
        )
    return _sampled(rows.x, rows.b, _most(machine))


def _most(machine: Machine) -> int:
    """How many users: fewer with very many features."""
    weights = len(machine.effects(np.empty((0, machine.features)), 0).covariance)
    return min(MOST_ROWS, max(MOST_NUMBERS // weights, FEWEST_ROWS))


def _sampled(x: Floats, weights: Floats, most: int) -> tuple[Floats, Floats]:
    """At most so many of the users: at equal steps through their weights, which become equal."""
    if len(x) <= most:
        return x, weights
    ends = np.cumsum(weights)
    chosen = np.searchsorted(ends, (np.arange(most) + 0.5) / most * ends[-1])
    return np.ascontiguousarray(x[chosen]), np.ones(most)


# Effects


class _Sums(NamedTuple):
    """The average effect over the users of a segment, and what its variance is made of."""

    value: float
    gradient: Floats
    slope: float
    sampling: float  # variance, because the users are a sample


def _sums(effects: Effects, weights: Floats) -> _Sums:
    """The average over users with these weights."""
    value = float(weights @ effects.effects)
    sampling = float(weights**2 @ (effects.effects - value) ** 2)
    return _Sums(value, weights @ effects.gradients, float(weights @ effects.slopes), sampling)


def _interval(effects: Effects, sums: _Sums, quantile: float = QUANTILE) -> Interval:
    variance = max(float(sums.gradient @ effects.covariance @ sums.gradient), 0.0)
    reach = quantile * math.sqrt(variance + (MISFIT * sums.slope) ** 2 + sums.sampling)
    return Interval(sums.value, sums.value - reach, sums.value + reach)


def _difference(effects: Effects, most: _Sums, least: _Sums, pairs: int) -> Interval:
    """That of two segments, chosen among so many pairs (Bonferroni)."""
    apart = _Sums(
        most.value - least.value,
        most.gradient - least.gradient,
        most.slope - least.slope,
        most.sampling + least.sampling,
    )
    return _interval(effects, apart, NormalDist().inv_cdf(1.0 - 0.025 / pairs))


class _Treated:
    """Who was treated, by the sample of treated users."""

    def __init__(self, machine: Machine, sample: Sample) -> None:
        self.x, self.arms, self.users = sample.x, sample.arm, machine.treated or 0
        self.decisions = machine.decisions

    def shares(self, k: int, segments: Segments, shares: Floats) -> list[Interval]:
        """The share of the users of each segment who got treatment k + 1.

        Of the treated users a share q_s is in segment s, and a share p_s of all users: so N q_s of
        the n p_s users in it were treated.
        """
        places = segments.places(self.x)
        found = []
        for place, share in enumerate(shares.tolist()):
            q = wilson(float(((places == place) & (self.arms == k + 1)).mean()), len(self.arms))
            times = self.users / (self.decisions * share)
            found.append(Interval(*(min(end * times, 1.0) for end in (q.value, q.low, q.high))))
        return found


def _treatment(
    machine: Machine,
    k: int,
    x: Floats,
    weights: Floats,
    segments: Sequence[Segments],
    counted: _Treated | None,
) -> TreatmentEffects:
    effects = machine.effects(x, k)
    features = [_feature(each, effects, k, each.places(x), weights, counted) for each in segments]
    features.sort(key=lambda feature: -feature.difference.low)
    return TreatmentEffects(k + 1, _interval(effects, _sums(effects, weights)), tuple(features))


def _feature(
    segments: Segments,
    effects: Effects,
    k: int,
    places: Ints,
    weights: Floats,
    counted: _Treated | None,
) -> FeatureEffects:
    own = np.array(
        [np.where(places == place, weights, 0.0) for place in range(len(segments.labels))]
    )
    shares = own.sum(axis=1)
    sums = [_sums(effects, each / share) for each, share in zip(own, shares, strict=True)]
    treated: Sequence[Interval | None] = [None] * len(sums)
    if counted is not None:
        treated = counted.shares(k, segments, shares)
    values = [each.value for each in sums]
    most, least = int(np.argmax(values)), int(np.argmin(values))
    pairs = len(sums) * (len(sums) - 1) // 2
    return FeatureEffects(
        feature=segments.feature,
        kind=segments.kind,
        segments=tuple(
            Segment(name, float(share), _interval(effects, each), got)
            for name, share, each, got in zip(segments.labels, shares, sums, treated, strict=True)
        ),
        most=segments.labels[most],
        least=segments.labels[least],
        difference=_difference(effects, sums[most], sums[least], pairs),
    )


# Words


def _lines(explanation: Explanation) -> list[str]:
    lines = [f"What {explanation.policy} has learned, averaged over {explanation.users:,} users:"]
    for each in explanation.treatments:
        several = f" of treatment {each.treatment}" if len(explanation.treatments) > 1 else ""
        lines.append(f"Average effect{several}: {_percent(each.average)}")
        for feature in each.features:
            if feature.is_clear:
                title = f"{feature.feature}: most for {feature.most}, least for {feature.least}"
                lines += ["", title, *_segment_lines(feature)]
        unclear = [feature.feature for feature in each.features if not feature.is_clear]
        if unclear:
            lines += ["", f"No clear difference by {', '.join(unclear)}"]
    return lines


def _segment_lines(feature: FeatureEffects) -> list[str]:
    width = max(len(segment.name) for segment in feature.segments)
    return [
        f"  {segment.name:{width}}  {_percent(segment.effect)}, {segment.share:.0%} of users"
        + (f", {_share(segment.treated)} treated" if segment.treated else "")
        for segment in feature.segments
    ]


def _percent(interval: Interval) -> str:
    return f"{interval.value:+.2%} ({interval.low:+.2%} to {interval.high:+.2%})"


def _share(interval: Interval) -> str:
    return f"{interval.value:.0%} ({interval.low:.0%} to {interval.high:.0%})"
