"""Saved policies: arrays and a header in one file, which is checked before it is used.

The file is NumPy's ``.npz``, not compressed and without pickles, so that reading it takes little
more memory than its size. A file may come from anywhere: the policy read from it stays within its
budget and its numbers stay finite.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from bccb import checks
from bccb.composition import Composition
from bccb.errors import InputError
from bccb.kernels import amounts, sample, scaling, store
from bccb.kernels import counts as count
from bccb.kernels.counts import MOST_FEATURES, MOST_MEMORY, MOST_TREATMENTS, MOST_USERS
from bccb.measured import Bytes, Measure
from bccb.money import MICROS, MOST_COST, MOST_MONEY
from bccb.outcome import MOST_AMOUNT, Kind, range_of
from bccb.pending import Pending
from bccb.types import Floats, Ints

FORMAT = 8
FORMATS = (6, 7, FORMAT)  # that can be read; in 6 no policy had a store, in 7 no cap, no charge
SIGNATURE = b"PK"  # of every file that NumPy saves as .npz
ARRAYS = ("header", "counts", "memory", "waiting", "delay", "marks", "users", "sums", "states")
OBSERVED = "observed"  # an array that older formats do not have
Observed: TypeAlias = tuple[int, int, float]  # the micros paid, the checksum and the outcome
NOTHING_OBSERVED: Mapping[int, Observed] = {}
LONGEST_NAME = 100
MOST_SUM = 2**62  # of micros: far from the end of the integers
MOST_CHECKSUM = 2**32 - 1
UNMEASURED = np.empty(0), np.empty(0, np.uint8)
NOTHING = np.empty(0), np.empty(0, np.int64), np.empty((0, 0))  # of a policy without a window


class Saved(NamedTuple):
    """What is saved of a policy."""

    name: str
    id: str
    composition: Composition
    counts: Ints
    memory: Floats
    waiting: Ints  # (n, 3): the number of a decision, the micros paid, the checksum
    pending: Pending | None = None
    measure: Measure | None = None
    observed: Mapping[int, Observed] = NOTHING_OBSERVED  # outcomes that can be corrected


def pack(saved: Saved) -> bytes:
    """A policy as bytes."""
    header = {
        "format": FORMAT,
        "name": saved.name,
        "id": saved.id,
        "composition": saved.composition.to_dict(),
    }
    delay, marks, users = NOTHING if saved.pending is None else saved.pending.kept()
    sums, states = UNMEASURED if saved.measure is None else saved.measure.kept()
    buffer = io.BytesIO()
    np.savez(
        buffer,
        header=np.frombuffer(json.dumps(header).encode(), np.uint8),
        counts=saved.counts,
        memory=saved.memory,
        waiting=saved.waiting,
        delay=delay,
        marks=marks,
        users=users,
        sums=sums,
        states=states,
        observed=np.array([(n, *saved.observed[n]) for n in sorted(saved.observed)]).reshape(-1, 4),
    )
    return buffer.getvalue()


def unpack(kept: bytes) -> Saved:
    """The policy in the bytes that :func:`pack` wrote, checked."""
    if not isinstance(kept, bytes):
        raise InputError("a saved policy", kept, "bytes")
    try:
        files = _files(kept)
        header = json.loads(_array("header", files, np.uint8, 1).tobytes())
        if header["format"] not in FORMATS:
            allowed = " or ".join(map(str, FORMATS))
            raise InputError("the format of a saved policy", header["format"], allowed)
        composition = Composition.from_dict(header["composition"])
        name, id_ = _text("name", header["name"]), _text("id", header["id"])
        size = count.COUNTS if header["format"] == FORMAT else count.EARLIER
        counts = count.current(_array("counts", files, np.int64, 1, size))
        _check_counts(counts, composition)
        memory = _memory(files, counts, composition, header["format"])
        waiting = _array("waiting", files, np.int64, 2)
        kept_pending = (
            _array("delay", files, np.float64, 1),
            _array("marks", files, np.int64, 1),
            _array("users", files, np.float64, 2),
        )
        sums = _array("sums", files, np.float64, 1)
        states = _array("states", files, np.uint8, 1)
        observed = np.empty((0, 4))
        if header["format"] == FORMAT:
            observed = _array(OBSERVED, files, np.float64, 2)
    except InputError:
        raise
    except Exception as error:  # zip, NumPy and JSON raise all kinds of errors for damaged bytes
        reason = f"what Policy.to_bytes made ({type(error).__name__}: {error})"
        raise InputError("a saved policy", f"{len(kept)} bytes", reason) from None
    _check_memory(counts, composition, memory)
    _check_waiting(counts, waiting)
    return Saved(
        *(name, id_, composition, counts, memory, waiting),
        _pending(counts, kept_pending, waiting[:, 0]),
        _measure(counts, composition, memory, waiting[:, 0], sums, states),
        _observed(counts, composition, observed, kept_pending),
    )


def _pending(counts: Ints, kept: tuple[Floats, Ints, Floats], waiting: Ints) -> Pending | None:
    """The users who wait, if the policy has a window."""
    if len(kept[0]) == 0:
        return None
    d, K = int(counts[count.FEATURES]), int(counts[count.TREATMENTS])
    pending = Pending.from_kept(*kept, d, K)
    if (
        pending is None
        or pending.last != counts[count.NUMBER]
        or not np.array_equal(pending.open_numbers(), np.sort(waiting))
    ):
        raise InputError("the users who wait in a saved policy", "damaged", "as they were saved")
    return pending


def _measure(
    counts: Ints,
    composition: Composition,
    memory: Floats,
    waiting: Ints,
    sums: Floats,
    states: Bytes,
) -> Measure | None:
    """What was measured, if decisions are made at random."""
    at, explorer = int(counts[count.AT_EXPLORER]), composition.components[1]
    given = dict(zip(explorer.parameters, memory[at:].tolist(), strict=False))
    reserve, decided = given.get("reserve", 0.0), int(counts[count.NUMBER])
    largest = int(counts[count.LARGEST]) / MICROS
    if composition.amounts and largest == 0.0:
        reserve = 0.0  # nothing is measured without a bound
    if len(sums) == len(states) == 0 and (reserve == 0.0 or decided):
        return None  # or it was driven, and stopped to measure
    measure = Measure(reserve, largest or 1.0)
    if reserve == 0.0 or not (
        measure.restore(sums, states) and measure.waits_for(waiting, decided)
    ):
        raise InputError("what was measured in a saved policy", "damaged", "as it was saved")
    return measure


def _memory(files: dict[str, bytes], counts: Ints, composition: Composition, made: int) -> Floats:
    """The memory; of a store of outcomes only the rows that are used are in the file."""
    d, K = int(counts[count.FEATURES]), int(counts[count.TREATMENTS])
    size = composition.memory_size(d, K)
    if size > MOST_MEMORY:
        raise InputError("features x treatments of a saved policy", f"{d:,} x {K:,}", "fewer")
    added = 0
    if made != FORMAT and composition.has_posterior:
        added = composition.sample_size(d) - sample.earlier_size(d)
    length = None if composition.refitted else size - added
    memory: Floats = _array("memory", files, np.float64, 1, length)
    if added:
        memory = sample.with_history(memory, int(counts[count.END]), d)
    if composition.refitted:
        whole = store.whole_memory(memory, size, d, K)
        if whole is None:
            raise InputError("the outcomes in a saved policy", "damaged", "as they were saved")
        return whole
    return memory


def _files(kept: bytes) -> dict[str, bytes]:
    """The files in the archive. Their sizes are checked before they are read."""
    with zipfile.ZipFile(io.BytesIO(kept)) as archive:
        listed = archive.infolist()
        names = sorted(each.filename for each in listed)
        known = ARRAYS if len(names) == len(ARRAYS) else (*ARRAYS, OBSERVED)
        if names != sorted(f"{name}.npy" for name in known):
            raise InputError("the arrays of a saved policy", names, f"{', '.join(ARRAYS)}")
        for each in listed:
            plain = each.compress_type == zipfile.ZIP_STORED
            if not plain or not each.file_size == each.compress_size <= len(kept):
                raise InputError(f"{each.filename} of a saved policy", "compressed", "stored")
        return {each.filename.removesuffix(".npy"): archive.read(each) for each in listed}


def _array(
    field: str,
    files: dict[str, bytes],
    kind: type[np.generic],
    ndim: int,
    length: int | None = None,
) -> Any:
    """One array, which must have this type and shape."""
    file = io.BytesIO(files[field])
    if np.lib.format.read_magic(file) != (1, 0):
        raise InputError(f"the {field} of a saved policy", "a newer array", "one of version 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    begin, size = file.tell(), math.prod(shape) * dtype.itemsize
    whole = dtype == kind and not fortran and begin + size == len(files[field])
    if not whole or len(shape) != ndim or shape[0] != (shape[0] if length is None else length):
        wanted = f"{'' if length is None else f'{length} '}numbers of {np.dtype(kind)}"
        raise InputError(f"the {field} of a saved policy", f"{shape} of {dtype}", wanted)
    return np.frombuffer(files[field], kind, offset=begin).reshape(shape).copy()


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise InputError(f"the {field} of a saved policy", value, f"1 to {LONGEST_NAME} characters")
    return value


def _check_counts(counts: Ints, composition: Composition) -> None:
    given = cast("list[int]", counts.tolist())
    decisions, budget = given[count.NUMBER], given[count.BUDGET]
    d, K = given[count.FEATURES], given[count.TREATMENTS]
    most_amount = round(MOST_AMOUNT) * MICROS
    ranges: dict[str, tuple[int, int, int]] = {
        "features": (d, 0, MOST_FEATURES),
        "treatments": (K, 1, MOST_TREATMENTS),
        "seed": (given[count.SEED], 0, 2**63 - 1),
        "decisions": (decisions, 0, MOST_USERS),
        "horizon": (given[count.HORIZON], 1, 2 * MOST_USERS),
        "budget": (budget, 1, round(MOST_MONEY)),
        "remaining": (given[count.REMAINING], 0, budget),
        "proposed": (given[count.PROPOSED], 0, MOST_SUM),
        "explored": (given[count.EXPLORED], 0, given[count.PROPOSED]),
        "history": (given[count.HISTORY], count.NOT_LEARNED, 2 * MOST_USERS),
        "planned": (given[count.PLANNED], 1, budget),
        "since": (given[count.SINCE], 0, decisions),
        "cost cap": (given[count.CAP], count.NO_CAP, MOST_MONEY),
        "charge": (given[count.CHARGE], count.ON_TREATMENT, count.ON_CONVERSION),
        "share": (given[count.SHARE], 0, MICROS if composition.amounts else 0),
        "largest amount": (given[count.LARGEST], 0, most_amount if composition.amounts else 0),
        "held": (given[count.HELD], 0, budget - given[count.REMAINING]),
        "offered": (given[count.OFFERED], 0, MOST_SUM),
    }
    for field, (value, least, most) in ranges.items():
        checks.whole(f"the {field} of a saved policy", value, least, most)
    layout = given[count.AT_ESTIMATOR :]
    if composition.offsets(d, K) != layout:
        raise InputError("the layout of a saved policy", layout, "that of this version")


def _check_memory(counts: Ints, composition: Composition, memory: Floats) -> None:
    d, K = int(counts[count.FEATURES]), int(counts[count.TREATMENTS])
    if not np.isfinite(memory).all():
        raise InputError("the memory of a saved policy", "not finite", "finite numbers")
    if not scaling.sound(memory[: scaling.SCALER.size(d)], d):
        raise InputError("what the scaler has learned", "damaged", "as it was saved")
    begins = counts[count.AT_ESTIMATOR :].tolist()
    for part, begin, end in zip(composition.components, begins, begins[1:], strict=False):
        part.check(memory[begin:end], d, K)
    if composition.learns_amounts and not amounts.sound(memory[begins[-2] : begins[-1]], d, K):
        raise InputError("what was learned about amounts", "damaged", "as it was saved")
    if composition.has_posterior and not sample.sound(memory[begins[-1] :], d, K):
        raise InputError("the sample of treated users", "damaged", "as it was saved")
    if composition.refitted and not store.sound(memory, d, K):
        raise InputError("the outcomes in a saved policy", "damaged", "as they were saved")


def _observed(
    counts: Ints, composition: Composition, rows: Floats, pending: tuple[Floats, Ints, Floats]
) -> dict[int, Observed]:
    """The outcomes that can be corrected: of users who are kept, each once."""
    good = rows.shape[1] == 4 and len(np.unique(rows[:, 0])) == len(rows)
    if good and len(rows):
        first = counts[count.NUMBER] - len(pending[2]) + 1
        least, most, _ = range_of(Kind.AMOUNT if composition.amounts else Kind.CONVERSION)
        ends = (counts[count.NUMBER], MOST_COST, MOST_CHECKSUM, most)
        good = bool((rows >= (first, 0, 0, least)).all() and (rows <= ends).all())
        good = good and bool((rows[:, :3] == np.floor(rows[:, :3])).all())
    if not good:
        raise InputError("the outcomes of a saved policy", "damaged", "as they were saved")
    return {int(n): (int(paid), int(sum_), y) for n, paid, sum_, y in rows.tolist()}


def _check_waiting(counts: Ints, waiting: Ints) -> None:
    decisions = int(counts[count.NUMBER])
    good = waiting.shape[1] == 3 and len(np.unique(waiting[:, 0])) == len(waiting)
    most = (decisions, MOST_COST, MOST_CHECKSUM)
    good = good and bool((waiting >= (1, 0, 0)).all() and (waiting <= most).all())
    held = int(waiting[:, 1].sum()) if good and counts[count.CHARGE] == count.ON_CONVERSION else 0
    if not good or held != counts[count.HELD]:
        allowed = "decisions, their cost and their checksum, each once"
        raise InputError("what waits in a saved policy", "damaged", allowed)
