"""Caused: the outcomes that happened because users were treated, by two roads."""

from __future__ import annotations

from dataclasses import dataclass

from bccb.errors import StateError
from bccb.intervals import Interval
from bccb.measured import Measure


@dataclass(frozen=True, slots=True)
class Caused:
    """What the treatments caused, with 95 % intervals.

    ``estimated`` is what the model has learned, summed over all treated users: narrow, and as good
    as the model (:mod:`bccb.estimated`). ``measured`` compares users who were left alone at random
    with the treated ones: it trusts no model and is wide (:mod:`bccb.measured`). It is about the
    first ``measured_users`` users: up to the first whose decision was neither observed nor
    cancelled, and whose window, if there is one, has not ended.

    Either is None where the policy cannot tell: without a posterior (in money, also before the
    first amount), or without decisions at random. Nothing is measured, either, while nobody
    counts, and where ``losses`` outcomes are below 0, which would count as 0 without a model. Until
    ``needed`` users were treated, the measured interval excludes next to nothing, and its value is
    not worth showing; nor is it while it is ``wide``: of amounts, below a loss of all that treated
    users brought. ``value``, ``low`` and ``high`` are those of the estimate, or of the
    measurement where there is no estimate.
    """

    estimated: Interval | None
    measured: Interval | None
    measured_users: int
    needed: int = 0  # users to be treated before anything is measured; 0 once they were
    losses: int = 0  # outcomes below 0
    wide: bool = False

    @classmethod
    def told(cls, estimated: Interval | None, measure: Measure | None) -> Caused:
        """What a model estimates, and what is measured, as soon as anybody counts."""
        users = 0 if measure is None else measure.users
        if measure is not None and measure.losses:
            return cls(estimated, None, users, losses=measure.losses)
        measured = measure.interval() if measure is not None and users else None
        if measured is None or measure is None or measure.is_enough:
            wide = measure is not None and measured is not None and measure.is_wide
            return cls(estimated, measured, users, wide=wide)
        return cls(estimated, measured, users, measure.needed)

    @property
    def best(self) -> Interval:
        """The estimate, or the measurement where there is none."""
        best = self.estimated or self.measured
        if best is None:
            raise StateError(
                "this policy cannot tell what it caused: its model has no uncertainty (or knows no "
                "amount yet), and no decisions are made at random; use pooled-trees, or evaluate "
                "its log"
            )
        return best

    @property
    def value(self) -> float:
        """The conversions caused."""
        return self.best.value

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.best.low

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.best.high
