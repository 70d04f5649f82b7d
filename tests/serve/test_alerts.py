"""Alerts: silent in healthy campaigns, raised by each fault, and cleared when it is mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from serve.service import Service, refused

MEAN_DELAY, WINDOW = 60.0, 400
AT_ONCE, STEP = 50, 10.0  # users, and seconds between two lists of them


class Traffic:
    """Users who come in lists and convert later; what is reported of them is up to the test."""

    def __init__(self, service: Service, seed: int = 1, **terms: Any) -> None:
        self.service, self.rng = service, np.random.default_rng(seed)
        given = {
            "budget": "150.00",
            "horizon": {"users": 3_000},
            "features": ["age", "visits"],
            "policy": {"name": "pooled-bayes"},
            "outcome_window_seconds": WINDOW,
        }
        self.id = service.open(**(given | terms))["id"]
        self.waiting: list[tuple[float, str, float, bool]] = []  # when, whom, what, treated
        self.users, self.base = 0, 0.03
        self.kinds: set[str] = set()

    def come(
        self,
        lists: int,
        lost: Callable[[bool], bool] = lambda _: False,
        zeros: bool = False,
        seconds: float = STEP,
    ) -> None:
        """Let lists of users come, and look after each of them."""
        for _ in range(lists):
            self.service.clock.advance(seconds)
            self._decide(lost, zeros)
            self._report()
            self.service.sweep()
            self.kinds |= {told.kind for told in self.service.look() if told.state == "raised"}

    def _decide(self, lost: Callable[[bool], bool], zeros: bool) -> None:
        ages, costs = self.rng.random(AT_ONCE), self.rng.uniform(0.05, 0.25, AT_ONCE)
        users = [
            {
                "decision_id": f"u{self.users + i}",
                "features": {"age": age, "visits": float(i % 7)},
                "costs": {"email": f"{cost:.2f}"},
            }
            for i, (age, cost) in enumerate(zip(ages, costs, strict=True))
        ]
        for age, answer in zip(ages, self.service.done(f"{self.id}/decisions", users), strict=True):
            self.users += 1
            treated = answer["treatment"] is not None
            converts = self.rng.random() < self.base * (1.0 + (2.0 * age if treated else 0.0))
            if (converts or zeros) and not lost(treated):
                wait = self.rng.exponential(MEAN_DELAY)
                at = self.service.clock.now / 1e6 + wait
                self.waiting.append((at, answer["decision_id"], float(converts), treated))

    def _report(self) -> None:
        now = self.service.clock.now / 1e6
        items = [
            {"decision_id": id_, "value": value} for at, id_, value, _ in self.waiting if at <= now
        ]
        self.waiting = [each for each in self.waiting if each[0] > now]
        if items:
            self.service.done(f"{self.id}/outcomes", items)

    def alerts(self) -> dict[str, str]:
        return {each["kind"]: each["text"] for each in self.service.campaign(self.id)["alerts"]}


@pytest.mark.parametrize(("seed", "zeros"), [(1, False), (2, True)])
def test_a_healthy_campaign_raises_none_until_its_money_is_gone(
    service: Service, zeros: bool, seed: int
) -> None:
    traffic = Traffic(service, seed)
    traffic.come(40, zeros=zeros)
    assert traffic.kinds == set()
    traffic.come(30, zeros=zeros)
    assert traffic.kinds <= {"money_gone"}


def test_money_that_pays_for_no_treatment_is_gone_until_more_is_added(service: Service) -> None:
    campaign = service.open(budget="2.50")["id"]
    assert service.look() == []
    for number in range(2):
        service.decide(campaign, f"u{number}", cost="1.00")
    (told,) = service.look()
    assert (told.kind, told.state) == ("money_gone", "raised")
    assert told.text.startswith("Only 0.50 is left of 2.50: hardly anybody")
    (alert,) = service.campaign(campaign)["alerts"]
    assert (alert["kind"], alert["text"]) == ("money_gone", told.text)
    since = alert["since"]
    service.clock.advance(60)
    assert service.look() == []  # it is told once
    assert service.campaign(campaign)["alerts"][0]["since"] == since
    service.done(f"{campaign}/budget", {"add": "1.00"})
    assert service.look() == []  # one treatment more or less is no end of it
    service.done(f"{campaign}/budget", {"add": "1.00"})
    (told,) = service.look()
    assert (told.kind, told.state, told.campaign_id) == ("money_gone", "cleared", campaign)
    assert service.campaign(campaign)["alerts"] == []


def test_alerts_are_of_running_campaigns_alone(service: Service) -> None:
    campaign = service.open(budget="1.00")["id"]
    service.decide(campaign, "a")
    for turn, states in (("pause", ["cleared"]), ("resume", ["raised"]), ("close", ["cleared"])):
        service.look()
        service.done(f"{campaign}/{turn}")
        assert [told.state for told in service.look()] == states
    assert service.get("").json()["campaigns"][0]["alerts"] == []


def test_an_alert_stands_again_after_a_restart(service: Service) -> None:
    campaign = service.open(budget="1.00")["id"]
    service.decide(campaign, "a")
    service.restart()
    (told,) = service.look()
    assert (told.campaign_id, told.kind) == (campaign, "money_gone")


def test_outcomes_that_stop_are_noticed_and_so_is_their_return(service: Service) -> None:
    traffic = Traffic(service, budget="1500.00", horizon={"users": 30_000})
    traffic.come(40)
    traffic.waiting.clear()
    traffic.come(60, lost=lambda _: True)
    assert "no_outcomes" in traffic.kinds
    assert "users were decided on" in traffic.alerts()["no_outcomes"]
    traffic.come(20)
    assert "no_outcomes" not in traffic.alerts()


def test_neither_a_night_nor_a_rush_looks_like_lost_outcomes(service: Service) -> None:
    traffic = Traffic(service, budget="1500.00", horizon={"users": 30_000})
    traffic.come(20)
    service.clock.advance(8 * 3_600)
    service.sweep()
    assert "no_outcomes" not in {told.kind for told in service.look()}
    traffic.come(40, seconds=1.0)  # ten times as many users, whose outcomes take as long as ever
    assert "no_outcomes" not in traffic.kinds


def test_a_feed_that_never_worked_is_noticed(service: Service) -> None:
    traffic = Traffic(service)
    traffic.come(56, lost=lambda _: True)
    assert "no_outcomes" not in traffic.kinds  # fewer than a thousand windows have ended
    traffic.come(10, lost=lambda _: True)
    text = traffic.alerts()["no_outcomes"]
    assert text.startswith("No outcome was reported in time for any of 1,")


def test_spending_far_from_the_plan_is_noticed(service: Service) -> None:
    traffic = Traffic(service, policy={"name": "treat-all"}, horizon={"users": 10_000})
    traffic.come(4)
    assert traffic.kinds == set()
    traffic.come(10)
    assert "ahead of the plan" in traffic.alerts()["off_plan"]


def test_a_campaign_that_nobody_comes_to_is_behind_its_plan(service: Service) -> None:
    ends_at = "2027-01-15T09:00:00Z"  # in an hour
    traffic = Traffic(service, horizon={"ends_at": ends_at})
    traffic.come(2)
    service.clock.advance(1_800)
    assert [told.kind for told in service.look()] == ["off_plan"]
    assert "behind the plan" in traffic.alerts()["off_plan"]


@pytest.mark.parametrize("zeros", [False, True])
def test_untreated_users_whose_outcomes_are_lost_are_noticed(service: Service, zeros: bool) -> None:
    horizon = {"users": 5_000}
    traffic = Traffic(service, budget="100.00", horizon=horizon, outcome_window_seconds=100)
    traffic.base = 0.1 if zeros else 0.3
    # all of them, or three of four where zeros are reported, too
    traffic.come(
        50, lost=lambda treated: not treated and (not zeros or bool(traffic.users % 4)), zeros=zeros
    )
    assert "untreated users" in traffic.alerts()["out_of_balance"]


def test_a_rule_that_fails_holds_up_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    campaign = service.open(budget="1.00")["id"]
    monkeypatch.setattr(service.books.campaign(campaign), "balance", None)
    service.decide(campaign, "a")
    assert service.look() == []
    assert "cannot be watched" in caplog.text
    assert refused(service.get("nobody"), 404)
