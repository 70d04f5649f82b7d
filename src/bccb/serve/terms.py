"""The terms of a campaign: what was agreed when it was opened, and never changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

from bccb.assembly import assemble, composition_for
from bccb.charge import TREATMENT, Payment
from bccb.composition import Composition
from bccb.data.schema import one_of
from bccb.encoding import Encoding, Value
from bccb.errors import InputError, MissingExtraError
from bccb.machine import Machine
from bccb.money import MICROS, as_text
from bccb.outcome import LEAST, MOST_AMOUNT, Kind, range_of
from bccb.policies import POLICIES
from bccb.spec import Spec

LEAST_ELAPSED = 1e-6  # of the time: before it the first users would seem to be a flood
MOST_MEMORY = 2_000_000  # numbers: what learns for longer than some milliseconds holds up others
UPLOAD = "upload"  # where the learning comes from, if it is from no campaign of the service
# Fields that older versions do not know: left out where they have their defaults
LATER = ("fingerprint", "charge", "cost_cap", "outcome", "negative", "largest", "share", "currency")
FORECAST_WEIGHT = 0.1  # of the time: as long as what came counts as much as what was forecast


@dataclass(frozen=True)
class Terms:
    """What a campaign was opened with. Times are microseconds since 1970."""

    name: str
    budget: int  # micros, at the opening
    users: int | None  # the horizon: a number of users,
    ends_at: int | None  # or a time,
    expected_users: int | None  # perhaps with a forecast of the traffic
    features: tuple[str, ...]
    treatments: tuple[str, ...]
    policy: str
    parameters: dict[str, float]
    window: int  # microseconds after which an outcome that was not reported counts as none
    seed: int
    shadow: bool
    learned_from: str | None
    opened_at: int
    version: str  # of bccb
    asked: str  # the request as it came, to recognise it when it comes again
    fingerprint: str = ""  # of the code that opened it; empty where an older version did
    encoding: Encoding | None = None  # of the features; None where all are plain numbers
    charge: str = TREATMENT  # when a cost is due
    cost_cap: int | None = None  # micros that one more conversion, or unit of value, may cost
    outcome: str = Kind.CONVERSION  # what outcomes are
    negative: bool = True  # whether amounts may be below 0
    largest: int | None = None  # micros: the largest amount that counts in what is measured
    share: float | None = None  # of the amount, that is charged on conversion
    currency: str | None = None  # for display alone

    @classmethod
    def from_json(cls, text: bytes) -> Terms:
        """The terms that :meth:`to_json` wrote."""
        kept: dict[str, Any] = json.loads(text)
        kept["features"], kept["treatments"] = tuple(kept["features"]), tuple(kept["treatments"])
        if "encoding" in kept:
            kept["encoding"] = Encoding.from_list(kept["encoding"])
        return cls(**kept)

    def to_json(self) -> bytes:
        """The terms as JSON."""
        kept = asdict(replace(self, encoding=None))
        if self.encoding is None:  # as the version before encodings wrote it
            del kept["encoding"]
        else:
            kept["encoding"] = self.encoding.to_list()
        for name in LATER:  # as the versions before wrote it, to the byte
            if kept[name] == getattr(Terms, name):
                del kept[name]
        return json.dumps(kept, separators=(",", ":"), sort_keys=True).encode()

    @cached_property
    def position(self) -> dict[str, int]:
        """The action of each treatment."""
        return {name: k for k, name in enumerate(self.treatments, 1)}

    @cached_property
    def pick_features(self) -> Callable[[Mapping[str, Any]], Any]:
        """Takes the features out of a mapping, in order."""
        return itemgetter(*self.features) if self.features else lambda _: ()

    @cached_property
    def has_amounts(self) -> bool:
        """Whether outcomes are amounts of money."""
        return self.outcome == Kind.AMOUNT

    @cached_property
    def payment(self) -> Payment:
        """How treatments are charged."""
        return Payment(self.charge, share=self.share)

    @cached_property
    def outcome_range(self) -> tuple[float, float, str]:
        """The least and the largest outcome, and that in words."""
        if self.has_amounts and not self.negative:
            allowed = (
                f"an amount from {LEAST:g} to {MOST_AMOUNT:,.0f}: the campaign takes none below 0"
            )
            return LEAST, MOST_AMOUNT, allowed
        least, most, allowed = range_of(self.outcome)
        return least, most, allowed if self.has_amounts else f"a number {allowed}"

    @cached_property
    def columns(self) -> int:
        """How many numbers the policy reads of a user."""
        return len(self.features if self.encoding is None else self.encoding.columns)

    @cached_property
    def encoders(self) -> dict[str, Callable[[Value], Sequence[float]]]:
        """What makes numbers of the values of each feature, where they are encoded."""
        features = () if self.encoding is None else self.encoding.features
        return {feature.name: feature.encoder() for feature in features}

    def in_words(self, micros: int) -> str:
        """Money as text, with the currency if one was given."""
        return f"{as_text(micros)} {self.currency or ''}".rstrip()

    def machine(self) -> Machine:
        """A new policy on these terms."""
        spec = self._spec().changed(**self.parameters)
        self._check_size(composition_for(spec, self.outcome))
        made = assemble(
            spec,
            budget=self.budget / MICROS,
            horizon=self.users or self.expected_users or 1,
            features=self.columns,
            treatments=len(self.treatments),
            seed=self.seed,
            window=float(self.window),
            charge=self.charge,
            share=self.share,
            outcome=self.outcome,
            largest=None if self.largest is None else self.largest / MICROS,
        )
        # through floats, large amounts would be some micros off
        made.begin_with(self.budget, self.cost_cap)
        return made

    def _check_size(self, composition: Composition) -> None:
        """Refuse a policy that is too large, before it takes hundreds of megabytes."""
        size = composition.model_size(self.columns, len(self.treatments))
        if size > MOST_MEMORY:
            most = f"so few that {self.policy} needs at most {MOST_MEMORY:,} numbers"
            sizes = f"{self.columns:,} x {len(self.treatments):,}"
            raise InputError("features x treatments", sizes, f"{most}, not {size:,}")

    def check_installed(self) -> None:
        """Refuse a policy that needs what is not installed here."""
        try:
            self._spec().composition.components[0].check_installed()
        except MissingExtraError as error:
            allowed = f"one that can run here: {error}"
            raise InputError("policy.name", self.policy, allowed) from None

    def _spec(self) -> Spec:
        """The row of the policy, if it can be used here."""
        spec, history = POLICIES.get(self.policy), self.learned_from is not None
        if spec is not None and spec.needs_history and not history:
            allowed = f'one that needs no history, or learned_from must be a campaign or "{UPLOAD}"'
            raise InputError("policy.name", self.policy, allowed)
        usable = {
            name: spec
            for name, spec in POLICIES.items()
            if not spec.needs_effects and (history or not spec.needs_history)
        }
        if self.policy not in usable:
            raise InputError("policy.name", self.policy, one_of(self.policy, usable))
        return usable[self.policy]

    def ended(self, at: int) -> bool:
        """Whether no more decisions are made."""
        return self.ends_at is not None and at >= self.ends_at

    def elapsed(self, at: int, since: int) -> float:
        """The share of the time from ``since`` to the end that has passed, where an end is set."""
        assert self.ends_at is not None
        return min(max((at - since) / max(self.ends_at - since, 1), 0.0), 1.0)

    def users_to_come(self, at: int, decisions: int) -> int:
        """How many users are expected from now on, where the campaign ends at a time.

        Traffic goes on as it came. A forecast counts as if a tenth of the time had passed with it.
        """
        elapsed = max(self.elapsed(at, self.opened_at), LEAST_ELAPSED)
        if self.expected_users is None:
            speed = (decisions + 1) / elapsed
        else:
            forecast = FORECAST_WEIGHT * self.expected_users
            speed = (decisions + forecast) / (elapsed + FORECAST_WEIGHT)
        return max(round(min((1.0 - elapsed) * speed, 1e12)), 1)
