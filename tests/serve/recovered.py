"""What a ledger holds, and what its campaigns are after a start."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from bccb.serve.quarantine import Quarantined
from bccb.serve.server import opened


def states(place: str | Path) -> dict[str, bytes]:
    """All campaigns after recovery."""
    with opened(place) as books:
        return {campaign.terms.name: campaign.to_bytes() for campaign in books}


def dump(path: str | Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return list(file.iterdump())


def reasons(path: str | Path) -> list[str]:
    """Why campaigns of a damaged ledger are quarantined; a start leaves the ledger as it is."""
    before = dump(path)
    with opened(path) as books:
        results = [each.reason for each in books.all() if isinstance(each, Quarantined)]
        assert [each.id for each in books.all()] == [each.id for each in books.ledger.accounts()]
    assert dump(path) == before
    return results
