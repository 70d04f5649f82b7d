"""The clients against a small service that fails on purpose: ids make trying again safe."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import httpx
import msgspec
import numpy as np
import pytest
from processes import serving

from bccb.client import (
    AsyncClient,
    Campaign,
    Client,
    Outcome,
    PolicyChoice,
    ServiceError,
    TimeHorizon,
    UnreachableError,
    User,
    UsersHorizon,
    calls,
)
from bccb.errors import BccbError, InputError

CAMPAIGN: dict[str, Any] = {
    "id": "c1",
    "name": "summer",
    "status": "running",
    "reason": None,
    "mode": "live",
    "created_at": "2030-01-01T00:00:00Z",
    "horizon": {"users": 100},
    "features": ["age"],
    "treatments": ["email"],
    "policy": {"name": "bccb", "params": {"c": 1}},
    "outcome_window_seconds": 60,
    "seed": 7,
    "learned_from": None,
    "budget": "10.00",
    "spent": "0.10",
    "reserved": "0.20",
    "remaining": "9.70",
    "decisions": 3,
    "treated": 1,
    "open": 2,
}
RATE = {"value": 0.5, "low": 0.1, "high": 0.9}
ARM = {"treatment": None, "decisions": 2, "outcomes": 1, "conversions": 1, "rate": RATE}
REPORT = {
    "campaign": CAMPAIGN,
    "now": "2030-01-01T00:00:01Z",
    "arms": [ARM, ARM | {"treatment": "email", "rate": None}],
    "incremental": None,
    "decisions_per_second": 3,
    "planned": "1.5",
    "money_ends_at": None,
    "series": {"at": [1.5], "decisions": [3], "spent": [0.3], "planned": [1.5], "price": [0.0]},
}
LOG = b"log" * 100_000
USER: dict[str, Any] = {"features": {"age": 41.0}, "costs": {"email": "0.77"}}


class Service:
    """What the small service holds, and how it is to fail: one word of ``plan`` for a request."""

    def __init__(self) -> None:
        self.plan: list[str] = []
        self.seen: list[tuple[str, str, Any, str | None]] = []  # method, path, body, authorization
        self.done: dict[str, Any] = {}  # what was carried out, by id
        self.problem: Any = None
        self.retry_after = ""  # a header of refusals
        self.late = 0  # answers that were slow
        self.url, self.stopped = "", threading.Event()

    def carry_out(self, path: str, body: Any) -> Any:
        """The answer to a request; what has an id is done once."""
        if path.endswith("/decisions"):
            if isinstance(body, list):
                return [self.decide(one) for one in body]
            return self.decide(body)
        if path.endswith("/outcomes"):
            return [self.take(one["decision_id"], one) for one in body]
        if path.endswith("/outcome"):
            return self.take(path.split("/")[-2], body)
        if path.endswith(("/cancel", "/settle")):
            state = {"decision_id": path.split("/")[-2], "treatment": None, "status": "cancelled"}
            return state | {"reserved": "0", "spent": "0", "remaining": "10"}
        if path.endswith("/budget"):
            self.done.setdefault(body["request_id"], body["add"])
        if path.endswith("/report"):
            return REPORT
        if path == "/v1/campaigns" and body is None:
            return {"campaigns": [CAMPAIGN]}
        return CAMPAIGN

    def decide(self, body: Any) -> Any:
        answer = {"decision_id": body["decision_id"], "treatment": f"email-{len(self.done)}"}
        answer |= {"probability": 0.25, "price": 0.1, "remaining": "9.23", "act": True}
        return self.done.setdefault(body["decision_id"], answer)

    def take(self, identity: str, body: Any) -> Any:
        status = "already_recorded" if identity in self.done else "recorded"
        self.done.setdefault(identity, body["value"])
        return {"decision_id": identity, "value": self.done[identity], "status": status}


def handler_of(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", -1

        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            key = self.headers.get("Authorization")
            service.seen.append((self.command, self.path, body, key))
            how = service.plan.pop(0) if service.plan else "answer"
            if how.isdigit():
                problem = service.problem or {"detail": "not now"}
                return self.reply(int(how), json.dumps(problem).encode())
            if self.path.partition("?")[0].endswith("/log"):
                return self.reply(200, LOG, half=how == "drop")
            answer = service.carry_out(self.path, body)
            if how == "drop":  # carried out, but nobody is told
                self.close_connection = True
                return None
            if how == "slow":
                service.stopped.wait(60)
                service.late += 1
            return self.reply(200, b"<html>" if how == "page" else json.dumps(answer).encode())

        do_POST = do_PUT = do_GET  # noqa: N815

        def reply(self, status: int, content: bytes, half: bool = False) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if status >= 500 and service.retry_after:
                self.send_header("Retry-After", service.retry_after)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if half else content)
            self.close_connection = half

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # a client that gave up
                self.close_connection = True

        def log_message(self, *given: object) -> None: ...

    return Handler


class Server(ThreadingHTTPServer):
    request_queue_size = 100


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    with Server(("127.0.0.1", 0), handler_of(service)) as server:
        service.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield service
        service.stopped.set()
        server.shutdown()
        thread.join()


class Waiting:
    """An `AsyncClient` whose calls are waited for, so that it is tested as the other one."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.client, self.runner = AsyncClient(*given, **named), asyncio.Runner()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def method(*given: Any, **named: Any) -> Any:
            return self.runner.run(getattr(self.client, name)(*given, **named))

        return method

    def __repr__(self) -> str:
        return repr(self.client)


