r"""Delays: the share F of conversions that are reported by an age, learned from reports alone.

The window w is cut at the ages a_1 < ... < a_G = w, each by the factor RATIO above the one before.
With q_j = P(a_{j-1} < delay <= a_j | delay <= a_j),

    F(a_j) = prod_{i > j} (1 - q_i),

where F(w) = 1: what is reported after the window is not learned. q_j is estimated from conversions
of users who have reached the age a_j, since a younger user's longer delay could not have been
reported yet (Lynden-Bell, 1971). With ``events`` of the ``risk`` conversions in bin j, over all
arms, and then in arm k,

    q_j = (events_j + STRENGTH q0_j) / (risk_j + STRENGTH),
    q_kj = (events_kj + ARM_STRENGTH q_j) / (risk_kj + ARM_STRENGTH),

so that an arm has a curve of its own where its data say so. q0 is that of exponential delays, so
that ages which nobody has reached yet follow from those that many have. Their mean, in windows, is
the most probable of MEANS, each half the one before, given the counts and a prior of log-normal
shape around PRIOR_MEAN; it is looked at again whenever the counts are a tenth more.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from bccb.kernels.jit import jit
from bccb.kernels.layout import Layout
from bccb.types import Floats

AGES, RATIO = 20, math.sqrt(2.0)  # G: the first age is a 724th of the window
PRIOR_MEAN, PRIOR_SPREAD = 0.125, 1.5  # windows; of the logarithm
MEANS = 12  # 2, 1, 1/2, ... windows
MORE = 1.1
LEAST_SHARE = 1e-12
STRENGTH, ARM_STRENGTH = 2.0, 10.0  # conversions


class Delay(NamedTuple):
    """What is known of delays, arms 0..K."""

    window: float
    now: Annotated[Floats, "1"]  # the time of the last call
    learned: Annotated[Floats, "1"]  # the weight of all evidence
    mean: Annotated[Floats, "1"]  # of exponential delays that fit best, in windows
    fitted: Annotated[Floats, "1"]  # the sum of risk when it was looked at
    age: Annotated[Floats, "AGES"]
    events: Annotated[Floats, "K + 1", "AGES"]  # conversions with a delay in bin j
    risk: Annotated[Floats, "K + 1", "AGES"]  # conversions with a delay up to a_j
    share: Annotated[Floats, "K + 1", "AGES"]  # F, which follows from them


DELAY = Layout(Delay, "K")
view_delay = DELAY.view


def start_delay(memory: Floats, K: int, window: float) -> None:
    """Before the first conversion."""
    memory[0] = window
    delay = view_delay(memory, K)
    for j in range(AGES):
        delay.age[j] = window / RATIO ** (AGES - 1 - j)
    refresh(delay)


@jit
def expected_events(delay: Delay, mean: float, j: int) -> float:
    """q_j of exponential delays with this mean, in windows."""
    younger, older = delay.age[j - 1] / delay.window, delay.age[j] / delay.window
    return 1.0 - math.expm1(-younger / mean) / math.expm1(-older / mean)


@jit
def fit(delay: Delay) -> None:
    """Find the mean of exponential delays that is most probable."""
    best = -math.inf
    for i in range(MEANS):
        mean = 2.0 * 0.5**i
        probability = -0.5 * (math.log(mean / PRIOR_MEAN) / PRIOR_SPREAD) ** 2
        for j in range(1, AGES):
            q = expected_events(delay, mean, j)
            for k in range(delay.events.shape[0]):
                events, risk = delay.events[k, j], delay.risk[k, j]
                if risk > 0.0:
                    q = min(max(q, LEAST_SHARE), 1.0 - LEAST_SHARE)
                    probability += events * math.log(q) + (risk - events) * math.log(1.0 - q)
        if probability > best:
            best = probability
            delay.mean[0] = mean


@jit
def refresh(delay: Delay) -> None:
    """Compute F anew."""
    arms = delay.events.shape[0]
    counted = 0.0
    for k in range(arms):
        for j in range(AGES):
            counted += delay.risk[k, j]
    if counted >= MORE * delay.fitted[0]:
        delay.fitted[0] = counted
        fit(delay)
    for k in range(arms):
        delay.share[k, AGES - 1] = 1.0
    for j in range(AGES - 1, 0, -1):
        events, risk = STRENGTH * expected_events(delay, delay.mean[0], j), STRENGTH
        for k in range(arms):
            events += delay.events[k, j]
            risk += delay.risk[k, j]
        q = events / risk
        for k in range(arms):
            own = delay.events[k, j] + ARM_STRENGTH * q
            delay.share[k, j - 1] = delay.share[k, j] * (
                1.0 - own / (delay.risk[k, j] + ARM_STRENGTH)
            )


@jit
def bin_of(delay: Delay, age: float) -> int:
    """The bin of a delay: the first age that is not below it."""
    j = 0
    while j < AGES - 1 and delay.age[j] < age:
        j += 1
    return j


@jit
def weight_after(delay: Delay, arm: int, j: int) -> float:
    """The weight of a pending user who has passed age j: F halfway to the next age."""
    if j == AGES - 1:
        return 1.0
    return float(0.5 * (delay.share[arm, j] + delay.share[arm, j + 1]))
