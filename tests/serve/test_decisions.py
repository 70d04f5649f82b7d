"""Decisions over HTTP: what is asked, what is refused, and that each is made once."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from bccb.ledger.event import Event
from bccb.serve.books import Books
from bccb.serve.decisions import Asked, Made, answer_columns, answers, decide
from bccb.serve.outcomes import Reports, observe
from bccb.serve.problem import ProblemError
from bccb.serve.users import UserRows
from bccb.wire import (
    DecisionAnswer,
    DecisionColumnsAnswer,
    DecisionRequest,
    OutcomeAnswer,
    OutcomeItem,
    encode,
)
from serve.service import Service, refused, user
from serve.test_terms import TERMS


def test_a_decision_reserves_what_its_treatment_costs(service: Service) -> None:
    campaign = service.open()["id"]
    assert service.decide(campaign, "a", cost="0.77") == {
        "decision_id": "a",
        "treatment": "email",
        "probability": 1.0,
        "price": 0.0,
        "remaining": "99.23",
        "act": True,
    }
    assert service.money(campaign) == ("0.00", "0.77", "99.23")


def test_costs_round_up_to_whole_micros(service: Service) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a", cost="0.0000001")
    service.decide(campaign, "b", cost="0.770000000001")
    assert service.money(campaign)[1] == "0.770002"


def test_what_does_not_fit_the_money_is_not_treated(service: Service) -> None:
    campaign = service.open(budget="1.00")["id"]
    assert service.decide(campaign, "a", cost="1.0000001")["treatment"] is None
    assert service.decide(campaign, "b", cost="1.000000")["treatment"] == "email"
    assert service.decide(campaign, "c", cost="0.000001")["treatment"] is None
    assert service.money(campaign) == ("0.00", "1.00", "0.00")


def test_the_same_id_and_body_give_the_same_answer(service: Service) -> None:
    campaign = service.open()["id"]
    first = service.decide(campaign, "a", cost="0.5")
    service.decide(campaign, "b")
    assert service.decide(campaign, "a", cost="0.50") == first
    service.outcome(campaign, "a", 1)
    service.restart()
    assert service.decide(campaign, "a", cost="0.5") == first
    assert service.campaign(campaign)["decisions"] == 2


@pytest.mark.parametrize("changes", [{"cost": "0.51"}, {"age": 0.25}])
def test_the_same_id_with_another_body_is_refused(
    service: Service, changes: dict[str, Any]
) -> None:
    campaign = service.open()["id"]
    service.decide(campaign, "a", cost="0.50")
    other = user("a", **{"cost": "0.50", **changes})
    path = f"{campaign}/decisions"
    assert "'a'" in refused(service.post(path, other), 409, "decision_id", "id-taken")
    listed = service.post(path, [user("b"), other])
    refused(listed, 409, "1.decision_id", "id-taken")
    assert service.campaign(campaign)["decisions"] == 1


def test_a_list_is_decided_in_its_order(service: Service) -> None:
    campaign = service.open(budget="2.00")["id"]
    answers = service.done(f"{campaign}/decisions", [user(id_) for id_ in "cab"])
    assert [(each["decision_id"], each["treatment"], each["remaining"]) for each in answers] == [
        ("c", "email", "1.00"),
        ("a", "email", "0.00"),
        ("b", None, "0.00"),
    ]


def test_known_and_new_ids_can_stand_in_one_list(service: Service) -> None:
    campaign = service.open()["id"]
    first = service.decide(campaign, "a")
    answers = service.done(f"{campaign}/decisions", [user("b"), user("a")])
    assert answers[1] == first
    assert service.campaign(campaign)["decisions"] == 2


def test_a_list_is_decided_whole_or_not_at_all(service: Service) -> None:
    campaign = service.open()["id"]
    response = service.post(f"{campaign}/decisions", [user("a"), user("b", cost="0")])
    refused(response, 422, "1.costs.email")
    assert service.campaign(campaign)["decisions"] == 0


def test_an_id_that_stands_twice_in_a_list_is_refused(service: Service) -> None:
    campaign = service.open()["id"]
    response = service.post(f"{campaign}/decisions", [user("a"), user("b"), user("a")])
    refused(response, 422, "2.decision_id")
    assert service.campaign(campaign)["decisions"] == 0


@pytest.mark.parametrize("count", [0, 1_001])
def test_lists_have_one_to_a_thousand_entries(service: Service, count: int) -> None:
    campaign = service.open()["id"]
    message = refused(
        service.post(f"{campaign}/decisions", [user(f"d{i}") for i in range(count)]),
        422,
        "the length of the list",
    )
    assert "must be 1 to 1000" in message
    whole = service.done(f"{campaign}/decisions", [user(f"d{i}") for i in range(1_000)])
    assert len(whole) == 1_000


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("decision_id", {"decision_id": ""}),
    ("decision_id", {"decision_id": "a b"}),
    ("decision_id", {"decision_id": "a" * 129}),
    ("decision_id", {"decision_id": 7}),
    ("features.age", {"features": {}}),
    ("features.size", {"features": {"age": 1, "size": 2}}),
    ("features.age", {"features": {"age": "1"}}),
    ("features.age", {"features": {"age": None}}),
    ("features.age", {"features": {"age": True}}),
    ("features.age", {"features": {"age": 1e101}}),
    ("features", {"features": [1]}),
    ("costs.email", {"costs": {}}),
    ("costs.call", {"costs": {"email": "1", "call": "1"}}),
    ("costs.email", {"costs": {"email": "0"}}),
    ("costs.email", {"costs": {"email": 1}}),
    ("costs.email", {"costs": {"email": "-1"}}),
    ("costs.email", {"costs": {"email": "1000000.000001"}}),
    ("costs.email", {"costs": {"email": "1,00"}}),
    ("extra", {"extra": 1}),
]


@pytest.mark.parametrize(("field", "changes"), WRONG)
def test_a_refused_decision_tells_its_field(
    service: Service, field: str, changes: dict[str, Any]
) -> None:
    campaign = service.open()["id"]
    body = {**user("a"), **changes}
    path = f"{campaign}/decisions"
    assert field in refused(service.post(path, body), 422, field, "invalid-field")
    refused(service.post(path, [user("b"), body]), 422, f"1.{field}", "invalid-field")
    assert service.campaign(campaign)["decisions"] == 0


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "1" * 400, "1" * 5_000])
def test_numbers_that_are_none_are_refused(service: Service, number: str) -> None:
    campaign = service.open()["id"]
    text = json.dumps(user("a", age=0.5)).replace("0.5", number)
    response = service.ask(
        "POST",
        f"{campaign}/decisions",
        content=text.encode(),
        headers={"content-type": "application/json"},
    )
    assert response.status_code in (400, 422), response.text
    listed = f"[{json.dumps(user('b'))}, {text}]"
    response = service.ask(
        "POST",
        f"{campaign}/decisions",
        content=listed.encode(),
        headers={"content-type": "application/json"},
    )
    if len(number) < 5_000:  # which no parser of JSON reads
        refused(response, 422, "1.features.age")
    assert service.campaign(campaign)["decisions"] == 0


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b'{"decision_id": "\\ud800"}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"null", "application/json", 422),
        (b'"a"', "application/json", 422),
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b" " * 8_000_001, "application/json", 413),
    ],
)
def test_a_body_that_is_no_json_is_refused(
    service: Service, content: bytes, kind: str, status: int
) -> None:
    campaign = service.open()["id"]
    response = service.ask(
        "POST", f"{campaign}/decisions", content=content, headers={"content-type": kind}
    )
    refused(response, status)


def test_json_may_tell_its_charset(service: Service) -> None:
    campaign = service.open()["id"]
    kind = {"content-type": "application/json; charset=utf-8"}
    assert service.post(f"{campaign}/decisions", user("a"), headers=kind).status_code == 200


def test_each_treatment_has_its_cost_whatever_their_order(service: Service) -> None:
    campaign = service.open(
        treatments=["email", "call"], policy={"name": "cheapest-first"}, horizon={"users": 1}
    )["id"]
    body = {"decision_id": "a", "features": {"age": 0}, "costs": {"call": "0.25", "email": "9.00"}}
    answer = service.done(f"{campaign}/decisions", body)
    cost = {"email": "9.00", "call": "0.25", None: "0.00"}[answer["treatment"]]
    assert service.money(campaign)[1] == cost
    turned = {**body, "costs": {"email": "9.00", "call": "0.25"}}
    assert service.done(f"{campaign}/decisions", turned) == answer


def test_a_shadow_campaign_says_not_to_act(service: Service) -> None:
    campaign = service.open(mode="shadow")["id"]
    answer = service.decide(campaign, "a")
    assert (answer["act"], answer["treatment"]) == (False, "email")


def test_a_cancelled_decision_is_not_given_out_again(service: Service) -> None:
    campaign = service.open(budget="1.00")["id"]
    service.decide(campaign, "a", cost="1.00")
    service.done(f"{campaign}/decisions/a/cancel")
    service.decide(campaign, "b", cost="1.00")
    refused(service.post(f"{campaign}/decisions", user("a", cost="1.00")), 409, "decision_id")


def test_a_long_list_of_nonsense_is_refused_at_its_first_fault(service: Service) -> None:
    campaign = service.open()["id"]
    refused(service.post(f"{campaign}/decisions", [0] * 100), 422, "0")
    long = [user(f"d{i}") for i in range(1_500)]
    refused(service.post(f"{campaign}/decisions", long), 422, "the length of the list")
    features = {f"f{i}": i for i in range(2_000)}
    response = service.post(f"{campaign}/decisions", {**user("a"), "features": features})
    refused(response, 422, "features")


def test_answers_are_written_as_the_types_that_clients_read() -> None:
    terms = replace(TERMS, treatments=("email", "call"))
    events = [
        Event(1, 2, 3, "decision", "a", 1, 0, 0, None, 0.0, 1.0, 5_000_000, b""),
        Event(1, 3, 3, "decision", "b", 2, 2, 1, None, 1e-9, 0.25, 4_999_999, b""),
    ]
    rows = [
        DecisionAnswer("a", None, 1.0, 0.0, Decimal("5.00"), act=True),
        DecisionAnswer("b", "call", 0.25, 1e-9, Decimal("4.999999"), act=True),
    ]
    assert encode(answers(Made(terms, events))) == encode(rows)
    assert encode(answer_columns(Made(terms, events))) == encode(
        DecisionColumnsAnswer(
            ("a", "b"),
            (None, "call"),
            (1.0, 0.25),
            (0.0, 1e-9),
            (Decimal("5.00"), Decimal("4.999999")),
            act=True,
        )
    )


def test_users_of_several_campaigns_are_looked_up_together(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaigns = [service.open(name=f"campaign {i}")["id"] for i in range(3)]
    bodies = [[user("same"), user(f"u{i}")] for i in range(3)]
    asked = [
        Asked(id_, UserRows.of(msgspec.convert(body, list[DecisionRequest])))
        for id_, body in zip(campaigns, bodies, strict=True)
    ]
    first = [
        service.done(f"{id_}/decisions", body[:1])
        for id_, body in zip(campaigns, bodies, strict=True)
    ]

    reads: list[Any] = []
    ledger = service.books.ledger
    together, alone = ledger.known_in, ledger.known

    def read_together(ids: Any) -> Any:
        reads.append(ids)
        return together(ids)

    def read_alone(campaign: int, ids: Any) -> Any:
        assert not ledger.shared, "one more round trip"
        return alone(campaign, ids)

    monkeypatch.setattr(ledger, "known_in", read_together)
    monkeypatch.setattr(ledger, "known", read_alone)

    def command(books: Books, at: int) -> list[Made | ProblemError]:
        return decide(books, at, [*asked, *asked])

    made = service.run(service.engine.do(command))
    assert len(reads) == ledger.shared
    rows = [msgspec.to_builtins(answers(each)) for each in made if isinstance(each, Made)]
    assert [row[:1] for row in rows[:3]] == first
    assert rows[:3] == rows[3:]
    for id_, row in zip(campaigns, rows, strict=False):
        assert service.campaign(id_)["decisions"] == len(row) == 2


def test_an_outcome_in_the_same_batch_is_seen_after_users_were_looked_up_together(
    service: Service,
) -> None:
    campaigns = [service.open(name=f"campaign {i}")["id"] for i in range(2)]
    for id_ in campaigns:
        service.decide(id_, "old")
    users = msgspec.convert([user("old"), user("new")], list[DecisionRequest])
    asked = [Asked(id_, UserRows.of(users)) for id_ in campaigns]

    def command(books: Books, at: int) -> list[OutcomeAnswer]:
        decide(books, at, asked)
        items = [OutcomeItem(value=1.0, decision_id=each) for each in ("old", "new")]
        reports = Reports(campaigns[0], items, single=False)
        first, again = (observe(books, at, reports) for _ in range(2))
        return [*first, *again]

    told = service.run(service.engine.do(command))
    assert [each.status for each in told] == ["recorded"] * 2 + ["already_recorded"] * 2
    assert service.campaign(campaigns[0])["pending"] == 0
    assert service.campaign(campaigns[1])["pending"] == 2
