"""Saved policies: whatever is in the file, it is refused, or decides within its budget."""

from __future__ import annotations

import io
import json
import math
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from pasts import earlier_counts, earlier_memory

import bccb
from bccb import InputError, Log, Policy, drivers
from bccb.kernels import counts as count
from bccb.policies import POLICIES
from bccb.policy import from_bytes
from bccb.saved import FORMAT
from bccb.types import Floats

Parts = dict[str, Any]

D, COUNT = 3, 60
VALUES = (-1.0, 0.0, -0.0, 0.5, 1.0, 3.7, 1e9, 1e16, 1e100, 1e308, -1e308, 5e-324, -1e-12)
NOT_FINITE = (math.nan, math.inf, -math.inf)
INTEGERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 1_000, 100_001, 2**31, 2**53, 2**62, 2**63 - 1)
NONSENSE: tuple[Any, ...] = (None, True, 0, -1, 1e308, "", "x", "x" * 1_000, [], [[]], {}, {"a": 1})
FUZZED = 60 if hasattr(drivers.propose, "py_func") else 5  # files of each policy
MEGABYTE = 1 << 20


@cache
def saved(name: str, treatments: int) -> bytes:
    """A policy that has learned something, with decisions that wait."""
    generator = np.random.default_rng(1)
    policy = bccb.make(name, budget=9, horizon=200, features=D, treatments=treatments, seed=3)
    refitted = policy.composition.refitted
    if policy.needs_history or refitted:
        policy.learn(history(treatments))
    for i in range(COUNT):
        decision = policy.decide(*user(generator, treatments))
        if i % 5:
            policy.observe(decision, float(generator.random() < 0.3))
        if i == COUNT // 2 and refitted:
            assert policy.fit()
    return policy.to_bytes()


def user(generator: np.random.Generator, treatments: int) -> tuple[Floats, Floats]:
    return generator.normal(size=D), generator.uniform(0.05, 2.0, treatments)


def history(treatments: int, rows: int = 300) -> Log:
    generator = np.random.default_rng(2)
    return Log(
        generator.normal(size=(rows, D)),
        generator.integers(0, treatments + 1, rows),
        (generator.random(rows) < 0.4).astype(float),
        np.full((rows, treatments), 10**6),
    )


def parts_of(kept: bytes) -> Parts:
    """The arrays of a file, and its header as a dictionary."""
    with np.load(io.BytesIO(kept)) as file:
        parts = dict(file)
    return {**parts, "header": json.loads(parts["header"].tobytes())}


def written(parts: Parts, **more: Any) -> bytes:
    """A file of these parts."""
    header = json.dumps(parts["header"]).encode()
    buffer = io.BytesIO()
    np.savez(buffer, **{**parts, "header": np.frombuffer(header, np.uint8), **more})
    return buffer.getvalue()


def is_sound(kept: bytes) -> bool:
    """Whether a file is taken; what is taken must decide and learn in finite numbers."""
    try:
        policy = from_bytes(kept)
    except InputError:
        return False
    generator = np.random.default_rng(4)
    assert from_bytes(policy.to_bytes()).to_bytes() == policy.to_bytes()
    assert 0 <= policy.spent <= policy.budget
    if policy.needs_history:
        policy.learn(history(policy.treatments)) if not policy.decisions else None
        return True
    for _ in range(12):
        x = generator.normal(size=policy.features)
        decision = policy.decide(x, generator.uniform(0.05, 2.0, policy.treatments))
        answer = (decision.price, decision.score, decision.cost, decision.probability)
        assert np.isfinite(answer).all()
        assert 0 <= decision.probability <= 1
        assert 0 <= policy.spent <= policy.budget
        policy.observe(decision, float(generator.random() < 0.5))
    assert np.isfinite(policy.memory).all()
    return True


def corrupted(kept: bytes, generator: np.random.Generator) -> bytes:
    """A file of which something is otherwise."""
    kind = int(generator.integers(0, 10))
    if kind == 0:
        return kept[: int(generator.integers(0, len(kept)))]
    if kind == 1:
        changed = bytearray(kept)
        for at in generator.integers(0, len(kept), int(generator.integers(1, 4))):
            changed[at] = int(generator.integers(0, 256))
        return bytes(changed)
    parts = parts_of(kept)
    if kind == 2:
        header = parts["header"]
        inner = header["composition"] if generator.random() < 0.5 else header
        inner[str(generator.choice([*inner, "other"]))] = NONSENSE[
            int(generator.integers(0, len(NONSENSE)))
        ]
    elif kind == 3:
        at = int(generator.integers(0, count.COUNTS))
        parts["counts"][at] = int(generator.choice(INTEGERS))
    elif kind == 4:
        waiting = parts["waiting"]
        waiting[tuple(generator.integers(0, waiting.shape))] = int(generator.choice(INTEGERS))
    elif kind == 5:
        field = str(generator.choice(["counts", "memory", "waiting"]))
        kinds = (np.float32, np.int32, np.uint8, ">f8", ">i8", bool, complex)
        with np.errstate(all="ignore"):
            parts[field] = parts[field].astype(kinds[int(generator.integers(0, len(kinds)))])
    else:
        _corrupt_memory(parts, generator)
    return written(parts)


