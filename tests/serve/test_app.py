"""What the application answers beside the API: operations, pages, paths and methods unknown."""

from __future__ import annotations

import pytest

from serve.service import Service, refused


def test_readiness_follows_the_ledger_and_health_does_not(service: Service) -> None:
    assert service.get("/readyz").json() == {"status": "ok"}
    service.engine.trouble = "the disk is full"
    answer = service.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "failing", "detail": "the disk is full"}
    assert service.get("/healthz").json() == {"status": "ok"}


def test_an_unknown_path_and_a_wrong_method_are_problem_documents(service: Service) -> None:
    assert "GET /v2/campaigns" in refused(service.get("/v2/campaigns"), 404, kind="unknown")
    answer = service.ask("DELETE", "/v1/campaigns")
    assert "DELETE /v1/campaigns" in refused(answer, 405, kind="wrong-method")
    assert answer.headers["allow"]


def test_a_wrong_part_of_the_query_is_named(service: Service) -> None:
    campaign = service.open()["id"]
    answer = service.get(f"{campaign}/log", format="xml")
    assert "'xml'" in refused(answer, 422, "format", "invalid-field")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/docs", "text/html"),
        ("/openapi.json", "application/json"),
        ("/metrics", "text/plain"),
    ],
)
def test_pages_and_documents_are_served(service: Service, path: str, kind: str) -> None:
    answer = service.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(kind)
