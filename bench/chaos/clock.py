"""Run a Python program with its clock set apart: ``python -m bench.chaos.clock SECONDS PROGRAM``.

The program is what follows ``python`` on a command line: ``-m module`` or a file, and arguments.
"""

from __future__ import annotations

import runpy
import sys
import time


def set_apart(seconds: int) -> None:
    """Let the time of day be ahead by so many seconds, or behind; durations stay as they are."""
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + seconds * 10**9


def main() -> None:
    """Set the clock apart, then become the program."""
    set_apart(int(sys.argv[1]))
    if sys.argv[2] == "-m":
        del sys.argv[:3]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        del sys.argv[:2]
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
