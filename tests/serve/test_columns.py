"""Users in columns: the same decisions as in rows, and refused as precisely."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import pytest

from bccb.serve.body import MOST_BYTES
from bccb.serve.columns import parse_columns
from bccb.serve.problem import ProblemError
from bccb.wire import MOST_BATCH
from serve.service import Service, refused, user

MEGABYTE = 1 << 20


def columns(*ids: str, cost: str = "1.00") -> dict[str, Any]:
    """The users of ``service.user`` in columns."""
    ages, costs = [0.5] * len(ids), [cost] * len(ids)
    return {"decision_ids": list(ids), "features": {"age": ages}, "costs": {"email": costs}}


def test_columns_are_decided_as_rows_are(service: Service) -> None:
    terms = {
        "policy": {"name": "bccb"},
        "features": ["age", "size"],
        "treatments": ["email", "call"],
    }
    users = [
        {
            "decision_id": f"u{i}",
            "features": {"size": i % 3, "age": i / 7},
            "costs": {"call": f"0.{i + 10}", "email": "0.0000001"},
        }
        for i in range(50)
    ]
    rows = service.done(f"{service.open(name='rows', **terms)['id']}/decisions", users)
    given = {
        "decision_ids": [each["decision_id"] for each in users],
        "features": {
            name: [each["features"][name] for each in users]  # type: ignore[index]
            for name in ("age", "size")
        },
        "costs": {
            name: [each["costs"][name] for each in users]  # type: ignore[index]
            for name in ("call", "email")
        },
    }
    path = f"{service.open(name='columns', **terms)['id']}/decisions/columns"
    result = service.done(path, given)
    names = {
        "decision_ids": "decision_id",
        "treatments": "treatment",
        "probabilities": "probability",
        "prices": "price",
        "remaining": "remaining",
    }
    for name, field in names.items():
        assert result[name] == [each[field] for each in rows]
    assert result["act"] is True
    assert service.done(path, given) == result  # and once only


def test_rows_and_columns_know_each_others_ids(service: Service) -> None:
    campaign = service.open()["id"]
    first = service.decide(campaign, "a")
    result = service.done(f"{campaign}/decisions/columns", columns("b", "a"))
    assert result["remaining"][1] == first["remaining"]
    other = service.post(f"{campaign}/decisions/columns", columns("c", "a", cost="0.50"))
    refused(other, 409, "decision_ids.1", "id-taken")
    assert service.campaign(campaign)["decisions"] == 2


def test_a_long_list_in_columns_is_decided_in_parts(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.books, "users_at_once", lambda id_: 7)
    campaign = service.open(budget="1000")["id"]
    ids = [f"d{i}" for i in range(MOST_BATCH)]
    result = service.done(f"{campaign}/decisions/columns", columns(*ids))
    assert result["decision_ids"] == ids
    assert result["remaining"][-1] == "0.00"
    bad = columns(*ids)
    bad["costs"]["email"][500] = "0.50"
    refused(service.post(f"{campaign}/decisions/columns", bad), 409, "decision_ids.500")


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("decision_ids", {"decision_ids": []}, "must be a list of 1 to 1,000"),
    ("decision_ids", {"decision_ids": "ab"}, "must be a list"),
    ("decision_ids", {"decision_ids": ["a"] * 1_001}, "is more than 1000"),
    ("decision_ids.1", {"decision_ids": ["a", "b c"]}, "'b c', but must be letters"),
    ("decision_ids.1", {"decision_ids": ["a", "a"]}, "another one than those before it"),
    ("features", {"features": [1]}, "must be an object"),
    ("features.age", {"features": {}}, "is missing"),
    ("features.age", {"features": {"age": 3}}, "is 3, but must be a list"),
    ("features.age.1", {"features": {"age": [1, "2"]}}, "is '2', but must be a number"),
    ("features.age.0", {"features": {"age": [None, 1]}}, "is None, but must be a number"),
    ("features.age.1", {"features": {"age": [1, 1e101]}}, "is 1e+101, but must be"),
    ("the length of features.age", {"features": {"age": [1]}}, "is 1, but must be that of"),
    ("features.size", {"features": {"age": [1, 1], "size": [1, 1]}}, "absent"),
    ("costs", {"costs": None}, "must be an object"),
    ("costs.email.1", {"costs": {"email": ["1", 1]}}, "decimal text"),
    ("costs.email.1", {"costs": {"email": ["1", "1,5"]}}, "decimal text"),
    ("costs.email.0", {"costs": {"email": ["0", "1"]}}, "at least 0.000001"),
    ("costs.email.0", {"costs": {"email": ["9999999999", "1"]}}, "at most 1,000,000"),
    ("the length of costs.email", {"costs": {"email": ["1"] * 3}}, "is 3, but must be that of"),
    ("extra", {"extra": 1}, "absent"),
]


@pytest.mark.parametrize(("field", "changes", "message"), WRONG)
def test_refused_columns_tell_their_field_and_place(
    service: Service, field: str, changes: dict[str, Any], message: str
) -> None:
    campaign = service.open()["id"]
    response = service.post(f"{campaign}/decisions/columns", columns("a", "b") | changes)
    result = refused(response, 422, field, "invalid-field")
    assert message in result, result
    assert service.campaign(campaign)["decisions"] == 0


@pytest.mark.parametrize("missing", ["decision_ids", "features", "costs"])
def test_a_missing_column_is_reported(service: Service, missing: str) -> None:
    body = columns("a")
    del body[missing]
    response = service.post(f"{service.open()['id']}/decisions/columns", body)
    assert refused(response, 422, missing) == f"{missing} is missing"


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "7", "8\xff", '{"x": "\xff"}', '{"features": NaN}', "[" * 100_000]
)
def test_what_is_no_object_is_refused(body: str) -> None:
    with pytest.raises(ProblemError) as refusal:
        asyncio.run(parse_columns(body.encode("latin-1"), plain=True))
    assert refusal.value.status in (400, 422)


ONES = "1," * 3_900_000 + "1"
KEYS = ",".join(f'"k{i}":1' for i in range(600_000))
LARGE = {
    "keys": f"{{{KEYS}}}",
    "features": f'{{"decision_ids":["a"],"features":{{{KEYS}}},"costs":{{}}}}',
    "ones": f'{{"decision_ids":["a"],"features":{{"age":[{ONES}]}},"costs":{{}}}}',
    "ids": f'{{"decision_ids":[{ONES}],"features":{{}},"costs":{{}}}}',
    "lists in lists": '{"decision_ids":' + "[" * 7_900_000,
    "objects in objects": '{"features":' * 600_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_large_columns_of_nonsense_are_refused_before_anything_is_built(name: str) -> None:
    body = LARGE[name].encode()
    assert 6_000_000 < len(body) < MOST_BYTES
    tracemalloc.start()
    try:
        with pytest.raises(ProblemError):
            asyncio.run(parse_columns(body, plain=True))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * MEGABYTE


def test_a_body_for_rows_is_no_body_for_columns(service: Service) -> None:
    campaign = service.open()["id"]
    refused(service.post(f"{campaign}/decisions/columns", user("a")), 422, "decision_ids")
    content = json.dumps(columns("a"))
    assert "decision_id is missing" in refused(
        service.post(f"{campaign}/decisions", json.loads(content)), 422, "decision_id"
    )
