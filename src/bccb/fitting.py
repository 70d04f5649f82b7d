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

from collections.abc import Callable
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
from bccb.kernels.store import ROWS, Rows, fit_is_due, rows_of, staying, view_store
from bccb.pending import Pending
from bccb.types import Floats, Ints

COPIES = 1  # of each feature, in what the estimator reads


class Since(NamedTuple):
    """What an estimator has learned, to tell what it has not."""

    last: float  # the running number of the newest row in the store
    first: int  # the number of the first user who waits
    weights: Floats  # what was learned of this user and of those after

    def weight_of(self, users: Ints) -> Floats:
        """What was learned of users; nothing of those who did not wait."""
        at = users - self.first
        known = (at >= 0) & (at < len(self.weights))
        found = np.zeros(len(users))
        found[known] = self.weights[at[known]]
        return found


class FitJob(NamedTuple):
    """All that a fit needs."""

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

    estimator: Floats | None  # its memory; None if the rows did not allow a fit
    learned: float
    since: Since


def run(job: FitJob) -> Fitted:
    """Fit an estimator; deterministic, on one thread."""
    refit = job.composition.components[0].refit
    assert refit is not None
    rows = job.features, job.treatments, job.rows
    try:
        memory = refit(job.estimator, job.scaler, *rows)
    except FitError:
        return Fitted(None, job.learned, job.since)
    return Fitted(memory, job.learned, job.since)


class Refitting:
    """The part of a policy's state that fits work on."""

    def __init__(
        self, composition: Composition, counts: Ints, memory: Floats, pending: Pending | None
    ) -> None:
        if not composition.refitted:
            raise StateError(f"{composition.estimator} is not fitted again: it learns row by row")
        self.composition, self.counts, self.memory = composition, counts, memory
        self.d, self.K = int(counts[count.FEATURES]), int(counts[count.TREATMENTS])
        self.pending = pending
        self.store = view_store(memory, self.d, self.K)
        begin, end = counts[count.AT_ESTIMATOR], counts[count.AT_EXPLORER]
        self.scaler, self.estimator = memory[: SCALER.size(self.d)], memory[begin:end]

    @property
    def is_due(self) -> bool:
        """Whether twice as many outcomes were learned as at the last fit."""
        return fit_is_due(self.store)

    def job(self) -> FitJob:
        """All that a fit needs now."""
        rows = rows_of(self.memory, self.d, self.K)
        if self.pending is not None:
            rows = Rows(*(np.concatenate(pair) for pair in zip(rows, self._waiting(), strict=True)))
        return FitJob(
            *(self.composition, self.d, self.K, self.scaler.copy(), self.estimator.copy(), rows),
            *(float(self.store.learned[0]), self._since()),
        )

    def apply(self, fitted: Fitted) -> None:
        """Go on with what was fitted, after it has learned what came since its job."""
        if fitted.estimator is not None:
            self.install(self.caught_up(fitted))
        self.store.tried[0] = fitted.learned

    def fit(self) -> bool:
        """Make a job, run it and apply the result; whether the rows allowed a fit."""
        fitted = run(self.job())
        self.apply(fitted)
        return fitted.estimator is not None

    def install(self, fitted: Fitted) -> None:
        """Replace the estimator by one that has learned everything."""
        if fitted.estimator is None or fitted.estimator.shape != self.estimator.shape:
            raise StateError("what was fitted is for another policy")
        self.estimator[:] = fitted.estimator
        self.store.fits[0] += 1.0

    def caught_up(self, fitted: Fitted) -> Fitted:
        """The same after it has learned what came since its job."""
        assert fitted.estimator is not None
        memory, now = fitted.estimator.copy(), self._since()
        rows = rows_of(self.memory, self.d, self.K, fitted.since.last)
        left = 1.0 - fitted.since.weight_of(rows.user)
        self._learn(memory, rows._replace(b=rows.b * left))
        if self.pending is not None:
            self._learn(memory, self._waiting(fitted.since))
        return Fitted(memory, fitted.learned, now)

    def _learn(self, memory: Floats, rows: Rows) -> None:
        _compiled(self.composition)(
            self.counts, self.scaler, memory, rows.x, rows.arm, rows.a, rows.b
        )

    def _since(self) -> Since:
        pending, last = self.pending, float(self.store.last[0])
        if pending is None:
            return Since(last, 0, np.empty(0))
        return Since(last, pending.first, pending.ring.weight[pending.places()].copy())

    def _waiting(self, since: Since | None = None) -> Rows:
        """Users who wait, with the weight learned so far, or since then.

        Where they are very many, it is a share 2^-j of them, each of whom counts 2^j times.
        """
        assert self.pending is not None
        ring, numbers = self.pending.ring, self.pending.open_numbers()
        numbers = numbers[numbers > self.pending.marks[PASSED + AGES - 1]]  # the others are rows
        places = numbers % len(ring.at)
        b = ring.weight[places] - (0.0 if since is None else since.weight_of(numbers))
        kept = (ring.arm[places] != NOT_KNOWN) & (b > 0.0)
        numbers, b, halved = numbers[kept], b[kept], 0.0
        while since is None and len(numbers) > ROWS:
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
