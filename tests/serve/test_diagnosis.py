"""Which field of a body is wrong: the diagnosis finds one exactly where msgspec refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bccb.serve.diagnosis import first_fault
from bccb.wire import (
    BudgetRequest,
    CampaignRequest,
    DecisionRequest,
    OutcomeItem,
    PlainDecisionRequest,
    decoder,
)

GOOD: dict[type, dict[str, Any]] = {
    BudgetRequest: {"add": "5.00", "request_id": "more"},
    PlainDecisionRequest: {"decision_id": "a", "features": {"age": 0.5}, "costs": {"email": "1"}},
    DecisionRequest: {"decision_id": "a", "features": {"plan": None}, "costs": {"email": "1"}},
    OutcomeItem: {"decision_id": "a", "value": 1.0},
    CampaignRequest: {
        "name": "autumn",
        "budget": "100",
        "horizon": {"users": 100},
        "features": ["age", {"name": "plan", "kind": "category", "levels": ["a"], "fill": None}],
        "treatments": ["email"],
        "policy": {"name": "bccb", "params": {"eta": 0.1}},
        "mode": "shadow",
        "seed": 1,
    },
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(["1.00", "-1", "1e5", "a b", "2030-01-31T18:00:00Z", "2030-01-31"]),
    st.lists(st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=3),
)


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_fault_is_found_exactly_where_the_body_is_refused(kind: type, data: Any) -> None:
    body = dict(GOOD[kind])
    field = data.draw(st.sampled_from([*body, "unknown"]))
    body[field] = data.draw(VALUES)
    try:
        decoder(kind).decode(msgspec.json.encode(body))
        refused = False
    except msgspec.ValidationError:
        refused = True
    fault = first_fault(kind, msgspec.json.decode(msgspec.json.encode(body)))
    assert (fault is not None) == refused, fault
    assert fault is None or fault.path[0] == field


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.__name__)
def test_a_field_that_is_missing_is_named(kind: type) -> None:
    for field in GOOD[kind]:
        body = {name: value for name, value in GOOD[kind].items() if name != field}
        fault = first_fault(kind, body)
        if fault is not None:
            assert (fault.path, fault.allowed) == ((field,), None)


@pytest.mark.parametrize(
    ("kind", "change", "path", "allowed"),
    [
        (PlainDecisionRequest, {"features": {"age": "x"}}, "features.age", "a number"),
        (
            DecisionRequest,
            {"features": {"plan": []}},
            "features.plan",
            "a number or text of at most 500 characters or true or false or null",
        ),
        (DecisionRequest, {"features": {"plan": "x" * 501}}, "features.plan", "text of at most"),
        (CampaignRequest, {"features": [{"name": 1}]}, "features.0.name", "text without control"),
        (CampaignRequest, {"features": [{"kind": "date"}]}, "features.0.name", ""),
        (
            CampaignRequest,
            {"features": [{"name": "a", "levels": [1]}]},
            "features.0.levels.0",
            "text of at most",
        ),
        (
            CampaignRequest,
            {"features": [{"name": "a", "others": 1}]},
            "features.0.others",
            "true or false",
        ),
        (DecisionRequest, {"features": [1]}, "features", "an object"),
        (DecisionRequest, {"costs": {"email": 1}}, "costs.email", 'decimal text, such as "500.00"'),
        (CampaignRequest, {"budget": "-1.5"}, "budget", "above 0"),
        (CampaignRequest, {"budget": "12345678901"}, "budget", "below 10,000,000,000, with at"),
        (CampaignRequest, {"budget": "1.1234567890123"}, "budget", "below 10,000,000,000, with at"),
        (CampaignRequest, {"treatments": "email"}, "treatments", "a list"),
        (CampaignRequest, {"treatments": []}, "treatments", "a list of 1 to "),
        (CampaignRequest, {"features": ["a", 1]}, "features.1", "text without control"),
        (CampaignRequest, {"horizon": {"users": 1.5}}, "horizon.users", "a whole number from 1"),
        (CampaignRequest, {"horizon": {"ends_at": "x"}}, "horizon.ends_at", "a time with its zone"),
        (CampaignRequest, {"mode": "dark"}, "mode", "one of "),
        (BudgetRequest, {"extra": 1}, "extra", "absent: no such field is known"),
    ],
)
def test_the_message_says_where_and_what_is_allowed(
    kind: type, change: dict[str, Any], path: str, allowed: str
) -> None:
    fault = first_fault(kind, {**GOOD[kind], **change})
    assert fault is not None
    assert ".".join(fault.path) == path
    assert (fault.allowed or "").startswith(allowed)
    assert bool(fault.allowed) == bool(allowed)
