"""How late the conversions of a campaign are reported, as it has learned it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bccb import wire
from bccb.ageing import NOT_KNOWN, OPEN, PASSED
from bccb.kernels.delay import view_delay
from bccb.ledger.moment import SECOND
from bccb.pending import Pending
from bccb.types import Floats

ENOUGH = 10  # reports; what is assumed without any counts as two


def delays_view(pending: Pending, treatments: tuple[str, ...]) -> wire.Delays:
    """The curve of each arm."""
    ages, shares = pending.curve()
    rows = zip((None, *treatments), _reports(pending), shares, strict=True)
    return wire.Delays(
        seconds=tuple((ages / SECOND).tolist()),
        arms=tuple(
            wire.ArmDelays(name, int(reports), tuple(np.round(curve, 6).tolist()))
            for name, reports, curve in rows
        ),
    )


def median_delay(pending: Pending) -> float | None:
    """Seconds by which half of the conversions are reported, of all arms; None with few reports."""
    reports = _reports(pending)
    if reports.sum() < ENOUGH:
        return None
    ages, shares = pending.curve()
    together = np.concatenate(([0.0], reports @ shares / reports.sum()))
    return float(np.interp(0.5, together, np.concatenate(([0.0], ages)))) / SECOND


def exposure(pending: Pending) -> Floats:
    """How many users of each arm the pending ones count as: each in part, by the curve at its age.

    Those between the marks of two ages have passed the one and not yet the other.
    """
    _, shares = pending.curve()
    places = np.arange(pending.first, pending.last + 1) % len(pending.ring.at)
    arms = np.where(pending.ring.state[places] == OPEN, pending.ring.arm[places], NOT_KNOWN)
    # who has passed an age counts as past the younger ones, though those may be looked at later
    marks = np.maximum.accumulate(pending.marks[: PASSED - 1 : -1])[::-1]
    passed = marks + 1 - pending.first
    counts: Floats = np.zeros(len(shares))
    for j, (end, begin) in enumerate(pairwise(passed.tolist())):
        between = np.bincount(arms[begin:end] - NOT_KNOWN, minlength=len(shares) + 1)
        counts += between[1:] * shares[:, j]
    return counts


def _reports(pending: Pending) -> Floats:
    """How many conversions the curve of each arm rests on: every one is counted in one bin."""
    reports: Floats = view_delay(pending.delay, pending.treatments).events.sum(axis=1)
    return reports
