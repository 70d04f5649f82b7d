"""Who may ask what: keys and scopes on every route, and what web pages of others cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import Server, bccb, is_problem, serving, until, user

from bccb.errors import StateError
from bccb.ledger.keys import make_key, revoke_key
from bccb.ledger.opening import open_ledger
from bccb.serve.access import Access

JSON = {"content-type": "application/json"}
SCOPES = {
    ("get", "/healthz"): None,
    ("get", "/readyz"): None,
    ("get", "/metrics"): "read",
    ("get", "/v1/campaigns"): "read",
    ("get", "/v1/campaigns/{campaign_id}"): "read",
    ("get", "/v1/campaigns/{campaign_id}/report"): "read",
    ("get", "/v1/campaigns/{campaign_id}/log"): "read",
    ("get", "/v1/campaigns/{campaign_id}/explanation"): "read",
    ("post", "/v1/campaigns"): "admin",
    ("post", "/v1/campaigns/{campaign_id}/pause"): "admin",
    ("post", "/v1/campaigns/{campaign_id}/resume"): "admin",
    ("post", "/v1/campaigns/{campaign_id}/close"): "admin",
    ("post", "/v1/campaigns/{campaign_id}/budget"): "admin",
    ("put", "/v1/campaigns/{campaign_id}/learning"): "admin",
    ("post", "/v1/campaigns/{campaign_id}/decisions"): "decide",
    ("post", "/v1/campaigns/{campaign_id}/decisions/columns"): "decide",
    ("post", "/v1/campaigns/{campaign_id}/outcomes"): "decide",
    ("put", "/v1/campaigns/{campaign_id}/decisions/{decision_id}/outcome"): "decide",
    ("post", "/v1/campaigns/{campaign_id}/decisions/{decision_id}/cancel"): "decide",
    ("post", "/v1/campaigns/{campaign_id}/decisions/{decision_id}/correct"): "decide",
    ("post", "/v1/campaigns/{campaign_id}/decisions/{decision_id}/settle"): "decide",
}
ROUTES = pytest.mark.parametrize(("method", "path"), SCOPES, ids=lambda part: str(part))


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """On loopback, without keys."""
    folder = tmp_path_factory.mktemp("free") / "data"
    folder.mkdir()
    with serving(folder / "bccb.sqlite") as started:
        yield started
        assert "Traceback" not in started.stderr()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str]) -> Iterator[Server]:
    """On loopback too, but there are keys; two of its parts are broken on purpose."""
    folder = tmp_path_factory.mktemp("guarded") / "data"
    folder.mkdir()
    with closing(open_ledger(folder / "bccb.sqlite")) as ledger:
        for scope in ("read", "decide", "admin"):
            keys[scope] = make_key(ledger, scope, scope)[1]
        revoked, keys["revoked"] = make_key(ledger, "old", "admin")
        revoke_key(ledger, revoked.id)
    keys["wrong secret"] = keys["admin"][:-1] + ("A" if keys["admin"][-1] != "A" else "B")
    keys["no key"] = "letmein"
    hook = """
import bccb.serve.routes as routes
def broken(*_):
    raise RuntimeError("what nobody should read")