Connect: TypeAlias = Callable[..., Any]


@pytest.fixture(params=[Client, Waiting])
def connect(request: pytest.FixtureRequest, service: Service) -> Iterator[Connect]:
    """Connect a client, of either kind, to the service."""
    clients: list[Any] = []

    def connect(**options: Any) -> Any:
        clients.append(request.param(**{"url": service.url} | options))
        return clients[-1]

    yield connect
    for client in clients:
        client.disconnect()
        if isinstance(client, Waiting):
            client.runner.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short, and no setting of this machine gets in."""
    monkeypatch.setattr("bccb.client.tries.FIRST_PAUSE", 0.01)
    monkeypatch.delenv("BCCB_URL", raising=False)
    monkeypatch.delenv("BCCB_KEY", raising=False)


FAILURES = [["drop"], ["503"], ["slow"], ["502", "drop", "504", "slow"]]


@pytest.mark.parametrize("plan", FAILURES, ids="-".join)
def test_a_decision_is_taken_once_whatever_happens_to_the_answer(
    service: Service, connect: Connect, plan: list[str]
) -> None:
    client = connect(timeout=0.5 if "slow" in plan else 60.0)
    service.plan = list(plan)
    answer = client.decide("c1", **USER)
    assert len(service.seen) == len(plan) + 1
    assert len({body["decision_id"] for _, _, body, _ in service.seen}) == 1
    assert list(service.done) == [answer.decision_id]
    assert answer.treatment == "email-0"
    assert answer.remaining == Decimal("9.23")


def test_every_call_that_changes_something_repeats_itself_word_for_word(
    service: Service, connect: Connect
) -> None:
    client, plan = connect(), ["502", "drop", "504", "drop"]
    users = [User({"age": 1}, {"email": 0.5}), User({"age": 2}, {"email": 0.5})]
    several: list[Callable[[], Any]] = [
        lambda: client.create_campaign(
            "summer", budget=10, features=["age"], treatments=["email"], users=100
        ),
        lambda: client.decide_many("c1", users),
        lambda: client.report_outcome("c1", "a", 1),
        lambda: client.report_outcomes("c1", [Outcome("b", 0), Outcome("c", 1, "email")]),
        lambda: client.cancel("c1", "a"),
        lambda: client.settle("c1", "a", "0.61"),
        lambda: client.add_budget("c1", 5),
        lambda: client.pause("c1"),
    ]
    for call in several:
        service.plan, service.seen = list(plan), []
        call()
        first, *others = service.seen
        assert others == [first] * len(plan)
    client.add_budget("c1", 5)
    added = [name for name, value in service.done.items() if value == "5.000000"]
    assert len(added) == 2  # with an id of its own each
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in added)


@pytest.mark.parametrize("status", ["400", "401", "404", "409", "422", "500"])
def test_what_is_refused_is_not_tried_again(
    service: Service, connect: Connect, status: str
) -> None:
    service.plan = [status]
    service.problem = {"type": "/problems/x", "detail": "no", "field": "features.age"}
    with pytest.raises(ServiceError, match=rf"answered {status}: no \(features.age\)") as caught:
        connect().decide("c1", **USER)
    assert len(service.seen) == 1
    error = caught.value
    assert (error.status, error.type) == (int(status), "/problems/x")
    assert (error.detail, error.field) == ("no", "features.age")
    assert isinstance(error, BccbError)


@pytest.mark.parametrize("problem", [["no", "detail"], "no detail", {"error": "no"}])
def test_an_error_of_another_service_is_told_as_it_stands(
    service: Service, connect: Connect, problem: Any
) -> None:
    service.plan, service.problem = ["404"], problem
    with pytest.raises(ServiceError, match="answered 404: .*no") as caught:
        connect().campaigns()
    assert (caught.value.type, caught.value.field) == ("about:blank", None)


def test_patience_ends_and_the_last_error_is_told(
    service: Service, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: 0.0 if len(service.seen) < 5 else 61.0)
    monkeypatch.setattr("bccb.client.tries.time", clock)
    service.plan = ["503"] * 1_000
    with pytest.raises(ServiceError, match="answered 503: not now"):
        connect(patience=60).campaigns()
    assert len(service.seen) == 5
    service.plan, service.seen = ["drop"] * 1_000, []
    with pytest.raises(UnreachableError, match=f"no answer from {service.url} after 5 tries: "):
        connect(patience=60).campaigns()


def test_a_slow_service_is_given_up_in_time(service: Service, connect: Connect) -> None:
    service.plan = ["slow"] * 10
    with pytest.raises(UnreachableError):
        connect(timeout=0.1, patience=0).campaigns()
    assert service.late == 0  # it has not answered yet


def test_pauses_double_up_to_a_bound_and_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    from bccb.client import tries

    monkeypatch.setattr(tries, "FIRST_PAUSE", 0.1)
    pauses = []
    for _ in range(2):
        one = tries.Tries(calls.campaigns(), "http://h", 1.0, 1_000.0)
        for count in range(1, 9):
            one.count = count
            assert one._try_again()
            pauses.append(one.pause)
            longest = min(2.0, 0.1 * 2 ** (count - 1))
            assert longest / 2 <= one.pause <= longest
    assert len(set(pauses)) == len(pauses)


def test_nobody_there_is_told_with_the_address(connect: Connect) -> None:
    with pytest.raises(UnreachableError, match="no answer from http://127.0.0.1:1: ") as caught:
        connect(url="http://127.0.0.1:1", patience=0).campaigns()
    assert isinstance(caught.value, ConnectionError)


def test_another_service_on_the_port_is_told_apart(service: Service, connect: Connect) -> None:
    service.plan = ["page"]
    with pytest.raises(ServiceError, match="answered 200: not as this client knows .*<html>"):
        connect().campaigns()


def test_every_answer_is_read_into_its_type(service: Service, connect: Connect) -> None:
    client = connect()
    campaign = client.campaign("c1")
    assert campaign == client.campaigns()[0]
    assert campaign.budget == campaign.spent + campaign.reserved + campaign.remaining
    assert campaign.created_at == datetime(2030, 1, 1, tzinfo=UTC)
    assert campaign.horizon == UsersHorizon(100)
    assert campaign.policy == PolicyChoice("bccb", {"c": 1.0})
    assert campaign.features == ("age",)
    report = client.report(campaign)
    assert [arm.treatment for arm in report.arms] == [None, "email"]
    assert report.arms[0].rate.high == 0.9
    assert report.arms[1].rate is report.incremental is None
    assert report.series.at == (1.5,)
    assert client.report_outcome(campaign, "a", 1).status == "recorded"
    assert client.report_outcome(campaign, "a", 1).status == "already_recorded"
    assert client.cancel(campaign, "a").status == "cancelled"
    for state in (client.pause, client.resume, client.close):
        assert isinstance(state(campaign), Campaign)


def test_what_a_newer_service_tells_besides_is_left_aside(connect: Connect) -> None:
    changed = CAMPAIGN | {"colour": "blue", "horizon": {"ends_at": "2030-02-01T00:00:00+01:00"}}
    changed["horizon"] |= {"expected_users": None, "weeks": 3}
    changed["policy"] = {"name": "bccb", "params": {}, "version": 2}
    found = calls.campaign("c1").parse(json.dumps(changed).encode())
    assert isinstance(found.horizon, TimeHorizon)
    assert found.horizon.ends_at.utcoffset() is not None


@pytest.mark.parametrize(
    "change",
    [{"budget": []}, {"budget": "much"}, {"status": "lost"}, {"decisions": True}, {"horizon": 3}],
)
def test_an_answer_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    parse = calls.campaign("c1").parse
    with pytest.raises(msgspec.DecodeError):
        parse(json.dumps(CAMPAIGN | change).encode())
    missing = dict(CAMPAIGN)
    del missing[next(iter(change))]
    with pytest.raises(msgspec.DecodeError, match=f"required field `{next(iter(change))}`"):
        parse(json.dumps(missing).encode())


def test_a_pause_is_as_long_as_the_service_asks(
    service: Service, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.plan, service.retry_after = ["503", "503"], "1"
    began = time.monotonic()
    connect().campaigns()
    assert time.monotonic() - began >= 2.0
    service.plan, service.seen = ["503"], []
    with pytest.raises(ServiceError, match="answered 503"):
        connect(patience=0.5).campaigns()
    assert len(service.seen) == 1  # the service asked for more than there is


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        (" 3 ", 3.0),
        ("86400", 30.0),
        ("", 0.0),
        ("-1", 0.0),
        ("1.5", 0.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
        ("9" * 5_000, 0.0),
    ],
)
def test_retry_after_is_read_in_seconds_up_to_a_bound(header: str, seconds: float) -> None:
    from bccb.client.tries import _retry_after

    assert _retry_after(httpx.Response(503, headers={"Retry-After": header})) == seconds


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the real service."""
    with serving(tmp_path_factory.mktemp("real") / "ledger.sqlite") as server:
        yield server.address


