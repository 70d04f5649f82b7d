"""Campaigns in cells: ids, opening, and requests that go to the cells that they concern."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bccb
from bccb.data import read_log
from bccb.serve.cells import cell_for, cells_of, whole_of
from bccb.serve.routes import API
from bccb.serve.spreading import HALF_DONE
from serve.service import TERMS, Service, refused, user

MIXED = [f"user-{i}" for i in range(40)]


@pytest.fixture
def hot(service: Service) -> str:
    """A campaign in four cells."""
    id_: str = service.open(cells=4)["id"]
    return id_


def of_cell(whole: str, cell: int) -> Iterator[str]:
    """Ids of decisions that go to a cell."""
    cells = cells_of(whole)
    return (f"d{i}" for i in range(10_000) if cell_for(f"d{i}", cells) == cells[cell])


def cells(service: Service, whole: str) -> list[dict[str, Any]]:
    """Each cell as it is reported."""
    return [service.campaign(cell) for cell in cells_of(whole)]


# Ids


@pytest.mark.parametrize("id_", ["c12", "c12x1", "c12x0", "c12x65", "c12x999", "d12x4", "c12x4.1"])
def test_other_ids_have_no_cells(id_: str) -> None:
    assert cells_of(id_) == []


@pytest.mark.parametrize("id_", ["c12x4", "c12x4.4", "c12x4.01", "c12x4.0.1", "c12x1.0"])
def test_other_ids_are_no_cells(id_: str) -> None:
    assert whole_of(id_) is None


def test_decisions_spread_evenly_and_always_alike() -> None:
    names = cells_of("c12x8")
    counts = dict.fromkeys(names, 0)
    for i in range(8_000):
        counts[cell_for(f"user-{i}", names)] += 1
    assert min(counts.values()) > 900
    # a hash that every version and machine shares: the journal depends on it
    assert [cell_for(f"order-{i}", names)[-1] for i in range(12)] == list("153026510350")


def test_every_operation_knows_what_to_do_with_cells(service: Service, hot: str) -> None:
    service.decide(hot, "one")
    for operation in API:
        if "{campaign_id}" in operation.path:
            path = operation.path.format(campaign_id=hot, decision_id="one")
            response = service.ask(operation.method, path, {})
            assert response.status_code < 500, (operation.name, response.text)


# Opening


def test_cells_have_parts_of_the_money_and_of_the_users(service: Service) -> None:
    whole = service.open(cells=3, budget="100.00", horizon={"users": 100})
    assert whole["id"].endswith("x3")
    assert (whole["budget"], whole["horizon"], whole["cells"]) == ("100.00", {"users": 100}, 3)
    parts = cells(service, whole["id"])
    assert [part["budget"] for part in parts] == ["33.333334", "33.333333", "33.333333"]
    assert [part["horizon"]["users"] for part in parts] == [34, 33, 33]
    assert {part["name"] for part in parts} == {whole["name"]}
    assert parts[0]["seed"] == whole["seed"]
    assert len({part["seed"] for part in parts}) == 3


def test_a_forecast_is_cut_too(service: Service) -> None:
    horizon = {"ends_at": "2030-01-01T00:00:00Z", "expected_users": 10}
    whole = service.open(cells=4, horizon=horizon)
    assert whole["horizon"] == horizon
    parts = cells(service, whole["id"])
    assert [part["horizon"]["expected_users"] for part in parts] == [3, 3, 2, 2]


def test_the_same_request_opens_the_same_cells(service: Service) -> None:
    body = {**TERMS, "name": "hot", "cells": 2}
    first, again = service.post("", body), service.post("", body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert len(service.books.ledger.accounts()) == 2
    refused(service.post("", {**body, "cells": 3}), 409, "name", "name-taken")
    refused(service.post("", {**TERMS, "name": "hot"}), 409, "name", "name-taken")


def test_one_cell_is_an_ordinary_campaign(service: Service) -> None:
    plain = service.open(name="plain")
    one = service.open(name="one", cells=1)
    assert "x" not in one["id"]
    terms = [service.books.campaign(each["id"]).terms for each in (plain, one)]
    assert b"cells" not in terms[1].to_json()
    assert terms[0].asked.replace("plain", "one") == terms[1].asked
    different = {"id", "name"}
    assert {k: v for k, v in plain.items() if k not in different} == {
        k: v for k, v in one.items() if k not in different
    }


@pytest.mark.parametrize("count", [0, 65, -1, 1.5, "2", None])
def test_other_numbers_of_cells_are_refused(service: Service, count: Any) -> None:
    refused(service.post("", {**TERMS, "name": "hot", "cells": count}), 422, "cells")


def test_every_cell_needs_a_user_and_some_money(service: Service) -> None:
    few = {**TERMS, "name": "hot", "cells": 4}
    assert "users, 3" in refused(service.post("", {**few, "horizon": {"users": 3}}), 422, "cells")
    assert "millionths" in refused(service.post("", {**few, "budget": "0.000003"}), 422, "cells")
    assert not service.books.ledger.accounts()


def test_a_shadow_campaign_can_be_cut(service: Service) -> None:
    hot = service.open(cells=2, mode="shadow")["id"]
    answers = service.done(f"{hot}/decisions", [user(id_) for id_ in MIXED])
    assert not any(answer["act"] for answer in answers)
    reports = [{"decision_id": id_, "value": 0, "action": None} for id_ in MIXED]
    assert [each["status"] for each in service.done(f"{hot}/outcomes", reports)] == [
        "recorded"
    ] * len(MIXED)
    rows = service.get(f"{hot}/log").text.splitlines()
    assert {json.loads(row)["treatment"] for row in rows} == {"control"}


def test_learning_is_uploaded_to_all_cells(service: Service) -> None:
    terms: dict[str, Any] = {"policy": {"name": "budgeted-thompson"}, "learned_from": "upload"}
    hot = service.open(cells=3, **terms)
    assert hot["needs_history"]
    refused(service.post(f"{hot['id']}/decisions", user("early")), 409, kind="needs-history")
    policy = bccb.make("budgeted-thompson", budget=100, horizon=100, features=1)
    arms, costs = np.arange(200) % 2, np.full((200, 1), 1_000_000)
    x = np.random.default_rng(1).normal(size=(200, 1))
    policy.learn(bccb.Log(x, arms, arms.astype(np.float64), costs))
    for _ in range(2):  # to send it again is safe
        answer = service.ask(
            "PUT",
            f"{hot['id']}/learning",
            content=policy.to_bytes(),
            headers={"content-type": "application/octet-stream"},
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["needs_history"] is False
    assert not any(part["needs_history"] for part in cells(service, hot["id"]))
    assert service.decide(hot["id"], "late")["treatment"] == "email"


def test_cells_learn_from_a_campaign_and_a_campaign_from_a_cell(service: Service) -> None:
    terms: dict[str, Any] = {"policy": {"name": "budgeted-thompson"}}
    past = service.open(**terms)["id"]
    for i in range(20):
        service.decide(past, f"p{i}", age=i / 20)
        service.outcome(past, f"p{i}", i % 2)
    hot = service.open(cells=2, learned_from=past, **terms)["id"]
    for cell in cells_of(hot):
        events = service.books.ledger.events(service.books.campaign(cell).key)
        assert [event.kind for event in events] == ["opened", "learned"]
    body = {**TERMS, **terms, "name": "next"}
    detail = refused(service.post("", {**body, "learned_from": hot}), 422, "learned_from")
    assert f"{hot}.0" in detail
    assert service.done("", {**body, "learned_from": f"{hot}.1"})["learned_from"] == f"{hot}.1"


# Requests


def test_a_user_is_decided_on_by_one_cell_and_always_the_same(service: Service, hot: str) -> None:
    for id_ in MIXED[:10]:
        first = service.decide(hot, id_)
        assert service.decide(hot, id_) == first
        cell = service.books.campaign(cell_for(id_, cells_of(hot)))
        assert id_ in service.books.known(cell, [id_])
    assert service.campaign(hot)["decisions"] == 10
    refused(
        service.post(f"{hot}/decisions", user(MIXED[0], age=0.7)), 409, "decision_id", "id-taken"
    )


def test_a_cell_refuses_users_of_another_one(service: Service, hot: str) -> None:
    mine, other = next(of_cell(hot, 2)), next(of_cell(hot, 3))
    assert service.decide(f"{hot}.2", mine) == service.decide(hot, mine)
    detail = refused(service.post(f"{hot}.2/decisions", user(other)), 422, "decision_id")
    assert detail.endswith(f"must be one of cell {hot}.2: ask for campaign {hot}")
    users = [user(mine), user(other)]
    refused(service.post(f"{hot}.2/decisions", users), 422, "1.decision_id")
    assert service.campaign(hot)["decisions"] == 1


def test_what_becomes_of_a_decision_reaches_its_cell(service: Service, hot: str) -> None:
    for id_ in ("reported", "cancelled", "settled"):
        service.decide(hot, id_, cost="2.00")
    assert service.outcome(hot, "reported", 1).json()["status"] == "recorded"
    assert service.done(f"{hot}/decisions/reported/correct", {"value": 0})["value"] == 0
    assert service.done(f"{hot}/decisions/cancelled/cancel")["status"] == "cancelled"
    assert service.done(f"{hot}/decisions/settled/settle", {"cost": "1.50"})["spent"] == "1.50"
    assert service.money(hot) == ("3.50", "0.00", "96.50")
    detail = refused(service.outcome(hot, "nobody", 1), 404)
    assert detail == f"campaign {hot} has made no decision 'nobody'"


def test_a_list_is_answered_in_its_order(service: Service, hot: str) -> None:
    answers = service.done(f"{hot}/decisions", [user(id_) for id_ in MIXED])
    assert [answer["decision_id"] for answer in answers] == MIXED
    one_by_one = [service.decide(hot, id_) for id_ in MIXED]
    assert answers == one_by_one
    assert min(part["decisions"] for part in cells(service, hot)) > 0
    reports = [{"decision_id": id_, "value": i % 2} for i, id_ in enumerate(reversed(MIXED))]
    told = service.done(f"{hot}/outcomes", reports)
    assert [each["decision_id"] for each in told] == MIXED[::-1]
    assert [each["value"] for each in told] == [each["value"] for each in reports]
    assert service.campaign(hot)["conversions"] == len(MIXED) / 2


def test_columns_are_answered_in_their_order(service: Service, hot: str) -> None:
    ages = [i / len(MIXED) for i in range(len(MIXED))]
    costs = [f"{1 + i / 100:.2f}" for i in range(len(MIXED))]
    body = {"decision_ids": MIXED, "features": {"age": ages}, "costs": {"email": costs}}
    answer = service.done(f"{hot}/decisions/columns", body)
    assert answer["decision_ids"] == MIXED
    for i, id_ in enumerate(MIXED):
        alone = service.decide(hot, id_, cost=costs[i], age=ages[i])
        assert (alone["treatment"], alone["probability"], alone["remaining"]) == (
            answer["treatments"][i],
            answer["probabilities"][i],
            answer["remaining"][i],
        )
    assert answer["act"] is True


def test_a_refused_item_is_named_by_its_place_in_the_list(service: Service, hot: str) -> None:
    for place in (0, 7, 39):
        users = [user(f"{place}-{id_}") for id_ in MIXED]
        users[place]["features"] = {"age": "old"}
        field = f"{place}.features.age"
        detail = refused(service.post(f"{hot}/decisions", users), 422, field)
        assert detail.startswith(f"{field} is 'old', but must be a number")
        assert HALF_DONE in detail
        del users[place]["decision_id"]
        refused(service.post(f"{hot}/decisions", users), 422, f"{place}.decision_id")


def test_a_list_is_all_or_none_in_each_cell(service: Service, hot: str) -> None:
    first, second = of_cell(hot, 1), of_cell(hot, 2)
    users = [user(next(each)) for _ in range(5) for each in (first, second)]
    users[3]["costs"] = {"email": "0"}
    refused(service.post(f"{hot}/decisions", users), 422, "3.costs.email")
    assert [part["decisions"] for part in cells(service, hot)] == [0, 5, 0, 0]
    users[3]["costs"] = {"email": "1.00"}
    answers = service.done(f"{hot}/decisions", users)  # again, with the same ids
    assert len(answers) == 10
    assert [part["decisions"] for part in cells(service, hot)] == [0, 5, 5, 0]


def test_a_refusal_of_all_cells_says_nothing_of_half(service: Service, hot: str) -> None:
    users = [user(id_, age=1e300) for id_ in MIXED]
    assert HALF_DONE not in refused(service.post(f"{hot}/decisions", users), 422, "0.features.age")


def test_an_id_twice_in_a_list_is_refused(service: Service, hot: str) -> None:
    users = [user(id_) for id_ in (*MIXED[:5], MIXED[2])]
    refused(service.post(f"{hot}/decisions", users), 422, "5.decision_id")


def test_a_refused_column_is_named_by_its_place(service: Service, hot: str) -> None:
    def body(**changed: Any) -> dict[str, Any]:
        ids = [f"{len(changed)}{id_}" for id_ in MIXED]
        costs = {"email": ["1.00"] * len(MIXED)}
        return {
            "decision_ids": ids,
            "features": {"age": [0.5] * len(MIXED)},
            "costs": costs,
        } | changed

    path = f"{hot}/decisions/columns"
    ages: list[Any] = [0.5] * len(MIXED)
    ages[33] = "old"
    refused(service.post(path, body(features={"age": ages})), 422, "features.age.33")
    ages[33] = 1e300
    detail = refused(service.post(path, body(features={"age": ages})), 422, "features.age.33")
    assert detail.startswith("features.age.33 is 1e+300")
    short = body(features={"age": [0.5]})
    refused(service.post(path, short), 422, "the length of features.age")
    refused(service.post(path, body(features={"3": ages})), 422, "features.age")
    ages[33] = 0.5
    refused(service.post(path, body(features={"age": ages, "3": ages})), 422, "features.3")
    twice = [*MIXED[:-1], MIXED[4]]
    refused(service.post(path, body(decision_ids=twice)), 422, "decision_ids.39")


@pytest.mark.parametrize("path", ["decisions", "decisions/columns", "outcomes"])
@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"[]", b"{}", b"7", b'[{"decision_id": NaN}]', b"[" * 5_000, b"\xff", b"[1,2]"],
)
def test_what_cannot_be_read_is_refused_as_ever(
    service: Service, hot: str, path: str, body: bytes
) -> None:
    plain = service.open(name="plain")["id"]
    headers = {"content-type": "application/json"}
    as_one, as_cells = (
        service.ask("POST", f"{id_}/{path}", content=body, headers=headers) for id_ in (plain, hot)
    )
    assert as_cells.status_code == as_one.status_code < 500
    assert as_cells.json() == as_one.json()


def test_too_long_a_list_is_refused_as_ever(service: Service, hot: str) -> None:
    users = [user(f"u{i}") for i in range(1_001)]
    refused(service.post(f"{hot}/decisions", users), 422, "the length of the list")
    assert service.campaign(hot)["decisions"] == 0


def test_pausing_and_closing_reach_all_cells(service: Service, hot: str) -> None:
    assert service.done(f"{hot}/pause")["status"] == "paused"
    detail = refused(service.post(f"{hot}/decisions", user("a")), 409, kind="campaign-paused")
    assert detail == f"campaign {hot} is paused: nobody is treated"
    assert {part["status"] for part in cells(service, hot)} == {"paused"}
    assert service.done(f"{hot}/resume")["status"] == "running"
    assert service.done(f"{hot}/close")["status"] == "closed"
    refused(service.post(f"{hot}/resume"), 409, kind="campaign-closed")


def test_money_is_added_once(service: Service, hot: str) -> None:
    for _ in range(2):
        more = service.done(f"{hot}/budget", {"add": "20.00", "request_id": "r1"})
        assert (more["id"], more["budget"]) == (hot, "120.00")
    refused(service.post(f"{hot}/budget", {"add": "3", "request_id": "r1"}), 409, "request_id")


def test_a_campaign_that_does_not_exist_has_no_cells_either(service: Service) -> None:
    for path in ("", "/report", "/log"):
        assert refused(service.get(f"c12x4{path}"), 404) == "there is no campaign 'c12x4'"
    refused(service.post("c12x4/decisions", user("a")), 404)
    refused(service.post("c12x4/decisions", [user(id_) for id_ in MIXED]), 404)
    refused(service.post("c12x4/pause"), 404)


def test_an_explanation_is_asked_of_one_cell(service: Service, hot: str) -> None:
    detail = refused(service.get(f"{hot}/explanation"), 409, kind="cannot-explain")
    assert f"{hot}.0 to {hot}.3" in detail


def test_the_log_has_the_decisions_of_all_cells_in_the_order_of_time(
    service: Service, tmp_path: Path
) -> None:
    hot = service.open(cells=4, policy={"name": "pooled-bayes"})["id"]
    for i, id_ in enumerate(MIXED):
        service.decide(hot, id_, age=i / 40)
        service.outcome(hot, id_, i % 2)
        service.clock.advance(1)
    rows = [json.loads(row) for row in service.get(f"{hot}/log").text.splitlines()]
    assert [row["decision_id"] for row in rows] == MIXED
    assert [row["number"] for row in rows] == list(range(1, len(MIXED) + 1))
    assert [row["age"] for row in rows] == [i / 40 for i in range(40)]
    for kind in ("ndjson", "csv", "parquet"):
        answer = service.get(f"{hot}/log", format=kind)
        assert f'filename="{hot}.{kind}"' in answer.headers["content-disposition"]
        file = tmp_path / f"log.{kind}"
        file.write_bytes(io.BytesIO(answer.content).getvalue())
        log = read_log(file)
        assert log.users == len(MIXED)
        assert log.outcomes.sum() == len(MIXED) / 2


def test_cells_come_back_after_a_restart(service: Service, hot: str) -> None:
    answers = service.done(f"{hot}/decisions", [user(id_) for id_ in MIXED])
    before = service.campaign(hot)
    states = [service.books.campaign(cell).to_bytes() for cell in cells_of(hot)]
    service.restart()
    assert service.campaign(hot) == before
    assert [service.books.campaign(cell).to_bytes() for cell in cells_of(hot)] == states
    assert service.done(f"{hot}/decisions", [user(id_) for id_ in MIXED]) == answers


@pytest.mark.parametrize("action", ["pause", "resume", "close", "budget"])
def test_what_concerns_the_whole_is_not_done_to_one_cell(
    service: Service, hot: str, action: str
) -> None:
    body = {"add": "1"} if action == "budget" else None
    assert hot in refused(service.post(f"{hot}.1/{action}", body), 422, "campaign_id")
    assert {each["status"] for each in cells(service, hot)} == {"running"}
    assert service.campaign(hot)["budget"] == "100.00"
