"""The store: against a plain one, within bounds, unbiased, and refused where it is damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bccb.kernels import store as stores
from bccb.kernels.rng import key_of, uniform
from bccb.kernels.store import (
    STORE,
    STORED,
    correct_in_store,
    fit_is_due,
    keep_in_store,
    note_learned,
    rows_of,
    sound,
    staying,
    unused,
    view_store,
    whole_memory,
)
from bccb.types import Floats

SEED, D, K = 11, 600, 2
CAPACITY = 4_096  # with so many features


class Plain:
    """Rows in a list; halved like the store, but written as plainly as can be."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.halved: dict[tuple[int, bool], int] = {}
        self.number = 0

    def stays(self, row: dict[str, Any]) -> bool:
        return bool(row["draw"] < 2.0 ** -self.halved.get(row["stratum"], 0))

    def keep(self, arm: int, a: float) -> None:
        self.number += 1
        draw = uniform(np.uint64(key_of(SEED, self.number, STORED)), 0)
        row = {"number": self.number, "stratum": (arm, a > 0), "a": a, "arm": arm, "draw": draw}
        if self.stays(row):
            self.rows.append(row)
        while len(self.rows) > CAPACITY:
            sizes = {each["stratum"]: 0 for each in self.rows[:-1]}
            for each in self.rows[:-1]:  # the newest is not in yet
                sizes[each["stratum"]] += 1
            largest = max(sorted(sizes), key=lambda stratum: sizes[stratum])
            self.halved[largest] = self.halved.get(largest, 0) + 1
            self.rows = [each for each in self.rows if self.stays(each)]


def empty(d: int = D, treatments: int = K) -> Floats:
    memory = np.zeros(7 + STORE.size(d, treatments))  # after other parts of a memory
    view_store(memory, d, treatments).first[0] = 50.0
    return memory


def test_rows_are_those_of_a_plain_store() -> None:
    memory, plain, draws = empty(), Plain(), np.random.default_rng(1)
    store, x = view_store(memory, D, K), np.zeros(D)
    arms = draws.choice(K + 1, 9_000, p=[0.6, 0.3, 0.1])
    outcomes = (draws.random(9_000) < 0.05).astype(float)
    for arm, y in zip(arms.tolist(), outcomes.tolist(), strict=True):
        x[0] = plain.number + 1
        keep_in_store(store, SEED, 3, x, arm, y, 1.0)
        plain.keep(arm, y)
    rows = rows_of(memory, D, K)
    assert len(rows.b) == len(plain.rows) <= CAPACITY
    assert rows.number.tolist() == [each["number"] for each in plain.rows]
    assert rows.x[:, 0].tolist() == rows.number.tolist()
    assert rows.arm.tolist() == [each["arm"] for each in plain.rows]
    assert set(rows.user.tolist()) == {3}
    times = [2 ** plain.halved.get(each["stratum"], 0) for each in plain.rows]
    assert rows.b.tolist() == times
    assert rows.a.tolist() == [each["a"] * n for each, n in zip(plain.rows, times, strict=True)]
    assert int((rows.a > 0).sum()) == int(outcomes.sum())  # all converters
    assert sum(plain.halved.values()) > 2
    assert sound(memory, D, K)


def test_sums_over_the_rows_are_unbiased() -> None:
    memory, x = empty(D, 1), np.zeros(D)
    store = view_store(memory, D, 1)
    n = 6_000
    for i in range(n):
        x[0] = i % 10
        keep_in_store(store, SEED, 0, x, i % 2, float(i % 50 == 0), 1.0)
    rows = rows_of(memory, D, 1)
    assert rows.b.sum() == pytest.approx(n, rel=0.05)
    assert (rows.b * rows.x[:, 0]).sum() == pytest.approx(4.5 * n, rel=0.05)
    assert rows.a.sum() == n / 50


def test_they_stay_unbiased_where_a_policy_with_another_seed_adopts_the_rows() -> None:
    memory, x = empty(D, 1), np.zeros(D)
    store = view_store(memory, D, 1)
    for i in range(20_000):
        seed = SEED if i < 10_000 else SEED + 1
        keep_in_store(store, seed, 0, x, i % 2, float(i % 50 == 0), 1.0)
    rows = rows_of(memory, D, 1)
    assert store.halved.max() >= 3
    assert rows.b.sum() == pytest.approx(20_000, rel=0.05)
    assert rows.b[rows.number <= 10_000].sum() == pytest.approx(10_000, rel=0.05)


def test_they_stay_unbiased_where_outcomes_are_corrected_either_way() -> None:
    """Most rows without a conversion are not kept: those who convert after all count, too."""
    memory, x = empty(D, 1), np.zeros(D)
    store = view_store(memory, D, 1)
    for user in range(1, 20_001):
        keep_in_store(store, SEED, user, x, 0, float(user % 50 == 0), 1.0)
    assert store.halved[0].tolist() == [3.0, 0.0]
    for user in range(1, 4_001):
        was = float(user % 50 == 0)
        correct_in_store(store, SEED, user, x, 0, was, 1.0 - was)
        assert sound(memory, D, 1)
    rows = rows_of(memory, D, 1)
    assert store.halved[0].tolist() == [4.0, 1.0]
    assert rows.a.sum() == pytest.approx(20_000 / 50 + 4_000 * 0.96, rel=0.05)
    assert rows.b.sum() == pytest.approx(20_000, rel=0.05)


