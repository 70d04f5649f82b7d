from __future__ import annotations

import numpy as np
from scipy import stats

from bccb.kernels.sample import (
    SAMPLE,
    SIZE,
    Sample,
    end_history,
    keep_in_sample,
    note_in_sample,
    sound,
    view_sample,
)


def filled(users: int, seed: int = 1) -> Sample:
    sample = view_sample(np.zeros(SAMPLE.size(1)), 1)
    for number in range(1, users + 1):
        keep_in_sample(sample, seed, number, np.array([float(number)]), 1 + number % 2)
    return sample


def test_the_first_users_are_all_kept() -> None:
    sample = filled(SIZE)
    assert sample.x[:, 0].tolist() == list(range(1, SIZE + 1))
    assert sample.arm.tolist() == [1 + number % 2 for number in range(1, SIZE + 1)]


def test_every_user_is_equally_likely_to_be_in_the_sample() -> None:
    users, seeds = 10 * SIZE, 20
    kept = np.concatenate([filled(users, seed).x[:, 0] for seed in range(seeds)])
    tenths = np.histogram(kept, bins=10, range=(0, users))[0]
    assert stats.chisquare(tenths).pvalue > 1e-4
    assert np.unique(filled(users).x[:, 0]).size == SIZE  # nobody twice
    assert filled(users).treated[0] == users


def test_very_wide_users_make_the_sample_smaller() -> None:
    assert SAMPLE.size(100_000) < 4_000_000
    assert SAMPLE.size(0) == 8 + 3 * SIZE


def test_damage_is_noticed() -> None:
    memory = np.zeros(SAMPLE.size(1))
    sample = view_sample(memory, 1)
    keep_in_sample(sample, 1, 1, np.array([0.5]), 2)
    assert sound(memory, 1, 2)
    assert not sound(memory, 1, 1)  # there is no second treatment
    for place, value in ((0, 0.5), (0, -1.0), (1, 2.0)):
        broken = memory.copy()
        broken[place] = value
        assert not sound(broken, 1, 2)
    for part, value in (
        ("number", 0.5),
        ("history", -1.0),
        ("learned", 3.0),  # more conversions than users
        ("alone", -1.0),
        ("alone_number", -1.0),
        ("alone_x", 1e300),
    ):
        broken = memory.copy()
        getattr(view_sample(broken, 1), part).flat[0] = value
        assert not sound(broken, 1, 2)


def test_after_history_users_who_are_left_alone_are_kept_as_well() -> None:
    memory = np.zeros(SAMPLE.size(1))
    sample = view_sample(memory, 1)
    keep_in_sample(sample, 1, 1, np.array([0.5]), 0)
    assert not memory.any()
    note_in_sample(sample, 1, 0.0, 1.0)
    note_in_sample(sample, 0, 1.0, 1.0)
    end_history(sample)
    assert sample.history[0] == 1.0
    assert not sample.learned.any()
    for number in range(1, 10_001):
        keep_in_sample(sample, 1, number, np.array([float(number)]), number % 2)
    assert (sample.treated[0], sample.alone[0]) == (5_000.0, 5_000.0)
    assert (sample.alone_x[:, 0] == sample.alone_number).all()
    assert (sample.x[:, 0] == sample.number).all()
    assert (sample.alone_number % 2 == 0).all()
    assert 4_000 < sample.alone_number.mean() < 6_000
    assert sound(memory, 1, 1)
