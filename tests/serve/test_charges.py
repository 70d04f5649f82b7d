"""Costs that are charged on conversion, and the cost cap, in the service."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from bccb.ledger.event import Kind
from bccb.policies import make
from bccb.serve.campaigns import terms_of
from bccb.serve.recovery import fold
from bccb.serve.refold import Differences
from bccb.serve.terms import Terms
from bccb.wire import CampaignRequest, decoder
from serve.service import TERMS, Service, refused, user

CAPPED = {**TERMS, "policy": {"name": "pooled-bayes"}}  # a cap applies to it


def opened(service: Service, **more: Any) -> str:
    """A campaign that is charged on conversion."""
    id_: str = service.open(charge="conversion", **more)["id"]
    return id_


def check_fold(service: Service, id_: str) -> None:
    """The state is the fold of the whole journal, to the bit."""
    campaign = service.books.campaign(id_)
    account = service.books.ledger.account(id_)
    assert account is not None
    folded = fold(service.books.ledger, account, None)
    assert folded.to_bytes() == campaign.to_bytes()


def test_a_conversion_is_charged_and_all_else_returns(service: Service) -> None:
    id_ = opened(service, budget="10")
    for name in ("bought", "left", "silent", "undone"):
        assert service.decide(id_, name, "2.00")["treatment"] == "email"
    assert service.money(id_) == ("0.00", "8.00", "2.00")
    assert service.outcome(id_, "bought", 1).is_success
    assert service.money(id_) == ("2.00", "6.00", "2.00")
    assert service.outcome(id_, "left", 0).is_success
    assert service.money(id_) == ("2.00", "4.00", "4.00")
    undone = service.done(f"{id_}/decisions/undone/cancel")
    assert (undone["reserved"], undone["spent"]) == ("0.00", "0.00")
    assert service.money(id_) == ("2.00", "2.00", "6.00")
    service.clock.advance(61)
    service.sweep()
    assert service.money(id_) == ("2.00", "0.00", "8.00")
    service.restart()
    assert service.money(id_) == ("2.00", "0.00", "8.00")
    machine = service.books.campaign(id_).machine
    assert (machine.held_micros, machine.remaining_micros) == (0, 8_000_000)
    check_fold(service, id_)


def test_a_part_of_a_conversion_is_one(service: Service) -> None:
    id_ = opened(service, budget="10")
    service.decide(id_, "a", "2.00")
    service.outcome(id_, "a", 0.25)
    assert service.money(id_) == ("2.00", "0.00", "8.00")


def test_nobody_is_treated_with_money_that_is_held(service: Service) -> None:
    id_ = opened(service, budget="3")
    answers = service.done(f"{id_}/decisions", [user(f"u{i}", "1.00") for i in range(5)])
    assert [answer["treatment"] for answer in answers] == ["email"] * 3 + [None] * 2
    service.outcome(id_, "u0", 0)
    assert service.decide(id_, "again", "1.00")["treatment"] == "email"
    for each in ("u1", "u2", "again"):
        service.outcome(id_, each, 1)
    assert service.money(id_) == ("3.00", "0.00", "0.00")


def test_a_conversion_after_the_window_costs_nothing(service: Service) -> None:
    id_ = opened(service)
    service.decide(id_, "a", "2.00")
    service.clock.advance(61)
    assert service.outcome(id_, "a", 1).json()["status"] == "too_late"
    assert service.money(id_) == ("0.00", "0.00", "100.00")


def test_what_a_conversion_cost_less_is_settled_and_nothing_else(service: Service) -> None:
    id_ = opened(service)
    for name in ("bought", "left", "open"):
        service.decide(id_, name, "2.00")
    service.outcome(id_, "bought", 1)
    service.outcome(id_, "left", 0)
    for name in ("left", "open"):
        said = refused(
            service.post(f"{id_}/decisions/{name}/settle", {"cost": "1"}), 409, kind="not-converted"
        )
        assert "charged on conversion" in said
    settled = service.done(f"{id_}/decisions/bought/settle", {"cost": "1.25"})
    assert (settled["reserved"], settled["spent"]) == ("0.00", "1.25")
    assert service.done(f"{id_}/decisions/bought/settle", {"cost": "1.25"}) == settled
    assert service.money(id_) == ("1.25", "2.00", "96.75")
    service.outcome(id_, "open", 0)
    assert service.money(id_) == ("1.25", "0.00", "98.75")
    check_fold(service, id_)


def test_a_shadow_counts_conversions_of_what_it_would_have_done(service: Service) -> None:
    id_ = opened(service, mode="shadow", budget="10")
    for name in ("both", "neither", "other"):
        service.decide(id_, name, "2.00")
    service.outcome(id_, "both", 1, action="email")
    service.outcome(id_, "neither", 0, action="email")
    service.outcome(id_, "other", 1, action=None)
    assert service.money(id_) == ("2.00", "0.00", "8.00")
    check_fold(service, id_)


def test_the_terms_are_shown_and_stay(service: Service) -> None:
    asked = {**CAPPED, "name": "coupons", "charge": "conversion", "cost_cap": "12.5000009"}
    shown = service.done("", asked)
    assert (shown["charge"], shown["cost_cap"]) == ("conversion", "12.50")
    assert service.done("", asked)["id"] == shown["id"]
    for change in ({"charge": "treatment"}, {"cost_cap": None}):
        refused(service.post("", {**asked, **change}), 409, "name", "name-taken")
    service.restart()
    kept = service.campaign(shown["id"])
    assert (kept["charge"], kept["cost_cap"]) == ("conversion", "12.50")


def test_terms_without_them_are_as_they_were(service: Service) -> None:
    plain = service.done("", {**TERMS, "name": "plain"})
    assert (plain["charge"], plain["cost_cap"], plain["cap_binds"]) == ("treatment", None, False)
    terms = service.books.campaign(plain["id"]).terms
    kept, asked = json.loads(terms.to_json()), json.loads(terms.asked)
    assert not {"charge", "cost_cap"} & (kept.keys() | asked.keys())
    request = decoder(CampaignRequest).decode(json.dumps({**TERMS, "name": "plain"}).encode())
    assert list(asked) == [name for name in request.__struct_fields__ if name in asked]
    named = {**TERMS, "name": "plain", "charge": "treatment", "cost_cap": None}
    assert service.done("", named)["id"] == plain["id"]


def test_terms_come_back_from_json() -> None:
    body = {**CAPPED, "name": "x", "charge": "conversion", "cost_cap": "8999999999.999999"}
    terms = terms_of(decoder(CampaignRequest).decode(json.dumps(body).encode()), 5)
    assert Terms.from_json(terms.to_json()) == terms
    assert terms.machine().counts.tolist()[12:14] == [8_999_999_999_999_999, 1]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("charge", "click", "charge is 'click', but must be one of 'conversion', 'treatment'"),
        ("charge", None, "charge is None, but must be one of 'conversion', 'treatment'"),
        ("cost_cap", "0", "cost_cap is '0', but must be at least 0.000001"),
        ("cost_cap", "0.0000009", "cost_cap is '0.0000009', but must be at least 0.000001"),
        ("cost_cap", "-1", "cost_cap is '-1', but must be above 0"),
        ("cost_cap", "ten", "cost_cap is 'ten', but must be decimal text"),
        ("cost_cap", 12.5, "cost_cap is 12.5, but must be decimal text"),
        ("cost_cap", "9999999999", "cost_cap is '9999999999', but must be at least 0.000001 and"),
    ],
)
def test_bad_terms_are_refused_in_a_sentence(
    service: Service, field: str, value: object, said: str
) -> None:
    detail = refused(service.post("", {**TERMS, "name": "x", field: value}), 422, field)
    assert detail.startswith(said)
    assert detail.count("\n") == 0


def test_learning_is_taken_from_a_campaign_with_the_same_charge(service: Service) -> None:
    source = opened(service, policy={"name": "pooled-bayes"}, mode="shadow")
    service.decide(source, "a")
    service.outcome(source, "a", 1, action="email")
    live = opened(service, policy={"name": "pooled-bayes"}, learned_from=source, cost_cap="3")
    assert service.books.campaign(live).machine.held_micros == 0
    service.decide(live, "b")
    check_fold(service, live)
    other = {**TERMS, "name": "other", "policy": {"name": "pooled-bayes"}, "learned_from": source}
    assert "charge and share" in refused(service.post("", other), 422, "learned_from")


def test_an_uploaded_policy_must_have_the_same_charge(service: Service) -> None:
    id_ = opened(service, policy={"name": "pooled-bayes"}, learned_from="upload")
    policy = make("pooled-bayes", budget=5, horizon=9, features=1)
    sent = {"content": policy.to_bytes(), "headers": {"content-type": "application/octet-stream"}}
    said = refused(service.ask("PUT", f"{id_}/learning", **sent), 422, kind="invalid-learning")
    assert 'make it with charge="conversion"' in said


def test_a_cap_that_binds_is_shown_and_money_is_left(service: Service) -> None:
    """Nothing is worth its price: a lift of 0.3 on any rate is below 2."""
    tight: dict[str, Any] = {"policy": {"name": "response-first"}, "budget": "1000"}
    capped = service.open(**tight, cost_cap="0.5")["id"]
    free = service.open(**tight)["id"]
    for id_ in (capped, free):
        service.done(f"{id_}/decisions", [user(f"u{i}", "1.00") for i in range(40)])
    assert service.money(capped)[2] == "1000.00"
    assert service.campaign(capped)["cap_binds"] is True
    assert service.campaign(free)["cap_binds"] is False
    assert service.money(free)[2] == "960.00"
    metrics = service.get("/metrics").text
    assert f'bccb_campaign_cap_binds{{campaign="{capped}"}} 1.0' in metrics
    assert f'bccb_campaign_cap_binds{{campaign="{free}"}}' not in metrics
    behind = [each.campaign_id for each in service.look() if each.kind == "off_plan"]
    assert behind == [free]  # the other one is so on purpose


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("treat-all", "ignores costs"),
        ("cheapest-first", "estimates no effects"),
        ("thompson", "ignores costs"),
    ],
)
def test_a_cap_for_a_policy_that_none_applies_to_is_refused(
    service: Service, name: str, why: str
) -> None:
    body = {**TERMS, "name": "x", "policy": {"name": name}, "cost_cap": "0.50"}
    said = refused(service.post("", body), 422, "cost_cap", kind="invalid-field")
    assert said.startswith("cost_cap is '0.50', but must be left out: no cap applies to a policy")
    assert said.endswith(f"that {why}")


def test_the_price_is_never_below_the_cap_allows(service: Service) -> None:
    id_ = service.open(policy={"name": "pooled-bayes"}, cost_cap="4")["id"]
    answers = service.done(f"{id_}/decisions", [user(f"u{i}", "1.00") for i in range(50)])
    assert min(answer["price"] for answer in answers) == 0.25


def test_money_that_is_held_is_said_where_none_is_free(service: Service) -> None:
    id_ = opened(service, budget="3")
    service.done(f"{id_}/decisions", [user(f"u{i}", "1.00") for i in range(3)])
    (notice,) = service.look()
    assert notice.kind == "money_gone"
    assert "3.00 is held until outcomes are known" in notice.text
    for i in range(3):
        service.outcome(id_, f"u{i}", 0)
    (notice,) = service.look()
    assert notice.state == "cleared"


def test_what_other_code_decided_is_followed_to_the_micro(service: Service) -> None:
    """A refold keeps to recorded money: what is held, too."""
    id_ = opened(service, budget="10")
    service.decide(id_, "a", "2.00")
    service.outcome(id_, "a", 1)
    campaign = service.books.campaign(id_)
    events = list(service.books.ledger.events(campaign.key))
    decision = next(event for event in events if event.kind == Kind.DECISION)
    copy = type(campaign)(campaign.key, id_, campaign.terms)
    differences = Differences()
    copy.opening()
    made = copy.deciding(
        [decision.at],
        ["a"],
        copy.trace(decision)[None, :1].copy(),
        copy.costs(decision)[None, :],
        [b""],
    )[0]
    left = decision._replace(action=0, money=0, remaining=10_000_000)
    differences.accept(copy, left, made)
    assert (copy.reserved, copy.machine.held_micros) == (0, 0)
    assert copy.machine.remaining_micros == 10_000_000
    assert copy.machine.counts.min() >= 0


def test_the_end_of_the_money_and_the_plan_allow_for_what_returns(service: Service) -> None:
    """Before the first outcome all is held; most of it will return."""
    id_ = opened(service, budget="1000", horizon={"users": 1_000}, policy={"name": "pooled-bayes"})
    for i in range(40):
        service.clock.advance(1)
        service.decide(id_, f"u{i}", "1.00")
    report = service.get(f"{id_}/report").json()
    machine = service.books.campaign(id_).machine
    held, back = float(report["campaign"]["reserved"]), machine.to_return / 1e6
    assert float(report["to_return"]) == back > 0.5 * held > 0.0
    points = service.books.campaign(id_).tally.points[-20:]
    more, seconds = (points[-1].spent - points[0].spent) / 1e6, 19.0
    speed = more * (1.0 - back / held) / seconds
    wait = moment(report["money_ends_at"]) - moment(report["now"])
    assert wait == pytest.approx((1_000.0 - held + back) / speed, rel=1e-3)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
