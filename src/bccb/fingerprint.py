"""The fingerprint of the code: one digest of the sources and libraries that can change a result.

Two processes with the same fingerprint of a part compute the same of it, to the bit. The cache of
compiled kernels, the store of experiments and the ledger of the service all rely on it.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parent
SOURCES = ("*.py", "*.json")  # code, and parameters that were fitted


class Part(StrEnum):
    """What a fingerprint is of."""

    KERNELS = "kernels"  # compiled code
    CAMPAIGN = "campaign"  # the state of a campaign, given its journal
    FIGURES = "figures"  # results of experiments


KERNELS, CAMPAIGN, FIGURES = Part.KERNELS, Part.CAMPAIGN, Part.FIGURES

# Which parts a folder or file can change; what is not listed here can change all of them.
BELONGS: dict[str, frozenset[Part]] = {
    "cli": frozenset(),
    "client": frozenset(),
    "data": frozenset({FIGURES}),
    "encoding.py": frozenset({CAMPAIGN, FIGURES}),
    "evaluate": frozenset({KERNELS, FIGURES}),
    "experiments": frozenset({FIGURES}),
    "explanation.py": frozenset(),
    "ledger": frozenset(),
    "ledger/event.py": frozenset({CAMPAIGN}),
    "report": frozenset(),
    "segments.py": frozenset(),
    "serve": frozenset(),
    "serve/campaign.py": frozenset({CAMPAIGN}),
    "serve/standing.py": frozenset({CAMPAIGN}),
    "serve/tally.py": frozenset({CAMPAIGN}),
    "serve/terms.py": frozenset({CAMPAIGN}),
    "wire": frozenset(),
}
LIBRARIES: dict[Part, tuple[str, ...]] = {
    KERNELS: ("numba", "numpy"),
    CAMPAIGN: ("numba", "numpy"),  # what scikit-learn fits is in the journal
    FIGURES: ("numba", "numpy", "scikit-learn", "scipy"),
}


@cache
def fingerprint(part: Part, package: Path = PACKAGE) -> str:
    """The digest of all that can change this part: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for library in LIBRARIES[part]:
        digest.update(f"{library} {version(library)}\n".encode())
    for source in sorted(path for pattern in SOURCES for path in package.rglob(pattern)):
        path = source.relative_to(package).as_posix()
        if part in _parts_of(path):
            content = source.read_bytes()
            digest.update(f"{path} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def _parts_of(path: str) -> frozenset[Part]:
    folder = path.partition("/")[0]
    return BELONGS.get(path, BELONGS.get(folder, frozenset(Part)))