def _corrupt_memory(parts: Parts, generator: np.random.Generator) -> None:
    """Write into the memory: anywhere, or among the parameters and what is least in number."""
    memory, counts = parts["memory"], parts["counts"]
    d, K = int(counts[count.FEATURES]), int(counts[count.TREATMENTS])
    edges = [0, *counts[count.AT_ESTIMATOR :].tolist(), len(memory)]
    part = int(generator.integers(0, 5))
    begin, end = edges[part], edges[part + 1]
    if begin == end:
        return
    reach = end - begin if generator.random() < 0.5 else min(end - begin, 12 + 2 * d + 2 * K)
    for _ in range(int(generator.integers(1, 4))):
        at = begin + int(generator.integers(0, reach))
        at = at if generator.random() < 0.7 else end - 1 - (at - begin)
        values = VALUES if generator.random() < 0.9 else NOT_FINITE
        memory[at] = generator.choice(values)


@pytest.mark.parametrize("treatments", [1, 3])
@pytest.mark.parametrize("name", POLICIES)
def test_a_corrupted_file_is_refused_or_harmless(name: str, treatments: int) -> None:
    kept = saved(name, treatments)
    assert is_sound(kept)
    generator = np.random.default_rng([5, treatments])
    taken = sum(is_sound(corrupted(kept, generator)) for _ in range(FUZZED))
    assert taken < FUZZED


def changes(parts: Parts) -> Iterator[tuple[str, Parts]]:
    """Every field of the header and every count, one after the other otherwise."""
    for field in parts["header"]:
        for value in NONSENSE:
            yield field, {**parts, "header": {**parts["header"], field: value}}
    for field in parts["header"]["composition"]:
        for value in NONSENSE:
            inner = {**parts["header"]["composition"], field: value}
            yield field, {**parts, "header": {**parts["header"], "composition": inner}}
    for at in range(count.COUNTS):
        for value in INTEGERS:
            counts = parts["counts"].copy()
            if counts[at] == value:
                continue
            counts[at] = value
            yield f"count {at}", {**parts, "counts": counts}


def test_every_field_of_the_header_and_every_count_is_checked() -> None:
    kept = saved("bccb", 1)
    taken = {field for field, parts in changes(parts_of(kept)) if is_sound(written(parts))}
    # what may well be otherwise: names, clocks and money within their ranges
    free = {"name", "id", "cost_aware", *(f"count {at}" for at in range(count.SEED, 12))}
    free |= {f"count {count.CAP}", f"count {count.OFFERED}"}
    assert taken <= free


ALTERED: dict[str, Callable[[Parts], bytes]] = {
    "fewer numbers": lambda parts: written(parts, memory=parts["memory"][:-1]),
    "another order": lambda parts: written(parts, waiting=np.asfortranarray(parts["waiting"])),
    "two dimensions": lambda parts: written(parts, memory=parts["memory"][None]),
    "flat": lambda parts: written(parts, waiting=parts["waiting"].ravel()),
    "twice": lambda parts: written(parts, waiting=np.repeat(parts["waiting"], 2, 0)),
    "to come": lambda parts: written(parts, waiting=parts["waiting"] + [COUNT, 0, 0]),
    "one more": lambda parts: written(parts, more=np.zeros(1)),
    "newer": lambda parts: written({**parts, "header": {**parts["header"], "format": FORMAT + 1}}),
    "older": lambda parts: written({**parts, "header": {**parts["header"], "format": FORMAT - 2}}),
    "no object": lambda parts: written({**parts, "header": [1]}),
}


@pytest.mark.parametrize("how", ALTERED)
def test_an_altered_file_is_refused(how: str) -> None:
    with pytest.raises(InputError, match="saved policy"):
        from_bytes(ALTERED[how](parts_of(saved("bccb", 2))))


def test_objects_are_refused() -> None:
    parts = parts_of(saved("bccb", 1))
    header = np.frombuffer(json.dumps(parts["header"]).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **{**parts, "header": header, "memory": parts["memory"].astype(object)})
    with pytest.raises(InputError, match="the memory of a saved policy"):
        from_bytes(buffer.getvalue())


