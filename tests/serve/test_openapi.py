"""The OpenAPI document: what it promises holds, whatever is sent; and all of it is served here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from processes import serving
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks
from starlette.routing import Route

from bccb.serve.operation import Served
from serve.service import TERMS, Service, user

ONE = "/v1/campaigns/{campaign_id}"
CALLS = {  # and the scope that each needs
    "GET /healthz": None,
    "GET /readyz": None,
    "GET /metrics": "read",
    "GET /v1/campaigns": "read",
    "POST /v1/campaigns": "admin",
    f"GET {ONE}": "read",
    f"GET {ONE}/report": "read",
    f"GET {ONE}/log": "read",
    f"GET {ONE}/explanation": "read",
    f"POST {ONE}/pause": "admin",
    f"POST {ONE}/resume": "admin",
    f"POST {ONE}/close": "admin",
    f"POST {ONE}/budget": "admin",
    f"PUT {ONE}/learning": "admin",
    f"POST {ONE}/decisions": "decide",
    f"POST {ONE}/decisions/columns": "decide",
    f"PUT {ONE}/decisions/{{decision_id}}/outcome": "decide",
    f"POST {ONE}/outcomes": "decide",
    f"POST {ONE}/decisions/{{decision_id}}/cancel": "decide",
    f"POST {ONE}/decisions/{{decision_id}}/correct": "decide",
    f"POST {ONE}/decisions/{{decision_id}}/settle": "decide",
}
CAN_BE_WRONG = (  # the others have neither a body nor anything else to get wrong
    "POST /v1/campaigns",
    "/log",
    "/budget",
    "/decisions",
    "/decisions/columns",
    "/outcome",
    "/outcomes",
    "/cancel",
    "/correct",
    "/settle",
)
DECISIONS = ("known", "listed", "undone")
CONFORMANCE = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
EXAMPLES = settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=list(HealthCheck),
)


pytestmark = pytest.mark.slow_first


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a process of its own."""
    with serving(tmp_path_factory.mktemp("documented") / "bccb.sqlite") as server:
        yield server.address


@pytest.fixture(scope="module")
def campaigns(url: str) -> dict[str, str]:
    """One campaign to work with and one to pause and close, with some decisions each."""
    results = {}
    for name in ("works", "ends"):
        body = {"name": name, **TERMS, "budget": "1000000"}
        results[name] = httpx.post(f"{url}/v1/campaigns", json=body).json()["id"]
        decisions = f"{url}/v1/campaigns/{results[name]}/decisions"
        httpx.post(decisions, json=[user(id_) for id_ in DECISIONS]).raise_for_status()
    return results


@pytest.fixture(scope="module")
def api(url: str) -> Any:
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


def strategy(api: Any, call: str, mode: GenerationMode) -> Any:
    method, path = call.split()
    return api[path][method].as_strategy(generation_mode=mode)


def test_the_document_tells_of_every_call_and_no_other(api: Any) -> None:
    paths = api.raw_schema["paths"]
    results = {f"{method.upper()} {path}" for path, calls in paths.items() for method in calls}
    assert results == set(CALLS)


@pytest.mark.parametrize("call", CALLS)
def test_whatever_is_sent_is_answered_as_documented(api: Any, call: str) -> None:
    @EXAMPLES
    @given(strategy(api, call, GenerationMode.POSITIVE))
    def check(case: Any) -> None:
        case.call_and_validate(excluded_checks=[checks.positive_data_acceptance])

    check()


@pytest.mark.parametrize("call", [call for call in CALLS if call.endswith(CAN_BE_WRONG)])
def test_what_is_wrong_is_refused_as_documented(api: Any, call: str) -> None:
    @EXAMPLES
    @given(strategy(api, call, GenerationMode.NEGATIVE))
    def check(case: Any) -> None:
        case.call_and_validate(excluded_checks=[checks.positive_data_acceptance])

    check()


@pytest.mark.parametrize("call", [call for call in CALLS if not call.endswith("/learning")])
def test_calls_on_real_campaigns_are_answered_as_documented(
    api: Any, call: str, campaigns: dict[str, str]
) -> None:
    """Ids and names are those of a campaign; whatever else there is stays as it was made."""
    answered = set()
    campaign = campaigns["ends" if call.endswith(("pause", "resume", "close")) else "works"]

    decision = "undone" if call.endswith("cancel") else "known"

    @EXAMPLES
    @given(strategy(api, call, GenerationMode.POSITIVE))
    def check(case: Any) -> None:
        for name, value in (("campaign_id", campaign), ("decision_id", decision)):
            if name in case.path_parameters:
                case.path_parameters[name] = value
        fit(case.body)
        response = case.call()
        case.validate_response(response, checks=CONFORMANCE)
        answered.add(response.status_code)

    check()
    wanted = {409} if call.endswith("/explanation") else {200, 201}  # too few outcomes to explain
    assert answered & wanted, f"only {answered}"


def fit(body: Any) -> None:
    """Have generated users bring the campaign's feature and treatment, and outcomes its users."""
    for each in body if isinstance(body, list) else [body]:
        if not isinstance(each, dict):
            continue
        if each and each.keys() <= {"decision_id", "value", "action"}:  # an outcome
            if "decision_id" in each:
                each["decision_id"] = "listed"
            each.setdefault("value", 1.0)  # the action alone is for shadow campaigns
            each.pop("action", None)
        if isinstance(each.get("decision_ids"), list):  # columns: of the first user alone
            each["decision_ids"] = each["decision_ids"][:1]
            values = next(filter(None, each["features"].values()), [0.5])[:1]
            each["features"] = {"age": [_number(value) for value in values]}
            each["costs"] = {"email": ["1"]}
            continue
        for field, name in (("features", "age"), ("costs", "email")):
            if isinstance(each.get(field), dict) and each[field]:
                value = next(iter(each[field].values()))
                each[field] = {name: _number(value) if name == "age" else "1"}


def _number(value: Any) -> Any:
    """The value, if it is a number, which the campaign's feature is."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.5


@pytest.mark.parametrize("call", CALLS)
def test_every_call_needs_the_scope_that_is_documented(service: Service, call: str) -> None:
    method, path = call.split()
    (result,) = (
        route.app.operation.scope
        for route in service.app.routes
        if isinstance(route, Route) and isinstance(route.app, Served)
        if (route.app.operation.method, route.app.operation.path) == (method, path)
    )
    assert (result and result.value) == CALLS[call]


def test_every_call_that_needs_a_key_says_how_it_is_refused(service: Service) -> None:
    paths = service.get("/openapi.json").json()["paths"]
    for call, scope in CALLS.items():
        method, path = call.split()
        answer = paths[path][method.lower()]
        assert (scope is not None) == ({"401", "403"} <= set(answer["responses"])), call
        assert answer["description"], call


def test_the_page_with_the_document_needs_no_other_server(service: Service) -> None:
    page = service.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    used = re.findall(r"""(?:src|href)="([^"#]+)""", page.text)
    assert {"/openapi.json", "/page/reference.css"} <= set(used)
    for address in used:
        assert service.get(address).status_code == 200, address
    assert "//" not in page.text
    assert "<script" not in page.text


def test_the_page_has_every_call_and_every_type_of_the_document(service: Service) -> None:
    page, document = service.get("/docs").text, service.get("/openapi.json").json()
    for call in CALLS:
        method, path = call.split()
        assert f"<b>{method}</b> {path}</code>" in page
    names = set(document["components"]["schemas"])
    assert set(re.findall(r'<section id="(\w+)"', page)) == names
    assert set(re.findall(r'<a href="#(\w+)"', page)) <= names