def test_a_share_of_a_conversion_that_becomes_another_one_adds_no_row() -> None:
    memory, x = empty(D, 1), np.zeros(D)
    store = view_store(memory, D, 1)
    for user in range(1, 20_001):
        keep_in_store(store, SEED, user, x, 0, 0.5 * (user % 50 == 0), 1.0)
    kept, rows = store.kept.copy(), rows_of(memory, D, 1)
    for user in range(50, 20_001, 50):
        correct_in_store(store, SEED, user, x, 0, 0.5, 1.0)
    assert store.kept.tolist() == kept.tolist()
    corrected = rows_of(memory, D, 1)
    np.testing.assert_array_equal(corrected.user, rows.user)
    assert corrected.a.sum() == pytest.approx(2.0 * rows.a.sum())
    for user in range(30_001, 30_101):  # have no row
        correct_in_store(store, SEED, user, x, 0, 0.5, 1.0)
    assert store.kept.tolist() == kept.tolist()


def test_rows_after_a_number() -> None:
    memory = empty(2, 1)
    store = view_store(memory, 2, 1)
    for i in range(10):
        keep_in_store(store, SEED, 0, np.full(2, float(i)), 0, 0.0, 1.0)
    assert rows_of(memory, 2, 1, after=7).number.tolist() == [8, 9, 10]
    assert rows_of(memory, 2, 1, after=10).x.shape == (0, 2)


def test_a_fit_is_due_first_after_some_outcomes_then_after_twice_as_many() -> None:
    memory = empty(1, 1)
    store = view_store(memory, 1, 1)
    note_learned(store, 49.5)
    due = [fit_is_due(store)]
    note_learned(store, 0.5)
    due.append(fit_is_due(store))
    store.tried[0] = store.learned[0]
    note_learned(store, 49.5)
    due.append(fit_is_due(store))
    note_learned(store, 0.5)
    assert [*due, fit_is_due(store)] == [False, True, False, True]


def test_a_tenth_of_the_conversions_corrected_makes_a_fit_due() -> None:
    store = view_store(np.zeros(STORE.size(0, 1)), 0, 1)
    for user in range(1, 2_001):
        keep_in_store(store, 42, user, np.empty(0), user % 2, float(user % 10 == 0), 1.0)
        note_learned(store, 1.0)
    store.first[0], store.tried[0] = 100.0, 2_000.0
    for user in range(10, 200, 10):
        assert not fit_is_due(store)
        correct_in_store(store, 42, user, np.empty(0), user % 2, 1.0, 0.0)
    for user in range(200, 220, 10):
        correct_in_store(store, 42, user, np.empty(0), user % 2, 1.0, 0.0)
    assert fit_is_due(store)


def test_what_is_used_makes_the_whole_again() -> None:
    memory = empty(3, 1)
    store = view_store(memory, 3, 1)
    for i in range(5):
        keep_in_store(store, SEED, 0, np.full(3, float(i)), i % 2, 0.0, 1.0)
    used = memory[: len(memory) - unused(memory, 3, 1)]
    assert len(used) < len(memory) / 100
    whole = whole_memory(used, len(memory), 3, 1)
    assert whole is not None
    assert whole.tobytes() == memory.tobytes()
    for wrong in (used[:-1], np.append(used, 0.0), used[:3], np.zeros(len(memory) + 1)):
        assert whole_memory(wrong, len(memory), 3, 1) is None
    store.rows[0] = np.nan
    assert whole_memory(used, len(memory), 3, 1) is None


@pytest.mark.parametrize(
    ("field", "place", "value"),
    [
        ("rows", 0, 1e9),
        ("rows", 0, 2.5),
        ("rows", 0, 4.0),  # one less than there are
        ("first", 0, 0.0),
        ("learned", 0, -1.0),
        ("tried", 0, 7.0),  # more than learned
        ("fits", 0, 0.5),
        ("last", 0, 4.0),  # before the newest row
        ("halved", (0, 0), -1.0),
        ("halved", (0, 0), 1e9),
        ("kept", (1, 0), 7.0),
        ("row", (2, stores.NUMBER), 1.0),  # out of order
        ("row", (2, stores.ARM), 2.0),
        ("row", (2, stores.ARM), 0.5),
        ("row", (2, stores.GAIN), 2.0),
        ("row", (2, stores.WEIGHT), 3.0),
        ("row", (2, stores.USER), -1.0),
        ("row", (2, stores.FEATURES), 1e200),
    ],
)
def test_a_damaged_store_is_refused(field: str, place: Any, value: float) -> None:
    memory = empty(1, 1)
    store = view_store(memory, 1, 1)
    for i in range(5):
        note_learned(store, 1.0)
        keep_in_store(store, SEED, 0, np.ones(1), i % 2, float(i == 3), 1.0)
    assert sound(memory, 1, 1)
    getattr(store, field)[place] = value
    assert not sound(memory, 1, 1)


def test_who_stays_is_one_draw_for_each_number() -> None:
    numbers = np.arange(1, 2_001)
    half, quarter = staying(SEED, numbers, 1.0), staying(SEED, numbers, 2.0)
    assert 900 < half.sum() < 1_100
    assert 400 < quarter.sum() < 600
    assert not (quarter & ~half).any()
    assert staying(SEED, numbers, 0.0).all()
