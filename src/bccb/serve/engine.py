"""The engine: one task that owns the books and commits for all who wait together.

Requests that arrive while a commit is under way wait for the next one and share it. Each is
answered when what it did is durable, and not before. If the ledger fails, all are
answered with an error, and the books are read from the ledger again. If a command fails, those that
share its commit run again one by one, so that it alone is refused.

Short commands run in the event loop, since they only compute and hand rows to SQLite; a thread for
each of them would cost four times as much. Long ones, and the commit, which waits for the disk, run
in a thread that is waited for: one writer at a time, and requests are read in the meantime.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

from bccb.ledger.port import ConflictError, DamagedError, LedgerError, concerns_all
from bccb.serve.alerts import Tell, Watch, ignore
from bccb.serve.books import Books
from bccb.serve.fits import Fits
from bccb.serve.forwarding import Forwarder
from bccb.serve.jobs import Command, Job, deliver, results_of
from bccb.serve.metrics import Metrics
from bccb.serve.moves import Moves
from bccb.serve.outcomes import sweep
from bccb.serve.problem import ProblemError, not_durable, problem_of
from bccb.serve.work import AT_ONCE, INLINE, LONG

T = TypeVar("T")
Clock: TypeAlias = Callable[[], int]

LONGEST_QUEUE = 10_000  # requests; those beyond it are refused at once
MOST_AT_ONCE = 512  # requests in one commit
TICK = 0.5  # seconds between looks at windows that have passed
PAUSE = 0.5  # seconds without a further try after a commit has failed, more or less
TRIES = 5  # of a commit, where another process is faster
LONGEST_RACE = 0.02  # seconds until the next of them, at most
FAILED = "this failed inside the service, and nothing was done: the reason is in its log"
OUTRUN = "other replicas change this campaign at the same time: ask again with the same id"
NOT_WRITTEN = "this could not be made durable: do not act on it, and ask again with the same id"

logger = logging.getLogger("bccb.serve")


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1_000


class PausedError(LedgerError):
    """The ledger has just failed, and is not tried again yet."""


class Engine:
    """Runs commands on the books, one after the other, and answers after the commit."""

    def __init__(
        self,
        books: Books,
        metrics: Metrics,
        clock: Clock = wall_clock,
        tell: Tell = ignore,
        forwarder: Forwarder | None = None,
    ) -> None:
        self.books, self.metrics, self.clock = books, metrics, clock
        self.forwarder = forwarder  # of a shared ledger, to the other replicas
        self._shared = books.ledger.shared
        metrics.watch(books, clock)
        self.trouble: str | None = None  # why the last commit failed
        self._jobs: deque[Job] = deque()
        self._wake = asyncio.Event()
        self._stopping = False
        self._try_again = 0.0
        self._committer = ThreadPoolExecutor(1, "bccb-commit")
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.fits = Fits(self._wake_up)
        self._moves = Moves()
        self.watch = Watch(tell)

    def start(self) -> None:
        """Begin to work, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Finish what waits, keep a snapshot of everything, and end."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        self.fits.stop()
        self._committer.shutdown()
        if self.trouble is None:
            try:
                self.books.keep_all()
            except Exception as error:
                logger.warning("no snapshots were kept: %s", error)

    async def do(
        self,
        command: Callable[[Books, int], T],
        seconds: float = 0.0,
        campaign: str | None = None,
    ) -> T:
        """Run a command that takes about ``seconds``; its result, once that is durable.

        It finds ``campaign`` as the ledger has it, whichever process has moved it on.
        """
        result: T = await self.queue(command, seconds, campaign)
        return result

    async def hold(self, campaign: str) -> None:
        """Have a campaign in memory, if there is one: of a shared ledger, some are not."""
        if self._shared and not self.books.has(campaign):
            await self.do(lambda books, at: None, LONG, campaign)

    async def queue(self, command: Command, seconds: float, campaign: str | None) -> Any:
        """The same for any command, also one for decisions."""
        if len(self._jobs) >= LONGEST_QUEUE:
            raise ProblemError(503, "overloaded", "too many requests are waiting: try again later")
        if self._stopping:
            raise not_durable("the service is stopping")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._jobs.append(Job(command, future, seconds, campaign))
        self._wake.set()
        return await future

    async def _run(self) -> None:
        next_tick = time.monotonic() + TICK
        while not self._stopping or self._jobs:
            if not self._jobs and not self._can_apply():
                await self._sleep(next_tick)
            if self._can_apply():
                await self._apply_fit()
            if time.monotonic() >= next_tick:
                more = await self._tick()
                next_tick = time.monotonic() + (0.0 if more else TICK)
            jobs = self._take()
            if jobs:
                deliver(jobs, await self._results(jobs))

    def _wake_up(self) -> None:
        """There is something to do; from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: it is too late
                self._loop.call_soon_threadsafe(self._wake.set)

    def _can_apply(self) -> bool:
        return self.fits.ready and not self._failing() and not self._stopping

    async def _apply_fit(self) -> None:
        """Do a part of going on with what was fitted again; then requests have their turn."""
        try:
            await self._in_thread(partial(self._step_fit, self.clock()))
            await self._commit(long=True)
        except Exception as error:
            if not self._lost_race(error):
                (self._give_up if concerns_all(error) else self._fail)(error)

    def _step_fit(self, at: int) -> None:
        self._follow(self._held())
        self.fits.step(self.books, at)

    async def _results(self, jobs: list[Job]) -> list[Any]:
        """The results of jobs; whatever happens, the next ones have their turn."""
        try:
            return await self._work(jobs)
        except Exception as error:
            logger.exception("nothing was done")
            return [problem_of(error, FAILED) for _ in jobs]

    def _take(self) -> list[Job]:
        """The next jobs that share a commit: not more of them than others can wait for."""
        jobs: list[Job] = []
        seconds = 0.0
        while self._jobs and len(jobs) < MOST_AT_ONCE and seconds < AT_ONCE:
            jobs.append(self._jobs.popleft())
            seconds += jobs[-1].seconds
        return jobs

    async def _sleep(self, until: float) -> None:
        """Until there is something to do."""
        self._wake.clear()
        try:
            async with asyncio.timeout(max(until - time.monotonic(), 0.0)):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _tick(self) -> bool:
        """Let windows pass; whether there is more of that to do at once."""
        if self._failing():
            return False
        try:
            more = await self._in_thread(self._move)
            more |= await self._sweep_all()
            if not self.books.stale:
                await self._in_thread(self._move_money)
                await self._in_thread(partial(self.fits.begin, self.books))
                await self._in_thread(partial(self.watch.look, self.books, self.clock()))
            if self.trouble is not None:
                # nobody may ask while the service says that it is not ready
                await self._in_thread(self.books.ledger.probe)
                self._recover()
            return more
        except Exception as error:  # whatever it was: nothing of it has happened
            self._give_up(error)
            return False

    async def _sweep_all(self) -> bool:
        try:
            return await self._sweep()
        except Exception as error:
            if concerns_all(error):
                raise
            if self._lost_race(error):
                return True
            self._fail(error)
        for campaign in self.books.all():
            await self._sweep_apart(campaign.id)
        return False

    async def _sweep(self, only: str | None = None) -> bool:
        """Let windows pass, of all campaigns or of one; whether there is more of that to do."""
        more = await self._in_thread(partial(self._follow_and_sweep, self.clock(), only))
        await self._commit(long=True)
        return more

    def _follow_and_sweep(self, at: int, only: str | None) -> bool:
        self._follow(self._held() if only is None else [only])
        return sweep(self.books, at, only)

    async def _sweep_apart(self, id_: str) -> None:
        """Let windows pass for one campaign; if they cannot, it must not hold up the others."""
        try:
            await self._sweep(id_)
        except Exception as error:
            if concerns_all(error):
                raise
            if self._lost_race(error):
                return
            self._fail(error)
            self.books.quarantine(id_, "its outcome windows cannot pass: see the service's log")

    async def _work(self, jobs: list[Job], tries: int = TRIES) -> list[Any]:
        """The results of all, or the errors instead; every one durable."""
        try:
            return await self._batch(jobs)
        except Exception as error:
            if self._lost_race(error):
                return await self._after_race(jobs, tries - 1)
            if isinstance(error, PausedError):
                self.books.abandon()
                return [not_durable(NOT_WRITTEN) for _ in jobs]
            if concerns_all(error):
                self._give_up(error)
                return [not_durable(NOT_WRITTEN) for _ in jobs]
            self._fail(error, quiet=len(jobs) > 1)  # whose it is shows when they run apart
            if len(jobs) == 1:
                # the campaign is read again
                again = isinstance(error, DamagedError | ConflictError)
                return [not_durable(NOT_WRITTEN) if again else problem_of(error, FAILED)]
        return [(await self._work([job]))[0] for job in jobs]

    async def _after_race(self, jobs: list[Job], tries: int) -> list[Any]:
        """The same again. Where others are faster each time, each campaign apart, or not at all."""
        if tries > 0:
            await asyncio.sleep(random.uniform(0.0, LONGEST_RACE))
            return await self._work(jobs, tries)
        groups: dict[str | None, list[int]] = {}
        for i, job in enumerate(jobs):
            groups.setdefault(job.campaign, []).append(i)
        results: list[Any] = [ProblemError(503, "overloaded", OUTRUN)] * len(jobs)
        for group in groups.values() if len(groups) > 1 else ():
            for i, result in zip(group, await self._work([jobs[i] for i in group]), strict=True):
                results[i] = result
        return results

    async def _batch(self, jobs: list[Job]) -> list[Any]:
        """The results of all, durable together."""
        if self._shared and self._failing():
            raise PausedError(self.trouble or "")  # even reading would try to reach the ledger
        seconds = sum(job.seconds for job in jobs)
        long = self._shared or self.books.stale or seconds > INLINE
        work = partial(self._do_all, jobs, self.clock())
        results = await self._in_thread(work) if long else work()
        if self.books.changed and self._failing():
            raise PausedError(self.trouble or "")
        await self._commit(long)
        return results

    def _do_all(self, jobs: list[Job], at: int) -> list[Any]:
        self._follow({job.campaign for job in jobs if job.campaign is not None})
        return results_of(self.books, at, jobs)

    def _follow(self, campaigns: Collection[str]) -> None:
        """Read again what was abandoned, and what others may have moved on; both may take long."""
        began = time.perf_counter()
        self._note_taken(self.books.refresh(campaigns), began)

    def _move(self) -> bool:
        """Let go of campaigns and take others over, as they are held now; whether there is more."""
        if self.forwarder is None:
            return False
        began = time.perf_counter()
        taken, more = self.books.move(self.forwarder.places.is_here, AT_ONCE)
        self._note_taken(taken, began)
        return more

    def _move_money(self) -> None:
        """Between the cells of campaigns."""
        here = (lambda _: True) if self.forwarder is None else self.forwarder.places.is_here
        self._moves.look(self.books, self.clock(), here)

    def _note_taken(self, campaigns: int, began: float) -> None:
        seconds = time.perf_counter() - began
        for _ in range(campaigns):
            self.metrics.take_overs.observe(seconds / campaigns)

    def _held(self) -> list[str]:
        """The campaigns that this process holds."""
        return [campaign.id for campaign in self.books]

    def _lost_race(self, error: Exception) -> bool:
        """Whether another process was faster; then nothing has happened, and it can be tried again.

        A file has no other writers: there this is no race, but a fault.
        """
        if not (self._shared and isinstance(error, ConflictError)):
            return False
        self.metrics.conflicts.inc()
        self.books.abandon()
        return True

    def _failing(self) -> bool:
        return self.trouble is not None and time.monotonic() < self._try_again

    async def _commit(self, long: bool) -> None:
        if not self.books.changed:
            return
        begin = time.perf_counter()
        if long or self.books.snapshot_due:
            events = await self._in_thread(self._write_and_commit)
        else:
            events = self.books.write()
            await self._in_thread(self.books.commit)
        self.metrics.note_commit(time.perf_counter() - begin, events)
        self._recover()

    def _write_and_commit(self) -> int:
        events = self.books.write()
        self.books.commit()
        return events

    async def _in_thread(self, task: Callable[[], T]) -> T:
        """Wait for the disk or for long work, while others are served."""
        return await asyncio.get_running_loop().run_in_executor(self._committer, task)

    def _recover(self) -> None:
        if self.trouble is not None:
            logger.warning("the ledger can be written again")
            self.trouble = None

    def _give_up(self, error: Exception) -> None:
        """The ledger fails: nothing of this batch has happened, and there is a pause."""
        if self.trouble is None:
            logger.error("nothing was done: %s", error)
        self.metrics.failures.inc()
        self.trouble = str(error)
        # not all at once: processes that share a ledger have all lost it at the same moment
        self._try_again = time.monotonic() + PAUSE * random.uniform(0.5, 1.5)
        self.books.abandon()

    def _fail(self, error: Exception, quiet: bool = False) -> None:
        """A command fails, and the ledger does not: nothing of this batch has happened."""
        if not quiet:
            logger.error("nothing was done: %s", error, exc_info=error)
        self.metrics.failures.inc()
        self.books.abandon(failed=True)
