"""Components: a name, parameters, a layout of memory, and kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from bccb import checks
from bccb.errors import InputError
from bccb.kernels.layout import Layout
from bccb.kernels.slots import Nothing
from bccb.kernels.store import Rows
from bccb.types import Floats, Log

NOTHING = Layout(Nothing)
FIRST_FIT = "first_fit"  # the parameter of an estimator that says when it is fitted again first

# From the memory of the estimator and of the scaler, d, K and rows, to a new memory of the
# estimator; raises FitError where the rows do not allow a fit. Deterministic, on one thread.
Refit: TypeAlias = Callable[[Floats, Floats, int, int, Rows], Floats]


class Parameter(NamedTuple):
    """A parameter of a component: its default, its range (ends included) and what it does.

    The range is narrow enough to keep all scores and prices finite.
    """

    default: float
    least: float
    most: float
    about: str  # what it does, its unit, and when to change it

    def check(self, name: str, value: object) -> float:
        """The value as a number within the range."""
        number = checks.number(name, value)
        if not self.least <= number <= self.most:
            raise InputError(name, value, f"at least {self.least:g} and at most {self.most:g}")
        return number + 0.0  # -0.0 becomes 0.0, because storing it may lose the sign


@dataclass(frozen=True, slots=True)
class Component:
    """An estimator, an explorer or a pacer.

    Its memory is a block of float64 numbers, described by ``layout``: first its parameters, in the
    order of ``parameters``, then what it learns. ``start`` writes what is not zero before the first
    user. ``sound`` says whether memory is valid as far as the kernels rely on it, because a saved
    policy may come from anywhere. ``kernels`` fill the slots of ``bccb.kernels.slots`` by name.
    """

    name: str
    about: str
    kernels: Mapping[str, Callable[..., Any]]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    layout: Layout[Any] = NOTHING
    start: Callable[[Floats, int, int], None] | None = None
    sound: Callable[[Floats, int, int], bool] = lambda memory, d, K: True
    reads: Literal["raw", "standardised", "robust", "robust and raw"] = "raw"
    fit: Callable[[Floats, Log], None] | None = None  # learns a history at once, not row by row
    refit: Refit | None = None  # fits it again while the policy runs
    check_installed: Callable[[], None] = lambda: None  # raises where a refit cannot be made

    def __post_init__(self) -> None:
        assert (self.refit is None) == (FIRST_FIT not in self.parameters), self.name
        first = self.layout.scalars[: len(self.parameters)]
        assert first == tuple(self.parameters), f"{self.name}: the state begins with {first}"

    def begin(self, memory: Floats, d: int, K: int, given: Mapping[str, float]) -> None:
        """Write the parameters, given or default, and what it knows before the first user."""
        for i, (key, parameter) in enumerate(self.parameters.items()):
            memory[i] = parameter.check(key, given.get(key, parameter.default))
        if self.start is not None:
            self.start(memory, d, K)

    def fresh(self, d: int = 0, K: int = 1, **parameters: float) -> Any:
        """A new state before the first user, on which its kernels can be called."""
        memory = np.zeros(self.layout.size(d, K))
        self.begin(memory, d, K, parameters)
        return self.layout.view(memory, d, K)

    def check(self, memory: Floats, d: int, K: int) -> None:
        """Refuse memory that is not valid."""
        for i, (key, parameter) in enumerate(self.parameters.items()):
            parameter.check(key, memory[i].item())
        if not self.sound(memory, d, K):
            raise InputError(f"what {self.name} has learned", "damaged", "as it was saved")


def by_name(*components: Component) -> dict[str, Component]:
    """A registry of components."""
    return {component.name: component for component in components}
