"""What becomes of decisions: outcomes, cancellations, settlements, windows; their money."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from serve.service import Service, refused, user


def item(decision: str, value: float, **more: Any) -> dict[str, Any]:
    return {"decision_id": decision, "value": value, **more}


def settle(service: Service, campaign: str, decision: str, cost: str) -> httpx.Response:
    return service.post(f"{campaign}/decisions/{decision}/settle", {"cost": cost})


def cancel(service: Service, campaign: str, decision: str) -> httpx.Response:
    return service.post(f"{campaign}/decisions/{decision}/cancel")


def arms(service: Service, campaign: str) -> list[tuple[int, int, float]]:
    """Decisions, outcomes and conversions of each arm."""
    body = service.get(f"{campaign}/report").json()["arms"]
    return [(arm["decisions"], arm["outcomes"], arm["conversions"]) for arm in body]


# Outcomes


def test_an_outcome_spends_what_was_reserved(service: Service) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a")
    answer = service.outcome(campaign, "a", 1).json()
    assert answer == {"decision_id": "a", "value": 1.0, "status": "recorded"}
    assert service.money(campaign) == ("1.00", "0.00", "99.00")
    assert service.campaign(campaign)["pending"] == 0


def test_an_outcome_counts_once(service: Service) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a")
    assert service.outcome(campaign, "a", 0.5).json()["status"] == "recorded"
    service.restart()
    assert service.outcome(campaign, "a", 0.5).json()["status"] == "already_recorded"
    assert arms(service, campaign) == [(0, 0, 0.0), (1, 1, 0.5)]


def test_another_outcome_contradicts(service: Service) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a")
    service.outcome(campaign, "a", 1)
    assert "1" in refused(service.outcome(campaign, "a", 0), 409, "value", "outcome-differs")
    listed = service.post(f"{campaign}/outcomes", [item("a", 1), item("a", 0)])
    refused(listed, 409, "1.value", "outcome-differs")


def test_an_outcome_before_its_decision_is_refused(service: Service) -> None:
    campaign = service.open()["id"]
    assert "'a'" in refused(service.outcome(campaign, "a", 1), 404)
    service.decide(campaign, "b")
    listed = service.post(f"{campaign}/outcomes", [item("b", 1), item("a", 1)])
    refused(listed, 404, "1.decision_id")
    assert service.campaign(campaign)["pending"] == 1  # nothing of the list was taken


@pytest.mark.parametrize("value", [-0.1, 1.1, "1", None, True, [1]])
def test_an_outcome_is_a_number_from_0_to_1(service: Service, value: Any) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a")
    refused(service.outcome(campaign, "a", value), 422, "value")
    listed = service.post(f"{campaign}/outcomes", [item("a", 1), item("a", value)])
    refused(listed, 422, "1.value")
    assert service.campaign(campaign)["pending"] == 1


def test_minus_zero_is_zero_also_after_a_restart(service: Service) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a")
    assert service.outcome(campaign, "a", -0.0).json()["status"] == "recorded"
    service.engine.trouble = "no snapshot is kept when it stops"
    service.restart()
    assert service.outcome(campaign, "a", 0.0).json()["status"] == "already_recorded"


def test_a_list_tells_of_each_outcome_in_its_order(service: Service) -> None:
    campaign = service.open()["id"]
    service.done(f"{campaign}/decisions", [user(id_) for id_ in "abc"])
    service.outcome(campaign, "b", 1)
    answer = service.done(
        f"{campaign}/outcomes", [item("c", 0), item("b", 1), item("a", 1), item("c", 0)]
    )
    assert [(each["decision_id"], each["status"]) for each in answer] == [
        ("c", "recorded"),
        ("b", "already_recorded"),
        ("a", "recorded"),
        ("c", "already_recorded"),
    ]
    assert arms(service, campaign)[1] == (3, 3, 2.0)


@pytest.mark.parametrize("count", [0, 1_001])
def test_lists_of_outcomes_have_one_to_a_thousand_entries(service: Service, count: int) -> None:
    campaign = service.open()["id"]
    response = service.post(f"{campaign}/outcomes", [item("a", 1)] * count)
    refused(response, 422, "the length of the list")


def test_a_list_must_be_one(service: Service) -> None:
    campaign = service.open()["id"]
    refused(service.post(f"{campaign}/outcomes", item("a", 1)), 422)
    refused(service.post(f"{campaign}/outcomes", [{"value": 1}]), 422, "0.decision_id")
    refused(service.post(f"{campaign}/outcomes", [item("a", 1, x=1)]), 422, "0.x")


# Windows


def test_an_outcome_at_the_end_of_the_window_still_counts(service: Service) -> None:
    campaign = service.open(outcome_window_seconds=60)["id"]
    service.decide(campaign, "a")
    service.decide(campaign, "b")
    service.clock.advance(60)
    service.sweep()
    assert service.outcome(campaign, "a", 1).json()["status"] == "recorded"
    service.clock.advance(0.000001)
    refused(cancel(service, campaign, "b"), 409, kind="decision-ended")
    body = service.outcome(campaign, "b", 1).json()
    assert body == {"decision_id": "b", "value": 0.0, "status": "too_late"}


def test_after_the_window_no_outcome_is_none(service: Service) -> None:
    campaign = service.open(outcome_window_seconds=60)["id"]
    service.decide(campaign, "a")
    service.clock.advance(61)
    service.sweep()
    assert service.money(campaign) == ("1.00", "0.00", "99.00")
    assert arms(service, campaign)[1] == (1, 1, 0.0)
    assert service.outcome(campaign, "a", 1).json()["status"] == "too_late"
    assert service.outcome(campaign, "a", 0).json()["status"] == "already_recorded"
    refused(cancel(service, campaign, "a"), 409, kind="decision-ended")


def test_a_late_outcome_may_stand_twice_in_a_list(service: Service) -> None:
    campaign = service.open(outcome_window_seconds=60)["id"]
    service.decide(campaign, "a")
    service.clock.advance(61)
    for _ in range(2):  # before the sweep and after it
        answer = service.done(f"{campaign}/outcomes", [item("a", 1), item("a", 1)])
        assert [each["status"] for each in answer] == ["too_late", "too_late"]
        service.sweep()


@pytest.mark.parametrize("swept", [False, True])
def test_a_conversion_that_comes_too_late_is_counted_once_and_not_learned(
    service: Service, swept: bool
) -> None:
    campaign = service.open(outcome_window_seconds=60, policy={"name": "pooled-bayes"})["id"]
    for id_ in "abc":
        service.decide(campaign, id_)
    service.outcome(campaign, "c", 1)
    service.clock.advance(61)
    service.sweep()
    learned = service.books.campaign(campaign).machine.memory.copy()
    if not swept:  # two more whose windows have passed, and nobody has looked
        for id_ in "de":
            service.decide(campaign, id_)
        service.clock.advance(61)
    late, zero = ("a", "b") if swept else ("d", "e")
    for _ in range(2):
        assert service.outcome(campaign, late, 1).json()["status"] == "too_late"
        answers = service.done(f"{campaign}/outcomes", [item(late, 1), item(late, 0.5)])
        assert [each["status"] for each in answers] == ["too_late", "too_late"]
        service.outcome(campaign, zero, 0)  # that is what counts already
        assert service.campaign(campaign)["too_late"] == 1
        assert service.campaign(campaign)["conversions"] == 1.0
        service.engine.trouble = "no snapshot is kept when it stops"
        service.restart()
    if swept:
        assert (service.books.campaign(campaign).machine.memory == learned).all()
    service.restart()  # from a snapshot, this time
    assert service.campaign(campaign)["too_late"] == 1
    assert service.campaign(campaign)["pending"] == 0


def test_a_list_counts_each_late_conversion_and_nothing_of_a_refused_list(
    service: Service,
) -> None:
    campaign = service.open(outcome_window_seconds=60)["id"]
    service.done(f"{campaign}/decisions", [user(id_) for id_ in "abc"])
    service.clock.advance(61)
    refused(
        service.post(f"{campaign}/outcomes", [item("a", 1), item("nobody", 1)]),
        404,
        "1.decision_id",
    )
    assert service.campaign(campaign)["too_late"] == 0
    service.done(f"{campaign}/outcomes", [item("a", 1), item("b", 0), item("c", 0.2)])
    assert service.campaign(campaign)["too_late"] == 2


def test_only_windows_that_have_passed_are_swept(service: Service) -> None:
    campaign = service.open(outcome_window_seconds=60)["id"]
    for id_ in "abc":
        service.decide(campaign, id_)
        service.clock.advance(30)
    service.clock.advance(1)  # 91 s after a, 61 s after b, 31 s after c
    service.sweep()
    assert service.campaign(campaign)["pending"] == 1
    service.sweep()
    service.clock.advance(30)
    service.sweep()
    assert service.campaign(campaign)["pending"] == 0


def test_many_windows_that_pass_at_once_are_all_swept(service: Service) -> None:
    campaign = service.open(budget="5000", outcome_window_seconds=60)["id"]
    for first in range(0, 2_500, 500):
        service.done(f"{campaign}/decisions", [user(f"d{i}") for i in range(first, first + 500)])
    service.outcome(campaign, "d7", 1)
    service.clock.advance(61)
    service.sweep()
    assert service.campaign(campaign)["pending"] == 0
    assert arms(service, campaign)[1] == (2_500, 2_500, 1.0)


def test_a_clock_that_runs_back_holds_no_window_open(service: Service) -> None:
    campaign = service.open(outcome_window_seconds=60)["id"]
    service.decide(campaign, "a")
    service.sweep()
    service.clock.advance(61)
    service.decide(campaign, "b")
    service.clock.advance(-3_600)
    assert service.outcome(campaign, "a", 1).json()["status"] == "too_late"
    service.sweep()
    assert service.campaign(campaign)["pending"] == 1
    service.decide(campaign, "c")
    moments = [row["at"] for row in map(json.loads, log_lines(service, campaign))]
    assert moments == sorted(moments)


def log_lines(service: Service, campaign: str) -> list[str]:
    return service.get(f"{campaign}/log").text.splitlines()


# Cancelling


def test_cancelled_money_returns_and_nothing_is_learned(service: Service) -> None:
    campaign = service.open(budget="1.00")["id"]
    service.decide(campaign, "a")
    answer = cancel(service, campaign, "a")
    assert answer.json() == {
        "decision_id": "a",
        "treatment": "email",
        "status": "cancelled",
        "reserved": "0.00",
        "spent": "0.00",
        "remaining": "1.00",
    }
    assert cancel(service, campaign, "a").json() == answer.json()
    assert arms(service, campaign) == [(0, 0, 0.0), (0, 0, 0.0)]
    assert service.decide(campaign, "b")["treatment"] == "email"  # it can be spent again
    refused(service.outcome(campaign, "a", 1), 409, kind="decision-cancelled")
    listed = service.post(f"{campaign}/outcomes", [item("b", 1), item("a", 1)])
    refused(listed, 409, "1.decision_id", "decision-cancelled")
    refused(settle(service, campaign, "a", "0.5"), 409, kind="decision-cancelled")


def test_what_has_an_outcome_or_was_settled_cannot_be_cancelled(service: Service) -> None:
    campaign = service.open()["id"]
    service.done(f"{campaign}/decisions", [user("a"), user("b")])
    service.outcome(campaign, "a", 1)
    settle(service, campaign, "b", "0.5")
    for id_ in "ab":
        refused(cancel(service, campaign, id_), 409, kind="decision-ended")
    assert service.money(campaign) == ("1.50", "0.00", "98.50")


def test_one_who_was_left_alone_can_be_cancelled_for_nothing(service: Service) -> None:
    campaign = service.open(budget="0.5")["id"]
    assert service.decide(campaign, "a")["treatment"] is None
    assert cancel(service, campaign, "a").json()["remaining"] == "0.50"


def test_what_was_not_decided_cannot_be_cancelled_or_settled(service: Service) -> None:
    campaign = service.open()["id"]
    refused(cancel(service, campaign, "a"), 404)
    refused(settle(service, campaign, "a", "1"), 404)
    refused(cancel(service, campaign, "a%20b"), 422, "decision_id")


# Settling


def test_what_a_treatment_did_not_cost_returns(service: Service) -> None:
    campaign = service.open(budget="1.00")["id"]
    service.decide(campaign, "a")
    body = settle(service, campaign, "a", "0.6100001").json()
    assert (body["status"], body["reserved"], body["spent"]) == ("open", "0.00", "0.610001")
    assert service.money(campaign) == ("0.610001", "0.00", "0.389999")
    assert settle(service, campaign, "a", "0.610001").json() == body
    refused(settle(service, campaign, "a", "0.61"), 409, "cost", "settlement-differs")
    service.outcome(campaign, "a", 1)
    assert service.money(campaign) == ("0.610001", "0.00", "0.389999")
    assert service.decide(campaign, "b", cost="0.38")["treatment"] == "email"


def test_a_treatment_can_be_settled_after_its_outcome(service: Service) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a")
    service.outcome(campaign, "a", 1)
    assert settle(service, campaign, "a", "0").json()["spent"] == "0.00"
    assert service.money(campaign) == ("0.00", "0.00", "100.00")


def test_a_treatment_cannot_cost_more_than_was_reserved(service: Service) -> None:
    campaign = service.open(budget="1.00")["id"]
    service.decide(campaign, "a")
    service.decide(campaign, "b")
    assert "1.00" in refused(settle(service, campaign, "a", "1.0000001"), 422, "cost")
    refused(settle(service, campaign, "b", "0.1"), 409, kind="not-treated")
    refused(settle(service, campaign, "a", "x"), 422, "cost")
    negative = refused(settle(service, campaign, "a", "-0.5"), 422, "cost")
    assert negative == "cost is '-0.5', but must be 0 or above"


# Shadow campaigns


def test_a_shadow_learns_what_was_done_and_money_for_what_was_not_returns(
    service: Service,
) -> None:
    campaign = service.open(mode="shadow", treatments=["email", "call"])["id"]
    users = [{**user(id_), "costs": {"email": "1.00", "call": "2.00"}} for id_ in "abc"]
    proposed = {each["treatment"] for each in service.done(f"{campaign}/decisions", users)}
    assert proposed == {"email"}
    assert service.outcome(campaign, "a", 1, action="email").json()["status"] == "recorded"
    assert service.money(campaign) == ("1.00", "2.00", "97.00")
    service.outcome(campaign, "b", 1, action="call")
    service.outcome(campaign, "c", 0, action=None)
    assert service.money(campaign) == ("1.00", "0.00", "99.00")
    assert [(n, y) for _, n, y in arms(service, campaign)] == [(1, 0.0), (1, 1.0), (1, 1.0)]
    refused(settle(service, campaign, "b", "0.5"), 409, kind="not-treated")
    assert settle(service, campaign, "a", "0.5").json()["spent"] == "0.50"


def test_a_shadow_takes_the_same_action_twice(service: Service) -> None:
    campaign = service.open(mode="shadow")["id"]
    service.decide(campaign, "a")
    service.outcome(campaign, "a", 1, action=None)
    again = service.outcome(campaign, "a", 1, action=None)
    assert again.json()["status"] == "already_recorded"
    refused(service.outcome(campaign, "a", 1, action="email"), 409, "value", "outcome-differs")


def test_outcomes_of_a_shadow_must_name_the_action_and_others_must_not(service: Service) -> None:
    live, shadow = service.open()["id"], service.open(mode="shadow")["id"]
    for campaign in (live, shadow):
        service.decide(campaign, "a")
    refused(service.outcome(shadow, "a", 1), 422, "action")
    refused(service.outcome(shadow, "a", 1, action="call"), 422, "action")
    refused(service.outcome(live, "a", 1, action="email"), 422, "action")
    refused(service.post(f"{live}/outcomes", [item("a", 1, action=None)]), 422, "0.action")
    refused(service.post(f"{shadow}/outcomes", [item("a", 1)]), 422, "0.action")


def test_a_shadow_learns_nothing_without_the_action(service: Service) -> None:
    campaign = service.open(mode="shadow", outcome_window_seconds=60)["id"]
    service.decide(campaign, "a")
    service.clock.advance(61)
    service.sweep()
    assert service.money(campaign) == ("0.00", "0.00", "100.00")
    assert [n for _, n, _ in arms(service, campaign)] == [0, 0]


@pytest.mark.parametrize("swept", [False, True])
def test_a_late_zero_of_a_shadow_is_too_late_since_nothing_was_recorded(
    service: Service, swept: bool
) -> None:
    campaign = service.open(mode="shadow", outcome_window_seconds=60)["id"]
    service.decide(campaign, "a")
    service.clock.advance(61)
    if swept:
        service.sweep()
    for _ in range(2):
        assert service.outcome(campaign, "a", 0, action=None).json()["status"] == "too_late"
    (row,) = service.get(f"{campaign}/log").text.splitlines()
    assert '"outcome":null,"status":"expired"' in row


def report_action(
    service: Service, campaign: str, decision: str, action: str | None
) -> httpx.Response:
    """Report the action alone."""
    return service.ask("PUT", f"{campaign}/decisions/{decision}/outcome", {"action": action})


def test_a_shadow_learns_from_silence_once_it_knows_the_action(service: Service) -> None:
    terms = {"mode": "shadow", "outcome_window_seconds": 60, "policy": {"name": "pooled-bayes"}}
    campaign = service.open(**terms)["id"]
    service.done(f"{campaign}/decisions", [user("a"), user("b")])
    state = service.books.campaign(campaign)

    def weights() -> list[float]:
        places = [state.pending.place(number) for number in (1, 2)]
        return [float(state.pending.ring.weight[place]) for place in places]

    service.clock.advance(30)
    service.sweep()
    assert weights() == [0.0, 0.0]  # nobody knows what was done
    answer = report_action(service, campaign, "a", None).json()
    assert answer == {"decision_id": "a", "value": None, "status": "recorded"}
    assert report_action(service, campaign, "a", None).json()["status"] == "already_recorded"
    service.clock.advance(15)
    service.sweep()
    learned, nothing = weights()
    assert learned > 0.3
    assert nothing == 0.0
    service.engine.trouble = "no snapshot is kept when it stops"
    service.restart()
    assert service.books.campaign(campaign).to_bytes() == state.to_bytes()
    service.clock.advance(30)
    service.sweep()
    assert arms(service, campaign)[0][1:] == (1, 0.0)  # a counts as none, b is not known
    rows = [json.loads(line) for line in log_lines(service, campaign)]
    assert [(row["treatment"], row["outcome"]) for row in rows] == [("control", 0.0), (None, None)]
    assert report_action(service, campaign, "a", None).json()["status"] == "already_recorded"
    assert report_action(service, campaign, "b", None).json()["status"] == "too_late"
    assert service.outcome(campaign, "a", 0).json()["status"] == "already_recorded"
    assert service.campaign(campaign)["too_late"] == 0
    assert service.outcome(campaign, "a", 1).json()["status"] == "too_late"
    assert service.campaign(campaign)["too_late"] == 1


def test_the_action_of_a_shadow_needs_to_be_told_once_and_cannot_change(service: Service) -> None:
    campaign = service.open(mode="shadow")["id"]
    service.done(f"{campaign}/decisions", [user(id_) for id_ in "abc"])
    report_action(service, campaign, "a", "email")
    refused(report_action(service, campaign, "a", None), 409, "action", "outcome-differs")
    refused(service.outcome(campaign, "a", 1, action=None), 409, "action", "outcome-differs")
    assert service.outcome(campaign, "a", 1).json()["status"] == "recorded"
    assert report_action(service, campaign, "a", "email").json()["value"] == 1.0
    listed = [{"decision_id": "b", "action": "email"}, {"decision_id": "b", "value": 1}]
    answers = service.done(f"{campaign}/outcomes", listed)
    assert [(each["value"], each["status"]) for each in answers] == [
        (None, "recorded"),
        (1.0, "recorded"),
    ]
    assert arms(service, campaign)[1][1:] == (2, 2.0)
    cancel(service, campaign, "c")
    refused(report_action(service, campaign, "c", None), 409, None, "decision-cancelled")
    refused(report_action(service, campaign, "b", "call"), 422, "action")


def test_money_of_a_shadow_is_spent_where_it_was_told_that_both_agree(service: Service) -> None:
    campaign = service.open(mode="shadow", outcome_window_seconds=60)["id"]
    service.done(f"{campaign}/decisions", [user(id_) for id_ in "abc"])  # all would be treated
    report_action(service, campaign, "a", "email")
    report_action(service, campaign, "b", None)
    service.clock.advance(61)
    service.sweep()
    assert service.money(campaign) == ("1.00", "0.00", "99.00")


def test_without_a_value_an_outcome_of_a_live_campaign_is_refused(service: Service) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a")
    refused(service.ask("PUT", f"{campaign}/decisions/a/outcome", {}), 422, "value")
    refused(service.post(f"{campaign}/outcomes", [{"decision_id": "a"}]), 422, "0.value")
