"""Break a cluster again and again under load, and check that nothing acknowledged was lost.

Three replicas of the service share a PostgreSQL, and 24 clients ask any of them: they decide,
report, correct, cancel, settle, add money, pause and resume. Meanwhile replicas are killed, stopped
and paused, cut off from the database and from each other, their clocks are set apart, and the
database is restarted. In the end all is healed and every client gets its answer; then every replica
is asked again for all that was acknowledged, and a checker that shares no code with the service
adds the whole journal up. The last line is the verdict; the exit status is 1 unless all its counts
but the faults are 0. Underspent is the share of money that is left where it should have run out.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.chaos.checker import last_line
from bench.chaos.harness import Harness
from bench.service.process import PROGRAM

EXAMPLES = """\
examples:
  python -m bench.chaos                         ten minutes
  python -m bench.chaos --seconds 60 --seed 7   a short one, with other faults and other users
  python -m bench.chaos --program 'python faulty.py'   another server: can the harness fail?
"""
LONGEST = 500  # characters of a finding


def options_from(arguments: list[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="in which faults begin (default: 600)"
    )
    parser.add_argument("--clients", type=int, default=24, help="at once (default: 24)")
    parser.add_argument("--seed", type=int, default=1, help="of faults and users (default: 1)")
    parser.add_argument("--folder", type=Path, help="where the database is for the while")
    parser.add_argument(
        "--program", type=shlex.split, default=PROGRAM, help="a Python program in place of bccb"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Read the options, break, report."""
    options = options_from(arguments)
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="bccb-chaos-", dir=options.folder))
    harness = Harness(folder, options.seed, options.clients, options.program)
    began = time.perf_counter()
    try:
        with Progress(console=notes, transient=True) as progress:
            asyncio.run(harness.run(options.seconds, progress))
    finally:
        harness.cluster.close()
    report(harness, notes, time.perf_counter() - began)
    counts = harness.counts()
    failed = counts.total() > 0
    if failed:
        notes.print(f"the answers and what the replicas printed are in {folder}")
    else:
        shutil.rmtree(folder)
    underspent = 0.0 if harness.verdict is None else harness.verdict.underspent
    print(last_line(harness.injector.counts.total(), counts, underspent))
    sys.exit(int(failed))


def report(harness: Harness, notes: Console, seconds: float) -> None:
    """What was found, and what happened."""
    verdict, traffic = harness.verdict, harness.load.traffic
    examples = [*harness.broken, *harness.load.faults.examples, *harness.again.examples]
    for example in [*examples, *(verdict.findings.examples if verdict else [])]:
        notes.print(example[:LONGEST], markup=False)
    notes.print(f"faults: {listed(harness.injector.counts)}")
    notes.print(f"replicas: {listed(harness.cluster.counts)}")
    waits = f"the longest request {traffic.longest:.1f} s, without any answer {traffic.silence:.1f}"
    notes.print(f"{traffic.answers:,} answers, {traffic.retries:,} retries; {waits} s")
    if harness.figures:
        figures = ", ".join(f"{name} {value:g}" for name, value in sorted(harness.figures.items()))
        notes.print(f"since the last starts: {figures}")
    if verdict is not None:
        ran_out = f"money should have run out in {verdict.exhausted} of {verdict.campaigns}"
        notes.print(f"{verdict.events:,} events; {ran_out} campaigns; {seconds:.0f} s")


def listed(counts: Counter[str]) -> str:
    """Counts in one line."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    main()
