"""Fits: policies of campaigns are fitted again in another process, and go on with the result.

When a campaign has learned twice as much as at its last fit, a job is made of what is committed and
run by the worker, while the campaign goes on. The result then learns what came in the meantime,
some rows at a time, so that nobody waits long. In the end it is an event of the journal like any
other, which holds the whole new model: recovery never fits.

A fit that fails, or whose process dies or hangs, is tried again when twice as much was learned, or
after the next start. One that was under way when the service ended is due again after the next
start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from bccb.fitting import FitJob, Fitted
from bccb.kernels.store import MORE
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.problem import ProblemError
from bccb.serve.work import INLINE, seconds_per_user
from bccb.serve.worker import Worker

MOST_JOBS = 2  # at once: one runs and one waits, each with a copy of some 20 MB

logger = logging.getLogger("bccb.serve")


class Fits:
    """Fits under way, at most one for each campaign."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake  # is called, from any thread, when there is something to apply
        self._worker = Worker()
        self._thread: ThreadPoolExecutor | None = None
        self._running: set[str] = set()
        self._done: dict[str, Fitted] = {}  # results that are not applied yet
        self._not_before: dict[str, float] = {}  # outcomes, after a fit that failed
        self._stopping = False

    def is_due(self, campaign: Campaign) -> bool:
        """Whether a fit of a campaign is to be started."""
        if not campaign.machine.fit_due or campaign.id in self._running:
            return False
        learned = float(campaign.machine.refitting().store.learned[0])
        return learned >= self._not_before.get(campaign.id, 0.0)

    def begin(self, books: Books) -> None:
        """Start fits that are due; the books must have nothing that is not committed."""
        for campaign in books:
            if len(self._running) >= MOST_JOBS:
                return  # the others have their turn later
            if self.is_due(campaign):
                self._running.add(campaign.id)
                self._submit(campaign.id, campaign.machine.fit_job())

    def _submit(self, id_: str, job: FitJob) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "bccb-fit")
        began = time.monotonic()
        future = self._thread.submit(self._worker.run, job)
        future.add_done_callback(lambda done: self._take(id_, job, began, done))

    def _take(self, id_: str, job: FitJob, began: float, done: Future[Fitted]) -> None:
        """Note the result of a job, in the thread that waited for it."""
        if self._stopping or done.cancelled():
            return
        error = done.exception()
        if error is None:
            took = time.monotonic() - began
            logger.info("campaign %s: fitted on %d rows in %.1f s", id_, len(job.rows.b), took)
            self._done[id_] = done.result()
            self._wake()
        else:
            self._not_before[id_] = MORE * job.learned
            self._running.discard(id_)
            reason = str(error) or type(error).__name__
            logger.error("campaign %s goes on as it is: it cannot be fitted: %s", id_, reason)

    @property
    def ready(self) -> bool:
        """Whether :meth:`step` has something to do."""
        return bool(self._done)

    def step(self, books: Books, at: int) -> None:
        """Do a part of what there is to apply; the books must have nothing that is not committed.

        Either the result learns some rows, or it is recorded.
        """
        id_, fitted = self._done.popitem()  # at once: another thread may add one
        self._running.discard(id_)
        try:
            campaign = books.campaign(id_)
        except ProblemError:  # it is quarantined
            return
        refitting = campaign.machine.refitting()
        if not refitting.awaits(fitted):  # corrections since the job are not known any more
            logger.info("campaign %s was loaded again, or corrected often: it is fitted anew", id_)
            return
        most = max(1, int(INLINE / seconds_per_user(campaign.machine)))
        try:
            if refitting.behind(fitted) > most:
                self._done[id_] = refitting.caught_up(fitted, most)
                self._running.add(id_)
            else:
                whole = refitting.caught_up(fitted)
                books.record(campaign, campaign.fitting(at, whole))
        except Exception:
            self._not_before[id_] = MORE * fitted.learned
            raise

    def stop(self) -> None:
        """End what is under way."""
        self._stopping = True
        self._worker.stop()
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
