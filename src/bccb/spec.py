"""A spec: what a policy is made of, with its parameters. The table of policies has one per row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bccb.composition import Composition


@dataclass(frozen=True, slots=True)
class Spec:
    """A named composition, and the parameters in which it differs from its components' defaults."""

    name: str
    about: str
    composition: Composition
    parameters: Mapping[str, float] = field(default_factory=dict, hash=False)
    needs_effects: bool = False  # the true effects, which only a simulator knows
    after_history: bool = False  # learns history first, though it could start without

    @property
    def needs_history(self) -> bool:
        """Whether it must learn from history before the first user."""
        return self.after_history or self.composition.fitted

    def is_like(self, other: Spec) -> bool:
        """Whether both are the same, except that one may begin with history."""
        return self.composition == other.composition and self.parameters == other.parameters

    def changed(self, **parameters: float) -> Spec:
        """The same with other parameters.

        >>> Spec("mine", "", Composition("none", "none", "none")).changed(eta=0.1).parameters
        {'eta': 0.1}
        """
        return replace(self, parameters={**self.parameters, **parameters})
