"""The sample: treated users, of whom a random choice is kept, to sum effects over all of them.

After history, users who were left alone are kept in the same way, to see whether they convert as it
said.

The first ``SIZE`` treated users are kept. After that the n-th treated user replaces one of them at
random, with probability SIZE / n, so that every treated user is equally likely to be in the sample
(Vitter 1985, algorithm R). The draw is a function of the seed and the decision's number.

>>> memory = np.zeros(SAMPLE.size(1))
>>> for number in range(1, 1_001):
...     keep_in_sample(view_sample(memory, 1), 42, number, np.array([float(number)]), 1)
>>> sample = view_sample(memory, 1)
>>> int(sample.treated[0]), bool(400 < sample.x.mean() < 600)
(1000, True)
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import copy, fill
from bccb.kernels.rng import key_of, uniform
from bccb.kernels.soundness import MOST_SEEN, counted, within
from bccb.types import MOST_FEATURE, Floats

SIZE, FEW, MOST_NUMBERS = 256, 16, 200_000  # users; fewer where they have very many features
SAMPLED = (1 << 20) + 1  # the lane of the draws, beyond those of explorers and of random choices


class Sample(NamedTuple):
    """Treated users, and after history also users who were left alone."""

    treated: Annotated[Floats, "1"]  # how many
    cancelled: Annotated[Floats, "1"]  # how many of them were not treated after all
    arm: Annotated[Floats, "m"]
    x: Annotated[Floats, "m", "d"]  # features as given
    number: Annotated[Floats, "m"]  # of the decision
    history: Annotated[Floats, "1"]  # weight b of treated users that was learned from history
    learned: Annotated[Floats, "2", "2"]  # evidence (a, b) since, of users left alone and treated
    alone: Annotated[Floats, "1"]  # users left alone since
    alone_number: Annotated[Floats, "m"]
    alone_x: Annotated[Floats, "m", "d"]


SAMPLE = Layout(Sample, "d", m="min(SIZE, MOST_NUMBERS // (d + 1) + FEW)")
view_sample = SAMPLE.view


@jit
def keep_in_sample(sample: Sample, seed: int, number: int, x: Floats, arm: int) -> None:
    """Count one more user, and perhaps keep it."""
    if arm > 0:
        sample.treated[0] += 1.0
        place = place_of(sample.treated[0], sample.arm.shape[0], seed, number)
        if place >= 0:
            sample.arm[place], sample.number[place] = arm, number
            copy(sample.x[place], x)
    elif sample.history[0] > 0.0:
        sample.alone[0] += 1.0
        place = place_of(sample.alone[0], sample.arm.shape[0], seed, number)
        if place >= 0:
            sample.alone_number[place] = number
            copy(sample.alone_x[place], x)


@jit
def place_of(nth: float, m: int, seed: int, number: int) -> int:
    """Where the n-th user is kept; -1 if nowhere."""
    if nth <= m:
        return int(nth) - 1
    place = int(uniform(key_of(seed, number, SAMPLED), 0) * nth)
    return place if place < m else -1


@jit
def note_in_sample(sample: Sample, arm: int, a: float, b: float) -> None:
    """Add evidence of a user to that of the users who were left alone, or treated."""
    which = 1 if arm > 0 else 0
    sample.learned[which, 0] += a
    sample.learned[which, 1] += b


@jit
def end_history(sample: Sample) -> None:
    """Count what was learned so far as history."""
    sample.history[0] += sample.learned[1, 1]
    fill(sample.learned[0], 0.0)
    fill(sample.learned[1], 0.0)


def earlier_size(d: int) -> int:
    """The size of a sample before history was noted: treated, cancelled, arm and x."""
    return 2 + len(view_sample(np.zeros(SAMPLE.size(d)), d).arm) * (1 + d)


def with_history(memory: Floats, begin: int, d: int) -> Floats:
    """A memory with a whole sample, from one with a sample of that size."""
    end = begin + earlier_size(d)
    added = np.zeros(SAMPLE.size(d) - earlier_size(d))
    return np.concatenate((memory[:end], added, memory[end:]))


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether this can be the memory of a sample."""
    sample = view_sample(memory, d)
    kept = sample.arm[: int(min(sample.treated[0], len(sample.arm)))]
    a, b = sample.learned.T
    return (
        counted(sample.treated)
        and counted(sample.cancelled)
        and bool(sample.cancelled[0] <= sample.treated[0])
        and bool(np.isin(kept, np.arange(1, K + 1)).all())
        and within(sample.x, -MOST_FEATURE, MOST_FEATURE)
        and counted(sample.number)
        and within(sample.history, 0.0, MOST_SEEN)
        and within(b, 0.0, MOST_SEEN)
        and bool(((a >= -1.0) & (a <= b + 1.0)).all())  # sums are off by rounding
        and counted(sample.alone)
        and counted(sample.alone_number)
        and within(sample.alone_x, -MOST_FEATURE, MOST_FEATURE)
    )
