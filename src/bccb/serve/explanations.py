"""What the policy of a campaign has learned, computed on a copy while the campaign goes on."""

from __future__ import annotations

from bccb import wire
from bccb.errors import StateError
from bccb.explanation import Explanation, FeatureEffects, Segment, TreatmentEffects, explain
from bccb.intervals import Interval
from bccb.machine import Machine
from bccb.serve.campaign import Campaign
from bccb.serve.problem import conflict


def copied(campaign: Campaign) -> Machine:
    """A copy of the policy as it is now."""
    machine = campaign.machine
    copy = Machine(machine.name, machine.composition, machine.counts.copy(), machine.memory.copy())
    if campaign.terms.shadow or copy.treated != sum(campaign.tally.decisions[1:]):
        copy.lose_sample()  # it does not say who was treated
    return copy


def explanation_view(campaign: Campaign, machine: Machine) -> wire.Explanation:
    """What a copy of the campaign's policy has learned; refused where it cannot tell."""
    if machine.composition.explains and not machine.composition.refitted:
        raise conflict(
            "cannot-explain",
            f"{machine.name} keeps no users to average effects over: a campaign with pooled-trees "
            "can be explained",
        )
    try:
        explained = explain(machine, names=campaign.terms.encoding or campaign.terms.features)
    except StateError as error:
        raise conflict("cannot-explain", str(error)) from None
    return _view(explained, campaign.terms.treatments)


def _view(explained: Explanation, names: tuple[str, ...]) -> wire.Explanation:
    treatments = zip(names, explained.treatments, strict=True)
    return wire.Explanation(explained.users, tuple(_treatment(*each) for each in treatments))


def _treatment(name: str, one: TreatmentEffects) -> wire.TreatmentEffect:
    features = tuple(_feature(each) for each in one.features)
    return wire.TreatmentEffect(name, _figure(one.average), features)


def _feature(one: FeatureEffects) -> wire.FeatureEffect:
    return wire.FeatureEffect(
        feature=one.feature,
        is_clear=one.is_clear,
        most=one.most,
        least=one.least,
        difference=_figure(one.difference),
        segments=tuple(_segment(each) for each in one.segments),
    )


def _segment(one: Segment) -> wire.SegmentEffect:
    treated = None if one.treated is None else _figure(one.treated)
    return wire.SegmentEffect(one.name, one.share, _figure(one.effect), treated)


def _figure(interval: Interval) -> wire.Figure:
    return wire.Figure(interval.value, interval.low, interval.high)
