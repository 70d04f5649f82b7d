"""Places: which replica holds a campaign.

Every replica computes this by itself, from the same list, by rendezvous hashing: campaigns spread
evenly, and when a replica comes or goes only those move that it takes or leaves. Replicas may
disagree for a while. Then two of them decide for one campaign and the ledger lets one of them
through at a time, which is slower and still right.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from functools import lru_cache
from hashlib import blake2b

from bccb.ledger.port import Replica

SUSPECTED = 5.0  # seconds for which a replica that did not answer is left out
OPENINGS = "openings"  # what is held by the replica that opens campaigns


@lru_cache(1_000_000)
def weight(campaign: str, replica: str) -> bytes:
    """How much a replica is preferred for a campaign."""
    return blake2b(f"{campaign}\n{replica}".encode(), digest_size=8).digest()


class Places:
    """The replicas as this one knows them, itself among them."""

    def __init__(self, me: str) -> None:
        self.me = me  # its id
        self.leaving = False
        self._candidates: tuple[Replica, ...] = ()
        self._suspects: dict[str, float] = {}  # until when each is left out

    def update(self, replicas: Collection[Replica]) -> None:
        """Take over the list of all replicas."""
        able = [each for each in replicas if each.alive and not each.leaving]
        # Campaigns stay with the newest code: older code may not be able to fold what it wrote
        newest = max((_newness(each.version) for each in able), default=())
        self._candidates = tuple(each for each in able if _newness(each.version) == newest)

    def suspect(self, replica: Replica) -> None:
        """Leave out a replica that did not answer, for a while."""
        self._suspects[replica.id] = time.monotonic() + SUSPECTED

    def trust_all(self) -> None:
        """Leave out nobody: if the ledger was away, no replica could answer."""
        self._suspects.clear()

    def others(self) -> list[Replica]:
        """The replicas beside this one that may hold campaigns."""
        return [each for each in self._able() if each.id != self.me]

    def elsewhere(self, campaign: str) -> Replica | None:
        """The replica that holds a campaign; None where it is this one."""
        able = self._able()
        if not able:
            return None
        holder = max(able, key=lambda each: weight(campaign, each.id))
        return None if holder.id == self.me else holder

    def is_here(self, campaign: str) -> bool:
        """Whether this replica holds a campaign."""
        return self.elsewhere(campaign) is None

    def _able(self) -> list[Replica]:
        now = time.monotonic()
        return [
            each
            for each in self._candidates
            if self._suspects.get(each.id, 0.0) <= now and not (self.leaving and each.id == self.me)
        ]


def _newness(version: str) -> tuple[int, ...]:
    """The order of versions.

    >>> _newness("0.10.1") > _newness("0.9.12")
    True
    """
    return tuple(map(int, re.findall(r"\d+", version)))
