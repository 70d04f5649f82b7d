"""Measure bccb and its peers, print a table, write everything to a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench import processes, replays, report, rounds
from bench.sizes import FULL, QUICK, Sizes


def interleaved(
    contestants: dict[str, Callable[[Sizes], float]], sizes: Sizes, report: Callable[[str], None]
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Run all contestants in turn, again and again; those that are not installed, and why."""
    samples: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    for repeat in range(sizes.repeats):
        for name, contestant in contestants.items():
            if name in missing or (name in replays.SLOW and repeat >= sizes.slow_repeats):
                continue
            report(f"{name} ({repeat + 1} of {sizes.repeats})")
            try:
                samples.setdefault(name, []).append(contestant(sizes))
            except ImportError as error:
                missing[name] = str(error)
    return samples, missing


def main() -> None:
    """Read the options, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench.json"), help="the file to write")
    parser.add_argument("--quick", action="store_true", help="small sizes: rough figures, soon")
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    with Console(stderr=True).status("start-up") as status:
        samples = processes.start_up(sizes)
        status.update("memory")
        samples |= processes.memory(sizes)
        contestants = {**replays.contestants(sizes.growth), **rounds.CONTESTANTS}
        loops, missing = interleaved(contestants, sizes, status.update)
    samples |= loops
    rows = report.rows_of(samples, missing, sizes)
    found = report.to_json(rows, samples, missing, sizes)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    report.show(rows, sizes, Console())


if __name__ == "__main__":
    main()
