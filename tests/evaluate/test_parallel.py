"""The fan-out over processes: same results, one sentence where a worker dies."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

from bccb import InputError
from bccb.data import simulate
from bccb.errors import BccbError, MissingExtraError, StateError
from bccb.evaluate.advice import advise
from bccb.evaluate.compare import compare
from bccb.evaluate.parallel import fan_out
from bccb.evaluate.trials import LoggedTrials, SimulatedTrials, Trial
from bccb.types import Floats

KEPT: list[bytes] = []  # in the worker that made them


def square(number: int) -> tuple[int, int]:
    return number**2, os.getpid()


def die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def grow(number: int) -> int:
    """Take so much memory, and for so long, that joblib replaces the worker after it."""
    KEPT.append(bytes([1]) * 400_000_000)
    time.sleep(1.1)
    return number


def killed(trials: SimulatedTrials, seed: int) -> Trial:
    die(seed)
    return trials(seed)


def add(array: Floats, number: int) -> float:
    array[0] += number  # compiled kernels, too, need arrays that can be written to
    return float(array.sum())


def test_one_job_is_done_here_and_more_are_done_elsewhere() -> None:
    assert {pid for _, pid in fan_out(square, range(4))} == {os.getpid()}
    results = list(fan_out(square, range(4), jobs=2))
    assert sorted(value for value, _ in results) == [0, 1, 4, 9]
    assert os.getpid() not in {pid for _, pid in results}


def test_no_jobs_are_refused() -> None:
    with pytest.raises(InputError, match="jobs is 0, but must be 1 or above"):
        list(fan_out(square, [1], jobs=0))


def test_a_killed_worker_is_one_sentence() -> None:
    with pytest.raises(StateError, match="a worker process was killed.* lower --jobs"):
        list(fan_out(die, range(6), jobs=2))
    assert len(list(fan_out(square, range(4), jobs=2))) == 4  # and the next ones work


def test_workers_that_grow_are_replaced_though_warnings_are_errors() -> None:
    """Without care joblib's thread ends with a warning of its own, and this waits for ever."""
    assert sorted(fan_out(grow, range(6), jobs=2)) == list(range(6))


def test_a_stop_by_the_system_is_quiet_and_leaves_nothing() -> None:
    program = (
        "import time; from bccb.evaluate.parallel import fan_out\n"
        "for _ in fan_out(time.sleep, [0.0] + [60.0] * 4, jobs=2): print('begun', flush=True)"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        child.terminate()
        _, warnings = child.communicate(timeout=30)
    assert (child.returncode, warnings) == (128 + signal.SIGTERM, "")


@pytest.mark.parametrize(
    "error", [InputError("field", 1, "2"), MissingExtraError("joblib", "lab"), StateError("no")]
)
def test_our_errors_pass_from_a_worker_to_its_parent(error: BccbError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_an_error_in_the_work_reaches_the_caller_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        list(fan_out(partial(divmod, 1), [1, 0, 1], jobs=2))


def test_large_arrays_can_be_written_to_and_stay_what_they_are_here() -> None:
    array = np.zeros(500_000)
    assert sorted(fan_out(partial(add, array), [1, 2], jobs=2))[0] >= 1
    assert array[0] == 0


@pytest.mark.compiled
def test_compare_and_advise_report_a_killed_worker() -> None:
    trials = partial(killed, SimulatedTrials(300, 0))
    with pytest.raises(StateError, match="a worker process was killed"):
        list(compare(trials, ["treat-all"], [5.0], [1, 2, 3, 4], jobs=2))


@pytest.mark.compiled
def test_advice_on_a_large_log_is_the_same_in_other_processes() -> None:
    log = simulate(11_000, seed=1, outcome="visit")  # 1.1 MB of features: shared, not copied
    one, two = (advise(100.0, 2_000, log, seeds=range(4), jobs=jobs) for jobs in (1, 2))
    assert one.figures() == two.figures()
    trials = LoggedTrials(log, 8_000, 3_000)
    rows = [
        sorted(
            (row.seed, row.result.conversions)
            for row in compare(trials, ["bccb"], [500.0], [1, 2], jobs)
        )
        for jobs in (1, 2)
    ]
    assert rows[0] == rows[1]
