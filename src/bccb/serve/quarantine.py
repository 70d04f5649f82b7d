"""Quarantine: a campaign whose journal cannot be folded, while the others go on.

It keeps its place in the list and says why. Nothing of it is decided or changed, until its ledger
was restored and the service started again.
"""

from __future__ import annotations

from typing import NamedTuple

from bccb.ledger.event import Kind
from bccb.ledger.port import Account, Reader
from bccb.serve.problem import ProblemError, conflict
from bccb.serve.terms import Terms

UNREADABLE = Terms(
    name="",
    budget=0,
    users=1,
    ends_at=None,
    expected_users=None,
    features=(),
    treatments=(),
    policy="",
    parameters={},
    window=0,
    seed=0,
    shadow=False,
    learned_from=None,
    opened_at=0,
    version="",
    asked="",
)


class Quarantined(NamedTuple):
    """What is known of such a campaign: its row, and its terms if they can be read."""

    account: Account
    terms: Terms
    reason: str

    @property
    def id(self) -> str:
        """The campaign's id."""
        return self.account.id

    def problem(self) -> ProblemError:
        """Why a request is refused."""
        refused = f"campaign {self.id} is quarantined, and nothing of it is decided or changed"
        advice = "see docs/service.md#quarantine"
        return conflict("campaign-quarantined", f"{refused}: {self.reason} ({advice})")


def quarantined(ledger: Reader, account: Account, reason: str) -> Quarantined:
    """The campaign of a row."""
    first = ledger.first(account.key)
    try:
        if first is None or first.kind != Kind.OPENED or first.detail is None:
            return Quarantined(account, UNREADABLE, reason)
        return Quarantined(account, Terms.from_json(first.detail), reason)
    except Exception:  # whatever damaged text leads to
        return Quarantined(account, UNREADABLE, reason)
