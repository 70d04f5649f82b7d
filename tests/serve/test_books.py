"""All campaigns in memory: looking them up, and undoing what was not committed."""

from __future__ import annotations

from contextlib import closing

import pytest

from bccb.ledger.opening import open_ledger
from bccb.serve import campaigns
from bccb.serve.books import Books
from bccb.serve.decisions import Asked, decide
from bccb.serve.problem import ProblemError
from bccb.serve.users import UserRows
from bccb.wire import DecisionRequest
from serve.service import Service, refused, user


def test_campaigns_are_found_by_id_and_by_name_in_the_order_of_their_opening(
    service: Service,
) -> None:
    ids = [service.open(name=name)["id"] for name in ("one", "two")]
    assert [campaign.id for campaign in service.books] == ids
    named = service.books.named("two")
    assert named is service.books.campaign(ids[1])
    assert service.books.named("three") is None
    with pytest.raises(ProblemError, match="c-nobody"):
        service.books.look("c-nobody")


def test_what_is_abandoned_was_never_there(service: Service) -> None:
    campaign = service.books.campaign(service.open()["id"])
    service.books.record(campaign, campaign.adding(service.clock(), "more", 1_000_000))
    assert (service.books.changed, campaign.budget) == (True, 101_000_000)
    service.books.abandon()
    service.books.refresh()
    undone = service.books.campaign(campaign.id)
    assert (service.books.changed, undone.budget) == (False, 100_000_000)
    assert service.campaign(campaign.id)["budget"] == "100.00"


def test_a_quarantined_campaign_can_be_looked_at_but_not_used(service: Service) -> None:
    bad, good = (service.open()["id"] for _ in range(2))
    service.books.quarantine(bad, "its journal cannot be folded")
    assert [campaign.id for campaign in service.books] == [good]
    assert [campaign.id for campaign in service.books.all()] == [bad, good]
    assert service.campaign(bad)["reason"] == "its journal cannot be folded"
    with pytest.raises(ProblemError):
        service.books.campaign(bad)


def test_a_campaign_that_is_caught_up_is_asked_for_its_decisions_again(service: Service) -> None:
    ours = service.open(name="ours")["id"], service.open(name="other")["id"]
    service.books.look_up([(id_, ["a", "b"]) for id_ in ours])
    with closing(open_ledger(service.place)) as ledger:
        rival = Books(ledger)
        list(rival.open())
        users = UserRows.of([DecisionRequest("a", {"age": 1.0}, {"email": "1.00"})])
        decide(rival, service.clock(), [Asked(ours[0], users)])
        rival.write()
        rival.commit()
    campaign = service.books.named("ours")
    assert campaign is not None
    assert list(service.books.known(campaign, ["a", "b"])) == ["a"]


def test_who_loses_a_race_reads_the_campaign_again_and_goes_on(service: Service) -> None:
    """Nothing is damaged, and the service stays ready."""
    campaign = service.open(budget="10")["id"]
    service.decide(campaign, "a")
    with closing(open_ledger(service.place)) as ledger:
        rival = Books(ledger)
        list(rival.open())
        campaigns.add_budget(rival, service.clock(), campaign, "5", "more")
        rival.write()
        rival.commit()
    if not service.books.ledger.shared:  # nobody else may write a file: ask again
        refused(service.post(f"{campaign}/decisions", user("b")), 503, kind="not-durable")
    assert service.get("/readyz").status_code == 200
    assert service.decide(campaign, "b")["remaining"] == "13.00"
    assert service.campaign(campaign)["budget"] == "15.00"
