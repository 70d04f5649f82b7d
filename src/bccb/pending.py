"""Pending users: those whose outcome can still be reported, and what is known of delays."""

from __future__ import annotations

from typing import Any

import numpy as np

from bccb import checks
from bccb.ageing import (
    BEGAN,
    ENDED,
    LAST,
    MARKS,
    NOT_KNOWN,
    OPEN,
    PASSED,
    TOO_LATE,
    Ring,
    enter_many,
)
from bccb.errors import InputError, StateError
from bccb.kernels.delay import AGES, DELAY, MEANS, start_delay, view_delay
from bccb.kernels.soundness import MOST_SEEN, within
from bccb.types import MOST_FEATURE, Floats, Ints

FEWEST_PLACES = 1_024
LONGEST_WINDOW, LATEST = 1e15, 1e16  # microseconds: 31 years, and the year 2286
LEAST_MEAN = 2.0 / 2**MEANS  # windows
ALL = 2**62  # ages at once: no limit


class Pending:
    """A ring of users in the order of their decisions, which grows as it must.

    Time is in any unit, and is given with every call; it never runs back.
    """

    def __init__(self, window: float, features: int, treatments: int) -> None:
        self.window = checks.number("window", window)
        if not 0.0 < self.window <= LONGEST_WINDOW:
            raise InputError("window", window, f"above 0, at most {LONGEST_WINDOW:g}")
        self.treatments = treatments
        self.delay: Floats = np.zeros(DELAY.size(treatments))
        start_delay(self.delay, treatments, self.window)
        self.marks: Ints = np.zeros(MARKS, np.int64)
        self.ring = _ring(FEWEST_PLACES, features)

    @property
    def arrays(self) -> tuple[Floats, Ints, Ring]:
        """What the kernels work on."""
        return self.delay, self.marks, self.ring

    @property
    def first(self) -> int:
        """The number of the first user who is kept: earlier ones have passed every age.

        Where many ages are due, a user may pass the window before a younger age is looked at.
        """
        return int(self.marks[PASSED:].min()) + 1

    @property
    def last(self) -> int:
        """The number of the last user who was decided on."""
        return int(self.marks[LAST])

    @property
    def began(self) -> int:
        """The number of the last user who came before this began: they do not wait here."""
        return int(self.marks[BEGAN])

    @property
    def first_event(self) -> int:
        """The event of the first user who waits, or 0 if nobody does."""
        return int(self.ring.event[self.place(self.first)]) if self.first <= self.last else 0

    def is_due(self, at: float) -> bool:
        """Whether anybody has passed an age by a time, and was not looked at yet."""
        ages = view_delay(self.delay, self.treatments).age
        for j, passed in enumerate(self.marks[PASSED:].tolist()):
            if passed < self.last and at - self.ring.at[self.place(passed + 1)] > ages[j]:
                return True
        return False

    @property
    def now(self) -> float:
        """The time of the last call."""
        return float(self.delay[1])

    @property
    def too_late(self) -> int:
        """Conversions that were reported after their window had ended: counted, not learned."""
        return int(self.marks[TOO_LATE])

    def note_too_late(self) -> None:
        """Count one more of them."""
        self.marks[TOO_LATE] += 1

    def check_time(self, at: Any) -> float:
        """A time that does not run back."""
        time = at if type(at) is float else checks.number("at", at)
        if not self.now <= time <= LATEST:
            raise InputError("at", at, f"from {self.now:g}, the time of the last call, to 1e16")
        return time

    def begin_after(self, number: int) -> None:
        """Begin with the user after this one."""
        self.marks[BEGAN] = self.marks[LAST] = number
        self.marks[PASSED:] = number

    def enter(self, number: int, xs: Floats, arms: Ints, times: Floats, event: int) -> None:
        """Let users wait, the first of whom has this number, and this event."""
        if number != self.last + 1:
            raise StateError(f"decision {number} cannot follow decision {self.last}")
        self.make_room(len(times))
        enter_many(self.delay, self.marks, self.ring, number, xs, arms, times, event)

    def make_room(self, users: int) -> None:
        """Have room for so many more users."""
        waiting, places = self.last - self.first + 1, len(self.ring.at)
        if waiting + users <= places:
            return
        while waiting + users > places:
            places *= 2
        numbers = np.arange(self.first, self.last + 1)
        old, self.ring = self.ring, _ring(places, self.ring.x.shape[1])
        for before, after in zip(old, self.ring, strict=True):
            after[numbers % places] = before[numbers % len(old.at)]

    def is_open(self, number: int) -> bool:
        """Whether a user waits, and has no outcome yet."""
        waits = self.marks[PASSED + AGES - 1] < number <= self.last
        return bool(waits and self.ring.state[self.place(number)] == OPEN)

    def places(self) -> Ints:
        """Where all users who are kept are in the ring, in the order of their decisions."""
        return np.arange(self.first, self.last + 1) % len(self.ring.at)

    def open_numbers(self) -> Ints:
        """The numbers of all users who wait and have no outcome yet."""
        places = self.places()
        return np.flatnonzero(self.ring.state[places] == OPEN) + self.first

    def has_ended(self, number: int, at: float) -> bool:
        """Whether the window of a user has ended by a time."""
        return at - float(self.ring.at[self.place(number)]) > self.window

    def remove(self, number: int) -> None:
        """Learn no more about a user."""
        self.ring.state[self.place(number)] = ENDED

    def place(self, number: int) -> int:
        """Where a user is in the ring."""
        return number % len(self.ring.at)

    def curve(self) -> tuple[Floats, Floats]:
        """Ages, and for each arm the share of its conversions that is reported by that age."""
        delay = view_delay(self.delay, self.treatments)
        return delay.age.copy(), delay.share.copy()

    # What a journal does not tell

    def learned(self) -> bytes:
        """Delays and marks, and of each user who waits what was learned: the rest is known."""
        places = self.places()
        arm, weight, state = (
            part[places] for part in (self.ring.arm, self.ring.weight, self.ring.state)
        )
        parts = self.delay, self.marks, weight, arm.astype(np.int16), state.astype(np.int8)
        return b"".join(part.tobytes() for part in parts)

    def restore(self, learned: bytes) -> None:
        """Continue from what :meth:`learned` gave; :meth:`refill` must follow for each user."""
        size = self.delay.nbytes + self.marks.nbytes
        if len(learned) < size:
            raise StateError("what was learned of users who wait is cut off")
        self.delay[:] = np.frombuffer(learned, count=len(self.delay))
        self.marks[:] = np.frombuffer(learned, np.int64, len(self.marks), self.delay.nbytes)
        users = self.last - self.first + 1
        if not 0 <= users == (len(learned) - size) / 11:
            raise StateError(f"{len(learned)} bytes are not what was learned of {users} users")
        self.make_room(0)
        places = self.places()
        self.ring.weight[places] = np.frombuffer(learned, count=users, offset=size)
        self.ring.arm[places] = np.frombuffer(learned, np.int16, users, size + 8 * users)
        self.ring.state[places] = np.frombuffer(learned, np.int8, users, size + 10 * users)

    def refill(self, number: int, x: Floats, at: float, event: int) -> None:
        """Know a user again who waits."""
        place = self.place(number)
        self.ring.x[place], self.ring.at[place], self.ring.event[place] = x, at, event

    # Saving

    def kept(self) -> tuple[Floats, Ints, Floats]:
        """Delays, marks and one row per user who waits: all that :meth:`from_kept` needs."""
        places = self.places()
        x, at, arm, weight, state, _ = (values[places] for values in self.ring)
        return self.delay.copy(), self.marks.copy(), np.column_stack((at, arm, weight, state, x))

    @classmethod
    def from_kept(
        cls, delay: Floats, marks: Ints, users: Floats, features: int, treatments: int
    ) -> Pending | None:
        """The users who waited, or None where that cannot be what :meth:`kept` gave."""
        shapes = (delay.shape, marks.shape, users.shape[1:])
        if shapes != ((DELAY.size(treatments),), (MARKS,), (4 + features,)):
            return None
        if not 0.0 < delay[0] <= LONGEST_WINDOW or not _are_sound(delay, marks, users, treatments):
            return None
        pending = cls(float(delay[0]), features, treatments)
        pending.delay[:], pending.marks[:] = delay, marks
        start_delay(pending.delay, treatments, pending.window)  # what follows from the counts
        pending.make_room(0)
        places = pending.places()
        columns = users[:, 4:], *users[:, :4].T, np.arange(pending.first, pending.last + 1)
        for values, column in zip(pending.ring, columns, strict=True):
            values[places] = column
        return pending


