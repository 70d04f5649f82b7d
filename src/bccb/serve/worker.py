"""The worker: another process, in which policies are fitted again while this one decides.

It is started when it is first needed, and ends with this process: it waits at the other end of a
pipe, which closes when this process is gone, however that happens.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Lock, Timer

from bccb import fitting
from bccb.fitting import FitJob, Fitted

LESS_URGENT = 10  # than deciding, on the scale of nice
LONGEST = 3_600.0  # seconds of a job; one that takes longer hangs, and others wait for it
DIED = "its process has died, or gave no answer within an hour"


class Worker:
    """Runs one job at a time; from one thread."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._starting = Lock()
        self._stopped = False

    def run(self, job: FitJob) -> Fitted:
        """The result of a job; raises what it raised, or ChildProcessError where it has died.

        A process that hangs is killed, whether it would not take the job or not answer.
        """
        if self._process is None or not self._process.is_alive():
            self._start()
        assert self._process is not None
        assert self._pipe is not None
        limit = Timer(LONGEST, self._process.kill)
        limit.daemon = True
        limit.start()
        try:
            self._pipe.send(job)
            result: Fitted | Exception = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise ChildProcessError(DIED) from error
        finally:
            limit.cancel()
        if isinstance(result, Exception):
            raise result
        return result

    def _start(self) -> None:
        context = get_context("spawn")  # a fork would inherit sockets, threads and locks
        with self._starting:
            if self._stopped:
                raise EOFError("the service is stopping")
            pipe, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs,), name="bccb-fit", daemon=True)
            process.start()
            self._process, self._pipe = process, pipe
        theirs.close()

    def stop(self) -> None:
        """End the process, whatever it does; may be called from another thread."""
        with self._starting:
            self._stopped = True
        if self._process is not None:
            self._process.kill()  # it has nothing that must be kept
            self._process.join()


def work(pipe: Connection) -> None:
    """Run jobs until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key pressed in the terminal is for the server
    with suppress(AttributeError, OSError):  # Windows has no such thing
        os.nice(LESS_URGENT)
    with suppress(EOFError, OSError):
        while True:
            job: FitJob = pipe.recv()
            pipe.send(_result(job))


def _result(job: FitJob) -> Fitted | Exception:
    """What came of a job, checked: it is kept for good."""
    try:
        fitted = fitting.run(job)
        if fitted.estimator is not None:
            check = job.composition.components[0].check
            check(fitted.estimator, job.features, job.treatments)
        return fitted
    except Exception as error:
        return error
