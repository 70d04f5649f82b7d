"""Declared features: numbers and dates that may be missing, and categories with new levels."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import polars
import postgresql
import pytest

import bccb
from bccb.data import read_log
from bccb.encoding import Encoding, Feature
from serve.recovered import states
from serve.service import Service, refused

AGE = {"name": "age", "fill": 41.0}
SINCE = {"name": "since", "kind": "date"}
PLAN = {"name": "plan", "kind": "category", "levels": ["basic", "plus", "(missing)"]}
SIZE = {"name": "size", "kind": "category", "levels": ["1", "2"], "others": False}
FEATURES = ["visits", AGE, SINCE, PLAN, SIZE]
ENCODING = Encoding(
    (
        Feature("visits"),
        Feature("age", fill=41.0),
        Feature("since", "date"),
        Feature("plan", "category", ("basic", "plus", "(missing)"), others=True),
        Feature("size", "category", ("1", "2")),
    )
)
USERS: list[dict[str, Any]] = [
    {"visits": 2, "age": 30, "since": "2020-01-31", "plan": "plus", "size": 2},
    {"visits": 0.5, "age": None, "since": "2020-01-31T12:00:00Z", "plan": None, "size": "1"},
    {"visits": 1, "age": 55.5, "since": "2021-03-01", "plan": "unheard of", "size": "9"},
    {"visits": 1, "age": 55.5, "since": "2021-03-01", "plan": True, "size": True},
]


def opened(service: Service, **more: Any) -> str:
    terms: dict[str, Any] = {"features": FEATURES, "policy": {"name": "bccb"}, **more}
    return str(service.open(**terms)["id"])


def body(number: int, features: dict[str, Any]) -> dict[str, Any]:
    return {"decision_id": f"u{number}", "features": features, "costs": {"email": "1.00"}}


def bodies() -> list[dict[str, Any]]:
    return [body(number, features) for number, features in enumerate(USERS)]


def seen(service: Service, campaign: str) -> list[list[float]]:
    """What the policy has read of each user."""
    found = service.books.campaign(campaign)
    events = service.books.ledger.events(found.key)
    return [
        found.trace(event)[: found.terms.columns].tolist()
        for event in events
        if event.kind == "decision"
    ]


def test_a_policy_reads_what_the_encoding_of_the_lab_makes(service: Service) -> None:
    campaign = opened(service)
    service.done(f"{campaign}/decisions", bodies())
    assert seen(service, campaign) == [ENCODING.row(user) for user in USERS]
    assert seen(service, campaign)[2] == [1.0, 55.5, 0.0, 18687.0, 0.0, 0.0, 1.0, 0.0]


def test_one_by_one_in_a_list_and_in_columns_are_the_same(service: Service) -> None:
    one, many, columns = (opened(service, name=name) for name in ("one", "many", "columns"))
    for each in bodies():
        service.done(f"{one}/decisions", each)
    listed = service.done(f"{many}/decisions", bodies())
    answer = service.done(f"{columns}/decisions/columns", in_columns())
    assert seen(service, one) == seen(service, many) == seen(service, columns)
    assert answer["probabilities"] == [each["probability"] for each in listed]


def in_columns() -> dict[str, Any]:
    return {
        "decision_ids": [f"u{number}" for number in range(len(USERS))],
        "features": {name: [user[name] for user in USERS] for name in USERS[0]},
        "costs": {"email": ["1.00"] * len(USERS)},
    }


def test_a_retry_gets_the_same_answer_and_another_new_level_is_another_body(
    service: Service,
) -> None:
    campaign = opened(service)
    first = service.done(f"{campaign}/decisions", bodies())
    assert service.done(f"{campaign}/decisions", bodies()) == first
    assert service.done(f"{campaign}/decisions", bodies()[2]) == first[2]
    service.done(f"{campaign}/decisions/columns", in_columns())
    other = body(2, {**USERS[2], "plan": "not heard of either"})
    refused(service.post(f"{campaign}/decisions", other), 409, "decision_id", "id-taken")


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"visits": "many"}, "visits", "features.visits is 'many', but must be a number"),
        ({"visits": True}, "visits", "features.visits is True, but must be a number"),
        ({"visits": None}, "visits", "features.visits is None, but must be a number"),
        ({"age": "x"}, "age", "features.age is 'x', but must be a number"),
        ({"age": 1e101}, "age", "features.age is 1e+101, but must be a finite number"),
        ({"since": "soon"}, "since", "features.since is 'soon', but must be a date such as"),
        ({"since": None}, "since", "features.since is None, but must be a date such as"),
        ({"since": 3}, "since", "features.since is 3.0, but must be a date such as"),
        ({"size": None}, "size", "features.size is None, but must be given: it must not be"),
        ({"plan": ["a"]}, "plan", "features.plan is ['a'], but must be a number or text"),
        ({"colour": 1}, "colour", "features.colour is 1.0, but must be absent"),
    ],
)
def test_a_value_that_cannot_be_encoded_is_refused_by_name(
    service: Service, change: dict[str, Any], field: str, sentence: str
) -> None:
    campaign = opened(service)
    wrong = {**USERS[0], **change}
    path = f"{campaign}/decisions"
    assert refused(
        service.post(path, body(0, wrong)), 422, f"features.{field}", "invalid-field"
    ).startswith(sentence)
    listed = service.post(path, [body(1, USERS[0]), body(0, wrong)])
    assert refused(listed, 422, f"1.features.{field}").startswith(f"1.{sentence}")
    asked = in_columns()
    asked["features"] = {
        name: [*values[:2], wrong[name], values[3]] for name, values in asked["features"].items()
    }
    asked["features"] |= {name: [1] * 4 for name in wrong if name not in USERS[0]}
    place = "" if field == "colour" else ".2"
    answer = service.post(f"{campaign}/decisions/columns", asked)
    assert refused(answer, 422, f"features.{field}{place}").startswith(f"features.{field}{place}")
    assert service.campaign(campaign)["decisions"] == 0


def test_a_feature_that_is_not_named_is_refused_even_if_it_may_be_missing(
    service: Service,
) -> None:
    campaign = opened(service)
    without = {name: value for name, value in USERS[0].items() if name != "age"}
    detail = refused(service.post(f"{campaign}/decisions", body(0, without)), 422, "features.age")
    assert detail.endswith("every feature is named, with null where it is not known")


@pytest.mark.parametrize(
    ("features", "detail"),
    [
        ([{"name": "a", "kind": "category"}], "the levels of feature 'a' is ()"),
        ([{"name": "a", "levels": ["x"]}], "the levels of feature 'a' is ('x',)"),
        ([{"name": "a", "kind": "category", "levels": ["x", "x"]}], "all different"),
        ([{"name": "a", "others": True}], "others of feature 'a' is True"),
        ([{"name": "a", "kind": "category", "levels": ["x"], "fill": 1}], "fill of feature 'a'"),
        (["a", {"name": "a"}], "features is 'a', but must be named once"),
        ([{"name": "a", "fill": 1e101}], "fill of feature 'a' is 1e+101, but must be a finite"),
        (
            ["a=y", {"name": "a", "kind": "category", "levels": ["x", "y"]}],
            "the column of features",
        ),
        ([{"name": "status"}], "another name: the log has a column with this one"),
        (
            [{"name": n, "kind": "category", "levels": [str(i) for i in range(600)]} for n in "ab"],
            "the columns of all features and levels are 1,200, but must be at most 1,000",
        ),
    ],
)
def test_declarations_that_cannot_be_are_refused(
    service: Service, features: list[Any], detail: str
) -> None:
    terms = {"name": "x", "budget": "1", "horizon": {"users": 9}, "treatments": ["email"]}
    assert detail in refused(service.post("", {**terms, "features": features}), 422, "features")


def test_a_campaign_tells_how_its_features_are_read(service: Service) -> None:
    told = service.campaign(opened(service))
    assert told["features"] == ["visits", "age", "since", "plan", "size"]
    assert told["encoding"][1]["fill"] == 41.0
    assert [each["others"] for each in told["encoding"]] == [False, False, False, True, False]
    assert service.campaign(service.open(name="plain")["id"])["encoding"] == []


def test_the_terms_of_plain_campaigns_are_kept_as_before(service: Service) -> None:
    asked = [service.open(name="old")["id"], opened(service, features=[{"name": "age"}])]
    for campaign in map(service.books.campaign, asked):
        kept = json.loads(campaign.terms.to_json())
        assert "encoding" not in kept
        assert kept["features"] == ["age"]
    encoded = service.books.campaign(opened(service)).terms
    assert type(encoded).from_json(encoded.to_json()) == encoded


def test_recovery_is_the_same_to_the_bit_with_and_without_a_snapshot(service: Service) -> None:
    campaign = opened(service)
    service.done(f"{campaign}/decisions", bodies())
    service.outcome(campaign, "u1", 1)
    before = service.books.campaign(campaign)
    kept, name = before.to_bytes(), before.terms.name
    assert states_without_snapshot(service)[name] == kept
    service.restart()
    assert service.books.campaign(campaign).to_bytes() == kept
    service.done(f"{campaign}/decisions", bodies())  # retries
    service.stop()
    assert states(service.place)[name] == kept
    service.start()


def states_without_snapshot(service: Service) -> dict[str, bytes]:
    """All campaigns as their journals give them."""
    from bccb.serve.recovery import fold

    ledger = service.books.ledger
    folded = [fold(ledger, account, None) for account in ledger.accounts()]
    return {campaign.terms.name: campaign.to_bytes() for campaign in folded}


def test_the_log_has_the_values_as_they_came(service: Service) -> None:
    campaign = opened(service)
    service.done(f"{campaign}/decisions", bodies())
    lines = service.get(f"{campaign}/log").text.splitlines()
    for line, user in zip(lines, USERS, strict=True):
        assert {name: json.loads(line)[name] for name in user} == user


def test_a_level_is_written_to_csv_as_the_campaign_counts_it(service: Service) -> None:
    campaign = opened(service)
    service.done(f"{campaign}/decisions", bodies())
    rows = csv.DictReader(io.StringIO(service.get(f"{campaign}/log", format="csv").text))
    assert [(row["plan"], row["size"]) for row in rows] == [
        ("plus", "2"), ("", "1"), ("unheard of", "9"), ("true", "true"),
    ]  # fmt: skip


def test_the_lab_reads_the_log_with_the_encoding_of_the_campaign(
    service: Service, tmp_path: Any
) -> None:
    campaign = opened(service)
    service.done(f"{campaign}/decisions", bodies())
    for number in range(len(USERS)):
        service.outcome(campaign, f"u{number}", number % 2)
    content = service.get(f"{campaign}/log", format="parquet").content
    frame = polars.read_parquet(io.BytesIO(content))
    assert frame["plan"].to_list() == ["plus", None, "unheard of", "true"]
    assert frame["age"].to_list() == [30.0, None, 55.5, 55.5]
    path = tmp_path / "log.parquet"
    path.write_bytes(content)
    log = read_log(path)
    assert log.encoding == ENCODING
    assert log.features.tolist() == seen(service, campaign)
    assert log.feature_names == ENCODING.columns


def test_the_library_decides_the_same_on_encoded_rows(service: Service) -> None:
    campaign = opened(service, horizon={"users": 300}, policy={"name": "pooled-bayes"})
    policy = bccb.make(
        "pooled-bayes", budget=100, horizon=300, features=len(ENCODING.columns), seed=1, window=6e7
    )
    rng, now = np.random.default_rng(5), float(service.clock())
    for number in range(200):
        user = {**USERS[number % 4], "visits": float(rng.integers(9))}
        answer = service.done(f"{campaign}/decisions", body(number, user))
        made = policy.decide(ENCODING.row(user), cost=1.0, at=now)
        assert answer["treatment"] == (None, "email")[made.action]
        assert (answer["price"], answer["probability"]) == (made.price, made.probability)
        outcome = float(rng.random() < 0.1 + 0.3 * made.action)
        service.outcome(campaign, f"u{number}", outcome)
        policy.observe(made, outcome, at=now)


@pytest.mark.parametrize("path", ["decisions", "decisions/columns"])
def test_a_campaign_that_is_let_go_while_a_body_arrives_reads_it_alike(path: str) -> None:
    service = Service(postgresql.server().new_place())
    try:
        campaign = opened(service)
        user = body(1, USERS[0])
        given: dict[str, Any] = user
        if path == "decisions/columns":
            given = {"decision_ids": ["u1"]}
            for group in ("features", "costs"):
                given[group] = {name: [value] for name, value in user[group].items()}

        async def arriving() -> AsyncIterator[bytes]:
            service.books._let_go(service.books.campaign(campaign))
            yield json.dumps(given).encode()

        headers = {"content-type": "application/json"}
        answer = service.ask("POST", f"{campaign}/{path}", content=arriving(), headers=headers)
        assert answer.is_success, answer.text
    finally:
        service.stop()
