"""Operations of the API, as they are served."""

from __future__ import annotations

from serve.service import Service


def test_an_operation_answers_its_own_method_alone(service: Service) -> None:
    campaign = service.open()["id"]
    assert service.ask("GET", f"{campaign}/pause").status_code == 405
    assert service.campaign(campaign)["status"] == "running"
    assert service.ask("POST", f"{campaign}/pause").status_code == 200
    assert service.campaign(campaign)["status"] == "paused"


def test_every_operation_has_a_name_of_its_own(service: Service) -> None:
    paths = service.get("/openapi.json").json()["paths"]
    names = [call["operationId"] for calls in paths.values() for call in calls.values()]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
