"""What only a fresh process can show: import time, the first decision, the peak of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from bench.sizes import Sizes

Samples = dict[str, list[float]]
ROOT = Path(__file__).parent.parent


def child(task: str, *arguments: str, cache: str) -> tuple[float, float]:
    """What the task returned in a process of its own, and how long that process lived."""
    began = perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench.child", task, *arguments],
        cwd=ROOT,
        env={**os.environ, "BCCB_CACHE": cache},
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(json.loads(done.stdout)), perf_counter() - began


def start_up(sizes: Sizes) -> Samples:
    """Seconds of the import, and of a whole process that decides once, by kernel cache."""
    found: Samples = {"import": [], "first decision": [], "first decision, nothing cached": []}
    for _ in range(sizes.processes):
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (child("first_decision", cache=cache)[1] for _ in range(2))
            found["first decision, nothing cached"].append(cold)
            found["first decision"].append(warm)
            found["import"].append(child("import_time", cache=cache)[0])
    return found


def memory(sizes: Sizes) -> Samples:
    """Bytes of a log, and what a process that replays it needs above one that is idle."""
    users = str(sizes.users * sizes.growth)
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
        data, _ = child("save_log", users, folder, cache=cache)
        child("idle_memory", cache=cache)  # compiles, for all that follow
        idle, _ = child("idle_memory", cache=cache)
        replay, _ = child("replay_memory", folder, cache=cache)
        simulate, _ = child("simulate_memory", users, cache=cache)
    return {
        "memory: data": [data],
        "memory: replay": [replay - idle],
        "memory: simulate and replay": [simulate - idle],
    }
