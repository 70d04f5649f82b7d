"""One fan-out over processes for everything that runs many policies many times."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

from bccb.errors import InputError, MissingExtraError, StateError

Engine = Literal["local", "ray"]
Task = TypeVar("Task")
Result = TypeVar("Result")
OnProgress: TypeAlias = Callable[[int, int, str], None]  # done, of how many, and what it is

WAVE = 8  # tasks per job that Ray makes before it hands them over: what a killed process may lose


def fan_out(
    work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int = 1, engine: Engine = "local"
) -> Iterator[Result]:
    """Yield ``work(task)`` for every task, in the order in which they finish.

    With one job the work is done here, otherwise in other processes, to which ``work`` and the
    tasks are sent; large arrays among them are shared, not copied. A worker that the system kills
    ends it with one sentence, as does an error in the work itself.

    >>> sorted(fan_out(abs, [-3, 1, -2]))
    [1, 2, 3]
    """
    if jobs < 1:
        raise InputError("jobs", jobs, "1 or above")
    if jobs == 1 and engine == "local":
        yield from map(work, tasks)
        return
    joblib = _joblib()
    # A worker that has grown, as compiling makes it, is replaced. Its warning tells users nothing,
    # and where warnings are errors it would end joblib's own thread: all the rest would wait. For
    # good, because that thread may live longer than this generator.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")
    delayed = [joblib.delayed(work)(task) for task in tasks]
    try:
        # Copies on write: compiled kernels do not take arrays that are read-only.
        config = joblib.parallel_config(_backend(engine), n_jobs=jobs, mmap_mode="c")
        with _ended_in_order(), config:
            if engine == "local":
                yield from joblib.Parallel(return_as="generator_unordered")(delayed)
                return
            for start in range(0, len(delayed), WAVE * jobs):
                yield from joblib.Parallel()(delayed[start : start + WAVE * jobs])
    except joblib.externals.loky.process_executor.TerminatedWorkerError:
        raise StateError(
            "a worker process was killed, perhaps because memory ran out: run the command again "
            "with a lower --jobs; what `paper` and `trust` have stored is not run again"
        ) from None


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM end the process as an exit does, so that joblib tidies up after its workers; its
    default would leave their semaphores behind, with a warning for each.
    """
    alone = threading.current_thread() is threading.main_thread()
    if not alone or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield  # the program has its own way to end
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    warnings.simplefilter("ignore")  # joblib's about tasks that were not finished
    sys.exit(128 + number)


def _joblib() -> Any:
    try:
        import joblib
        import joblib.externals.loky.process_executor
    except ImportError:
        raise MissingExtraError("joblib", "lab") from None
    return joblib


def _backend(engine: Engine) -> str:
    if engine == "local":
        return "loky"
    try:
        from ray.util.joblib import register_ray
    except ImportError:
        raise MissingExtraError("ray", "ray") from None
    register: Any = register_ray
    register()
    return "ray"