def zipped(kept: bytes, compression: int, *more: tuple[str, bytes]) -> bytes:
    """The same arrays in another zip file."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(kept)) as old,
        zipfile.ZipFile(buffer, "w", compression) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
        for name, content in more:
            new.writestr(name, content)
    return buffer.getvalue()


def test_a_file_that_unpacks_to_gigabytes_is_refused_unread() -> None:
    """Three megabytes that hold 3.2 GB of zeros."""
    buffer = io.BytesIO()
    parts = parts_of(saved("bccb", 1))
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        header = json.dumps(parts["header"]).encode()
        for name, array in {**parts, "header": np.frombuffer(header, np.uint8)}.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.save(member, array)
                for _ in range(100 if name == "memory" else 0):
                    member.write(bytes(MEGABYTE))
    kept = buffer.getvalue()
    assert len(kept) < MEGABYTE
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="is 'compressed', but must be stored"):
            from_bytes(kept)
        assert tracemalloc.get_traced_memory()[1] < 2 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_an_array_that_says_it_is_larger_than_the_file_is_refused_unread() -> None:
    kept = saved("bccb", 1)
    parts = parts_of(kept)
    size = str(parts["memory"].shape).encode()
    assert kept.count(size) == 1
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="saved policy"):
            from_bytes(kept.replace(size + b", }" + b" " * 12, b"(400000000,), }" + b" " * 2))
        large = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            large, {"descr": "<f8", "fortran_order": False, "shape": (400_000_000,)}
        )
        files = zipfile.ZipFile(io.BytesIO(kept))
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as new:
            for name in files.namelist():
                new.writestr(name, large.getvalue() if name == "memory.npy" else files.read(name))
        with pytest.raises(InputError, match=r"the memory of a saved policy is '\(400000000,\) of"):
            from_bytes(buffer.getvalue())
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_only_the_four_arrays_are_taken_each_once_and_uncompressed() -> None:
    kept = saved("bccb", 1)
    assert from_bytes(zipped(kept, zipfile.ZIP_STORED)).to_bytes() == kept
    twice = ("memory.npy", b"")
    for changed, why in (
        (zipped(kept, zipfile.ZIP_DEFLATED), "is 'compressed', but must be stored"),
        (zipped(kept, zipfile.ZIP_STORED, ("other.npy", b"")), "the arrays of a saved policy is"),
        (zipped(kept, zipfile.ZIP_STORED, twice), "the arrays of a saved policy is"),
    ):
        with pytest.raises(InputError, match=why):
            from_bytes(changed)


@pytest.mark.parametrize("kept", [None, 1, "x", [], object(), bytearray(b"x"), np.zeros(3)])
def test_what_is_not_bytes_is_refused(kept: Any) -> None:
    with pytest.raises(InputError, match="a saved policy is"):
        from_bytes(kept)


def test_an_impossible_posterior_is_refused() -> None:
    """With alpha = -1 the draw from a Beta distribution would never end."""
    parts = parts_of(saved("thompson", 1))
    at = int(parts["counts"][count.AT_EXPLORER])
    parts["memory"][at + 1] = -1.0
    with pytest.raises(InputError, match="what beta-difference has learned is 'damaged'"):
        from_bytes(written(parts))


def test_parameters_out_of_range_are_refused() -> None:
    parts = parts_of(saved("bccb", 1))
    parts["memory"][parts["counts"][count.AT_ESTIMATOR]] = -1.0
    with pytest.raises(InputError, match="alpha is -1.0, but must be at least 1e-12"):
        from_bytes(written(parts))


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["pooled-bayes", "uplifting-bandit", "bccb"])
def test_what_many_users_lead_to_can_be_saved(name: str) -> None:
    """Rounding does not make what was learned look impossible."""
    generator = np.random.default_rng(7)
    policy = bccb.make(name, budget=1e6, horizon=100_000, features=5, treatments=2, seed=1)
    x = generator.normal(size=(100_000, 5)) * [1e-3, 1.0, 1e6, 0.0, 1.0]
    x[:, 4] = x[:, 1] * 2 + 1e-9 * x[:, 4]  # as good as the same
    for begin in range(0, len(x), 1_000):
        made = policy.decide_many(x[begin : begin + 1_000], np.ones((1_000, 2)))
        policy.observe_many(made, (generator.random(1_000) < 0.2).astype(float))
    assert from_bytes(policy.to_bytes()).to_bytes() == policy.to_bytes()


def test_a_loaded_policy_is_a_policy() -> None:
    assert isinstance(from_bytes(saved("bccb", 1)), Policy)


@pytest.mark.parametrize("name", ["pooled-bayes", "pooled-trees", "bccb"])
def test_a_file_of_the_version_before_is_read(name: str) -> None:
    """Without what a sample now knows of history."""
    parts, composition = parts_of(saved(name, 1)), POLICIES[name].composition
    old = {**parts, "memory": earlier_memory(parts["memory"], parts["counts"], composition)}
    old["header"] = {**parts["header"], "format": 7}
    old["counts"] = earlier_counts(parts["counts"])
    policy = from_bytes(written(old))
    again = parts_of(policy.to_bytes())
    assert again["counts"].tolist() == parts["counts"].tolist()
    memory = earlier_memory(again["memory"], again["counts"], composition)
    assert memory.tolist() == old["memory"].tolist()
    sample = policy.sample() if composition.has_posterior else None
    assert (sample is None) == (name == "bccb")
    assert sample is None or not (sample.learned.any() or sample.history.any())
