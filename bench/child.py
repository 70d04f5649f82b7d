"""What is measured in a process of its own: ``python -m bench.child NAME ARGUMENT...``

Imports stand inside the functions, because when they happen is what is measured.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

PARTS = ("features", "actions", "outcomes", "micros")


def import_time() -> float:
    """Seconds of ``import bccb``."""
    began = perf_counter()
    import bccb

    return perf_counter() - began if bccb.__version__ else 0.0


def first_decision() -> int:
    """Make a policy and decide once; the parent holds the clock."""
    import bccb

    policy = bccb.make("bccb", budget=5_000, horizon=100_000, features=12, seed=42)
    return policy.decide([0.0] * 12, cost=0.77).action


def save_log(users: str, folder: str) -> int:
    """Write the arrays of a simulated log; return their size in bytes."""
    import numpy as np

    from bench.sizes import log_of

    log = log_of(int(users))
    for part in PARTS:
        np.save(Path(folder) / f"{part}.npy", getattr(log, part))
    return sum(getattr(log, part).nbytes for part in PARTS)


def idle_memory() -> int:
    """Bytes that a process holds which has replayed next to nothing."""
    from bccb.evaluate.replay import replay
    from bench.sizes import log_of, policy_for

    log = log_of(100)
    replay(policy_for(log), log)
    return _memory("VmRSS")


def replay_memory(folder: str) -> int:
    """The most bytes that a process held which read a log and replayed it."""
    import numpy as np

    import bccb
    from bccb.evaluate.replay import replay
    from bench.sizes import policy_for

    log = bccb.Log(**{part: np.load(Path(folder) / f"{part}.npy") for part in PARTS})
    replay(policy_for(log), log)
    return _memory("VmHWM")


def simulate_memory(users: str) -> int:
    """The most bytes that a process held which simulated a log and replayed it."""
    from bccb.evaluate.replay import replay
    from bench.sizes import log_of, policy_for

    log = log_of(int(users))
    replay(policy_for(log), log)
    return _memory("VmHWM")


def _memory(field: str) -> int:
    """Linux counts what the parent held in a child's ``ru_maxrss``, but not in its status file."""
    status = Path("/proc/self/status")
    if status.exists():
        found = next(line for line in status.read_text().splitlines() if line.startswith(field))
        return int(found.split()[1]) * 1024
    import resource  # not on Windows

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


TASKS = {
    task.__name__: task
    for task in (
        *(import_time, first_decision),
        *(save_log, idle_memory, replay_memory, simulate_memory),
    )
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print(json.dumps(TASKS[name](*arguments)))
