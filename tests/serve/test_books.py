"""The books beside another writer of the same ledger, as replicas will be."""

from __future__ import annotations

from contextlib import closing

from bccb.ledger.opening import open_ledger
from bccb.serve import campaigns
from bccb.serve.books import Books
from serve.service import Service, refused, user


def test_who_loses_a_race_reads_the_campaign_again_and_goes_on(service: Service) -> None:
    """Nothing is damaged, and the service stays ready."""
    campaign = service.open(budget="10")["id"]
    service.decide(campaign, "a")
    with closing(open_ledger(service.path)) as ledger:
        rival = Books(ledger)
        list(rival.open())
        campaigns.add_budget(rival, service.clock(), campaign, "5", "more")
        rival.write()
        rival.commit()
    refused(service.post(f"{campaign}/decisions", user("b")), 503, kind="not-durable")
    assert service.get("/readyz").status_code == 200
    assert service.decide(campaign, "b")["remaining"] == "13.00"
    assert service.campaign(campaign)["budget"] == "15.00"
