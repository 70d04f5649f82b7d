"""The runner: planned runs, made in parallel where they are not stored yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bccb.evaluate.compare import run as replay_at
from bccb.evaluate.parallel import Engine, fan_out
from bccb.evaluate.trials import Trial
from bccb.experiments.plan import Run
from bccb.experiments.store import Store


def execute(
    runs: Iterable[Run],
    trials: Callable[[int], Trial],
    source: str,
    store: Store,
    jobs: int = 1,
    engine: Engine = "local",
) -> Iterator[int]:
    """Make the runs that are missing in the store; yield how many more are done, as they are.

    ``trials`` is sent to other processes. The results do not depend on the number of jobs, on the
    engine or on the order: each run has its own seed.
    """
    groups = _groups(run for run in dict.fromkeys(runs) if store.get(run.key(source)) is None)
    for made in fan_out(partial(make, trials), groups, jobs, engine):
        store.add((run.key(source), result) for run, result in made)
        yield len(made)


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
