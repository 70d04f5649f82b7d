"""What Prometheus reads: money and counts of campaigns, commits, and the clock."""

from __future__ import annotations

import pytest

from bccb.serve import metrics
from serve.service import Service


def value(service: Service, name: str, campaign: str | None = None) -> float | None:
    labels = {} if campaign is None else {"campaign": campaign}
    return service.engine.metrics.registry.get_sample_value(name, labels)


def test_the_money_of_a_campaign_is_that_of_its_view(service: Service) -> None:
    campaign = service.open(budget="12.50")["id"]
    for name in ("a", "b", "c"):
        service.decide(campaign, name, "1.25")
    service.outcome(campaign, "a", 1)
    for name in ("budget", "spent", "reserved"):
        answer = float(service.campaign(campaign)[name])
        assert value(service, f"bccb_campaign_{name}", campaign) == answer
    assert value(service, "bccb_campaign_decisions", campaign) == 3
    assert value(service, "bccb_campaign_pending", campaign) == 2
    assert value(service, "bccb_campaign_conversions", campaign) == 1
    assert value(service, "bccb_campaign_median_delay_seconds", campaign) is None


def test_late_conversions_and_their_median_delay_are_counted(service: Service) -> None:
    campaign = service.open(outcome_window_seconds=100)["id"]
    for i in range(40):
        service.decide(campaign, f"d{i}", "0.10")
    service.clock.advance(30)
    for i in range(20):
        service.outcome(campaign, f"d{i}", 1)
    service.clock.advance(71)
    service.sweep()
    for i in range(20, 23):
        service.outcome(campaign, f"d{i}", 1)
    view = service.campaign(campaign)
    assert 20 < view["median_delay_seconds"] < 36  # all of them after 30 seconds
    for name, expected in (("conversions", 20), ("too_late", 3), ("pending", 0)):
        assert value(service, f"bccb_campaign_{name}", campaign) == view[name] == expected
    median = value(service, "bccb_campaign_median_delay_seconds", campaign)
    assert median == view["median_delay_seconds"]


def test_every_commit_and_its_events_are_counted(service: Service) -> None:
    campaign = service.open()["id"]
    commits, events = (value(service, name) for name in ("bccb_commit_seconds_count", EVENTS))
    service.post(f"{campaign}/pause")
    assert value(service, "bccb_commit_seconds_count") == (commits or 0) + 1
    assert value(service, EVENTS) == (events or 0) + 1
    assert value(service, "bccb_commit_failures_total") == 0


EVENTS = "bccb_events_total"


def test_only_the_newest_campaigns_have_figures_of_their_own(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MOST_LABELLED", 2)
    first, *newest = (service.open(name=name)["id"] for name in ("one", "two", "three"))
    assert value(service, "bccb_campaign_budget", first) is None
    assert [value(service, "bccb_campaign_budget", each) for each in newest] == [100.0, 100.0]


def test_a_clock_that_is_behind_the_journal_shows(service: Service) -> None:
    service.open()
    assert value(service, "bccb_clock_behind_seconds") == 0.0
    service.clock.advance(-30)
    assert value(service, "bccb_clock_behind_seconds") == 30.0
