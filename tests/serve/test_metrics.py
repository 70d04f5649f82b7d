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
    assert value(service, "bccb_campaign_open", campaign) == 2


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
