"""Campaigns whose outcomes are amounts of money, and charges that are a share of them."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np
import polars
import pytest

import bccb
from bccb.data.service_log import recognised
from bccb.kernels import counts as count
from bccb.ledger.event import Kind
from bccb.serve.campaigns import open_campaign, terms_of
from bccb.serve.problem import ProblemError
from bccb.serve.recovery import fold
from bccb.serve.terms import Terms
from bccb.wire import CampaignRequest, decoder
from serve.service import TERMS, Service, refused, user

AMOUNT = {"kind": "amount", "largest": "500.00"}
NEW = {"outcome", "negative", "largest", "share", "currency"}


def opened(service: Service, **more: Any) -> str:
    """A campaign in money, a fifth of which a treatment costs."""
    given = {"outcome": AMOUNT, "charge": "conversion", "share": 0.2, "currency": "EUR", **more}
    id_: str = service.open(**given)["id"]
    return id_


def check_fold(service: Service, id_: str) -> None:
    """The state is the fold of the whole journal, to the bit."""
    account = service.books.ledger.account(id_)
    assert account is not None
    folded = fold(service.books.ledger, account, None)
    assert folded.to_bytes() == service.books.campaign(id_).to_bytes()


def request(**more: Any) -> CampaignRequest:
    body = json.dumps({**TERMS, "name": "x", **more}).encode()
    return decoder(CampaignRequest).decode(body)


# Money


@pytest.mark.parametrize(
    ("amount", "spent"),
    [
        (10.0, "2.00"),
        (0.0, "0.00"),
        (100.0, "5.00"),  # at most the cost
        (-20.0, "0.00"),
        (0.333333, "0.066667"),
        (1e9, "5.00"),
        (1e-9, "0.00"),
    ],
)
def test_a_share_of_the_amount_is_charged_at_most_the_cost(
    service: Service, amount: float, spent: str
) -> None:
    id_ = opened(service, budget="50")
    service.decide(id_, "a", "5.00")
    assert service.money(id_) == ("0.00", "5.00", "45.00")
    answer = service.outcome(id_, "a", amount).json()
    assert answer == {"decision_id": "a", "value": amount, "status": "recorded"}
    shown = service.campaign(id_)
    assert (shown["spent"], shown["reserved"]) == (spent, "0.00")
    assert (shown["value"], shown["conversions"]) == (amount, float(amount != 0.0))
    service.restart()
    assert service.campaign(id_)["spent"] == spent
    check_fold(service, id_)


def test_without_a_share_any_amount_but_zero_charges_the_whole_cost(service: Service) -> None:
    id_ = opened(service, share=None)
    for name, amount in (("sold", 3.5), ("returned", -3.5), ("left", 0.0)):
        service.decide(id_, name, "5.00")
        service.outcome(id_, name, amount)
    assert service.money(id_) == ("10.00", "0.00", "90.00")
    check_fold(service, id_)


def test_amounts_are_kept_to_the_bit(service: Service) -> None:
    id_ = opened(service)
    amounts = [0.1 + 0.2, math.nextafter(1e9, 0.0), -1e9, 5e-324, 19.99, -0.0]
    for i, amount in enumerate(amounts):
        service.decide(id_, f"u{i}")
        assert service.outcome(id_, f"u{i}", amount).is_success
    service.restart()
    events = service.books.ledger.events(service.books.campaign(id_).key)
    kept = [event.value for event in events if event.kind == Kind.OUTCOME]
    assert [np.float64(each).tobytes() for each in kept] == [
        np.float64(each + 0.0).tobytes() for each in amounts
    ]
    same = service.outcome(id_, "u0", 0.30000000000000004).json()
    assert same["status"] == "already_recorded"
    said = refused(service.outcome(id_, "u0", 0.3), 409, "value", "outcome-differs")
    assert "has the outcome 0.3 already" in said
    check_fold(service, id_)


def test_what_was_charged_less_is_settled(service: Service) -> None:
    id_ = opened(service)
    for name, amount in (("sold", 10.0), ("returned", -10.0)):
        service.decide(id_, name, "5.00")
        service.outcome(id_, name, amount)
    path = f"{id_}/decisions/sold/settle"
    said = refused(service.post(path, {"cost": "2.50"}), 422, "cost")
    assert said == "cost is '2.50', but must be at most 2.00, what was charged"
    refused(service.post(path, {"cost": "5.01"}), 422, "cost")
    settled = service.done(path, {"cost": "1.50"})
    assert (settled["spent"], settled["reserved"]) == ("1.50", "0.00")
    assert service.done(path, {"cost": "1.50"}) == settled
    refused(service.post(path, {"cost": "1.00"}), 409, "cost", "settlement-differs")
    said = refused(
        service.post(f"{id_}/decisions/returned/settle", {"cost": "0"}), 409, kind="not-treated"
    )
    assert "has returned already" in said
    assert service.money(id_) == ("1.50", "0.00", "98.50")
    service.restart()
    check_fold(service, id_)


def test_a_shadow_is_charged_where_both_agree(service: Service) -> None:
    id_ = opened(service, mode="shadow", budget="10")
    for name in ("both", "other"):
        service.decide(id_, name, "2.00")
    service.outcome(id_, "both", 5.0, action="email")
    service.outcome(id_, "other", 5.0, action=None)
    assert service.money(id_) == ("1.00", "0.00", "9.00")
    check_fold(service, id_)


def test_an_amount_after_the_window_is_counted_and_costs_nothing(service: Service) -> None:
    id_ = opened(service)
    for name, amount in (("late", 25.0), ("return", -25.0), ("zero", 0.0)):
        service.decide(id_, name)
        service.clock.advance(61)
        status = service.outcome(id_, name, amount).json()["status"]
        assert status == ("too_late" if amount else "already_recorded")
    shown = service.campaign(id_)
    assert (shown["too_late"], shown["value"], shown["spent"]) == (2, 0.0, "0.00")


# Bad input


@pytest.mark.parametrize(
    ("outcome", "value", "said"),
    [
        (AMOUNT, 1e9 + 1, "value is 1000000001.0, but must be a number from -1,000,000,000 to"),
        (AMOUNT, -2e9, "value is -2000000000.0, but must be a number from -1,000,000,000 to"),
        (AMOUNT, "12.50", "value is '12.50', but must be a number from -1,000,000,000 to"),
        (
            {**AMOUNT, "negative": False},
            -0.01,
            "value is -0.01, but must be an amount from 0 to 1,000,000,000: the campaign takes",
        ),
        ({}, 1.5, "value is 1.5, but must be a number from 0 to 1"),
        ({}, -0.5, "value is -0.5, but must be a number from 0 to 1"),
    ],
)
def test_an_outcome_of_another_kind_is_refused_in_a_sentence(
    service: Service, outcome: dict[str, Any], value: Any, said: str
) -> None:
    id_ = service.open(outcome=outcome)["id"]
    service.decide(id_, "a")
    single = service.ask("PUT", f"{id_}/decisions/a/outcome", {"value": value})
    assert refused(single, 422, "value").startswith(said)
    several = [{"decision_id": "a", "value": 0}, {"decision_id": "a", "value": value}]
    assert refused(service.post(f"{id_}/outcomes", several), 422, "1.value").startswith("1." + said)
    assert service.campaign(id_)["pending"] == 1


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_an_amount_that_is_not_finite_is_refused(service: Service, text: str) -> None:
    id_ = opened(service)
    service.decide(id_, "a")
    headers = {"content-type": "application/json"}
    path, body = f"{id_}/decisions/a/outcome", f'{{"value": {text}}}'
    said = refused(service.ask("PUT", path, content=body, headers=headers), 422, "value")
    assert "must be a number from -1,000,000,000 to 1,000,000,000" in said


@pytest.mark.parametrize(
    ("terms", "field", "said"),
    [
        ({"outcome": "amount"}, "outcome", "outcome is 'amount', but must be an object, such as"),
        ({"outcome": {"kind": "revenue"}}, "outcome.kind", "outcome.kind is 'revenue', but must"),
        ({"outcome": {"negative": False}}, "outcome.negative", "outcome.negative is False, but"),
        ({"outcome": {"largest": "5"}}, "outcome.largest", "outcome.largest is '5', but must be"),
        ({"outcome": {**AMOUNT, "largest": "0"}}, "outcome.largest", "outcome.largest is '0', but"),
        ({"outcome": {**AMOUNT, "largest": 500}}, "outcome.largest", "outcome.largest is 500, but"),
        (
            {"outcome": {**AMOUNT, "largest": "1000000001"}},
            "outcome.largest",
            "outcome.largest is '1000000001', but must be at least 0.000001 and at most 1,000,000",
        ),
        ({"share": 0.2}, "share", "share is 0.2, but must be left out: it is about amounts"),
        ({"outcome": AMOUNT, "share": 0.2}, "share", "share is 0.2, but must be left out: a share"),
        ({"share": 1.01}, "share", "share is 1.01, but must be at least 0.000001 and at most 1"),
        ({"share": 0}, "share", "share is 0.0, but must be at least 0.000001 and at most 1"),
        ({"share": 1e-7}, "share", "share is 1e-07, but must be at least 0.000001 and at most 1"),
        ({"share": "0.2"}, "share", "share is '0.2', but must be a number"),
        ({"currency": "EURO"}, "currency", "currency is 'EURO', but must be up to 3 letters"),
        ({"currency": "€"}, "currency", "currency is '€', but must be up to 3 letters"),
        ({"currency": ""}, "currency", "currency is '', but must be up to 3 letters"),
    ],
)
def test_bad_terms_are_refused_in_a_sentence(
    service: Service, terms: dict[str, Any], field: str, said: str
) -> None:
    if "share" in terms and "is 0.2" not in said:
        terms = {"outcome": AMOUNT, "charge": "conversion", **terms}
    detail = refused(service.post("", {**TERMS, "name": "x", **terms}), 422, field)
    assert detail.startswith(said)
    assert detail.count("\n") == 0


def test_a_policy_that_learns_rates_alone_is_refused(service: Service) -> None:
    asked = {**TERMS, "name": "x", "outcome": AMOUNT, "policy": {"name": "thompson"}}
    assert "thompson learns rates only" in refused(service.post("", asked), 422, "policy")


def test_a_ledger_that_is_not_upgraded_takes_no_amounts(
    file_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = file_service
    monkeypatch.setattr("bccb.ledger.sqlite.ledger.schema_version", lambda file: 3)
    with pytest.raises(ProblemError, match="until the ledger is upgraded") as refusal:
        open_campaign(service.books, service.clock(), terms_of(request(outcome=AMOUNT), 5))
    assert refusal.value.field == "outcome.kind"
    open_campaign(service.books, service.clock(), terms_of(request(), 5))


# Terms


def test_the_terms_are_shown_and_stay(service: Service) -> None:
    asked = {**TERMS, "name": "money", "charge": "conversion", "share": 0.25, "currency": "EUR"}
    asked["outcome"] = {"kind": "amount", "negative": False, "largest": "250.5000009"}
    shown = service.done("", asked)
    outcome = {"kind": "amount", "negative": False, "largest": "250.50"}
    assert (shown["outcome"], shown["share"], shown["currency"]) == (outcome, 0.25, "EUR")
    assert service.done("", asked)["id"] == shown["id"]
    for change in (
        {"outcome": {**asked["outcome"], "negative": True}},
        {"outcome": {**asked["outcome"], "largest": None}},
        {"share": None},
        {"currency": "USD"},
    ):
        refused(service.post("", {**asked, **change}), 409, "name", "name-taken")
    service.restart()
    kept = service.campaign(shown["id"])
    assert (kept["outcome"], kept["share"], kept["currency"]) == (outcome, 0.25, "EUR")


def test_terms_without_them_are_as_they_were(service: Service) -> None:
    plain = service.done("", {**TERMS, "name": "plain"})
    assert plain["outcome"] == {"kind": "conversion", "negative": True, "largest": None}
    assert (plain["share"], plain["currency"], plain["value"]) == (None, None, None)
    terms = service.books.campaign(plain["id"]).terms
    assert not NEW & (json.loads(terms.to_json()).keys() | json.loads(terms.asked).keys())
    named = {**TERMS, "name": "plain", "outcome": {"kind": "conversion"}, "share": None}
    assert service.done("", named)["id"] == plain["id"]
    assert "outcome_kind" not in service.get(f"{plain['id']}/log").text


def test_terms_come_back_from_json() -> None:
    given = {"charge": "conversion", "share": 0.3, "currency": "EUR"}
    largest = {"kind": "amount", "largest": "999999999.999999", "negative": False}
    terms = terms_of(request(outcome=largest, **given), 5)
    assert Terms.from_json(terms.to_json()) == terms
    counts = terms.machine().counts
    assert counts[count.SHARE] == 300_000
    assert counts[count.LARGEST] == 999_999_999_999_999
    assert terms.machine().composition.amounts


def test_learning_is_taken_from_a_campaign_of_the_same_kind(service: Service) -> None:
    bayes = {"policy": {"name": "pooled-bayes"}}
    source = opened(service, **bayes, mode="shadow")
    service.decide(source, "a")
    service.outcome(source, "a", 30.0, action="email")
    live = opened(service, **bayes, learned_from=source)
    service.decide(live, "b")
    check_fold(service, live)
    money = {"outcome": AMOUNT, "charge": "conversion"}
    for other in ({}, {"charge": "conversion"}, money, {**money, "share": 0.3}):
        asked = {**TERMS, "name": "other", **bayes, **other, "learned_from": source}
        said = refused(service.post("", asked), 422, "learned_from")
        assert "policy, outcome, charge and share" in said


def test_learning_is_not_taken_from_a_campaign_in_another_currency(service: Service) -> None:
    bayes = {"policy": {"name": "pooled-bayes"}}
    source = opened(service, **bayes, mode="shadow", currency="EUR")
    asked = {**TERMS, "name": "other", **bayes, "outcome": AMOUNT, "charge": "conversion"}
    asked |= {"share": 0.2, "learned_from": source}
    said = refused(service.post("", asked | {"currency": "JPY"}), 422, "learned_from")
    assert "a campaign in JPY, as this one" in said


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({}, 'make it with outcome="amount"'),
        ({"outcome": "amount"}, 'make it with charge="conversion"'),
        ({"outcome": "amount", "charge": "conversion"}, "has the share 0, but the campaign 0.2"),
    ],
)
def test_an_uploaded_policy_must_be_of_the_same_kind(
    service: Service, made: dict[str, Any], said: str
) -> None:
    id_ = opened(service, policy={"name": "pooled-bayes"}, learned_from="upload")
    policy = bccb.make("pooled-bayes", budget=5, horizon=9, features=1, **made)
    sent = {"content": policy.to_bytes(), "headers": {"content-type": "application/octet-stream"}}
    detail = refused(service.ask("PUT", f"{id_}/learning", **sent), 422, kind="invalid-learning")
    assert said in detail


# What is shown


def lived(service: Service, **more: Any) -> str:
    """A campaign with sixty users, of whom every fourth brings something."""
    id_ = opened(service, **{"policy": {"name": "pooled-bayes"}, "budget": "500", **more})
    service.done(f"{id_}/decisions", [user(f"u{i}", "2.00", i / 60) for i in range(60)])
    items = [{"decision_id": f"u{i}", "value": (i % 4 == 0) * (5.0 + i)} for i in range(60)]
    service.done(f"{id_}/outcomes", items)
    return id_


def test_caused_value_and_the_return_on_spend_are_those_of_the_policy(service: Service) -> None:
    id_ = lived(service)
    shown, campaign = service.campaign(id_), service.books.campaign(id_)
    caused, estimated = shown["caused"], campaign.machine.estimated()
    assert estimated is not None
    assert caused["estimated"]["value"] == estimated.value
    assert caused["measured"]["high"] <= 500.0 * shown["treated"]
    assert caused["measured_users"] == 60
    assert caused["not_measured"] is None
    assert caused["measurable"]
    returned = caused["return_on_spend"]
    for end in ("value", "low", "high"):
        assert returned[end] == pytest.approx(caused["estimated"][end] / float(shown["spent"]))
    assert shown["conversions"] == 15.0
    assert shown["value"] == sum(5.0 + i for i in range(0, 60, 4))


def test_what_is_expected_to_return_is_not_counted_as_spent(service: Service) -> None:
    id_ = lived(service)
    service.done(f"{id_}/decisions", [user(f"v{i}", "2.00") for i in range(20)])
    shown, machine = service.campaign(id_), service.books.campaign(id_).machine
    assert 0 < machine.to_return < machine.held_micros == float(shown["reserved"]) * 1e6
    out = float(shown["spent"]) + float(shown["reserved"]) - machine.to_return / 1e6
    caused = shown["caused"]
    assert caused["return_on_spend"]["value"] == pytest.approx(caused["estimated"]["value"] / out)


def test_without_a_largest_amount_nothing_is_measured_and_the_reason_is_given(
    service: Service,
) -> None:
    caused = service.campaign(lived(service, outcome={"kind": "amount"}))["caused"]
    assert caused["measured"] is None
    assert '"largest": "500.00"' in caused["not_measured"]
    assert not caused["measurable"]
    assert caused["estimated"] is not None


def test_value_per_user_is_that_of_the_normal_approximation(service: Service) -> None:
    id_ = lived(service, budget="60")
    values: dict[str | None, list[float]] = {}
    for line in service.get(f"{id_}/log").text.splitlines():
        row = json.loads(line)
        values.setdefault(row["treatment"], []).append(row["outcome"])
    for arm in service.get(f"{id_}/report").json()["arms"]:
        amounts = np.array(values[arm["treatment"] or "control"])
        reach = 1.959964 * amounts.std() / math.sqrt(len(amounts))
        shown = arm["value_per_user"]
        assert arm["value"] == pytest.approx(amounts.sum())
        assert arm["conversions"] == np.count_nonzero(amounts)
        assert shown["value"] == pytest.approx(amounts.mean())
        assert (shown["low"], shown["high"]) == pytest.approx(
            (amounts.mean() - reach, amounts.mean() + reach)
        )


def test_one_order_does_not_tell_what_users_bring(service: Service) -> None:
    id_ = opened(service, policy={"name": "pooled-bayes"}, budget="500")
    service.done(f"{id_}/decisions", [user(f"u{i}", "2.00") for i in range(9)])
    service.done(f"{id_}/outcomes", [{"decision_id": "u0", "value": 12.5}])
    arms = service.get(f"{id_}/report").json()["arms"]
    assert sum(arm["value"] for arm in arms) == 12.5
    assert [arm["value_per_user"] for arm in arms] == [None, None]


def test_the_value_is_a_metric_of_campaigns_in_money(service: Service) -> None:
    id_, plain = lived(service), service.open()["id"]
    metrics = service.get("/metrics").text
    value = sum(5.0 + i for i in range(0, 60, 4))
    assert f'bccb_campaign_value{{campaign="{id_}"}} {value}' in metrics
    assert f'bccb_campaign_value{{campaign="{plain}"}}' not in metrics


def test_alerts_tell_the_currency(service: Service) -> None:
    id_ = opened(service, budget="3", share=None, charge="treatment")
    service.done(f"{id_}/decisions", [user(f"u{i}", "1.00") for i in range(3)])
    (notice,) = service.look()
    assert notice.text == "Nothing is left of 3.00 EUR: nobody is treated without more."


@pytest.mark.parametrize("mode", ["live", "shadow"])
def test_the_log_tells_the_kind_in_every_format(service: Service, mode: str) -> None:
    id_ = opened(service, mode=mode)
    service.decide(id_, "a")
    service.outcome(id_, "a", 12.25, **({"action": "email"} if mode == "shadow" else {}))
    frames = [
        polars.read_ndjson(io.StringIO(service.get(f"{id_}/log").text)),
        polars.read_csv(service.get(f"{id_}/log", format="csv").content),
        polars.read_parquet(
            io.BytesIO(content := service.get(f"{id_}/log", format="parquet").content)
        ),
    ]
    for frame in frames:
        assert frame["outcome"].to_list() == [12.25]
        assert frame["outcome_kind"].to_list() == ["amount"]
        columns = recognised(frame.columns)
        assert columns is not None
        assert (columns.kind, columns.features) == ("amount", ("age",))
    kept = json.loads(polars.read_parquet_metadata(io.BytesIO(content))["bccb"])
    assert kept["kind"] == "amount"
    assert "outcome_kind" in kept["excluded"]
    asked = {**TERMS, "name": "x", "features": ["outcome_kind"]}
    refused(service.post("", asked), 422, "features")
