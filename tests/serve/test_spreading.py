"""Cells on several replicas: held apart, asked through any of them, with money that moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import postgresql
import pytest
from processes import TREAT_ALL, bccb, until

from bccb.ledger.event import Kind
from bccb.ledger.opening import open_ledger
from bccb.serve.cells import cell_for, cells_of
from serve.replicas import Cluster

pytestmark = pytest.mark.compiled

CELLS = 6
TERMS = {**TREAT_ALL, "name": "hot", "cells": CELLS, "budget": "600.00"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cells"), postgresql.server().new_place(), 3)
    yield made
    made.close()


def users(ids: list[str]) -> list[dict[str, Any]]:
    return [{"decision_id": id_, "features": {"age": 1}, "costs": {"email": "1"}} for id_ in ids]


def held(cluster: Cluster) -> list[float]:
    return [cluster.figure(server, "bccb_campaigns_held") for server in cluster.servers]


def of_cells(hot: str, cells: range, prefix: str, many: int) -> list[str]:
    """Ids of decisions of some cells."""
    names = cells_of(hot)
    wanted = {names[cell] for cell in cells}
    every = (f"{prefix}{i}" for i in range(100_000))
    return list(islice((id_ for id_ in every if cell_for(id_, names) in wanted), many))


def test_cells_are_held_apart_and_answer_as_one_through_every_replica(cluster: Cluster) -> None:
    hot = cluster.done(1, "POST", "", TERMS)["id"]
    assert cluster.done(2, "POST", "", TERMS)["id"] == hot  # the same request, elsewhere
    places = [cluster.holder(cell) for cell in cells_of(hot)]
    until(lambda: held(cluster) == [places.count(i) for i in range(3)])
    ids = [f"u{i}" for i in range(60)]
    answers = [cluster.done(i, "POST", f"{hot}/decisions", users(ids)) for i in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert [answer["decision_id"] for answer in answers[0]] == ids
    reports = [{"decision_id": id_, "value": 1} for id_ in ids]
    told = cluster.done(2, "POST", f"{hot}/outcomes", reports)
    assert [each["decision_id"] for each in told] == ids
    bad = users([f"v{i}" for i in range(60)])
    bad[41]["costs"] = {"email": "-1"}
    for i in range(3):
        refusal = cluster.ask(i, "POST", f"{hot}/decisions", bad)
        assert (refusal.status_code, refusal.json()["field"]) == (422, "41.costs.email")
    for path in ("", "/report"):
        seen = [cluster.done(i, "GET", f"{hot}{path}") for i in range(3)]
        campaigns = [each.get("campaign", each) for each in seen]
        assert {each["id"] for each in campaigns} == {hot}
        assert {each["conversions"] for each in campaigns} == {60}
        assert {each["budget"] for each in campaigns} == {"600.00"}
    lists = [cluster.done(i, "GET", "")["campaigns"] for i in range(3)]
    assert [[each["id"] for each in listed] for listed in lists] == [[hot]] * 3
    rows = [len(cluster.ask(i, "GET", f"{hot}/log").text.splitlines()) for i in range(3)]
    assert rows[0] == rows[1] == rows[2] >= 60
    assert cluster.done(0, "POST", f"{hot}/pause")["status"] == "paused"
    for i in range(3):
        assert cluster.ask(i, "POST", f"{hot}/decisions", users(["late"])[0]).status_code == 409


def test_money_moves_between_replicas_under_load_and_whoever_ends(cluster: Cluster) -> None:
    hot = cluster.done(0, "POST", "", {**TERMS, "name": "hotter"})["id"]
    ids = of_cells(hot, range(3), "a", 400)  # for 300 that these cells have
    treated = 0
    for begin in range(0, 400, 10):
        if begin == 200:
            until(lambda: cluster.done(0, "GET", f"{hot}.0")["budget"] != "100.00")
            cluster.servers[2].kill()
        some, replica = users(ids[begin : begin + 10]), begin // 10 % 2
        answers = cluster.done(replica, "POST", f"{hot}/decisions", some)
        treated += sum(answer["treatment"] is not None for answer in answers)
    more = {"add": "60.00", "request_id": "more"}
    for i in range(2):
        assert cluster.done(i, "POST", f"{hot}/budget", more)["budget"] == "660.00"
    last = of_cells(hot, range(3, 6), "b", 600)
    for begin in range(0, 600, 50):
        answers = cluster.done(0, "POST", f"{hot}/decisions", users(last[begin:][:50]))
        treated += sum(answer["treatment"] is not None for answer in answers)
    for server in cluster.servers:
        server.kill()
    with closing(open_ledger(cluster.place, read_only=True)) as ledger:
        accounts = ledger.accounts(cells_of(hot))
        assert sum(account.budget for account in accounts) == 660_000_000
        assert sum(account.reserved for account in accounts) == treated * 1_000_000
        events = [each for one in accounts for each in ledger.events(one.key)]
    moves = [
        {(each.decision, each.money) for each in events if each.kind == kind}
        for kind in (Kind.GIVEN, Kind.RECEIVED)
    ]
    assert moves[0] == moves[1]
    assert moves[0]
    assert treated > 300  # more than the first three cells were opened with
    assert bccb("ledger", "verify", cluster.place).returncode == 0
