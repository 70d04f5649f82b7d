"""What a service answers that is no good answer."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bccb.client import (
    ServiceError,
    TimeHorizon,
    UnreachableError,
    calls,
)
from client.stand_in import CAMPAIGN, Connect, Service


@pytest.mark.parametrize("problem", [["no", "detail"], "no detail", {"error": "no"}])
def test_an_error_of_another_service_is_reported_as_it_stands(
    service: Service, connect: Connect, problem: Any
) -> None:
    service.plan, service.problem = ["404"], problem
    with pytest.raises(ServiceError, match="answered 404: .*no") as caught:
        connect().campaigns()
    assert (caught.value.type, caught.value.field) == ("about:blank", None)


def test_nobody_there_is_reported_with_the_address(connect: Connect) -> None:
    with pytest.raises(UnreachableError, match="no answer from http://127.0.0.1:1: ") as caught:
        connect(url="http://127.0.0.1:1", patience=0).campaigns()
    assert isinstance(caught.value, ConnectionError)


def test_another_service_on_the_port_is_distinguished(service: Service, connect: Connect) -> None:
    service.plan = ["page"]
    with pytest.raises(ServiceError, match="answered 200: not as this client knows .*<html>"):
        connect().campaigns()


def test_what_a_newer_service_tells_besides_is_left_aside(connect: Connect) -> None:
    changed = CAMPAIGN | {"colour": "blue", "horizon": {"ends_at": "2030-02-01T00:00:00+01:00"}}
    changed["horizon"] |= {"expected_users": None, "weeks": 3}
    changed["policy"] = {"name": "bccb", "params": {}, "version": 2}
    result = calls.campaign("c1").parse(json.dumps(changed).encode())
    assert isinstance(result.horizon, TimeHorizon)
    assert result.horizon.ends_at.utcoffset() is not None


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