def test_every_call_is_understood_by_the_real_service(
    real: str, connect: Connect, tmp_path: Path
) -> None:
    client = connect(url=real)
    campaign = client.create_campaign(
        repr(client),
        budget=10,
        features=["age"],
        treatments=["email"],
        users=100,
        policy="treat-all",
    )
    assert (campaign.horizon, campaign.policy) == (UsersHorizon(100), PolicyChoice("treat-all", {}))
    one = client.decide(campaign, **USER)
    assert (one.treatment, one.act, one.remaining) == ("email", True, Decimal("9.23"))
    users = [User({"age": age}, {"email": "0.50"}) for age in (20, 30, 40)]
    several = client.decide_many(campaign, users)
    ids = [user.decision_id for user in users]
    assert [each.decision_id for each in several] == ids
    assert client.decide_many(campaign, users) == several
    columns = client.decide_columns(
        campaign,
        features={"age": np.array([20, 30, 40])},
        costs={"email": ["0.50", 0.5, Decimal("0.5")]},
        decision_ids=ids,
    )
    assert columns.decision_ids == tuple(ids)  # the same users, so the same decisions
    assert columns.treatments == tuple(each.treatment for each in several)
    assert columns.remaining == tuple(each.remaining for each in several)
    assert client.report_outcome(campaign, one.decision_id, 1).status == "recorded"
    told = client.report_outcomes(campaign, [Outcome(one.decision_id, 1), Outcome(ids[0], 0)])
    assert [each.status for each in told] == ["already_recorded", "recorded"]
    cancelled = client.cancel(campaign, ids[1])
    assert (cancelled.status, cancelled.remaining) == ("cancelled", Decimal("8.23"))
    settled = client.settle(campaign, ids[2], "0.25")
    assert (settled.spent, settled.remaining) == (Decimal("0.25"), Decimal("8.48"))
    assert client.add_budget(campaign, 5).budget == 15
    assert client.pause(campaign).status == "paused"
    with pytest.raises(ServiceError, match="answered 409") as refused:
        client.decide(campaign, **USER)
    assert refused.value.type == "urn:bccb:problem:campaign-paused"
    assert client.resume(campaign).status == "running"
    report = client.report(campaign)
    assert [arm.treatment for arm in report.arms] == [None, "email"]
    assert report.campaign.spent == Decimal("1.52")
    assert client.close(campaign).status == "closed"
    assert client.campaign(campaign) in client.campaigns()
    path = client.download_log(campaign, tmp_path / "log.ndjson", "ndjson")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {one.decision_id, *ids} == {row["decision_id"] for row in rows}


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