routes.report_view = routes.log.write = broken
"""
    with serving(folder / "bccb.sqlite", hook=hook) as started:
        yield started
        message = started.stderr()
        for key in keys.values():  # of all that was asked with, right or wrong
            assert key not in message
            assert key.split("_", 2)[-1] not in message


def ask(server: Server, method: str, path: str, **headers: str) -> httpx.Response:
    filled = path.replace("{campaign_id}", "c0").replace("{decision_id}", "u0")
    return server.client.request(method, filled, headers=headers)


def test_every_route_is_in_the_table(free: Server) -> None:
    document = free.client.get("/openapi.json").json()
    results = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert results == set(SCOPES)


@ROUTES
def test_without_keys_loopback_may_ask_everything(free: Server, method: str, path: str) -> None:
    assert ask(free, method, path).status_code not in (401, 403)


@ROUTES
def test_without_a_good_key_nothing_is_answered(
    guarded: Server, keys: dict[str, str], method: str, path: str
) -> None:
    bad = [f"Bearer {keys[name]}" for name in ("revoked", "wrong secret", "no key")]
    for reply in ("", "Bearer", f"Basic {keys['admin']}", keys["admin"], *bad):
        answer = ask(guarded, method, path, authorization=reply)
        if SCOPES[method, path] is None:
            assert answer.status_code == 200
        else:
            assert is_problem(answer, 401, "no-key")
            assert answer.headers["www-authenticate"] == "Bearer"


@ROUTES
@pytest.mark.parametrize("scope", ["read", "decide", "admin"])
def test_a_key_opens_its_scope_and_no_other(
    guarded: Server, keys: dict[str, str], method: str, path: str, scope: str
) -> None:
    answer = ask(guarded, method, path, authorization=f"bearer {keys[scope]}")
    if scope == "admin" or SCOPES[method, path] in (None, scope):
        assert answer.status_code not in (401, 403)
        told = None if SCOPES[method, path] is None else scope
        assert answer.headers.get("bccb-scope") == told  # by which the page knows what to offer
    else:
        assert "bccb-scope" not in answer.headers
        assert is_problem(answer, 403, "wrong-scope")
        assert repr(scope) in answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/campaigns/", "//v1/campaigns", "/V1/campaigns", "/page/../v1/campaigns"]
)
def test_no_other_spelling_of_a_path_is_a_way_in(guarded: Server, path: str) -> None:
    with guarded.connect() as connection:
        lines = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        connection.sendall(lines.encode())
        answer = connection.makefile("rb").read()
    assert answer.split()[1] in (b"401", b"404"), answer
    assert b'campaigns":' not in answer


def test_pages_need_no_key(guarded: Server) -> None:
    for path in ("/", "/docs", "/openapi.json"):
        assert guarded.status(path) == 200


def test_a_refused_request_has_done_nothing(guarded: Server, keys: dict[str, str]) -> None:
    body = {"name": "theirs", "budget": "5", "horizon": {"users": 5}, "features": []}
    body["treatments"] = ["x"]
    for key in (keys["read"], keys["decide"], keys["wrong secret"]):
        headers = {"authorization": f"Bearer {key}"}
        answer = guarded.client.post("/v1/campaigns", json=body, headers=headers)
        assert answer.status_code in (401, 403)
    headers = {"authorization": f"Bearer {keys['read']}"}
    assert guarded.client.get("/v1/campaigns", headers=headers).json() == {"campaigns": []}


# Unexpected errors


def test_an_unexpected_error_tells_nothing_of_itself(guarded: Server, keys: dict[str, str]) -> None:
    headers = {"authorization": f"Bearer {keys['admin']}"}
    body = {"name": "ours", "budget": "5", "horizon": {"users": 5}, "features": ["age"]}
    body |= {"treatments": ["email"], "policy": {"name": "treat-all"}}
    id_ = guarded.client.post("/v1/campaigns", json=body, headers=headers).json()["id"]
    for path in ("report", "log"):
        answer = guarded.client.get(f"/v1/campaigns/{id_}/{path}", headers=headers)
        assert is_problem(answer, 500, "internal"), answer.text
        for hidden in ("Traceback", "RuntimeError", "what nobody should read", ".py"):
            assert hidden not in answer.text
        assert has_security_headers(answer)
    decided = guarded.client.post(f"/v1/campaigns/{id_}/decisions", json=user("u"), headers=headers)
    assert decided.status_code == 200  # one request too many for us is nothing to the others
    assert guarded.status("/readyz") == 200
    assert "what nobody should read" in guarded.stderr()  # but whoever runs it can


def has_security_headers(answer: httpx.Response) -> bool:
    result = answer.headers
    return (
        result["x-content-type-options"] == "nosniff"
        and result["x-frame-options"] == "DENY"
        and result["referrer-policy"] == "no-referrer"
        and "frame-ancestors 'none'" in result["content-security-policy"]
        and "server" not in result
        and "access-control-allow-origin" not in result
    )


def test_every_answer_has_headers_that_keep_browsers_in_check(
    free: Server, guarded: Server
) -> None:
    for answer in (
        free.client.get("/"),
        free.client.get("/healthz"),
        free.client.get("/v1/campaigns"),
        free.client.get("/nowhere"),
        free.client.delete("/v1/campaigns"),
        free.client.options("/v1/campaigns", headers={"origin": "http://localhost"}),
        free.client.post("/v1/campaigns", content=b"{", headers=JSON),
        free.client.get("/v1/campaigns", headers={"host": "evil.example"}),
        guarded.client.get("/v1/campaigns"),
    ):
        assert has_security_headers(answer), (answer.request.url, answer.headers)


# What web pages of others could make a browser on this machine do


@pytest.mark.parametrize(
    "host",
    [
        *("localhost.evil.com", "evil.com", "127.0.0.1.evil.com", "localhost.", "evil.com:80"),
        *("[::1].evil.com", "127.0.0.1@evil.com", "127.0.0.1:80@evil.com", "0.0.0.0", "[::]"),
        *("169.254.169.254", "192.168.0.1:8000", "[::1", "::1", "localhost:80:90", "localhost/"),
    ],
)
def test_a_name_of_others_does_not_reach_this_machine(free: Server, host: str) -> None:
    """DNS rebinding: their name, our address."""
    for path in ("/v1/campaigns", "/metrics", "/"):
        answer = free.client.get(path, headers={"host": host})
        assert is_problem(answer, 403, "wrong-host"), answer.text


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:8000"]
)
def test_names_of_this_machine_are_served(free: Server, host: str) -> None:
    assert free.client.get("/v1/campaigns", headers={"host": host}).status_code == 200


def test_a_request_without_a_host_is_of_no_browser(free: Server) -> None:
    with free.connect() as connection:
        connection.sendall(b"GET /v1/campaigns HTTP/1.0\r\n\r\n")
        assert b" 200 " in connection.makefile("rb").readline()


@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
        *("", "text/plain; charset=application/json", "application/jsonp", "text/json"),
    ],
)
def test_a_body_that_a_page_may_send_unasked_is_refused(free: Server, kind: str) -> None:
    body = b'{"name":"x","budget":"1","horizon":{"users":1},"features":[],"treatments":["t"]}'
    answer = free.client.post("/v1/campaigns", content=body, headers={"content-type": kind})
    assert is_problem(answer, 415, "not-json")
    assert free.client.get("/v1/campaigns").json() == {"campaigns": []}


@pytest.mark.parametrize(
    "origin",
    ["http://evil.com", "https://localhost.evil.com", "null", "file://", "http://10.0.0.1"],
)
def test_a_page_of_others_can_call_nothing(free: Server, origin: str) -> None:
    """Not even what has no body, and so no content type to be refused."""
    for method, path in (("post", "/v1/campaigns/{campaign_id}/close"), ("get", "/v1/campaigns")):
        assert is_problem(ask(free, method, path, origin=origin), 403, "wrong-origin")


@pytest.mark.parametrize("origin", ["http://localhost:8000", "http://127.0.0.1", "http://[::1]:80"])
def test_our_own_page_can_call_everything(free: Server, origin: str) -> None:
    assert ask(free, "get", "/v1/campaigns", origin=origin).status_code == 200


# Where a service may listen


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "::",
        "192.168.0.1",
        "example.com",
        "localhost.example.com",
        "127.0.0.1.nip.io",
        "",
    ],
)
def test_without_keys_only_loopback_is_served(tmp_path: Path, host: str) -> None:
    with closing(open_ledger(tmp_path / "ledger.sqlite")) as ledger:
        with pytest.raises(StateError, match="can be reached from elsewhere, and there is no API"):
            Access(ledger, host)
        key, _ = make_key(ledger, "shop", "read")
        Access(ledger, host)
        revoke_key(ledger, key.id)
        with pytest.raises(StateError):
            Access(ledger, host)
        for local in ("127.0.0.1", "localhost", "::1", "127.3.2.1"):
            Access(ledger, local)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_keys_no_service_starts_elsewhere(tmp_path: Path, host: str) -> None:
    ran = bccb("serve", "--host", host, "--port", 0, "--ledger", tmp_path / "bccb.sqlite")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {host} can be reached from elsewhere") or (
        host == "::" and "error: address is" in ran.stderr  # where there is no IPv6
    )
    assert ran.stderr.count("\n") == 1


def test_keys_close_a_running_service_and_their_end_does_not_open_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "bccb.sqlite"

    def statuses(server: Server, *texts: str) -> list[int]:
        headers: list[dict[str, Any]] = [{"authorization": f"Bearer {text}"} for text in texts]
        asked = [{}, *headers]
        return [server.client.get("/v1/campaigns", headers=each).status_code for each in asked]

    with serving(path, hook="import bccb.serve.access as a; a.FRESH = 0.0") as server:
        assert statuses(server) == [200]
        with closing(open_ledger(path)) as ledger:
            key, text = make_key(ledger, "shop", "read")
            assert statuses(server, text) == [401, 200]
            assert server.status("/") == server.status("/healthz") == 200
            revoke_key(ledger, key.id)
        for _ in range(3):  # the keys are read again each time
            assert statuses(server, text) == [401, 401]
        server.stop()
    with serving(path) as server:
        assert statuses(server, text) == [401, 401]
        with closing(open_ledger(path)) as ledger:
            _, other = make_key(ledger, "shop", "read")
        until(lambda: statuses(server, text, other) == [401, 401, 200], 5.0)


@pytest.mark.parametrize("header", ["forwarded", "via", "x-forwarded-for", "x-real-ip"])
def test_without_keys_nobody_is_served_through_a_proxy(free: Server, header: str) -> None:
    answer = free.client.get("/v1/campaigns", headers={header: "for=192.0.2.1"})
    assert is_problem(answer, 403, "wrong-host")
