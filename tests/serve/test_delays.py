"""How late conversions are reported, and what pending users count as."""

from __future__ import annotations

import numpy as np
import pytest

from bccb.ageing import NOT_KNOWN, OPEN
from bccb.kernels.delay import AGES
from bccb.ledger.moment import SECOND
from bccb.pending import Pending
from bccb.serve.delays import ENOUGH, delays_view, exposure, median_delay
from serve.service import Service

WINDOW = 1_000  # seconds


def driven(service: Service, users: int = 120, **terms: object) -> str:
    """Every second user converts, after 50 to 250 seconds; one comes each 10 seconds."""
    rng = np.random.default_rng(5)
    asked = {"outcome_window_seconds": WINDOW, "budget": "1000", **terms}
    id_ = str(service.open(**asked)["id"])
    due: list[tuple[float, str]] = []
    for i in range(users):
        service.clock.advance(10.0)
        service.decide(id_, f"u{i}", "0.25")
        if i % 2 == 0:
            due.append((i + rng.uniform(5.0, 25.0), f"u{i}"))
        for each in [each for each in due if each[0] <= i]:
            due.remove(each)
            service.outcome(id_, each[1], 1)
        service.sweep()
    return id_


def naive_exposure(pending: Pending, at: float) -> list[float]:
    """One user after the other."""
    ages, shares = pending.curve()
    counts = [0.0] * len(shares)
    for number in range(pending.first, pending.last + 1):
        place = pending.place(number)
        arm, passed = pending.ring.arm[place], ages < at - pending.ring.at[place]
        if pending.ring.state[place] == OPEN and arm != NOT_KNOWN and passed.any():
            counts[arm] += shares[arm, passed.sum() - 1]
    return counts


def test_pending_users_count_by_the_curve_at_their_ages(service: Service) -> None:
    campaign = service.books.campaign(driven(service))
    pending = campaign.pending
    counts = exposure(pending)
    assert counts == pytest.approx(naive_exposure(pending, pending.now))
    assert 0.0 < counts[1] < campaign.open
    assert counts[0] == 0.0  # everybody is treated


def test_who_got_what_is_not_known_counts_as_nobody(service: Service) -> None:
    campaign = service.open(mode="shadow", outcome_window_seconds=WINDOW)["id"]
    service.decide(campaign, "a")
    service.decide(campaign, "b")
    service.ask("PUT", f"{campaign}/decisions/b/outcome", {"action": None})
    service.clock.advance(WINDOW / 2)
    service.sweep()
    left_alone, treated = exposure(service.books.campaign(campaign).pending)
    assert 0.5 < left_alone < 1.0
    assert treated == 0.0


def test_a_rate_counts_those_who_may_still_convert(service: Service) -> None:
    """Half of the users convert. Among known outcomes it would be all of them, or nearly."""
    id_ = driven(service)
    arm = service.get(f"{id_}/report").json()["arms"][1]
    assert arm["outcomes"] - arm["conversions"] < 0.4 * arm["outcomes"]
    assert arm["rate"]["low"] < 0.5 < arm["rate"]["high"] < 0.7


def test_the_report_has_the_curve_and_what_it_rests_on(service: Service) -> None:
    id_ = driven(service)
    campaign = service.books.campaign(id_)
    delays = service.get(f"{id_}/report").json()["delays"]
    assert len(delays["seconds"]) == AGES
    assert delays["seconds"][-1] == pytest.approx(WINDOW)
    alone, treated = delays["arms"]
    assert (alone["treatment"], treated["treatment"]) == (None, "email")
    assert alone["reports"] == 0
    assert 40 < treated["reports"] <= service.campaign(id_)["conversions"]
    shares = dict(zip(delays["seconds"], treated["shares"], strict=True))
    assert all(share < 0.1 for age, share in shares.items() if age < 45)
    assert all(share > 0.9 for age, share in shares.items() if age > 255)
    assert delays_view(campaign.pending, ("email",)).arms[1].shares == tuple(treated["shares"])
    assert 110 < service.campaign(id_)["median_delay_seconds"] < 190  # 150 is the truth


def test_few_reports_are_not_enough_for_a_median(service: Service) -> None:
    id_ = service.open(outcome_window_seconds=WINDOW)["id"]
    pending = service.books.campaign(id_).pending
    for count in range(1, ENOUGH + 1):
        assert median_delay(pending) is None
        assert service.get(f"{id_}/report").json()["arms"][1]["rate"] is None
        service.decide(id_, f"u{count}", "0.10")
        service.clock.advance(10)
        service.outcome(id_, f"u{count}", 1)
        service.clock.advance(10)
        service.sweep()
    median = median_delay(pending)
    assert median is not None
    assert 7 < median < 11.5  # between the ages of the grid
    assert pending.window == WINDOW * SECOND