def test_an_action_is_told_where_it_is_given_even_if_it_is_none(
    service: Service, connect: Connect
) -> None:
    client = connect()
    client.report_outcome("c1", "a", 1)
    client.report_outcome("c1", "b", 1, action=None)
    client.report_outcomes("c1", [Outcome("c", 0), Outcome("d", 0, None), Outcome("e", 0, "x")])
    *singles, several = (body for _, _, body, _ in service.seen)
    assert singles == [{"value": 1.0}, {"value": 1.0, "action": None}]
    assert [each.get("action", "absent") for each in several] == ["absent", None, "x"]


def test_a_log_appears_whole_or_not_at_all(
    service: Service, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "log.parquet"
    service.plan = ["drop"] * 1_000
    with pytest.raises(UnreachableError):
        connect(patience=0.1).download_log("c1", path)
    assert list(tmp_path.iterdir()) == []
    service.plan = ["503", "drop"]
    assert connect().download_log("c1", path, "ndjson") == path
    assert path.read_bytes() == LOG
    assert service.seen[-1][1] == "/v1/campaigns/c1/log?format=ndjson"
    service.plan = ["404"]
    with pytest.raises(ServiceError):
        connect().download_log("c2", tmp_path / "other.parquet")
    assert list(tmp_path.iterdir()) == [path]


def test_the_key_is_sent_and_never_shown(
    service: Service, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect(key="bccb_secret")
    client.campaigns()
    monkeypatch.setenv("BCCB_KEY", "bccb_other")
    connect().campaigns()
    assert [key for *_, key in service.seen] == ["Bearer bccb_secret", "Bearer bccb_other"]
    assert "secret" not in repr(client)
    service.plan = ["401"]
    with pytest.raises(ServiceError) as refused:
        client.campaigns()
    with pytest.raises(InputError) as unprintable:
        connect(key="bccb_secret\n")
    for caught in (refused, unprintable):
        assert "secret" not in f"{caught.value!r} {caught.value}"


def test_the_address_comes_from_the_environment(
    service: Service, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connect(url=None).__repr__().endswith("Client('http://127.0.0.1:8000')")
    monkeypatch.setenv("BCCB_URL", service.url + "/")
    assert connect(url=None).campaigns()


def test_a_service_on_this_machine_is_not_looked_for_behind_a_proxy(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert connect(patience=0).campaigns()


@pytest.mark.parametrize(
    "url", ["ftp://host", "host:80", "http://", "http://a:b@host", "http://host:port"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="^url is ") as caught:
        Client(url)
    assert "a:b" not in str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "..", 3])
def test_an_id_cannot_lead_to_another_path(name: Any) -> None:
    with pytest.raises(InputError, match="an id in the path"):
        calls.cancel("c1", name)
    assert calls.cancel("c1", "../c2/a?b#c").path.count("/") == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": {"age": float("nan")}}, "features.age is nan"),
        ({"features": {"age": "41"}}, "features.age is '41', but must be a number"),
        ({"costs": {"email": "cheap"}}, "costs.email is 'cheap', but must be an amount of money"),
        ({"costs": {"email": Decimal("inf")}}, "costs.email is .*, but must be a finite amount"),
        ({"costs": {"email": True}}, "costs.email is True, but must be a number"),
        ({"decision_id": b"x"}, "what is sent is "),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        calls.decide("c1", **USER | change)


def test_both_clients_have_every_call_with_its_documentation() -> None:
    built = {
        name: function
        for name, function in vars(calls).items()
        if inspect.isfunction(function)
        and str(function.__annotations__.get("return")).startswith("Call[")
        and not name.startswith("_")
    }
    assert len(built) == 16
    for client in (Client, AsyncClient):
        for name, function in built.items():
            method = getattr(client, name)
            assert method.__doc__ == function.__doc__
            named = list(inspect.signature(method).parameters)
            assert named == ["self", *inspect.signature(function).parameters]


def test_clients_leave_nothing_open_after_their_block(service: Service) -> None:
    with Client(service.url) as client:
        client.campaigns()
    with pytest.raises(RuntimeError, match="closed"):
        client.campaigns()

    async def play() -> None:
        async with AsyncClient(service.url) as other:
            await asyncio.gather(*(other.decide("c1", **USER) for _ in range(20)))

    asyncio.run(play())
    assert len(service.done) == 20


def test_without_httpx_the_extra_is_named() -> None:
    code = "import sys; sys.modules['httpx'] = None; import bccb.client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtraError: httpx is not installed: pip install 'bccb[client]'" in done.stderr
