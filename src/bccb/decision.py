"""A decision on one user, as a value that outlives the policy that made it."""

from __future__ import annotations

from bccb import drivers
from bccb.drivers import Composition, compose
from bccb.errors import InputError
from bccb.types import Floats, Ints


class Decision:
    """What a policy decided on one user.

    ``action`` is 0 for "leave alone" or 1..K for a treatment, ``cost`` what that costs, ``price``
    the price of a unit of money, and ``score`` the best treatment's effect plus bonus less price
    times cost: the user is treated where it is above zero. ``probability`` is that of the action,
    over the policy's own draws; it is computed when asked for.
    """

    __slots__ = ("_dimensions", "_source", "_trace", "action", "cost", "number", "price", "score")

    def __init__(
        self,
        number: int,
        action: int,
        cost: float,
        price: float,
        score: float,
        trace: Floats,
        source: Composition,
        dimensions: Ints,
    ) -> None:
        self.number = number
        self.action = action
        self.cost = cost
        self.price = price
        self.score = score
        self._trace = trace
        self._source = source
        self._dimensions = dimensions

    @property
    def probability(self) -> float:
        """The probability that this action was taken on this user."""
        return self.probability_of(self.action)

    def probability_of(self, action: int) -> float:
        """The probability that ``action``, 0..K, was taken on this user."""
        K = int(self._dimensions[drivers.TREATMENTS])
        if not 0 <= action <= K:
            raise InputError("action", action, f"from 0 to {K}")
        kernel = compose(self._source)["probability"]
        return float(kernel(self._dimensions, self._trace, action))

    @property
    def features(self) -> Floats:
        """The user's features, as they came."""
        return self._trace[: self._dimensions[drivers.FEATURES]]

    def __repr__(self) -> str:
        return (
            f"Decision(number={self.number}, action={self.action}, cost={self.cost:g}, "
            f"price={self.price:g}, score={self.score:g})"
        )
