"""Both clients: every call, where they connect to, and what they leave open."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

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
    UnreachableError,
    User,
    UsersHorizon,
    calls,
)
from bccb.errors import InputError
from client.stand_in import LOG, USER, Connect, Service


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
    assert report.arms[1].rate is report.campaign.caused is None
    (learned,) = client.explanation(campaign).treatments
    assert learned.features[0].segments[0].effect.high == 0.9
    assert report.series.at == (1.5,)
    assert report.delays.arms[0].shares == (0.25, 1.0)
    assert client.report_outcome(campaign, "a", 1).status == "recorded"
    assert client.report_outcome(campaign, "a", 1).status == "already_recorded"
    assert client.cancel(campaign, "a").status == "cancelled"
    for state in (client.pause, client.resume, client.close):
        assert isinstance(state(campaign), Campaign)


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
    answer = client.report_outcomes(campaign, [Outcome(one.decision_id, 1), Outcome(ids[0], 0)])
    assert [each.status for each in answer] == ["already_recorded", "recorded"]
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
    listed = msgspec.structs.replace(client.campaign(campaign), caused=None)
    assert listed in client.campaigns()
    path = client.download_log(campaign, tmp_path / "log.ndjson", "ndjson")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {one.decision_id, *ids} == {row["decision_id"] for row in rows}


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


def test_both_clients_have_every_call_with_its_documentation() -> None:
    built = {
        name: function
        for name, function in vars(calls).items()
        if inspect.isfunction(function)
        and str(function.__annotations__.get("return")).startswith("Call[")
        and not name.startswith("_")
    }
    assert len(built) == 19
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