def _are_sound(delay: Floats, marks: Ints, users: Floats, treatments: int) -> bool:
    """Whether these can be delays, marks and users of one policy."""
    known, passed = view_delay(delay, treatments), marks[PASSED:]
    at, arm, weight, state = users[:, :4].T
    return (
        within(known.now, 0.0, LATEST)
        and within(known.learned, 0.0, MOST_SEEN)
        and within(known.mean, LEAST_MEAN, 2.0)
        and within(known.fitted, 0.0, MOST_SEEN * AGES)
        and within(known.risk, 0.0, MOST_SEEN)
        and bool(((known.events >= 0.0) & (known.events <= known.risk)).all())
        and bool((marks >= 0).all() and marks[LAST] >= passed[0])
        and bool((np.diff(passed) <= 0).all() and marks[LAST] - passed[-1] == len(users))
        and within(users[:, 4:], -MOST_FEATURE, MOST_FEATURE)
        and within(at, 0.0, known.now[0])
        and bool((np.diff(at) >= 0.0).all())
        and within(weight, 0.0, 1.0)
        and bool(np.isin(arm, np.arange(NOT_KNOWN, treatments + 1)).all())
        and bool(np.isin(state, np.arange(ENDED, AGES + 1)).all())
    )


def _ring(places: int, features: int) -> Ring:
    return Ring(
        np.zeros((places, features)),
        np.zeros(places),
        np.zeros(places, np.int64),
        np.zeros(places),
        np.zeros(places, np.int64),
        np.zeros(places, np.int64),
    )
