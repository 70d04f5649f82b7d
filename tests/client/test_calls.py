"""What each call sends."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from bccb.client import (
    Outcome,
    calls,
)
from bccb.encoding import Feature
from bccb.errors import InputError
from client.stand_in import USER, Connect, Service


def test_a_campaign_is_sent_with_what_was_given_alone(service: Service, connect: Connect) -> None:
    client = connect()
    plain = {"name": "s", "budget": "10", "features": ["age"], "treatments": ["email"]}
    client.create_campaign(**plain, users=100)
    assert service.seen[-1][2] == plain | {"horizon": {"users": 100}, "mode": "live"}
    client.create_campaign(
        **plain,
        ends_at=datetime(2030, 1, 1, tzinfo=UTC),
        policy="thompson",
        outcome_window_seconds=5,
        seed=0,
        mode="shadow",
    )
    horizon = {"ends_at": "2030-01-01T00:00:00+00:00"}
    chosen = {"policy": {"name": "thompson"}, "outcome_window_seconds": 5, "seed": 0}
    assert service.seen[-1][2] == plain | chosen | {"horizon": horizon, "mode": "shadow"}
    with pytest.raises(InputError, match="users and ends_at is .* given one without the other"):
        client.create_campaign(**plain)


def test_features_are_sent_as_they_are_declared_and_given(
    service: Service, connect: Connect
) -> None:
    client = connect()
    plan = Feature("plan", "category", ("a", "b"))
    features = ["age", Feature("visits"), Feature("since", "date", fill=1.0), plan]
    client.create_campaign("s", budget=1, features=features, treatments=["email"], users=9)
    assert service.seen[-1][2]["features"] == [
        "age",
        "visits",
        {"name": "since", "kind": "date", "fill": 1.0},
        {"name": "plan", "kind": "category", "levels": ["a", "b"], "others": False},
    ]
    given: dict[str, Any] = {"since": date(2030, 1, 31), "plan": "a", "new": np.bool_(True)}
    client.decide("c1", features=given | {"age": None}, costs={"email": 1})
    sent = {"since": "2030-01-31", "plan": "a", "new": True, "age": None}
    assert service.seen[-1][2]["features"] == sent


def test_an_action_is_sent_where_it_is_given_even_if_it_is_none(
    service: Service, connect: Connect
) -> None:
    client = connect()
    client.report_outcome("c1", "a", 1)
    client.report_outcome("c1", "b", 1, action=None)
    client.report_outcome("c1", "b", None, action="x")
    client.report_outcomes("c1", [Outcome("c", 0), Outcome("d", 0, None), Outcome("e", 0, "x")])
    *singles, several = (body for _, _, body, _ in service.seen)
    assert singles == [{"value": 1.0}, {"value": 1.0, "action": None}, {"action": "x"}]
    assert [each.get("action", "absent") for each in several] == ["absent", None, "x"]


@pytest.mark.parametrize("name", ["", ".", "..", 3])
def test_an_id_cannot_lead_to_another_path(name: Any) -> None:
    with pytest.raises(InputError, match="an id in the path"):
        calls.cancel("c1", name)
    assert calls.cancel("c1", "../c2/a?b#c").path.count("/") == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": {"age": float("nan")}}, "features.age is nan"),
        ({"features": {"age": [41]}}, "features.age is .41., but must be a number"),
        ({"costs": {"email": "cheap"}}, "costs.email is 'cheap', but must be an amount of money"),
        ({"costs": {"email": Decimal("inf")}}, "costs.email is .*, but must be a finite amount"),
        ({"costs": {"email": True}}, "costs.email is True, but must be a number"),
        ({"decision_id": b"x"}, "what is sent is "),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        calls.decide("c1", **USER | change)
