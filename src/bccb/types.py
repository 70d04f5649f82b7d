"""The nouns that every layer shares: arrays, the log of a trial, a decision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bccb.errors import InputError

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """The log of a randomised trial: one row a user, n users, d features, K treatments.

    Action 0 is the control ("leave alone"), actions 1..K are the treatments.

    >>> log = Log(
    ...     features=np.zeros((4, 2)),
    ...     actions=np.array([0, 1, 1, 0]),
    ...     outcomes=np.array([0.0, 1.0, 0.0, 0.0]),
    ...     costs=np.full((4, 1), 0.5),
    ... )
    >>> log.users, log.treatments, log.shares.tolist()
    (4, 1, [0.5, 0.5])
    """

    features: Floats  # (n, d)
    actions: Ints  # (n,)
    outcomes: Floats  # (n,), each within [0, 1]
    costs: Floats  # (n, K), the price of each treatment for each user, in currency units
    feature_names: tuple[str, ...] = ()
    treatment_names: tuple[str, ...] = ()
    known_shares: Floats | None = None  # (K+1,), where the design of the trial tells them
    effects: Floats | None = None  # (n, K), the true effects, known in simulations alone

    def __post_init__(self) -> None:
        for field, kind in (("features", np.float64), ("actions", np.int64),
                            ("outcomes", np.float64), ("costs", np.float64)):  # fmt: skip
            object.__setattr__(self, field, np.ascontiguousarray(getattr(self, field), kind))
        if self.features.ndim != 2 or self.costs.ndim != 2:
            raise InputError(
                "features and costs",
                (self.features.shape, self.costs.shape),
                "two matrices, with one row for each user",
            )
        self._check_rows()
        self._check_values()
        names = tuple(f"x{j}" for j in range(self.features.shape[1]))
        object.__setattr__(self, "feature_names", self.feature_names or names)
        arms = tuple(f"treatment-{k}" for k in range(1, self.treatments + 1))
        object.__setattr__(self, "treatment_names", self.treatment_names or arms)

    def _check_rows(self) -> None:
        n, k = self.costs.shape
        shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
            "features": (self.features.shape[:1], (n,)),
            "actions": (self.actions.shape, (n,)),
            "outcomes": (self.outcomes.shape, (n,)),
        }
        if self.effects is not None:
            shapes["effects"] = (self.effects.shape, (n, k))
        if self.known_shares is not None:
            shapes["known_shares"] = (self.known_shares.shape, (k + 1,))
        for field, (shape, expected) in shapes.items():
            if shape != expected:
                raise InputError(f"the shape of {field}", shape, f"{expected}, as costs have it")
        if n == 0:
            raise InputError("the number of users", 0, "at least 1")

    def _check_values(self) -> None:
        k = self.treatments
        good = np.abs(self.features) <= MOST_FEATURE  # false for NaN, too
        if not good.all():
            row, column = np.argwhere(~good)[0]
            name = self.feature_names[column] if self.feature_names else f"x{column}"
            bad = float(self.features[row, column])
            raise InputError(f"feature {name} of row {row}", bad, FEATURE_RANGE)
        for field, values, good, allowed in (
            ("cost", self.costs, (self.costs > 0) & (self.costs <= MOST_COST), COST_RANGE),
            ("outcome", self.outcomes, (self.outcomes >= 0) & (self.outcomes <= 1), OUTCOME_RANGE),
            ("action", self.actions, (self.actions >= 0) & (self.actions <= k), f"from 0 to {k}"),
        ):
            if not good.all():
                where = np.argwhere(~good)[0]
                raise InputError(f"{field} of row {where[0]}", values[tuple(where)].item(), allowed)

    def take(self, rows: Ints) -> Log:
        """The log of these rows; the shares stay those of the whole trial."""
        return replace(
            self,
            features=self.features[rows],
            actions=self.actions[rows],
            outcomes=self.outcomes[rows],
            costs=self.costs[rows],
            known_shares=self.shares,
            effects=None if self.effects is None else self.effects[rows],
        )

    @property
    def users(self) -> int:
        """The number of rows, n."""
        return len(self.costs)

    @property
    def treatments(self) -> int:
        """The number of treatments, K, without the control."""
        return int(self.costs.shape[1])

    @property
    def shares(self) -> Floats:
        """The probability of each action 0..K in the trial: as designed, else as measured."""
        if self.known_shares is not None:
            return self.known_shares
        return np.bincount(self.actions, minlength=self.treatments + 1) / self.users


MOST_FEATURE = 1e100  # its square must not overflow
FEATURE_RANGE = "a finite number within 1e100"
MOST_COST = 1e6  # up to here a float of currency units tells every micro apart
COST_RANGE = "above 0 and at most 1,000,000"
OUTCOME_RANGE = "from 0 to 1"
