"""The same figures from a real Ray, started on this machine for the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bccb.evaluate.trials import SimulatedTrials
from bccb.experiments.plan import Run, source_of
from bccb.experiments.runner import execute
from bccb.experiments.store import Store
from bccb.policies import spec_of

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'bccb[ray]'")
pytestmark = [
    pytest.mark.compiled,
    pytest.mark.slow_first(10),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_ray_gives_the_figures_of_local_processes(cluster: None, tmp_path: Path) -> None:
    trials = SimulatedTrials(600, 800)
    world = source_of(trials)
    runs = [
        Run.of(spec_of(name), 20.0, seed, 800)
        for name in ("bccb", "offline-uplift")
        for seed in range(1, 4)
    ]
    answers = []
    for engine in ("local", "ray"):
        store = Store(tmp_path / f"{engine}.jsonl")
        assert sum(execute(runs, trials, world, store, 2, engine)) == len(runs)
        results = [store.get(run.key(world)) for run in runs]
        assert all(results)
        answers.append([{**(result or {}), "seconds": 0.0} for result in results])
    assert answers[0] == answers[1]
