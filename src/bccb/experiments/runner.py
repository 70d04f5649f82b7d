"""The runner: planned runs, made in parallel where they are not stored yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from bccb.errors import InputError, MissingExtraError, StateError
from bccb.evaluate.compare import run as replay_at
from bccb.evaluate.trials import Trial
from bccb.experiments.plan import Run
from bccb.experiments.store import Store

Engine = Literal["local", "ray"]
WAVE = 8  # tasks for each job of a wave: what a killed process may lose


def execute(
    runs: Iterable[Run],
    trials: Callable[[int], Trial],
    world: str,
    store: Store,
    jobs: int = 1,
    engine: Engine = "local",
) -> Iterator[int]:
    """Make the runs that are missing in the store; yield how many more are done, as they are.

    ``trials`` is sent to other processes. The results do not depend on the number of jobs, on the
    engine or on the order: each run has its own seed.
    """
    if jobs < 1:
        raise InputError("jobs", jobs, "1 or above")
    groups = _groups(run for run in dict.fromkeys(runs) if store.get(run.key(world)) is None)
    if not groups:
        return
    joblib = _joblib()
    with joblib.parallel_config(_backend(engine), n_jobs=jobs):
        tasks = [joblib.delayed(make)(trials, group) for group in groups]
        try:
            for made in _made(joblib, tasks, jobs, engine):
                store.add((run.key(world), result) for run, result in made)
                yield len(made)
        except joblib.externals.loky.process_executor.TerminatedWorkerError:
            told = "a worker was killed, perhaps for memory: what is stored stays; run again"
            raise StateError(f"{told}, with fewer jobs if it happens again") from None


def _made(joblib: Any, tasks: list[Any], jobs: int, engine: Engine) -> Iterator[list[Any]]:
    """Results as they come; from Ray, whose backend gives them all at once, in waves."""
    if engine == "local":
        yield from joblib.Parallel(return_as="generator_unordered")(tasks)
        return
    wave = WAVE * jobs
    for start in range(0, len(tasks), wave):
        yield from joblib.Parallel()(tasks[start : start + wave])


def make(trials: Callable[[int], Trial], group: Sequence[Run]) -> list[tuple[Run, dict[str, Any]]]:
    """Make runs that differ in their budgets alone: history is learned once for all."""
    first = group[0]
    trial = trials(first.seed)
    trial = replace(trial, history=trial.history[: first.history])
    rows = replay_at(trial, first.spec, [run.budget for run in group], first.seed)
    made = []
    for run, row in zip(group, rows, strict=True):
        path = row.result.trajectory.tolist()
        made.append((run, {**row.figures(), "history": run.history, "trajectory": path}))
    return made


def _groups(runs: Iterable[Run]) -> list[list[Run]]:
    """Seeds first, so that the first tasks compile different policies in different processes."""
    groups: dict[Run, list[Run]] = {}
    for run in runs:
        groups.setdefault(replace(run, budget=0.0), []).append(run)
    return [groups[key] for key in sorted(groups, key=lambda key: key.seed)]


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
