"""Which code wrote a campaign: its version for people, its fingerprint for the machine."""

from __future__ import annotations

from typing import NamedTuple

from bccb import __version__
from bccb.fingerprint import Part, fingerprint

SHOWN = 8  # digits of a fingerprint in a message


class Code(NamedTuple):
    """The code that computed a state. Ledgers of older versions have no fingerprint."""

    version: str
    fingerprint: str = ""

    def __str__(self) -> str:
        known = f" (code {self.fingerprint[:SHOWN]})" if self.fingerprint else ""
        return f"bccb {self.version}{known}"

    @property
    def is_this(self) -> bool:
        """Whether it is the code that runs now, which folds a journal as it was written."""
        return self.fingerprint == this_code().fingerprint


def this_code() -> Code:
    """The code that runs now."""
    return Code(__version__, fingerprint(Part.CAMPAIGN))
