"""What a campaign says it caused: from the answers alone, late outcomes, snapshots."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pasts import without_charges

from bccb.measured import Measure
from bccb.serve.campaign import Campaign
from bccb.serve.recovery import know_again
from serve.service import Service

POLICY = {"name": "pooled-bayes", "params": {"reserve": 0.3}}


def drive(service: Service, campaign: str, users: range, report_zeros: bool = True) -> list[Any]:
    """Decisions with their outcomes: treated users convert more often."""
    draw, rows = np.random.default_rng(users.start), []
    for i in users:
        answer = service.decide(campaign, f"d{i}", cost="0.50")
        treated = answer["treatment"] is not None
        y = float(draw.random() < (0.5 if treated else 0.3))
        rows.append((treated, y, answer["probability"]))
        if y or report_zeros:
            service.outcome(campaign, f"d{i}", y)
    return rows


def expected(rows: list[Any]) -> Measure:
    treated, outcomes, chances = np.array(rows).T
    measure = Measure(0.3)
    alone = np.where(treated > 0, 1.0 - chances, chances)
    measure.end_all(treated.astype(np.int64), outcomes, alone)
    return measure


def test_measured_is_what_the_answers_say(service: Service) -> None:
    campaign = service.open(policy=POLICY, budget="1000", horizon={"users": 400})["id"]
    rows = drive(service, campaign, range(300))
    caused = service.get(campaign).json()["caused"]
    interval = expected(rows).interval()
    assert caused["measured_users"] == 300
    for name in ("value", "low", "high"):
        assert caused["measured"][name] == pytest.approx(getattr(interval, name))
    assert caused["estimated"]["low"] < caused["estimated"]["value"] < caused["estimated"]["high"]
    series = service.get(f"{campaign}/report").json()["caused_series"]
    assert len(series["at"]) == len(series["measured"]) == 6  # after every fifty outcomes
    assert series["measured"][-1] == caused["measured"]
    assert series["estimated"][-1] == caused["estimated"]


def test_only_users_whose_window_has_ended_are_measured(service: Service) -> None:
    campaign = service.open(policy=POLICY, budget="1000", outcome_window_seconds=100)["id"]
    rows = drive(service, campaign, range(50), report_zeros=False)
    first_open = next(i for i, (_, y, _) in enumerate(rows) if not y)
    assert service.get(campaign).json()["caused"]["measured_users"] == first_open
    service.clock.advance(101)
    service.sweep()
    caused = service.get(campaign).json()["caused"]
    interval = expected(rows).interval()
    assert caused["measured_users"] == 50
    assert caused["measured"]["value"] == pytest.approx(interval.value)


def test_nothing_is_measured_while_nobody_counts(service: Service) -> None:
    campaign = service.open(policy=POLICY, budget="1000", outcome_window_seconds=100)["id"]
    drive(service, campaign, range(1), report_zeros=False)
    service.decide(campaign, "other", cost="0.50")
    service.outcome(campaign, "other", 1.0)  # after one who waits: it does not count yet
    caused = service.get(campaign).json()["caused"]
    assert (caused["measured"], caused["measured_users"]) == (None, 0)
    assert caused["not_measured"].startswith("Nobody counts yet")
    service.clock.advance(101)
    service.sweep()
    caused = service.get(campaign).json()["caused"]
    assert (caused["measured_users"], caused["not_measured"]) == (2, None)
    assert caused["measured"] is not None


def test_cancelled_treatments_caused_nothing(service: Service) -> None:
    campaign = service.open(policy=POLICY, budget="1000")["id"]
    for i in range(30):
        service.decide(campaign, f"d{i}", cost="0.50")
        service.done(f"{campaign}/decisions/d{i}/cancel")
    caused = service.get(campaign).json()["caused"]
    assert caused["estimated"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert caused["measured"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_lists_and_shadows_do_not_tell(service: Service) -> None:
    live = service.open(policy=POLICY)["id"]
    shadow = service.open(policy=POLICY, mode="shadow")["id"]
    listed = service.get("").json()["campaigns"]
    assert {each["id"]: each["caused"] for each in listed} == {live: None, shadow: None}
    assert service.get(shadow).json()["caused"] is None


def test_policies_without_posterior_or_reserve_say_so(service: Service) -> None:
    campaign = service.open(policy={"name": "bccb"})["id"]
    drive(service, campaign, range(60))
    caused = service.get(campaign).json()["caused"]
    assert (caused["estimated"], caused["measured"], caused["measured_users"]) == (None, None, 0)


def test_a_snapshot_keeps_what_was_measured(service: Service) -> None:
    campaign = service.open(policy=POLICY, budget="1000", horizon={"users": 400})["id"]
    drive(service, campaign, range(60), report_zeros=False)
    state = service.books.campaign(campaign)
    again = restored(service, state, state.to_bytes())
    assert again.to_bytes() == state.to_bytes()
    assert again.caused() == state.caused()


def test_a_snapshot_of_an_older_version_is_continued_without_figures(service: Service) -> None:
    campaign = service.open(policy=POLICY, budget="1000", horizon={"users": 400})["id"]
    drive(service, campaign, range(60))
    state = service.books.campaign(campaign)
    again = restored(service, state, older(state))
    assert again.machine.decisions == 60
    assert (again.caused().estimated, again.caused().measured) == (None, None)


def restored(service: Service, state: Campaign, kept: bytes) -> Campaign:
    again = Campaign(state.key, state.id, state.terms)
    again.opening()
    know_again(service.books.ledger, again, again.restore(kept))
    return again


def older(state: Campaign) -> bytes:
    """The snapshot as it was before samples and measures were kept."""
    kept = state.to_bytes()
    size = int.from_bytes(kept[:8], "little")
    rest = json.loads(kept[8 : 8 + size])
    del rest["measured"]
    del rest["machine"]
    _, without_sample = state.machine.earlier_sizes
    machine = without_charges(kept[8 + size :])[:without_sample]
    head = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
    return len(head).to_bytes(8, "little") + head + machine + state.pending.learned()


def test_a_measurement_of_few_users_says_how_many_it_takes(service: Service) -> None:
    """With a reserve of 0.3, 33 treated users."""
    campaign = service.open(policy=POLICY, budget="1000", horizon={"users": 400})["id"]
    needed = expected([(True, 0.0, 0.5)]).needed
    users = iter(range(1_000))
    while service.books.campaign(campaign).tally.decisions[1] < needed:
        caused = service.get(campaign).json()["caused"]
        assert caused["measured_users"] == 0 or f"until {needed} were treated" in caused["too_few"]
        drive(service, campaign, range(i := next(users), i + 1))
    caused = service.get(campaign).json()["caused"]
    assert caused["measured"] is not None
    assert caused["too_few"] is None


def test_the_series_begins_where_enough_users_were_treated(service: Service) -> None:
    few = {**POLICY, "params": {"reserve": 0.1}}  # takes 103
    campaign = service.open(policy=few, budget="1000", horizon={"users": 400})["id"]
    drive(service, campaign, range(200))
    series = service.get(f"{campaign}/report").json()["caused_series"]
    assert [each is None for each in series["measured"]] == [True, True, False, False]
    assert None not in series["estimated"]
