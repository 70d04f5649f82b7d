"""The sample: treated users, of whom a random choice is kept, to sum effects over all of them.

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
from bccb.kernels.linalg import fill
from bccb.kernels.rng import key_of, uniform
from bccb.kernels.soundness import MOST_SEEN, counted, within
from bccb.types import MOST_FEATURE, Floats

SIZE, FEW, MOST_NUMBERS = 256, 16, 200_000  # users; fewer where they have very many features
SAMPLED = (1 << 20) + 1  # the lane of the draws, beyond those of explorers and of random choices


class Sample(NamedTuple):
    """Treated users."""

    treated: Annotated[Floats, "1"]  # how many
    cancelled: Annotated[Floats, "1"]  # how many of them were not treated after all
    learned: Annotated[Floats, "2"]  # evidence (a, b) of them that was learned
    before: Annotated[Floats, "1"]  # weight b of treated users that was learned from history
    arm: Annotated[Floats, "m"]
    x: Annotated[Floats, "m", "d"]  # features as given


SAMPLE = Layout(Sample, "d", m="min(SIZE, MOST_NUMBERS // (d + 1) + FEW)")
view_sample = SAMPLE.view


@jit
def keep_in_sample(sample: Sample, seed: int, number: int, x: Floats, arm: int) -> None:
    """Count one more treated user, and perhaps keep it."""
    sample.treated[0] += 1.0
    n, m = int(sample.treated[0]), sample.arm.shape[0]
    place = n - 1
    if n > m:
        place = int(uniform(key_of(seed, number, SAMPLED), 0) * n)
    if place < m:
        sample.arm[place] = arm
        for j in range(x.shape[0]):
            sample.x[place, j] = x[j]


@jit
def note_in_sample(sample: Sample, arm: int, a: float, b: float) -> None:
    """Add evidence of a user to that of treated users, if it is of one."""
    if arm > 0:
        sample.learned[0] += a
        sample.learned[1] += b


@jit
def end_history(sample: Sample) -> None:
    """Count what was learned so far as history."""
    sample.before[0] += sample.learned[1]
    fill(sample.learned, 0.0)


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether this can be the memory of a sample."""
    sample = view_sample(memory, d)
    kept = sample.arm[: int(min(sample.treated[0], len(sample.arm)))]
    return (
        counted(sample.treated)
        and counted(sample.cancelled)
        and bool(sample.cancelled[0] <= sample.treated[0])
        and within(sample.learned, -MOST_SEEN, MOST_SEEN)
        and within(sample.before, 0.0, MOST_SEEN)
        and bool(np.isin(kept, np.arange(1, K + 1)).all())
        and within(sample.x, -MOST_FEATURE, MOST_FEATURE)
    )
