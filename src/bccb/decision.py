"""A decision on one user: a value that can be stored and outlives its policy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bccb import checks
from bccb.composition import Composition, compose
from bccb.errors import InputError
from bccb.kernels.counts import MOST_FEATURES, MOST_TREATMENTS, MOST_USERS
from bccb.kernels.soundness import LARGE, within
from bccb.types import MOST_FEATURE, Floats, as_floats


class Origin(NamedTuple):
    """The policy that a decision comes from."""

    name: str
    composition: Composition
    features: int
    treatments: int
    seed: int
    policy: str  # the id of this policy: another one may have the same seed


class Decision:
    """What a policy decided on one user.

    ``action`` is 0 for "leave alone" or 1..K for a treatment, ``cost`` what that costs, ``price``
    the price of a unit of money, and ``score`` the best affordable treatment's effect plus bonus
    less price times cost. The user is treated if the score is above zero, except in decisions that
    are made at random. ``probability`` is that of the action, over all random draws of the policy;
    it is computed on demand.
    """

    __slots__ = ("_origin", "_trace", "action", "cost", "number", "price", "score")

    def __init__(
        self,
        number: int,
        action: int,
        cost: float,
        price: float,
        score: float,
        trace: Floats,
        origin: Origin,
    ) -> None:
        self.number = number
        self.action = action
        self.cost = cost
        self.price = price
        self.score = score
        self._trace = trace
        self._origin = origin

    @property
    def probability(self) -> float:
        """The probability that this action was taken on this user."""
        return self.probability_of(self.action)

    def probability_of(self, action: int) -> float:
        """The probability that ``action``, 0..K, was taken on this user."""
        d, K = self._origin.features, self._origin.treatments
        kernel = compose(self._origin.composition)["probability"]
        return float(kernel(d, K, self._trace, checks.whole("action", action, 0, K)))

    @property
    def features(self) -> Floats:
        """The user's features, as given."""
        return self._trace[: self._origin.features]

    def to_dict(self) -> dict[str, Any]:
        """The decision in plain types, to be kept until its outcome is known."""
        values = {key: getattr(self, key) for key in ("number", "action", "cost", "price", "score")}
        origin = self._origin._asdict() | {"composition": self._origin.composition.to_dict()}
        # minus infinity marks a treatment that was not affordable, and JSON has no infinity
        trace = [None if value == -np.inf else value for value in self._trace.tolist()]
        return {**values, "trace": trace, "origin": origin}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Decision:
        """The decision that :meth:`to_dict` returned."""
        checks.instance("decision", kept, dict, "what to_dict returned")
        try:
            given = {**kept["origin"]}
            given["composition"] = Composition.from_dict(given["composition"])
            origin = Origin(**given)
            checks.whole("features", origin.features, 0, MOST_FEATURES)
            K = checks.whole("treatments", origin.treatments, 1, MOST_TREATMENTS)
            values = [-np.inf if value is None else value for value in kept["trace"]]
            trace = as_floats("trace", values)
            return cls(
                checks.whole("number", kept["number"], 1, MOST_USERS),
                checks.whole("action", kept["action"], 0, K),
                checks.number("cost", kept["cost"]),
                checks.number("price", kept["price"]),
                checks.number("score", kept["score"]),
                _checked(trace, origin),
                origin,
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError("decision", kept, f"what to_dict returned ({error!r})") from None

    def __repr__(self) -> str:
        return (
            f"Decision(number={self.number}, action={self.action}, cost={self.cost:g}, "
            f"price={self.price:g}, score={self.score:g})"
        )


def _checked(trace: Floats, origin: Origin) -> Floats:
    """A trace from which the kernels can compute probabilities."""
    d, K = origin.features, origin.treatments
    size = origin.composition.trace_size(d, K)
    if trace.shape != (size,):
        raise InputError("the shape of trace", trace.shape, f"({size},)")
    margin, spread, even, explorer = np.split(trace[d:], (K, 2 * K, 3 * K + 1))
    good = (
        within(trace[:d], -MOST_FEATURE, MOST_FEATURE)
        and within(margin[margin > -np.inf], -LARGE, LARGE)
        and within(spread, 0.0, LARGE)
        and within(even, 0.0, LARGE)  # in units of the reserve, while a cost cap binds
    )
    if not good:
        raise InputError("trace", trace.tolist(), "that of a decision")
    origin.composition.components[1].check(explorer, d, K)
    return trace
