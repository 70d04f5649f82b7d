"""Users of a request: rows and columns are read as the same arrays, and refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bccb.serve.problem import ProblemError
from bccb.serve.users import UserColumns, UserRows
from bccb.wire import DecisionRequest
from serve.test_terms import TERMS

IDS = ["a", "b", "c"]
FEATURES = {"age": [0.5, 1.0, -2.0], "size": [1.0, 2.0, 3.0]}
COSTS = {"email": ["1", "0.50", "0.0000001"], "call": ["2", "2", "2"]}


def rows(features: dict[str, Any] = FEATURES, costs: dict[str, Any] = COSTS) -> UserRows:
    users = [
        DecisionRequest(
            decision_id=id_,
            features={name: values[i] for name, values in features.items()},
            costs={name: texts[i] for name, texts in costs.items()},
        )
        for i, id_ in enumerate(IDS)
    ]
    return UserRows.of(users)


def columns(features: dict[str, Any] = FEATURES, costs: dict[str, Any] = COSTS) -> UserColumns:
    return UserColumns(IDS, features, costs)


both = pytest.mark.parametrize("users", [rows, columns])


@both
def test_features_come_in_the_order_of_the_campaign_and_costs_round_up(users: Any) -> None:
    turned = replace(TERMS, features=("size", "age"))
    features, micros = users().read(turned)
    assert features.tolist() == [[1.0, 0.5], [2.0, 1.0], [3.0, -2.0]]
    assert micros.tolist() == [[1_000_000, 2_000_000], [500_000, 2_000_000], [1, 2_000_000]]


@both
def test_a_part_is_read_as_in_the_whole_and_keeps_its_places(users: Any) -> None:
    features, micros = users().read(TERMS)
    part = users().part(1, 3)
    assert part.ids == IDS[1:]
    np.testing.assert_array_equal(part.read(TERMS)[0], features[1:])
    np.testing.assert_array_equal(part.read(TERMS)[1], micros[1:])
    assert part.id_field(1) == users().id_field(2)
    assert part.part(1, 2).id_field(0) == users().id_field(2)


@pytest.mark.parametrize(
    ("change", "of_rows", "of_columns"),
    [
        ({"features": {"age": FEATURES["age"]}}, "0.features.size", "features.size"),
        ({"features": {**FEATURES, "more": [1.0] * 3}}, "0.features.more", "features.more"),
        ({"costs": {"email": COSTS["email"]}}, "0.costs.call", "costs.call"),
        ({"costs": {**COSTS, "letter": ["1"] * 3}}, "0.costs.letter", "costs.letter"),
        ({"features": {**FEATURES, "age": [0.0, 0.0, 1e300]}}, "2.features.age", "features.age.2"),
        ({"costs": {**COSTS, "call": ["1", "0", "1"]}}, "1.costs.call", "costs.call.1"),
    ],
)
def test_what_is_refused_is_named(change: dict[str, Any], of_rows: str, of_columns: str) -> None:
    for users, field in ((rows(**change), of_rows), (columns(**change), of_columns)):
        with pytest.raises(ProblemError) as refused:
            users.read(TERMS)
        assert refused.value.field == field


def test_a_single_user_has_no_place_in_the_message() -> None:
    user = DecisionRequest(decision_id="a", features={"age": 1.0}, costs={"email": "1"})
    with pytest.raises(ProblemError) as refused:
        UserRows.of([user], single=True).read(TERMS)
    assert refused.value.field == "features.size"
