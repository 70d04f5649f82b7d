"""Quarantine: a campaign that cannot be folded says why, and the others are served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pasts import damage

from bccb.ledger.port import LedgerError
from bccb.wire import Campaign, Report, decoder
from serve.service import TERMS, Service, refused, user

NAN_ROW = "UPDATE journal SET probability = NULL, price = 9e999 WHERE campaign = 1 AND number = 1"
NO_TERMS = "UPDATE journal SET detail = x'7b7d' WHERE campaign = 1 AND sequence = 1"


@pytest.fixture(params=[NAN_ROW, NO_TERMS], ids=["not finite", "no terms"])
def bricked(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """A service on a ledger with a campaign that cannot be folded, between two that can."""
    service = Service(tmp_path / "ledger.sqlite")
    for name in ("bad", "good"):
        campaign = service.open(name=name)["id"]
        service.decide(campaign, "a")
    service.engine.trouble = "killed"  # no snapshots
    service.stop()
    damage(service.place, request.param)
    service.start()
    yield service
    service.stop()


def named(service: Service, name: str) -> dict[str, Any]:
    results = {each["name"]: each for each in service.get("").json()["campaigns"]}
    view: dict[str, Any] = results[name]
    return view


def test_the_others_are_served(bricked: Service) -> None:
    good = named(bricked, "good")["id"]
    assert bricked.get("/readyz").json() == {"status": "ok"}
    assert bricked.decide(good, "b")["treatment"] == "email"
    assert bricked.outcome(good, "b", 1).status_code == 200
    assert bricked.open(name="new")["status"] == "running"
    bricked.restart()
    assert [each["name"] for each in bricked.get("").json()["campaigns"]] == ["new", "good", "bad"]


def test_it_keeps_its_place_and_says_why(bricked: Service, caplog: Any) -> None:
    bad = named(bricked, "bad")
    assert [each["name"] for each in bricked.get("").json()["campaigns"]] == ["good", "bad"]
    assert bad["status"] == "quarantined"
    assert f"campaign {bad['id']} is damaged: at event " in bad["reason"]
    assert (bad["budget"], bad["reserved"], bad["remaining"]) == ("100.00", "1.00", "99.00")
    decoder(Campaign).decode(json.dumps(bad))
    assert bricked.campaign(bad["id"]) == bad
    report = bricked.get(f"{bad['id']}/report").json()
    decoder(Report).decode(json.dumps(report))
    assert (report["campaign"], report["arms"]) == (bad, [])
    metrics = bricked.get("/metrics").text
    assert "bccb_campaigns_quarantined 1.0" in metrics
    bricked.restart()
    assert f"campaign {bad['id']} (bad) is quarantined: " in caplog.text


def test_nothing_of_it_is_decided_or_changed(bricked: Service) -> None:
    bad = named(bricked, "bad")
    id_, reason = bad["id"], bad["reason"]
    for method, path, body in (
        ("POST", "decisions", user("b")),
        ("POST", "decisions", [user("a")]),
        ("PUT", "decisions/a/outcome", {"value": 1}),
        ("POST", "outcomes", [{"decision_id": "a", "value": 1}]),
        ("POST", "decisions/a/cancel", None),
        ("POST", "decisions/a/settle", {"cost": "0.10"}),
        ("POST", "budget", {"add": "5"}),
        ("POST", "pause", None),
        ("POST", "resume", None),
        ("POST", "close", None),
        ("GET", "log", None),
    ):
        answer = bricked.ask(method, f"{id_}/{path}", body)
        assert reason in refused(answer, 409, kind="campaign-quarantined"), path
    for more in ({"name": "bad"}, {"name": "another", "learned_from": id_}):
        answer = bricked.post("", {**TERMS, **more})
        assert reason in refused(answer, 409, kind="campaign-quarantined")
    bricked.clock.advance(61)
    bricked.sweep()
    assert bricked.campaign(id_) == bad


def test_one_that_breaks_while_it_is_served_is_quarantined(file_service: Service) -> None:
    service = file_service
    bad, good = service.open()["id"], service.open()["id"]
    service.decide(bad, "a")
    damage(service.place, NAN_ROW)
    service.books.campaign(bad)
    service.books.abandon(failed=True)
    refused(service.post(f"{bad}/decisions", user("b")), 409, kind="campaign-quarantined")
    assert service.decide(good, "a")["treatment"] == "email"
    assert service.get("/readyz").status_code == 200


def test_a_ledger_that_cannot_be_read_quarantines_nobody(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bccb.serve.engine.PAUSE", 0.0)
    campaign = service.open()["id"]
    service.books.campaign(campaign)
    service.books.abandon()

    def locked(*given: object) -> None:
        raise LedgerError("it is locked")

    with monkeypatch.context() as patch:
        patch.setattr(service.books.ledger, "account", locked)
        refused(service.get(campaign), 503, kind="not-durable")
        assert service.get("/readyz").status_code == 503
    assert service.campaign(campaign)["status"] == "running"


def test_what_an_older_version_kept_before_its_snapshot_is_not_answered(
    file_service: Service,
) -> None:
    """Its campaign can be folded from there, but JSON does not know such a number."""
    service = file_service
    campaign = service.open()["id"]
    service.decide(campaign, "a")
    service.stop()
    damage(service.place, "UPDATE journal SET price = 9e999 WHERE number = 1")
    service.start()
    message = refused(service.post(f"{campaign}/decisions", user("a")), 500, kind="internal")
    assert "decision 'a' cannot be answered: its price is inf" in message
    assert service.decide(campaign, "b")["treatment"] == "email"
    first, _ = service.get(f"{campaign}/log").text.splitlines()
    assert json.loads(first, parse_constant=pytest.fail)["price"] is None
