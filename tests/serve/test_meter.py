"""Decisions a second."""

from __future__ import annotations

from bccb.serve.meter import Meter
from serve.service import SECOND, Service, user


def test_counts_of_the_last_ten_seconds_are_reported() -> None:
    meter = Meter()
    for second in range(30):
        meter.add(second * SECOND, 1)
        meter.add(second * SECOND + 500_000, 2)
    assert meter.rate(29 * SECOND + 999_999) == 3.0
    assert len(meter._counts) == 10  # older ones are forgotten
    assert meter.rate(34 * SECOND) == 1.5
    assert meter.rate(39 * SECOND) == 0.0


def test_a_clock_that_runs_back_does_not_stop_the_count() -> None:
    meter = Meter()
    meter.add(100 * SECOND, 5)
    meter.add(50 * SECOND, 5)
    assert meter.rate(50 * SECOND) >= 0.5
    meter.add(200 * SECOND, 10)
    assert meter.rate(200 * SECOND) == 1.0


def test_retries_are_no_decisions(service: Service) -> None:
    campaign = service.open()["id"]
    users = [user(f"d{i}") for i in range(20)]
    for _ in range(3):
        service.done(f"{campaign}/decisions", users)
    assert service.get(f"{campaign}/report").json()["decisions_per_second"] == 2.0
