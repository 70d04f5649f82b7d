"""Where a campaign stands: its money, its time, and its state as bytes."""

from __future__ import annotations

from bccb.serve.campaign import Campaign
from bccb.serve.recovery import know_again
from serve.service import SECOND, Service


def driven(service: Service) -> Campaign:
    """A campaign with an outcome, a cancellation and an open decision."""
    id_ = service.open(policy={"name": "pooled-bayes"})["id"]
    for number in range(12):
        service.decide(id_, f"u{number}", "0.25", age=number / 10)
    for number in range(6):
        service.outcome(id_, f"u{number}", number % 2)
    return service.books.campaign(id_)


def test_a_state_in_bytes_and_the_users_of_the_journal_are_the_whole_state(
    service: Service,
) -> None:
    campaign = driven(service)
    copy = Campaign(campaign.key, campaign.id, campaign.terms)
    know_again(service.books.ledger, copy, copy.restore(campaign.to_bytes()))
    assert copy.to_bytes() == campaign.to_bytes()
    assert copy.machine.counts.tolist() == campaign.machine.counts.tolist()
    assert copy.machine.memory.tobytes() == campaign.machine.memory.tobytes()


def test_money_is_spent_reserved_or_left(service: Service) -> None:
    campaign = driven(service)
    assert campaign.spent + campaign.reserved + campaign.remaining == campaign.budget
    assert campaign.reserved <= campaign.open * 250_000


def test_time_in_a_campaign_never_goes_back(service: Service) -> None:
    campaign = driven(service)
    assert campaign.now(campaign.at - SECOND) == campaign.at
    assert campaign.now(campaign.at + SECOND) == campaign.at + SECOND
