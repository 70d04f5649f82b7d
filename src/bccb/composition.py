"""Compositions: estimator x explorer x pacer, and the drivers that are compiled for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from bccb import ageing, drivers, estimated
from bccb.errors import InputError
from bccb.estimators import ESTIMATORS
from bccb.estimators.constant import CONSTANT
from bccb.explorers import EXPLORERS
from bccb.kernels import amounts, corrections, moments
from bccb.kernels.component import Component
from bccb.kernels.jit import bind
from bccb.kernels.sample import SAMPLE, end_history, keep_in_sample, note_in_sample
from bccb.kernels.scaling import READERS, SCALER
from bccb.kernels.store import (
    STORE,
    correct_in_store,
    fit_is_due,
    keep_in_store,
    note_learned,
    view_store,
)
from bccb.kernels.trace import SPACE, TRACE
from bccb.pacers import PACERS

# in this order, because each may call those before it
TEMPLATES: tuple[Callable[..., Any], ...] = (
    *(drivers.view, drivers.expected_cost, drivers.value, drivers.propose),
    *(drivers.learn_evidence, drivers.learn),
    *(drivers.pay, drivers.decide, drivers.decide_many),
    *(drivers.observe, drivers.amend, drivers.observe_many, drivers.absorb, drivers.rehearse),
    *(drivers.probability, drivers.probabilities),
    *(ageing.add_weight, ageing.age, ageing.end),
    *(estimated.value_effect, estimated.add_gradient),
    *(estimated.sum_over, estimated.sum_values, estimated.write_effects, estimated.write_rates),
)


@dataclass(frozen=True, slots=True)
class Composition:
    """Estimator x explorer x pacer, by name, whether the rule uses the cost, and the outcomes."""

    estimator: str
    explorer: str
    pacer: str
    cost_aware: bool = True
    amounts: bool = False  # whether outcomes are amounts of money

    @property
    def components(self) -> tuple[Component, Component, Component]:
        """The three components."""
        return ESTIMATORS[self.estimator], EXPLORERS[self.explorer], PACERS[self.pacer]

    @property
    def fitted(self) -> bool:
        """Whether the estimator is fitted on history at once, and not row by row."""
        return self.components[0].fit is not None

    @property
    def has_posterior(self) -> bool:
        """Whether the estimator can sum effects, with their uncertainty."""
        return ("effect_of" if self.amounts else "sum_effects") in self.components[0].kernels

    @property
    def explains(self) -> bool:
        """Whether the estimator tells each user's effect, with what it depends on."""
        return "effect_of" in self.components[0].kernels

    @property
    def takes_amounts(self) -> bool:
        """Whether it can decide by amounts of money.

        Models of rates need standardised features to learn amounts from. Explorers that learn rates
        of their own cannot draw amounts.
        """
        estimator, explorer, _ = self.components
        scaled = "rate_of" not in estimator.kernels or estimator.reads != "raw"
        return scaled and "learn_explorer" not in explorer.kernels

    @property
    def no_cap(self) -> str:
        """Why a cost cap must be left out, since none applies to it; empty where one does.

        A cap is compared with an effect per cost. A constant effect has no unit, only a ratio to
        the price, and a price that ignores costs is not in money.
        """
        if not self.cost_aware:
            return "left out: no cap applies to a policy that ignores costs"
        if self.estimator == CONSTANT.name:
            return "left out: no cap applies to a policy that estimates no effects"
        return ""

    @property
    def learns_amounts(self) -> bool:
        """Whether it learns what a conversion is worth, beside the estimator's rates."""
        return self.amounts and "rate_of" in self.components[0].kernels

    @property
    def refitted(self) -> bool:
        """Whether the estimator is fitted again while the policy runs, on a store of outcomes."""
        return self.components[0].refit is not None

    def to_dict(self) -> dict[str, Any]:
        """The composition in plain types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Any) -> Composition:
        """The composition that :meth:`to_dict` returned."""
        try:
            made = cls(**kept)
            known = len(made.components) == 3 and isinstance(made.cost_aware, bool)
            known &= isinstance(made.amounts, bool) and made.takes_amounts >= made.amounts
        except (TypeError, KeyError):
            known = False
        if not known:
            raise InputError("composition", kept, "components of this version")
        return made

    @property
    def name(self) -> str:
        """A name that no other composition has."""
        cost = "cost-aware" if self.cost_aware else "cost-blind"
        kind = "__amounts" if self.amounts else ""
        return f"{self.estimator}__{self.explorer}__{self.pacer}__{cost}{kind}"

    def offsets(self, d: int, K: int) -> list[int]:
        """Where the estimator, the explorer, the pacer and the amounts begin, and end."""
        sizes = [SCALER.size(d), *(part.layout.size(d, K) for part in self.components)]
        sizes.append(amounts.AMOUNTS.size(d, K) if self.learns_amounts else 0)
        return [int(at) for at in np.cumsum(sizes)]

    def memory_size(self, d: int, K: int) -> int:
        """The size of the memory: after the model perhaps a store."""
        return self.model_size(d, K) + self.store_size(d, K)

    def model_size(self, d: int, K: int) -> int:
        """The size of the memory without the store: the components, and perhaps a sample."""
        return self.offsets(d, K)[-1] + self.sample_size(d)

    def sample_size(self, d: int) -> int:
        """The size of the sample of treated users."""
        return SAMPLE.size(d) if self.has_posterior else 0

    def store_size(self, d: int, K: int) -> int:
        """The size of the store of outcomes."""
        return STORE.size(d, K) if self.refitted else 0

    def trace_size(self, d: int, K: int) -> int:
        """The length of a trace."""
        return TRACE.size(d, K, self.components[1].layout.size(d, K))

    def space_size(self, d: int, K: int) -> int:
        """The length of the work space of a decision."""
        copies: int = READERS[self.components[0].reads]["COPIES"]
        return SPACE.size(copies * d + 1, K)


@cache
def compose(composition: Composition) -> dict[str, Any]:
    """The drivers of a composition and its kernels, by name; more drivers can be bound to them."""
    estimator, explorer, pacer = composition.components
    kernels: dict[str, Any] = {
        "COST_AWARE": composition.cost_aware,
        **READERS[estimator.reads],
        "view_estimator": estimator.layout.view,
        "view_explorer": explorer.layout.view,
        "view_pacer": pacer.layout.view,
        **estimator.kernels,
        **explorer.kernels,
        **pacer.kernels,
    }
    if composition.amounts:
        kernels["gain_of"] = amounts.gain_of
    if composition.learns_amounts:
        kernels |= {"AMOUNTS": True, **amounts.KERNELS, **moments.KERNELS, **corrections.KERNELS}
    if composition.has_posterior:
        kernels |= {"view_sample": SAMPLE.view, "keep_in_sample": keep_in_sample}
        kernels |= {"note_in_sample": note_in_sample, "end_history": end_history}
    if composition.refitted:
        kernels |= {"view_store": view_store, "note_learned": note_learned}
        kernels |= {"keep_in_store": keep_in_store, "fit_is_due": fit_is_due}
        kernels["correct_in_store"] = correct_in_store
    for template in TEMPLATES:
        kernels[template.__name__] = bind(template, composition.name, kernels)
    return kernels
