"""A rolling restart under load: does any request fail?

Three replicas of the service share a PostgreSQL, and 24 clients ask any of them. One replica after
the other is stopped with SIGTERM, started again and waited for, twice. A client that gets no answer
asks another replica with the same ids. The last line has the figures; the exit status is 1 if a
request needed more than one retry, failed in the end, or was answered incorrectly.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.chaos.cluster import Cluster
from bench.chaos.load import Load
from bench.service.process import PROGRAM, ServerError

EXAMPLES = """\
examples:
  python -m bench.rolling                  every replica twice
  python -m bench.rolling --rounds 10      for longer
"""
QUIET = 3.0  # seconds of load before the first restart, and after each


class Rolling:
    """A cluster whose replicas are restarted one after the other."""

    def __init__(self, folder: Path, seed: int, clients: int, program: Sequence[str]) -> None:
        self.cluster = Cluster(folder, program, seed)
        self.load = Load(self.cluster, clients, seed)
        self.unanswered: list[str] = []

    async def run(self, rounds: int, progress: Progress) -> None:
        """Restart every replica so many times."""
        bar = progress.add_task("restarts", total=rounds * 3)
        await self.cluster.start(apart=False)
        self.load.open()
        self.load.begin(pauses=False)
        await asyncio.sleep(QUIET)
        for _ in range(rounds):
            for replica in self.cluster.replicas:
                await replica.stop()
                await replica.up()
                await asyncio.sleep(QUIET)
                progress.advance(bar)
        try:
            await self.load.end()
        except ServerError as error:
            self.unanswered.append(str(error))

    @property
    def failures(self) -> int:
        """Requests that one retry did not answer, or that were answered incorrectly."""
        late = self.load.traffic.retried
        return len(self.unanswered) + self.load.faults.counts.total() + late

    def line(self) -> str:
        """The last line."""
        traffic = self.load.traffic
        tries = f"retries={traffic.retries} retried_more_than_once={traffic.retried}"
        waits = f"longest_request={traffic.longest:.2f}s longest_gap={traffic.silence:.2f}s"
        return f"requests={traffic.answers} failures={self.failures} {tries} {waits}"


def options_from(arguments: list[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.rolling",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=2, help="of restarts (default: 2)")
    parser.add_argument("--clients", type=int, default=24, help="at once (default: 24)")
    parser.add_argument("--seed", type=int, default=1, help="of users (default: 1)")
    parser.add_argument("--folder", type=Path, help="where the database is for the while")
    parser.add_argument(
        "--program", type=shlex.split, default=PROGRAM, help="a Python program in place of bccb"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Read the options, restart, report."""
    options = options_from(arguments)
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="bccb-rolling-", dir=options.folder))
    rolling = Rolling(folder, options.seed, options.clients, options.program)
    try:
        with Progress(console=notes, transient=True) as progress:
            asyncio.run(rolling.run(options.rounds, progress))
    finally:
        rolling.cluster.close()
    for example in [*rolling.unanswered, *rolling.load.faults.examples]:
        notes.print(example, markup=False)
    if rolling.failures:
        notes.print(f"what the replicas printed is in {folder}")
    else:
        shutil.rmtree(folder)
    print(rolling.line())
    sys.exit(int(rolling.failures > 0))


if __name__ == "__main__":
    main()
