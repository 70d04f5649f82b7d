"""A planned replay: everything that its figures depend on, besides the data and the sources."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bccb.fingerprint import Part, fingerprint
from bccb.spec import Spec


@dataclass(frozen=True, slots=True)
class Run:
    """One policy at one budget with one seed, after ``history`` rows of the past."""

    spec: Spec
    budget: float
    seed: int
    history: int

    @classmethod
    def of(cls, spec: Spec, budget: float, seed: int, history: int, **parameters: float) -> Run:
        """The run of a row of the table, some of its parameters changed."""
        kept = history if spec.needs_history else 0
        return cls(spec.changed(**parameters), float(budget), seed, kept)

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return self.spec.name

    def key(self, source: str) -> str:
        """What this run's result is stored under; ``source`` is a hash of data and code."""
        fields = asdict(replace(self, spec=replace(self.spec, about="")))  # words change no figure
        text = json.dumps([fields, source], sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def source_of(data: Any) -> str:
    """A hash of the data and of all code that could change a figure: no stale result is used."""
    digest = hashlib.sha256(repr(data).encode())
    digest.update(fingerprint(Part.FIGURES).encode())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """A hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
