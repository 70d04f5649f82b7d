r"""Measured: what the money caused, by the draws of the decisions alone.

The N treated users converted C times. How often would they have converted without treatment? Call
it B. Every user was left alone with a known probability p_i, at least ``reserve / 2``. So the users
who were left alone tell about B, without any model: its estimate is the sum of their
(1 - p_i) / p_i y_i.

The interval is a test that is passed at every number of users at once. For each l below
-log(1 - p_i), whatever user i's outcome y_i without treatment is, the factor

    exp(l y_i) if the user was treated, otherwise (1 - (1 - p_i) exp(l y_i)) / p_i

is 1 on average over the draw. So with G(l), the sum over users left alone of the logarithm of their
factor, exp(l B + G(l)) is a martingale that begins at 1. So is its average over a grid of l, and it
ever reaches 1 / alpha with probability alpha at most (Ville). The grid above zero bounds B from
above, the one below zero from below. With B, caused = C - B. It stays valid however often one
looks, and also while the campaign adapts to what it learns.

For that, users count in the order of their decisions: those up to the first whose outcome may still
come. Otherwise those who convert soon would be counted first.

Of treatments that were not delivered, D in number, nothing is known. Either the same users would
have been cancelled also if left alone, and the rest is as before; or not, and they are among those
whom the test is about. So that both hold, B is looked for from 0 to N + D, for N treated users, and
its lower end is lowered by D.

>>> measure = Measure(reserve=0.1)
>>> for number in range(1, 20_001):  # every tenth user is left alone, half of the others convert
...     treated = number % 10 > 0
...     measure.end(number, treated, float(number % 20 > 9), 0.1)
>>> measure.interval()
Interval(value=0.0, low=-1058..., high=1066...)
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bccb.intervals import Interval
from bccb.kernels.soundness import LARGE, counted, within
from bccb.types import Floats, Ints

Bytes: TypeAlias = npt.NDArray[np.uint8]

ALPHA = 0.025  # on each side
GRID = 16  # values of l above zero, and as many below
STEPS = 0.5 ** (np.arange(GRID) / 2.0)
LOG_WEIGHTS = -np.log(np.arange(1, GRID + 1) * (1.0 / np.arange(1, GRID + 1)).sum())
LEAST_STEP = 1e-12
MOST_STEPS, NEARLY = 100, 1e-12  # of Newton's method
SUM_ROUNDING = 1e-6  # of sums of outcomes from 0 to 1
LOG_ROUNDING = 1e-3  # of logarithms, relative: where probabilities are tiny
OPEN, LEFT, TREATED, UNDELIVERED, CANCELLED = range(5)  # what became of a user
NOTHING = 0.0, 1.0  # the outcome of those who did not convert
COUNTS = 7  # numbers that are kept before the logarithms
SUMS = COUNTS + 2 * GRID  # and before those of single users


class Measure:
    """Keeps what is measured, one user after the other.

    Outcomes count in units of ``largest``, from 0 to 1: a test without a model needs a bound.
    Conversions are within it; an amount of money beyond it counts as ``largest``, one below 0 as 0,
    and where there are any of those, the figure is not to be shown (:attr:`losses`).
    """

    def __init__(self, reserve: float, largest: float = 1.0) -> None:
        self.largest = largest
        self.least = reserve / 2.0  # probability of being left alone
        limit = -math.log1p(-self.least)  # of l
        self.grid = np.concatenate((0.9 * limit * STEPS, -2.0 * STEPS**2))
        self.logs = np.zeros(2 * GRID)  # G(l)
        self.users = 0  # who count: all up to the first whose outcome may still come
        self.treated = 0
        self.undelivered = 0  # D
        self.cancelled = 0  # of those left alone
        self.conversions = 0.0  # C
        self.without = 0.0  # the estimate of B
        self.losses = 0  # outcomes below 0: a treatment can be what causes them
        self.states = bytearray()  # of the users after those who count
        self.converted: dict[int, tuple[float, float]] = {}  # outcome and p of such users

    def end(self, number: int, treated: bool, outcome: float, alone: float) -> None:
        """Note the outcome of a decision; ``alone`` is used for users left alone who converted."""
        self.losses += outcome < 0.0
        outcome = min(max(outcome / self.largest, 0.0), 1.0)
        if outcome == 0.0 and number == self.users + 1 and not self.states:
            self.users = number
            self.treated += treated
            return
        if outcome != 0.0:
            # a numerical integral, which may be outside its range by rounding
            self.converted[number] = outcome, min(max(alone, self.least), 1.0)
        self._set(number, TREATED if treated else LEFT)

    def correct(self, number: int, treated: bool, was: float, outcome: float, alone: float) -> None:
        """Note that the outcome of a decision was another one."""
        self.losses -= was < 0.0
        if number > self.users:
            self.converted.pop(number, None)
            self.end(number, treated, outcome, alone)
            return
        self.losses += outcome < 0.0
        before, after = (min(max(y / self.largest, 0.0), 1.0) for y in (was, outcome))
        if treated:
            self.conversions = min(max(self.conversions + after - before, 0.0), self.treated)
            return
        p = np.array([[min(max(alone, self.least), 1.0)]])
        for y, sign in ((before, -1.0), (after, 1.0)):
            self.logs += sign * self._logs(p, np.array([[y]]))
            self.without += sign * float((1.0 - p[0, 0]) / p[0, 0] * y)
        self.without = max(self.without, 0.0)  # a difference may be below by rounding

    def drop(self, number: int, treated: bool) -> None:
        """Leave out a user whose decision was not carried out."""
        self._set(number, UNDELIVERED if treated else CANCELLED)

    def _set(self, number: int, state: int) -> None:
        place = number - self.users - 1
        missing = place + 1 - len(self.states)
        if missing > 0:
            self.states.extend(bytes(missing))
        self.states[place] = state
        if place == 0:
            self._count()

    def _count(self) -> None:
        """Let all users count up to the first who is open."""
        ended = bytes(takewhile(lambda state: state != OPEN, self.states))
        del self.states[: len(ended)]
        for number, state in enumerate(ended, self.users + 1):
            outcome, alone = self.converted.pop(number, NOTHING)
            self.undelivered += state == UNDELIVERED
            self.cancelled += state == CANCELLED
            if state == TREATED:
                self.treated += 1
                self.conversions += outcome
            elif state == LEFT and outcome != 0.0:
                self._add(np.array([[alone]]), np.array([[outcome]]))
        self.users += len(ended)

    def _add(self, p: Floats, y: Floats) -> None:
        """Add users who were left alone and converted; one per row."""
        self.logs += self._logs(p, y)
        self.without += float(((1.0 - p) / p * y).sum())

    def _logs(self, p: Floats, y: Floats) -> Floats:
        """What they add to G(l)."""
        return np.asarray(np.log((1.0 - (1.0 - p) * np.exp(self.grid * y)) / p).sum(axis=0))

    def end_all(self, actions: Ints, outcomes: Floats, alone: Floats) -> None:
        """Note many users at once, in order, all of whose outcomes are known. Nobody may wait."""
        assert not self.states
        self.losses += int((outcomes < 0.0).sum())
        treated, outcomes = actions > 0, np.clip(outcomes / self.largest, 0.0, 1.0)
        left = np.flatnonzero(~treated & (outcomes != 0.0))
        self._add(alone[left, None], outcomes[left, None])
        self.users += len(actions)
        self.treated += int(treated.sum())
        self.conversions += float(outcomes[treated].sum())

    @property
    def needed(self) -> int:
        """How many users must be treated before the interval can exclude anything from below.

        With fewer, even if nobody converts who is left alone, all treated users who converted may
        have done so by themselves. What is measured then jumps from end to end with every outcome.
        """
        # twenty times what the steepest l alone takes; where that is nothing, more than ever come
        beyond = 100.0 / max(float(self.grid[0]), LEAST_STEP)
        return math.ceil(_largest(self.grid[:GRID], np.zeros(GRID), beyond))

    @property
    def is_enough(self) -> bool:
        """Whether so many were treated."""
        return self.treated + self.undelivered >= self.needed

    @property
    def is_wide(self) -> bool:
        """Of amounts: whether the interval reaches below a loss of all that treated users brought.

        The largest amount is far above the usual one, so that it takes many users who are left
        alone to exclude that. Until then the value tells nothing, either.
        """
        return self.largest != 1.0 and self.interval().low < -self.largest * self.conversions

    def interval(self) -> Interval:
        """Caused conversions, with a 95 % interval, of the users who count."""
        up, down = self.grid[:GRID], self.grid[GRID:]
        most = self.treated + self.undelivered
        high = min(_largest(up, self.logs[:GRID], most), self.treated)
        low = most - _largest(-down, self.logs[GRID:] + down * most, most) - self.undelivered
        low = min(max(low, 0.0), high)  # the two tests contradict each other in 5 % at most
        # where nobody left alone was cancelled, the others tell about the undelivered, too
        share = self.treated / most if self.undelivered and not self.cancelled else 1.0
        without = min(max(share * self.without, low), high)
        ends = (without, high, low)
        return Interval(*(self.largest * (self.conversions - each) for each in ends))

    # Saving

    def kept(self) -> tuple[Floats, Bytes]:
        """The sums and users who convert, and the states of those who do not count yet."""
        counts = self.users, self.treated, self.undelivered, self.cancelled
        sums = np.array([*counts, self.conversions, self.without, self.losses])
        late = [(number, *pair) for number, pair in sorted(self.converted.items())]
        values = np.concatenate((sums, self.logs, np.array(late).reshape(-1)))
        return values, np.frombuffer(bytes(self.states), np.uint8)

    def restore(self, values: Floats, states: Bytes) -> bool:
        """Continue from what :meth:`kept` gave; whether it can be that."""
        if len(values) % 3 == (SUMS - 1) % 3:  # a version before kept no losses
            values = np.insert(values, COUNTS - 1, 0.0)
        late = values[SUMS:].reshape(-1, 3) if len(values) % 3 == SUMS % 3 else None
        if late is None or len(values) < SUMS or not _are_sound(values[:SUMS], late, states):
            return False
        # by Jensen's inequality the estimate of B is between the two ends
        above = values[COUNTS:SUMS] + self.grid * values[5]
        rounding = LOG_ROUNDING * (1.0 + abs(values[COUNTS:SUMS]))
        if not within(late[:, 2], self.least, 1.0) or (above > rounding).any():
            return False
        self.users, self.treated, self.undelivered, self.cancelled = map(int, values[:4])
        self.conversions, self.without = float(values[4]), float(values[5])
        self.losses, self.logs[:] = int(values[6]), values[COUNTS:SUMS]
        self.converted = {int(number): (y, p) for number, y, p in late.tolist()}
        self.states = bytearray(states.tobytes())
        return True

    def waits_for(self, numbers: Ints, decided: int) -> bool:
        """Whether these users are the ones without an outcome, of so many decided on."""
        end = self.users + len(self.states)
        if not 0 <= decided - end <= len(numbers):
            return False
        waits = np.flatnonzero(np.frombuffer(self.states, np.uint8) == OPEN) + self.users + 1
        later = np.arange(end + 1, decided + 1)
        return bool(np.array_equal(np.concatenate((waits, later)), np.sort(numbers)))


def _are_sound(sums: Floats, late: Floats, states: Bytes) -> bool:
    """Whether these can be sums, users who convert, and the states of users."""
    numbers, outcomes, _ = late.T
    return (
        counted(sums[:4])
        and bool(sums[1:4].sum() <= sums[0])
        and within(sums[4:5], -SUM_ROUNDING, float(sums[1]) + SUM_ROUNDING)
        and within(sums[5:6], -SUM_ROUNDING, LARGE)
        and counted(sums[6:COUNTS])
        and within(sums[COUNTS:], -LARGE, LARGE)
        and bool((states <= CANCELLED).all() and not states[:1].any())  # the first is open
        and within(numbers, sums[0] + 1, sums[0] + len(states))
        and counted(numbers)
        and within(outcomes, 0.0, 1.0)
    )


def _largest(grid: Floats, logs: Floats, most: float) -> float:
    """The largest B from 0 to ``most`` at which the average of exp(l B + G(l)) is below 1 / alpha.

    Its logarithm is convex and grows with B, so that Newton's steps from above stay above the root.
    For l below zero it is asked for most - B instead, which makes them positive.
    """
    lines = list(zip(grid.tolist(), (logs + LOG_WEIGHTS).tolist(), strict=True))
    for _ in range(MOST_STEPS):
        exponents = [slope * most + at for slope, at in lines]
        largest = max(exponents)
        terms = [math.exp(each - largest) for each in exponents]
        total = sum(terms)
        excess = largest + math.log(total) + math.log(ALPHA)
        if excess <= NEARLY:
            break
        slope = sum(slope * term for (slope, _), term in zip(lines, terms, strict=True)) / total
        if excess >= slope * most:
            return 0.0
        most -= excess / slope
    return most
