"""Outcomes that are corrected, in the service."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bccb.policies import make
from serve.service import Service, refused
from serve.test_charges import check_fold

AMOUNTS = {"kind": "amount", "largest": "100.00"}


def correct(service: Service, id_: str, decision: str, value: float) -> Any:
    return service.post(f"{id_}/decisions/{decision}/correct", {"value": value})


def test_an_order_that_came_back_is_learned_charged_and_counted_anew(service: Service) -> None:
    id_ = service.open(
        budget="10", charge="conversion", share=0.2, outcome=AMOUNTS, policy={"name": "treat-all"}
    )["id"]
    service.decide(id_, "a", "2.00")
    service.outcome(id_, "a", 8.0)
    assert service.money(id_) == ("1.60", "0.00", "8.40")
    answer = correct(service, id_, "a", 3.0)
    assert answer.json() == {"decision_id": "a", "value": 3.0, "status": "recorded"}
    assert service.money(id_) == ("0.60", "0.00", "9.40")
    assert correct(service, id_, "a", 3.0).json()["status"] == "already_recorded"
    shown = service.get(id_).json()
    assert (shown["corrections"], shown["value"], shown["conversions"]) == (1, 3.0, 1.0)
    (row,) = [json.loads(line) for line in service.get(f"{id_}/log").text.splitlines()]
    assert (row["outcome"], row["status"]) == (3.0, "observed")
    service.restart()
    assert service.money(id_) == ("0.60", "0.00", "9.40")
    assert service.get(id_).json()["corrections"] == 1
    check_fold(service, id_)


def test_a_report_that_comes_again_after_a_correction_is_answered_what_counts_now(
    service: Service,
) -> None:
    id_ = service.open(outcome=AMOUNTS, policy={"name": "treat-all"})["id"]
    service.decide(id_, "a", "2.00")
    service.outcome(id_, "a", 80.0)
    assert correct(service, id_, "a", 0.0).is_success
    for _ in range(2):
        again = service.outcome(id_, "a", 80.0)
        assert again.json() == {"decision_id": "a", "value": 0.0, "status": "already_recorded"}
        said = refused(service.outcome(id_, "a", 0.0), 409, "value", kind="outcome-differs")
        assert "has the outcome 80 already, and was corrected to 0 since" in said
        service.restart()
    check_fold(service, id_)


def test_what_cannot_be_corrected_is_refused_with_the_reason(service: Service) -> None:
    id_ = service.open(budget="2", charge="conversion", policy={"name": "treat-all"})["id"]
    for name in ("open", "zero", "cancelled", "late"):
        service.decide(id_, name, "0.50")
    service.done(f"{id_}/decisions/cancelled/cancel")
    service.outcome(id_, "zero", 0)
    refused(correct(service, id_, "open", 1), 409, kind="no-outcome")
    refused(correct(service, id_, "cancelled", 1), 409, kind="decision-cancelled")
    refused(correct(service, id_, "nobody", 1), 404, kind="unknown")
    refused(correct(service, id_, "zero", 2), 422, "value", kind="invalid-field")
    for name in ("more", "evenmore"):
        service.decide(id_, name, "0.50")  # the money that returned
    refused(correct(service, id_, "zero", 1), 409, "value", kind="not-enough-budget")
    service.outcome(id_, "more", 0)
    assert correct(service, id_, "zero", 1).is_success
    refused(correct(service, id_, "zero", 0), 409, "value", kind="correction-differs")
    service.clock.advance(61)
    refused(correct(service, id_, "late", 1), 409, kind="decision-ended")
    refused(correct(service, id_, "more", 1), 409, kind="decision-ended")
    check_fold(service, id_)


@pytest.mark.parametrize("value", ["1e400", "-1e400", "NaN", "1000000000.1", "true", "null"])
def test_what_is_no_amount_is_refused_with_the_range(service: Service, value: str) -> None:
    id_ = service.open(outcome=AMOUNTS)["id"]
    service.decide(id_, "a")
    service.outcome(id_, "a", 8.0)
    sent = {"content": f'{{"value": {value}}}', "headers": {"content-type": "application/json"}}
    said = refused(service.post(f"{id_}/decisions/a/correct", **sent), 422, "value")
    assert "must be a number from -1,000,000,000 to 1,000,000,000" in said
    assert service.get(id_).json()["corrections"] == 0


def test_an_order_that_came_back_costs_nothing_though_it_was_settled(service: Service) -> None:
    id_ = service.open(budget="10", charge="conversion", policy={"name": "treat-all"})["id"]
    for name in ("back", "part"):
        service.decide(id_, name, "2.00")
        service.outcome(id_, name, 1)
        service.done(f"{id_}/decisions/{name}/settle", {"cost": "1.25"})
    assert service.money(id_) == ("2.50", "0.00", "7.50")
    correct(service, id_, "back", 0)
    correct(service, id_, "part", 0.5)  # still a conversion, at the price that it had
    for _ in range(2):
        assert service.money(id_) == ("1.25", "0.00", "8.75")
        again = service.done(f"{id_}/decisions/back/settle", {"cost": "1.25"})  # a retry
        assert (again["reserved"], again["spent"]) == ("0.00", "0.00")
        service.restart()
    check_fold(service, id_)


@pytest.mark.parametrize(
    ("settled", "value", "spent"),
    [
        ("1.00", 0.0, "0.00"),
        ("1.00", -5.0, "0.00"),
        ("1.00", 3.0, "0.60"),  # a fifth of what it is worth now
        ("1.00", 6.0, "1.00"),  # a fifth would be more than it cost
        ("1.00", 1e9, "1.00"),
        ("1.60", 9.0, "1.60"),
        ("0", 9.0, "0.00"),
    ],
)
def test_a_settled_share_is_never_raised(
    service: Service, settled: str, value: float, spent: str
) -> None:
    id_ = service.open(
        budget="2", charge="conversion", share=0.2, outcome=AMOUNTS, policy={"name": "treat-all"}
    )["id"]
    service.decide(id_, "a", "2.00")
    service.outcome(id_, "a", 8.0)
    service.done(f"{id_}/decisions/a/settle", {"cost": settled})
    assert correct(service, id_, "a", value).is_success
    left = f"{2 - float(spent):.2f}"
    assert service.money(id_) == (spent, "0.00", left)
    assert service.done(f"{id_}/decisions/a/settle", {"cost": settled})["spent"] == spent
    service.restart()
    assert service.money(id_) == (spent, "0.00", left)
    check_fold(service, id_)


def test_what_was_paid_at_once_stays_paid(service: Service) -> None:
    id_ = service.open(budget="10", policy={"name": "treat-all"})["id"]
    service.decide(id_, "a", "2.00")
    service.done(f"{id_}/decisions/a/settle", {"cost": "1.25"})
    service.outcome(id_, "a", 1)
    correct(service, id_, "a", 0)
    assert service.money(id_) == ("1.25", "0.00", "8.75")
    check_fold(service, id_)


@pytest.mark.compiled
def test_corrections_through_http_and_the_library_are_the_same_to_the_bit(
    service: Service,
) -> None:
    body = service.open(
        budget="40", policy={"name": "pooled-bayes"}, outcome=AMOUNTS, seed=11, charge="conversion"
    )
    id_, rng = body["id"], np.random.default_rng(3)
    campaign = service.books.campaign(id_)
    terms = campaign.terms
    policy = make(
        "pooled-bayes",
        budget=40.0,
        horizon=terms.users or 0,
        features=len(terms.features),
        treatments=len(terms.treatments),
        seed=11,
        window=float(terms.window),
        outcome="amount",
        largest=100.0,
        charge="conversion",
    )
    for i in range(60):
        x = rng.normal(size=len(terms.features))
        features = dict(zip(terms.features, x.tolist(), strict=True))
        costs = dict.fromkeys(terms.treatments, "0.50")
        asked = {"decision_id": f"u{i}", "features": features, "costs": costs}
        answer = service.done(f"{id_}/decisions", asked)
        at = float(service.clock())
        decision = policy.decide(x, [0.5] * len(terms.treatments), at=at)
        assert answer["price"] == decision.price
        amount = float(rng.integers(0, 3)) * 10.0
        service.outcome(id_, f"u{i}", amount)
        policy.observe(decision, amount, at=at)
        if i % 5 == 0:
            correct(service, id_, f"u{i}", 15.0)
            policy.correct(decision, 15.0, at=at)
    np.testing.assert_array_equal(campaign.machine.counts, policy.counts)
    np.testing.assert_array_equal(campaign.machine.memory, policy.memory)
    check_fold(service, id_)
