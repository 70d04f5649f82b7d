"""What every request passes: its headers, its count, its size."""

from __future__ import annotations

import pytest

from bccb.serve.body import MOST_BYTES
from serve.service import Service, refused


def count_of(service: Service, route: str, status: int) -> float:
    wanted = {"route": route, "status": str(status)}
    return service.engine.metrics.registry.get_sample_value("bccb_http_requests_total", wanted) or 0


@pytest.mark.parametrize("path", ["/", "/docs", "/healthz", "/v1/campaigns", "/v1/nothing"])
def test_every_answer_forbids_sniffing_and_framing(service: Service, path: str) -> None:
    headers = service.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert (headers.get("cache-control") == "no-cache") == (not path.startswith("/v1"))


def test_requests_are_counted_by_route_and_not_by_path(service: Service) -> None:
    for name in ("a", "b"):
        service.get(f"/v1/campaigns/{name}")
        service.get(f"/made/up/{name}")
    assert count_of(service, "/v1/campaigns/{campaign_id}", 404) == 2
    assert count_of(service, "none", 404) == 2
    assert b"made/up" not in service.engine.metrics.text()


def test_a_body_that_says_it_is_too_large_is_refused_unread(service: Service) -> None:
    size = {"content-length": str(MOST_BYTES + 1)}
    answer = service.ask("POST", "/v1/campaigns", headers=size, content=b"{}")
    refused(answer, 413)
    assert answer.headers["connection"] == "close"


def test_an_unexpected_error_is_a_problem_and_is_counted(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> bytes:
        raise RuntimeError("what nobody should read")

    monkeypatch.setattr(service.engine.metrics, "text", broken)
    detail = refused(service.get("/metrics"), 500)
    assert "nobody" not in detail
    assert count_of(service, "/metrics", 500) == 1
