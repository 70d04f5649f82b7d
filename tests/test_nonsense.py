"""Nonsense of every kind, wherever the library takes something: one sentence, nothing changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bccb
from bccb import BccbError, Decision, Log, Policy, data
from bccb.policy import from_bytes


class Odd:
    """Nothing that anybody knows."""


NONSENSE: list[Any] = [
    *(None, True, 0, -1, 2**70, 1.5, float("nan"), float("inf"), 1e308, 1j, Ellipsis, Odd(), Odd),
    *("", "x", "1", "\0", "a\ud800", b"", b"x", bytearray(b"x"), memoryview(b"ab")),
    *([], [1], ["x"], [None], [[]], [[1]], [[1, 2], [3]], (), (1, 2), {}, {"a": 1}, {1}, range(3)),
    *(slice(1), lambda: 0, iter([1, 2]), Exception("x"), NotImplemented),
    *(np.zeros(0), np.zeros(2), np.zeros((2, 2)), np.array(1.0), np.array([[1, 2], [3, np.nan]])),
    *(np.array(["a", "b"]), np.array([None, 1], object), np.array([1j, 2]), np.array([True])),
    *(np.float32(1), np.int64(3), np.datetime64("2020-01-01")),
]
# The same in every process, unlike an address in a repr.
IDS = [f"{number}-{type(v).__name__}" for number, v in enumerate(NONSENSE)]
ROWS: dict[str, Any] = {
    "features": np.zeros((4, 2)),
    "actions": [0, 1, 0, 1],
    "outcomes": [0, 1, 0, 1],
    "micros": np.full((4, 1), 1_000_000),
}
COLUMNS = {"treatment": "t", "control": "c", "outcome": "y"}


def fresh() -> tuple[Policy, Decision]:
    policy = bccb.make("bccb", budget=10, horizon=100, features=2, seed=1)
    return policy, policy.decide([0.0, 0.0], 0.5)


def of_a_policy(policy: Policy, made: Decision, v: Any) -> Iterator[Callable[[], object]]:
    """Calls that take something from outside."""
    yield lambda: policy.decide(v, 0.5)
    yield lambda: policy.decide([0.0, 0.0], v)
    yield lambda: policy.decide_many(v, [1.0])
    yield lambda: policy.decide_many([[0.0, 0.0]], v)
    yield lambda: policy.decide_many(v, v)
    yield lambda: policy.observe(v, 1)
    yield lambda: policy.observe(made, v)
    yield lambda: policy.observe_many(v, [1])
    yield lambda: policy.observe_many([made], v)
    yield lambda: policy.observe_many([v], [1])
    yield lambda: policy.observe_many(v, v)
    yield lambda: policy.cancel(v)
    yield lambda: policy.add_budget(v)
    yield lambda: policy.expect(v)
    yield lambda: policy.learn(v)
    yield lambda: policy.add_micros(v)
    yield lambda: policy.refund(v)
    yield lambda: policy.restore(v)
    yield lambda: policy.adopt(v)
    yield lambda: made.probability_of(v)


def from_nowhere(v: Any) -> Iterator[Callable[[], object]]:
    """Calls that make something, or read it."""
    terms: dict[str, Any] = {"budget": 1, "horizon": 2, "features": 1}
    for key in (*terms, "treatments", "seed", "eta"):
        yield partial(lambda key: bccb.make("bccb", **{**terms, key: v}), key)
    yield lambda: bccb.make(v, **terms)
    yield lambda: bccb.make("bccb", budget=1, horizon=1, features=1).learn(v)
    yield lambda: from_bytes(v)
    yield lambda: Decision.from_dict(v)
    for field in dataclasses.fields(Log):
        yield partial(lambda field: Log(**{**ROWS, field.name: v}), field)
    yield lambda: Log(**ROWS).take(v)
    for field in dataclasses.fields(data.Columns):
        yield partial(lambda field: data.Columns(**{**COLUMNS, field.name: v}), field)
    yield lambda: data.preset(v)
    yield lambda: data.describe(v)
    for key in ("users", "seed", "outcome", "treatments"):
        yield partial(lambda key: data.simulate(**{"users": 10, key: v}), key)
    for costs in (data.constant, data.lognormal):
        yield partial(lambda costs: costs(v, 1, 1), costs)
        yield partial(lambda costs: costs(3, v, 1), costs)
        yield partial(lambda costs: costs(3, 1, v), costs)


def in_files(v: Any) -> Iterator[Callable[[], object]]:
    """Calls that take the name of a file, in a folder of their own."""
    data.write_log(Log(**ROWS), "log.parquet")
    if not isinstance(v, str):  # which is a name
        yield lambda: fresh()[0].save(v)
        yield lambda: data.write_log(Log(**ROWS), v)
    yield lambda: bccb.load(v)
    yield lambda: data.read_log(v)
    yield lambda: data.read_log("log.parquet", v)
    yield lambda: data.describe_file(v)
    yield lambda: data.write_log(v, "other.parquet")


def of_a_decision(v: Any) -> Iterator[Callable[[], object]]:
    """A decision of which a part is nonsense: refused, or its probability is one."""

    def read(kept: dict[str, Any]) -> None:
        assert 0.0 <= Decision.from_dict(kept).probability <= 1.0

    kept = fresh()[1].to_dict()
    origin, trace = kept["origin"], kept["trace"]
    for key in kept:
        yield partial(lambda key: read({**kept, key: v}), key)
    for key in origin:
        yield partial(lambda key: read({**kept, "origin": {**origin, key: v}}), key)
    for key in origin["composition"]:
        inner = {**origin["composition"], key: v}
        yield partial(
            lambda inner: read({**kept, "origin": {**origin, "composition": inner}}), inner
        )
    for i in range(len(trace)):
        yield partial(lambda i: read({**kept, "trace": [*trace[:i], v, *trace[i + 1 :]]}), i)


def refusal(call: Callable[[], object]) -> str | None:
    """The sentence with which a call is refused; whatever else it raises is a fault."""
    try:
        call()
    except BccbError as refused:
        return str(refused)
    return None


@pytest.mark.parametrize("v", NONSENSE, ids=IDS)
def test_a_policy_refuses_nonsense_and_is_as_it_was(v: Any) -> None:
    for i in range(len(list(of_a_policy(*fresh(), v)))):
        policy, made = fresh()
        before = policy.to_bytes()
        message = refusal(list(of_a_policy(policy, made, v))[i])
        if message is not None:
            assert len(message) < 1_000
            assert policy.to_bytes() == before


@pytest.mark.parametrize("v", NONSENSE, ids=IDS)
def test_nothing_is_made_of_nonsense(
    v: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for calls in (from_nowhere, in_files, of_a_decision):
        for call in calls(v):
            assert len(refusal(call) or "") < 1_000
