"""Bodies of requests: nothing large is built of them, and nobody waits while they are read."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import msgspec
import pytest

from bccb.serve import body as body_of_requests
from bccb.serve.body import MOST_BYTES, parse, parse_list
from bccb.serve.problem import ProblemError
from bccb.serve.routes import CAMPAIGNS, DECISIONS, OUTCOME_ITEMS
from bccb.wire import MOST_BATCH, MOST_FEATURES, MOST_TREATMENTS, DecisionRequest
from serve.service import Service, user

MEGABYTE = 1 << 20

KEYS = "{" + ",".join(f'"k{i}":1' for i in range(600_000)) + "}"
BAD = ",".join(f'"f{i}":"x"' for i in range(500_000))
USER = f'{{"decision_id":"u","features":{{{BAD}}},"costs":{{"email":"1"}}}}'
ONES = "1," * 3_900_000 + "1"
LARGE = {
    "keys": KEYS,
    "features": USER,
    "features in a list": f"[{USER}]",
    "ones": f"[{ONES}]",
    "ones in a field": f'{{"decision_id":[{ONES}]}}',
    "ones in a field in a list": f'[{{"decision_id":[{ONES}]}}]',
    "lists in lists": "[" * 7_900_000,
    "objects in objects": '{"a":' * 1_500_000,
}


def decisions(body: str | bytes) -> list[DecisionRequest]:
    """What the route makes of a body."""
    content = body.encode() if isinstance(body, str) else body
    if content[:1] == b"[":
        return asyncio.run(parse_list(DECISIONS, content))
    return [parse(DECISIONS, content)]


@pytest.mark.parametrize("name", LARGE)
def test_a_large_body_of_nonsense_is_refused_before_anything_is_built(name: str) -> None:
    body = LARGE[name].encode()
    assert 6_000_000 < len(body) < MOST_BYTES
    tracemalloc.start()
    try:
        with pytest.raises(ProblemError):
            decisions(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * MEGABYTE


def test_others_are_served_while_a_long_list_is_read() -> None:
    features = {f"feature_{i}": 0.123456789 for i in range(200)}
    body = json.dumps([{**user(f"d{i}"), "features": features} for i in range(MOST_BATCH)])
    turns = 0

    async def read() -> list[DecisionRequest]:
        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        waiting = asyncio.create_task(others())
        try:
            return await parse_list(DECISIONS, body.encode())
        finally:
            waiting.cancel()

    result = asyncio.run(read())
    assert [each.decision_id for each in result] == [f"d{i}" for i in range(MOST_BATCH)]
    assert result[-1].features == features
    assert turns >= len(body) / 300_000


def test_the_most_features_and_treatments_are_read_whatever_their_names() -> None:
    features = [
        f"{i}: from 18, to 25 [years]".ljust(100, "\U0001f40c") for i in range(MOST_FEATURES)
    ]
    treatments = [f"{i}: ".ljust(100, "\U0001f40c") for i in range(MOST_TREATMENTS)]
    asked = user("a") | {
        "features": dict.fromkeys(features, 1.2345678901234567e-100),
        "costs": dict.fromkeys(treatments, "0.000001"),
    }
    assert msgspec.to_builtins(decisions(json.dumps(asked))[0]) == asked
    assert msgspec.to_builtins(decisions(json.dumps([asked]))[0]) == asked
    terms = {"name": "a", "budget": "1", "horizon": {"users": 1}}
    opened = {**terms, "features": features, "treatments": treatments}
    assert parse(CAMPAIGNS, json.dumps(opened).encode()).features == features


@pytest.mark.parametrize("users", [1, 3, MOST_BATCH])
def test_a_list_is_read_whole_or_item_by_item_alike(
    monkeypatch: pytest.MonkeyPatch, users: int
) -> None:
    written = json.dumps([user(f"d{i}") for i in range(users)])
    whole = decisions(written)
    monkeypatch.setattr(body_of_requests, "SLICE", 0)
    assert decisions(written) == whole
    assert [each.decision_id for each in whole] == [f"d{i}" for i in range(users)]


WRONG: list[tuple[str, str, str | None]] = [
    ("[]", "the length of the list is 0, but must be 1 to 1000", "the length of the list"),
    ("[" + "1," * 1_000 + "1]", "the length of the list is more than 1000, but must", "the length"),
    ('[{"value": 1, "decision_id": "a"}, 7]', "1 is 7, but must be an object", "1"),
    (
        '[{"value": 2000000000, "decision_id": "a"}]',
        "0.value is 2000000000, but must be a number from -1,000,000,000 to 1,000,000,000",
        "0.value",
    ),
    ('[{"value": NaN, "decision_id": "a"}]', "0.value is 'NaN', but must be a number", "0.value"),
    ('[{"value":-Infinity}]', "0.value is '-Infinity', but must be", "0.value"),
    ('[{"value": 1}]', "0.decision_id is missing", "0.decision_id"),
    ('{"value": 1}', 'the body is {"value": 1}: it must be a list', None),
    ("", "the body is not JSON: Input data was truncated", None),
    ("[1", "the body is not JSON: Input data was truncated", None),
    ('["\xff"]', "the body is not JSON: in item 0 of the list", None),
    ("[NaN]", "the body is not JSON: JSON is malformed: invalid character (byte 1)", None),
    ("[" * 100_000, "the body is not JSON: it is nested too deeply", None),
]


@pytest.mark.parametrize(("body", "message", "field"), WRONG)
def test_a_wrong_list_is_reported_with_its_place(
    body: str, message: str, field: str | None
) -> None:
    with pytest.raises(ProblemError) as refused:
        asyncio.run(parse_list(OUTCOME_ITEMS, body.encode("latin-1")))
    assert refused.value.detail.startswith(message)
    assert str(refused.value.field).startswith(str(field))


@pytest.mark.parametrize("extra", [{}, {"": 1}])
def test_too_many_entries_are_reported_in_one_sentence(extra: dict[str, Any]) -> None:
    asked = user("a") | {"features": {f"f{i}": 1 for i in range(20_000)}} | extra
    for body, place in ((asked, "the body"), ([user("b"), asked], "item 1 of the list")):
        with pytest.raises(ProblemError, match=f"{place} has more than 1,000 features and 100 tr"):
            decisions(json.dumps(body))


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_json_does_not_know_is_refused_wherever_it_stands(service: Service, word: str) -> None:
    campaign = service.open()["id"]
    body = f'[{{"decision_id": {word}, "features": {{"age": 1}}, "costs": {{"email": "1.00"}}}}]'
    answer = service.post(
        f"{campaign}/decisions", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code in (400, 422)
    assert service.campaign(campaign)["decisions"] == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"decision_id": "\xff", "features": {"age": 1}, "costs": {"email": "1.00"}}',
        b'[{"decision_id": "a", "features": {"\xff": 1}, "costs": {"email": "1.00"}}]',
        b'[{"decision_id": "a", "features": {"age": 1}, "costs": {"email": "\xc3"}}]',
        b"\xff\xfe",
    ],
)
def test_what_is_not_text_is_refused(service: Service, body: bytes) -> None:
    campaign = service.open()["id"]
    headers = {"content-type": "application/json"}
    for path in ("decisions", "outcomes", "decisions/columns"):
        answer = service.post(f"{campaign}/{path}", content=body, headers=headers)
        assert answer.status_code in (400, 422), (path, answer.text)
    assert service.campaign(campaign)["decisions"] == 0


@pytest.mark.parametrize("field", ["decision_ids", "features", "costs"])
def test_columns_that_are_not_text_are_refused(service: Service, field: str) -> None:
    campaign = service.open()["id"]
    parts = {
        "decision_ids": b'["a"]',
        "features": b'{"age": [1]}',
        "costs": b'{"email": ["1.00"]}',
    }
    parts[field] = parts[field].replace(b'"', b'"\xff', 1)
    body = b"{" + b", ".join(b'"%s": %s' % (k.encode(), v) for k, v in parts.items()) + b"}"
    headers = {"content-type": "application/json"}
    answer = service.post(f"{campaign}/decisions/columns", content=body, headers=headers)
    assert answer.status_code in (400, 422), answer.text
    assert service.campaign(campaign)["decisions"] == 0
