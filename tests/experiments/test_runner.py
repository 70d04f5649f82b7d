"""The runner makes what is missing, once, the same whatever the jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bccb import InputError
from bccb.evaluate.trials import SimulatedTrials
from bccb.experiments.plan import Run, file_digest, source_of
from bccb.experiments.runner import execute
from bccb.experiments.store import Store
from bccb.policies import spec_of

TRIALS = SimulatedTrials(600, 800)
WORLD = source_of(TRIALS)
RUNS = [
    Run.of(spec_of(name), budget, seed, history)
    for name in ("thompson", "bccb", "offline-uplift")
    for budget in (10.0, 20.0)
    for seed in (1, 2)
    for history in (300, 800)
]


def results(store: Store, runs: list[Run]) -> list[dict[str, object]]:
    values = []
    for run in runs:
        result = store.get(run.key(WORLD))
        assert result is not None
        values.append({**result, "seconds": 0.0})
    return values


@pytest.mark.compiled
def test_the_number_of_jobs_changes_no_figure(tmp_path: Path) -> None:
    answers = []
    for jobs in (1, 2):
        store = Store(tmp_path / f"{jobs}.jsonl")
        assert sum(execute(RUNS, TRIALS, WORLD, store, jobs=jobs)) == len(set(RUNS))
        answers.append(results(store, RUNS))
    assert answers[0] == answers[1]


def test_only_what_is_missing_is_made_and_ends_with_the_same_figures(tmp_path: Path) -> None:
    whole = Store(tmp_path / "whole.jsonl")
    list(execute(RUNS, TRIALS, WORLD, whole))
    store = Store(tmp_path / "parts.jsonl")
    part = [run for run in RUNS if run.policy == "bccb" and run.seed == 2]
    assert sum(execute(part, TRIALS, WORLD, store)) == len(set(part))
    store.close()
    again = Store(store.path)
    assert sum(execute(RUNS, TRIALS, WORLD, again)) == len(set(RUNS)) - len(set(part))
    assert sum(execute(RUNS, TRIALS, WORLD, again)) == 0
    assert results(again, RUNS) == results(whole, RUNS)


def test_history_matters_only_to_policies_that_learn_from_it() -> None:
    few, many = (Run.of(spec_of("bccb"), 10.0, 1, history) for history in (300, 800))
    assert few == many
    few, many = (Run.of(spec_of("offline-uplift"), 10.0, 1, history) for history in (300, 800))
    assert few != many
    warm = replace(spec_of("bccb"), after_history=True)
    few, many = (Run.of(warm, 10.0, 1, history) for history in (300, 800))
    assert few != many
    assert many.key(WORLD) == replace(many, spec=replace(warm, about="other words")).key(WORLD)


@pytest.mark.parametrize(
    "change",
    [{"budget": 11.0}, {"seed": 9}, {"spec": spec_of("bccb").changed(eta=0.2)}, {"history": 5}],
)
def test_a_changed_run_is_another_key(change: dict[str, object]) -> None:
    run = Run.of(spec_of("bccb"), 10.0, 1, 0)
    assert replace(run, **change).key(WORLD) != run.key(WORLD)  # type: ignore[arg-type]


def test_other_data_or_sources_are_another_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"one")
    before = file_digest(path)
    path.write_bytes(b"two")
    assert file_digest(path) != before
    assert source_of("one") != source_of("two")
    monkeypatch.setattr("bccb.experiments.plan.fingerprint", lambda part: f"other {part}")
    assert source_of(TRIALS) != WORLD


def test_no_jobs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="jobs is 0, but must be 1 or above"):
        list(execute(RUNS, TRIALS, WORLD, Store(tmp_path / "s"), jobs=0))
