"""Steps of work in other processes: heard of here, one by one, before the work is ready."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pytest

from bccb.evaluate.compare import compare
from bccb.evaluate.parallel import fan_out
from bccb.evaluate.steps import Noted, Step, steps
from bccb.evaluate.trials import SimulatedTrials


def two_steps(step: Step, go_on: Path, number: int) -> bool:
    """One step at once, and the other one when a file is there; whether it came in a minute."""
    step(f"begun {number}")
    end = monotonic() + 60
    while not go_on.exists() and monotonic() < end:
        sleep(0.01)
    step(f"ended {number}")
    return go_on.exists()


def test_a_step_is_heard_of_before_its_work_is_ready(tmp_path: Path) -> None:
    heard: list[tuple[int, int, str]] = []
    go_on = tmp_path / "go on"

    def hear(*said: object) -> None:
        heard.append(said)  # type: ignore[arg-type]
        go_on.touch()  # no work is ready before

    with steps(hear, total=4, jobs=2) as step:
        results = list(fan_out(partial(two_steps, step, go_on), [1, 2], jobs=2))
    assert results == [True, True]
    assert [(done, total) for done, total, _ in heard] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert {what for *_, what in heard} == {"begun 1", "begun 2", "ended 1", "ended 2"}


@pytest.mark.compiled
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_comparison_says_after_each_policy_how_far_it_is(jobs: int) -> None:
    heard: list[tuple[int, int, str]] = []
    names = ["treat-all", "thompson"]
    runs = compare(
        SimulatedTrials(200, 0),
        *(names, [10.0], [1, 2], jobs),
        progress=lambda *said: heard.append(said),
    )
    assert len(list(runs)) == 4
    assert [(done, total) for done, total, _ in heard] == [(n, 4) for n in range(1, 5)]
    assert sorted(what for *_, what in heard) == sorted(names * 2)


def test_work_goes_on_where_its_steps_cannot_be_noted(tmp_path: Path) -> None:
    Noted(tmp_path / "gone" / "steps")("bccb")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_progress_function_raises_is_raised_where_the_work_was_begun(jobs: int) -> None:
    def hear(*_: object) -> None:
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"), steps(hear, total=1, jobs=jobs) as step:
        step("bccb")
