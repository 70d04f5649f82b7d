"""The service under load: requests per second against an empty endpoint's, and recovery.

Starts servers of its own on this machine, with ledgers in a folder that it removes, and stops them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import Progress

from bench.service import figures, recovery, traffic
from bench.service.figures import MANY, ONE, Samples, Sizes
from bench.service.generator import Generator
from bench.service.process import Server

EXAMPLES = """\
examples:
  python -m bench.load                      all of it, about six minutes
  python -m bench.load --quick              a few seconds: every row, rough figures
  python -m bench.load --out load.json      with every round in a file
  python -m bench.load --folder /mnt/disk   ledgers on another disk than that of temporary files
"""


def interleaved(server: Server, sizes: Sizes, progress: Progress) -> Samples:
    """Run all contestants in turn, again and again, on one server."""
    orders = figures.contestants(sizes)
    generator = Generator([server.port], create_campaigns(server, sizes, progress))
    samples: Samples = {}
    bar = progress.add_task("load", total=sizes.rounds * len(orders))
    try:
        for order in orders * sizes.rounds:
            contestant = f"{figures.what(order)}, {order.connections} connections"
            progress.update(bar, description=contestant)
            before = server.cpu_seconds()
            found = generator.run(order)
            if found.refused:
                raise RuntimeError(
                    f"{contestant}: {found.refused} refused, such as {found.refusal}"
                )
            share = (server.cpu_seconds() - before) / found.seconds
            samples.setdefault(order, []).append(replace(found, server=share))
            progress.advance(bar)
    finally:
        generator.close()
    return samples


def create_campaigns(server: Server, sizes: Sizes, progress: Progress) -> dict[str, list[str]]:
    """The ids of one campaign, and of many."""
    sets = {ONE: 1, MANY: sizes.campaigns}
    bar = progress.add_task("campaigns", total=sum(sets.values()))
    found: dict[str, list[str]] = {name: [] for name in sets}
    for name, many in sets.items():
        for number in range(many):
            found[name].append(server.create(traffic.campaign_request(f"{name} {number}")))
            progress.advance(bar)
    return found


def seconds_to_sync(folder: Path, times: int = 50) -> float:
    """Seconds to write 4 KB durably: where they are next to none, there is no disk."""
    found = []
    with (folder / "sync").open("wb") as file:
        for _ in range(times):
            began = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            found.append(time.perf_counter() - began)
    return median(found)


def options_from(arguments: list[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.load",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="write every round to this JSON file")
    parser.add_argument("--quick", action="store_true", help="small sizes: rough figures, soon")
    parser.add_argument("--folder", type=Path, help="where ledgers are written for the while")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Read the options, measure, report."""
    options = options_from(arguments)
    sizes = figures.QUICK if options.quick else figures.FULL
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as name,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        folder = Path(name)
        sync = seconds_to_sync(folder)
        server = Server(folder / "load.sqlite")
        try:
            server.wait()
            samples = interleaved(server, sizes, progress)
        finally:
            server.stop()
        bar = progress.add_task("recovery: filling the ledger", total=sizes.events)
        found = recovery.measure(
            folder, sizes.events, lambda done: progress.update(bar, completed=done)
        )
    out = Console()
    figures.show(samples, sizes, sync, out)
    figures.show_recovery(found, out)
    if options.out is not None:
        report = figures.to_json(samples, sizes, sync, found)
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
