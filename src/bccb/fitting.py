"""Fitting again: a policy's estimator is replaced by one that is fitted on what was learned so far.

It takes three steps, so that the second can run elsewhere while the policy goes on:

    job = policy.fit_job()           # copies of what a fit needs
    fitted = fitting.run(job)        # the only long step: a function of the job alone
    policy.apply_fit(fitted)         # the new estimator, which then learns what came since the job

With outcomes that come late (:mod:`bccb.ageing`), users who still wait are rows of the fit, too: no
conversion so far, with the weight learned so far. What was learned of them since the job is the
difference to that weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from bccb.ageing import NOT_KNOWN, PASSED
from bccb.composition import Composition, compose
from bccb.errors import FitError, StateError
from bccb.kernels import counts as count
from bccb.kernels.delay import AGES
from bccb.kernels.jit import bind, jit
from bccb.kernels.scaling import SCALER, view_scaler
from bccb.kernels.scaling import standardise as prepare
from bccb.kernels.slots import learn_estimator, view_estimator
from bccb.kernels.store import Rows, rows_of, staying, view_store
from bccb.pending import Pending
from bccb.types import Floats, Ints

COPIES = 1  # of each feature, in what the estimator reads
NOTHING = np.empty(0)
OTHER = "what was fitted is for another policy"
MOST_CORRECTIONS = 10_000  # while a fit is under way
LATER = (
    "since its job, the policy was loaded, another fit was begun or applied, or more than "
    f"{MOST_CORRECTIONS:,} outcomes were corrected: make a new job"
)


class Since(NamedTuple):
    """What an estimator has learned, to tell what it has not."""

    last: float  # the running number of the newest row in the store
    first: int  # the number of the first user who waits
    weights: Floats  # what was learned of this user and of those after
    corrected: int = 0  # of the corrections since the job
    job: int = 0  # which job it was made for

    def weight_of(self, users: Ints) -> Floats:
        """What was learned of users; nothing of those who did not wait."""
        at = users - self.first
        known = (at >= 0) & (at < len(self.weights))
        found = np.zeros(len(users))
        found[known] = self.weights[at[known]]
        return found


class Correction(NamedTuple):
    """An outcome that was corrected after a job was made."""

    number: int  # of its row, if it has one; otherwise 0
    x: Floats
    arm: int
    gain: float  # what it is more than was learned


class FitJob(NamedTuple):
    """All that a fit needs."""

    owner: str  # the id of the policy, where it has one
    composition: Composition
    features: int
    treatments: int
    scaler: Floats
    estimator: Floats
    rows: Rows
    learned: float  # outcomes, which says when the next fit is due
    since: Since


class Fitted(NamedTuple):
    """The result of a job."""

    owner: str
    estimator: Floats | None  # its memory; None if the rows did not allow a fit
    learned: float
    since: Since

    def to_bytes(self) -> bytes:
        """All but its owner and what it has learned: for results that have learned everything."""
        memory = NOTHING if self.estimator is None else self.estimator
        return np.append(self.learned, memory).tobytes()

    @classmethod
    def from_bytes(cls, kept: bytes) -> Fitted:
        """What :meth:`to_bytes` gave."""
        learned, memory = np.frombuffer(kept)[0], np.frombuffer(kept)[1:]
        return cls("", memory if len(memory) else None, float(learned), Since(0.0, 0, NOTHING))


def run(job: FitJob) -> Fitted:
    """Fit an estimator; deterministic, on one thread."""
    estimator = job.composition.components[0]
    assert estimator.refit is not None
    d, K = job.features, job.treatments
    try:
        memory = estimator.refit(job.estimator, job.scaler, d, K, job.rows)
    except FitError:
        return Fitted(job.owner, None, job.learned, job.since)
    return Fitted(job.owner, memory, job.learned, job.since)


class Refitting:
    """The part of a policy's state that fits work on."""

    def __init__(
        self,
        composition: Composition,
        counts: Ints,
        memory: Floats,
        pending: Pending | None,
        owner: str = "",
        corrections: Sequence[Correction] = (),
        newest: int = 0,
    ) -> None:
        if not composition.refitted:
            raise StateError(f"{composition.estimator} is not fitted again: it learns row by row")
        self.composition, self.counts, self.memory = composition, counts, memory
        self.d, self.K = int(counts[count.FEATURES]), int(counts[count.TREATMENTS])
        self.pending, self.owner = pending, owner
        self.corrections, self.newest = corrections, newest  # since the newest job, and which it is
        self.store = view_store(memory, self.d, self.K)
        begin, end = counts[count.AT_ESTIMATOR], counts[count.AT_EXPLORER]
        self.scaler, self.estimator = memory[: SCALER.size(self.d)], memory[begin:end]

    def job(self) -> FitJob:
        """All that a fit needs now."""
        rows = rows_of(self.memory, self.d, self.K)
        if self.pending is not None:
            rows = Rows._make(map(np.concatenate, zip(rows, self._waiting(), strict=True)))
            # In the order of their decisions: conversions are final long before the rest, and a
            # model that learned all of them first would be far off before the first zero.
            order = np.argsort(rows.user, kind="stable")
            rows = Rows._make(column[order] for column in rows)
        return FitJob(
            *(self.owner, self.composition, self.d, self.K),
            *(self.scaler.copy(), self.estimator.copy(), rows),
            *(float(self.store.learned[0]), self._since(0)),
        )

    def fit(self) -> bool:
        """Make a job, run it and apply the result; whether the rows allowed a fit."""
        fitted = run(self.job())
        self.apply(fitted)
        return fitted.estimator is not None

    def apply(self, fitted: Fitted) -> None:
        """Go on with what was fitted, after it has learned what came since its job."""
        if fitted.owner != self.owner:
            raise StateError(OTHER)
        self.install(self.caught_up(fitted))

    def install(self, fitted: Fitted) -> None:
        """Replace the estimator by one that has learned everything."""
        self._check(fitted)
        if fitted.estimator is not None:
            self.estimator[:] = fitted.estimator
            self.store.fits[0] += 1.0
        self.store.tried[0] = fitted.learned

    def behind(self, fitted: Fitted) -> int:
        """How many rows came since what was fitted has learned one."""
        return 0 if fitted.estimator is None else len(self._since_rows(fitted).b)

    def awaits(self, fitted: Fitted) -> bool:
        """Whether this is of the newest job: corrections are known since that one alone."""
        return fitted.since.job == self.newest

    def caught_up(self, fitted: Fitted, most: int | None = None) -> Fitted:
        """The same after it has learned what came since, or ``most`` rows of that."""
        self._check(fitted)
        if not self.awaits(fitted):
            raise StateError(LATER)
        if fitted.estimator is None:
            return fitted
        memory, rows = fitted.estimator.copy(), self._since_rows(fitted)
        corrected = len(self.corrections)
        self._learn(memory, self._corrected(fitted.since))
        if most is not None and len(rows.b) > most:
            rows = Rows._make(column[:most] for column in rows)
            self._learn(memory, rows)
            since = fitted.since._replace(last=float(rows.number[-1]), corrected=corrected)
            return fitted._replace(estimator=memory, since=since)
        self._learn(memory, rows)
        if self.pending is not None:
            self._learn(memory, self._waiting(fitted.since))
        return fitted._replace(estimator=memory, since=self._since(corrected))

    def _check(self, fitted: Fitted) -> None:
        """Refuse what cannot be from a job of this policy, or is too old."""
        memory = fitted.estimator
        if memory is not None and memory.shape != self.estimator.shape:
            raise StateError(OTHER)
        if fitted.learned > self.store.learned[0] or fitted.since.last > self.store.last[0]:
            raise StateError("what was fitted has learned more than this older copy of its policy")
        if fitted.learned < self.store.tried[0]:
            raise StateError(LATER)

    def catch_up_once(self) -> None:
        """Compile what :meth:`caught_up` needs; nothing changes."""
        self._learn(self.estimator.copy(), Rows._make(part[:1] for part in self.job().rows))

    def _since_rows(self, fitted: Fitted) -> Rows:
        """Rows that came since, less what was learned of their users while they waited."""
        rows = rows_of(self.memory, self.d, self.K, fitted.since.last)
        return rows._replace(b=rows.b * (1.0 - fitted.since.weight_of(rows.user)))

    def _learn(self, memory: Floats, rows: Rows) -> None:
        _compiled(self.composition)(
            self.counts, self.scaler, memory, rows.x, rows.arm, rows.a, rows.b
        )

    def _since(self, corrected: int) -> Since:
        pending, last = self.pending, float(self.store.last[0])
        if pending is None:
            return Since(last, 0, NOTHING, corrected, self.newest)
        weights = pending.ring.weight[pending.places()].copy()
        return Since(last, pending.first, weights, corrected, self.newest)

    def _corrected(self, since: Since) -> Rows:
        """Corrections of rows that were learned; later rows hold the corrected outcome already."""
        known = [c for c in self.corrections[since.corrected :] if c.number <= since.last]
        n = len(known)
        nobody = np.zeros(n, np.int64)
        return Rows(
            nobody,
            nobody,
            np.array([each.x for each in known]).reshape(n, self.d),
            np.array([each.arm for each in known], np.int64),
            np.array([each.gain for each in known]),
            np.zeros(n),
        )

    def _waiting(self, since: Since | None = None) -> Rows:
        """Users who wait, with the weight learned so far, or since then.

        Where they are more than the store has room for, it is a share 2^-j of them, each of whom
        counts 2^j times.
        """
        assert self.pending is not None
        ring, numbers = self.pending.ring, self.pending.open_numbers()
        numbers = numbers[numbers > self.pending.marks[PASSED + AGES - 1]]  # the others are rows
        places = numbers % len(ring.at)
        b = ring.weight[places] - (0.0 if since is None else since.weight_of(numbers))
        kept = (ring.arm[places] != NOT_KNOWN) & (b > 0.0)
        numbers, b, halved = numbers[kept], b[kept], 0.0
        while since is None and len(numbers) > len(self.store.row):
            halved += 1.0
            left = staying(int(self.counts[count.SEED]), numbers, halved)
            numbers, b = numbers[left], 2.0 * b[left]
        places = numbers % len(ring.at)
        nothing = np.zeros(len(numbers))
        return Rows(numbers, numbers, ring.x[places], ring.arm[places], nothing, b)


@jit
def learn_rows(
    counts: Ints, scaler: Floats, memory: Floats, xs: Floats, arms: Ints, a: Floats, b: Floats
) -> None:
    """Let the estimator in ``memory`` learn rows, one after the other."""
    d, K = counts[count.FEATURES], counts[count.TREATMENTS]
    moments, estimator = view_scaler(scaler, d), view_estimator(memory, d, K)
    z = np.empty(COPIES * d + 1)
    for i in range(xs.shape[0]):
        prepare(moments, xs[i], z)
        learn_estimator(estimator, z, arms[i], a[i], b[i])


@cache
def _compiled(composition: Composition) -> Callable[..., Any]:
    return bind(learn_rows, composition.name, compose(composition))
