"""The engine: one task that owns the books and commits for all who wait together.

Requests that arrive while a commit is under way wait for the next one and share it. Each is
answered when what it did is durable, and not before. If a commit fails, nobody is told that
anything happened, and the books are read from the ledger again.

Commands run in the event loop, since they only compute and hand rows to SQLite; the commit, which
waits for the disk, runs in a thread, so that requests are read in the meantime.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from bccb.ledger.ledger import DamagedError, LedgerError
from bccb.serve.books import Books
from bccb.serve.decisions import Answers, Asked, decide
from bccb.serve.metrics import Metrics
from bccb.serve.outcomes import sweep
from bccb.serve.problem import ProblemError, not_durable

T = TypeVar("T")
Clock = Callable[[], int]

LONGEST_QUEUE = 10_000  # requests; those beyond it are refused at once
MOST_AT_ONCE = 512  # requests in one commit
TICK = 0.5  # seconds between looks at windows that have passed
PAUSE = 0.5  # seconds without a further try after a commit has failed
NOT_WRITTEN = "this could not be made durable: do not act on it, and ask again with the same id"

logger = logging.getLogger("bccb.serve")


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1_000


class Job(NamedTuple):
    """A request that waits."""

    command: Callable[[Books, int], Any] | Asked
    future: asyncio.Future[Any]


class Engine:
    """Runs commands on the books, one after the other, and answers after the commit."""

    def __init__(self, books: Books, metrics: Metrics, clock: Clock = wall_clock) -> None:
        self.books, self.metrics, self.clock = books, metrics, clock
        metrics.watch(books, clock)
        self.trouble: str | None = None  # why the last commit failed
        self._jobs: deque[Job] = deque()
        self._wake = asyncio.Event()
        self._stopping = False
        self._try_again = 0.0
        self._committer = ThreadPoolExecutor(1, "bccb-commit")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work, in the running event loop."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Finish what waits, keep a snapshot of everything, and end."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        self._committer.shutdown()
        if self.trouble is None:
            try:
                self.books.keep_all()
            except LedgerError as error:
                logger.warning("no snapshots were kept: %s", error)

    async def do(self, command: Callable[[Books, int], T]) -> T:
        """Run a command; its result, once that is durable."""
        found: T = await self._queue(command)
        return found

    async def decide(self, asked: Asked) -> Answers:
        """Decide on users, together with others who wait; the answers, once they are durable."""
        found: Answers = await self._queue(asked)
        return found

    async def _queue(self, command: Callable[[Books, int], Any] | Asked) -> Any:
        if len(self._jobs) >= LONGEST_QUEUE:
            raise ProblemError(503, "overloaded", "too many requests are waiting: try again later")
        if self._stopping:
            raise not_durable("the service is stopping")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._jobs.append(Job(command, future))
        self._wake.set()
        return await future

    async def _run(self) -> None:
        next_tick = time.monotonic() + TICK
        while not self._stopping or self._jobs:
            if not self._jobs:
                await self._sleep(next_tick)
            if time.monotonic() >= next_tick:
                more = await self._tick()
                next_tick = time.monotonic() + (0.0 if more else TICK)
            jobs = [self._jobs.popleft() for _ in range(min(len(self._jobs), MOST_AT_ONCE))]
            if jobs:
                _deliver(jobs, await self._work(jobs))

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
            self.books.refresh()
            more = sweep(self.books, self.clock())
            if self.trouble is not None and not self.books.changed:
                # nobody may ask while the service says that it is not ready
                await self._in_thread(self.books.ledger.probe)
                self._recover()
            await self._commit()
            return more
        except Exception as error:  # whatever it was: nothing of it has happened
            self._give_up(error)
            return False

    async def _work(self, jobs: list[Job]) -> list[Any]:
        """The results of all, or the errors instead; every one durable."""
        at = self.clock()
        results: list[Any] = []
        try:
            self.books.refresh()
            for asked, group in groupby(jobs, lambda job: isinstance(job.command, Asked)):
                commands: list[Any] = [job.command for job in group]
                results += (decide if asked else _one_by_one)(self.books, at, commands)
            if self.books.changed and self._failing():
                raise LedgerError(self.trouble or "")
            await self._commit()
        except Exception as error:
            self._give_up(error)
            return [not_durable(NOT_WRITTEN) for _ in jobs]
        return results

    def _failing(self) -> bool:
        return self.trouble is not None and time.monotonic() < self._try_again

    async def _commit(self) -> None:
        if not self.books.changed:
            return
        begin = time.perf_counter()
        events = self.books.write()
        await self._in_thread(self.books.commit)
        self.metrics.note_commit(time.perf_counter() - begin, events)
        self._recover()

    async def _in_thread(self, task: Callable[[], None]) -> None:
        """Wait for the disk, but let nobody else wait."""
        await asyncio.get_running_loop().run_in_executor(self._committer, task)

    def _recover(self) -> None:
        if self.trouble is not None:
            logger.warning("the ledger can be written again")
            self.trouble = None

    def _give_up(self, error: Exception) -> None:
        """Nothing of this batch has happened: the books are again as the ledger has them."""
        if self.trouble is None:
            logger.error("nothing was done: %s", error, exc_info=not isinstance(error, LedgerError))
        self.metrics.failures.inc()
        self.trouble = str(error) if isinstance(error, LedgerError) else "an error of the service"
        if isinstance(error, DamagedError):  # nothing can be trusted any more
            if self._try_again < float("inf"):
                logger.critical("the service stops deciding: %s", error)
            self._try_again = float("inf")
        if isinstance(error, LedgerError):  # and not a request that is too much for us
            self._try_again = max(self._try_again, time.monotonic() + PAUSE)
        self.books.abandon()


def _one_by_one(
    books: Books, at: int, commands: list[Callable[[Books, int], Any]]
) -> Iterator[Any]:
    """The result of each command, or its refusal."""
    for command in commands:
        try:
            yield command(books, at)
        except ProblemError as problem:
            yield problem


def _deliver(jobs: list[Job], results: list[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if job.future.done():  # the client has gone
            continue
        if isinstance(result, ProblemError):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
