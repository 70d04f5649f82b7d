"""The routes of the API, each over HTTP: status, and what a repeated request gets."""

from __future__ import annotations

from serve.service import TERMS, Service, refused, user


def test_a_campaign_is_opened_once_however_often_it_is_asked_for(service: Service) -> None:
    request = {"name": "autumn", **TERMS}
    first, again = service.post("", request), service.post("", request)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()


def test_campaigns_are_listed_newest_first(service: Service) -> None:
    ids = [service.open(name=name)["id"] for name in ("one", "two", "three")]
    assert [each["id"] for each in service.get("").json()["campaigns"]] == ids[::-1]


def test_a_paused_campaign_decides_again_when_it_is_resumed(service: Service) -> None:
    campaign = service.open()["id"]
    assert service.done(f"{campaign}/pause")["status"] == "paused"
    refused(service.post(f"{campaign}/decisions", user("a")), 409)
    assert service.done(f"{campaign}/resume")["status"] == "running"
    assert service.decide(campaign, "a")["decision_id"] == "a"


def test_one_decision_and_a_list_have_their_own_form(service: Service) -> None:
    campaign = service.open()["id"]
    assert isinstance(service.done(f"{campaign}/decisions", user("a")), dict)
    listed = service.done(f"{campaign}/decisions", [user("b"), user("c")])
    assert [each["decision_id"] for each in listed] == ["b", "c"]


def test_the_same_decision_is_answered_as_before(service: Service) -> None:
    campaign = service.open()["id"]
    assert service.decide(campaign, "a") == service.decide(campaign, "a")
    assert service.campaign(campaign)["decisions"] == 1
