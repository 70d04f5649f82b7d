"""Trials: what one seed is run on, whether from a log, a file or the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bccb.charge import AT_ONCE, Payment
from bccb.data import Columns, read_log, simulate
from bccb.data.simulator import Outcome
from bccb.data.world import VARIATION, World, simulate_world, trial_with_amounts, with_amounts
from bccb.data.worlds import make_world, trial_in
from bccb.evaluate.charged import paid_in
from bccb.evaluate.replay import stream
from bccb.types import Ints, Log

PAST = 1 << 32  # seeds of simulated history begin here, far from those of streams


@dataclass(frozen=True, slots=True)
class Trial:
    """The rows of a log that are streamed, and the rows of the past that are history."""

    log: Log
    order: Ints
    past: Log
    history: Ints


@dataclass(frozen=True, slots=True)
class LoggedTrials:
    """Trials that stream ``users`` rows of one log in the order of the seed."""

    log: Log
    users: int
    history: int

    def spend(self, payment: Payment = AT_ONCE) -> float:
        """What the trial spent on as many users, and so what treating all of them may cost: only
        where the trial treated a user is a proposal paid for.
        """
        return float(paid_in(self.log, payment).sum()) * self.users / self.log.users

    def __call__(self, seed: int) -> Trial:
        """The stream is drawn without replacement; history is what comes after it."""
        order, rest = stream(self.log, seed, self.users)
        return Trial(self.log, order, self.log, rest[: self.history])


@dataclass(frozen=True, slots=True)
class FileTrials:
    """The same from a file, which each process reads once: cheap to send to other processes."""

    path: str
    columns: Columns | None
    users: int
    history: int

    def __call__(self, seed: int) -> Trial:
        """As :class:`LoggedTrials` on the file's log."""
        return LoggedTrials(_read(self.path, self.columns), self.users, self.history)(seed)


@dataclass(frozen=True, slots=True)
class SimulatedTrials:
    """Trials with new users for each seed; the stream is the same whatever the history.

    With ``drift`` others respond from the middle of the stream on, and history is from before.
    With ``amounts`` conversions bring amounts of money.
    """

    users: int
    history: int
    drift: bool = False
    outcome: Outcome = "conversion"
    amounts: bool = False

    def __call__(self, seed: int) -> Trial:
        """All users of the simulated log in their order; history under a seed of its own."""
        return _simulated(self, seed)

    def world(self, seed: int) -> World:
        """The same users, to be decided on live."""
        world = simulate_world(self.users, seed, self.outcome)
        return with_amounts(world, VARIATION, seed) if self.amounts else world


@dataclass(frozen=True, slots=True)
class WorldTrials:
    """Trials on users of one kind, new ones for each seed; with ``amounts`` in money."""

    name: str
    users: int
    history: int
    amounts: bool = False

    def __call__(self, seed: int) -> Trial:
        """A randomised trial on the users of the world; history under a seed of its own."""
        log = trial_in(make_world(self.name, self.users, seed), seed)
        past = log
        if self.history:
            past = trial_in(make_world(self.name, self.history, PAST + seed), PAST + seed)
        if self.amounts:
            log, past = _in_money(log, past, seed)
        return Trial(log, np.arange(self.users), past, np.arange(self.history))

    def world(self, seed: int) -> World:
        """The same users, to be decided on live."""
        world = make_world(self.name, self.users, seed)
        return with_amounts(world, VARIATION, seed) if self.amounts else world


@lru_cache(maxsize=1)
def _simulated(trials: SimulatedTrials, seed: int) -> Trial:
    """Cached, because the runner makes all runs of one seed before those of the next."""
    outcome = trials.outcome
    log = simulate(trials.users, seed=seed, outcome=outcome, drift=trials.drift)
    past = simulate(trials.history, PAST + seed, outcome) if trials.history else log
    if trials.amounts:
        log, past = _in_money(log, past, seed)
    return Trial(log, np.arange(trials.users), past, np.arange(trials.history))


def _in_money(log: Log, past: Log, seed: int) -> tuple[Log, Log]:
    """Both in money; in both the features tell the same of amounts."""
    earlier = trial_with_amounts(log, seed, past=(past, PAST + seed))
    return trial_with_amounts(log, seed), earlier


@lru_cache(maxsize=1)
def _read(path: str, columns: Columns | None) -> Log:
    return read_log(path, columns)
