"""What is in the ledger of a service, and requests to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from bccb.ledger.opening import open_ledger
from bccb.serve.recovery import load
from serve.service import Service, user


def as_the_ledger_has_it(service: Service, campaign: str) -> bool:
    """Whether a campaign is, to the byte, what recovery makes of the ledger."""
    ledger = open_ledger(service.place, read_only=True)
    account = ledger.account(campaign)
    assert account is not None
    kept = load(ledger, account).to_bytes()
    ledger.close()
    service.books.refresh()
    return service.books.campaign(campaign).to_bytes() == kept


def events_on_disk(place: str | Path) -> int:
    ledger = open_ledger(place, read_only=True)
    result = sum(account.sequence for account in ledger.accounts())
    ledger.close()
    return result


def post(service: Service, campaign: str, decision: str) -> asyncio.Task[httpx.Response]:
    path = f"/v1/campaigns/{campaign}/decisions"
    return asyncio.create_task(service.http.post(path, json=user(decision)))
