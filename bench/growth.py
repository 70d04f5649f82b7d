"""The cost of growth on PostgreSQL: many campaigns, and a long journal.

Campaigns: one replica holds 10, 100 and 1,000 of them: how fast it decides, how long it takes to
take all of them over, and its memory. Journal: decisions are written until there are as many as
asked, and their windows pass: how fast, how much disk each takes, and how long another process
takes to take a campaign over, as the journal grows. Starts servers of its own, and stops them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.service import traffic
from bench.service.database import Database
from bench.service.figures import LIST
from bench.service.generator import Generator, Order
from bench.service.process import Server

EXAMPLES = """\
examples:
  python -m bench.growth                         10,000,000 decisions: half an hour, 8 GB of disk
  python -m bench.growth --decisions 1000000     a tenth of that
  python -m bench.growth --campaigns 10 100 --decisions 0
"""
LONGEST_LIST = 1_000
CONNECTIONS = 4
WINDOW = 30  # seconds: outcomes that never come, so that each decision has a second event
LOAD_SECONDS = 5.0
FILLED = 10  # campaigns that share the long journal
STEPS = 10  # looks at the journal while it grows


@dataclass(frozen=True, slots=True)
class Many:
    """One replica with so many campaigns."""

    campaigns: int
    taken_over: float  # seconds from its start until it holds all of them
    single: float  # decisions per second
    single_p99: float  # seconds
    lists: float
    lists_p99: float
    megabytes: float  # of memory


@dataclass(frozen=True, slots=True)
class Long:
    """A journal at some length."""

    decisions: int
    rate: float  # decisions per second since the step before, with the events that end them
    bytes_each: float  # of disk for each decision, with its end and indices
    take_over: float  # seconds for one campaign, on average, by a new process
    ready: float  # seconds from the start of that process until all are held


@contextmanager
def running(folder: Path, url: str) -> Iterator[Server]:
    """One replica."""
    server = Server(url, log=folder / f"replica-{time.time_ns()}.log")
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def figure(server: Server, name: str) -> float:
    """A figure of its metrics."""
    _, text = server.raw("GET", "/metrics")
    lines = (line.split() for line in text.decode().splitlines())
    return sum(float(words[-1]) for words in lines if words[0] == name)


def seconds_until_held(server: Server, campaigns: int) -> float:
    """Seconds from its start until it holds so many."""
    while figure(server, "bccb_campaigns_held") < campaigns:
        time.sleep(0.02)
    return time.perf_counter() - server.began


def many_campaigns(campaigns: int, folder: Path, database: Database, progress: Progress) -> Many:
    """Open so many campaigns, decide for all of them, and start again."""
    url = database.create(f"many_{campaigns}")
    bar = progress.add_task(f"{campaigns:,} campaigns", total=campaigns)
    with running(folder, url) as server:
        ids = []
        for number in range(campaigns):
            ids.append(server.create(traffic.campaign_request(f"many {number}")))
            progress.advance(bar)
        generator = Generator([server.port], {"many": ids})
        try:
            warm = Order("decisions", "many", 1, 24, seconds=1.0)
            single = Order("decisions", "many", 1, 24, seconds=LOAD_SECONDS)
            lists = Order("decisions", "many", LIST, 24, seconds=LOAD_SECONDS)
            generator.run(warm)
            singles, listed = generator.run(single), generator.run(lists)
        finally:
            generator.close()
        if singles.refused or listed.refused:
            raise RuntimeError(f"refused: {singles.refusal or listed.refusal}")
        server.kill()
    with running(folder, url) as server:
        taken = seconds_until_held(server, campaigns)
        status = Path(f"/proc/{server.pid}/status").read_text()
        kilobytes = next(line.split()[1] for line in status.splitlines() if "VmRSS" in line)
    return Many(
        campaigns,
        taken,
        singles.items / singles.seconds,
        singles.p99,
        listed.items / listed.seconds,
        listed.p99,
        int(kilobytes) / 1e3,
    )


def long_journal(
    decisions: int, folder: Path, database: Database, progress: Progress
) -> Iterator[Long]:
    """Fill the journal step by step; after each a new process takes over."""
    name = "long"
    url = database.create(name)
    empty = database.bytes_of(name)
    bar = progress.add_task("a long journal", total=decisions)
    ids: list[str] = []
    for step in range(1, STEPS + 1):
        with running(folder, url) as server:
            if not ids:
                asked = {"outcome_window_seconds": WINDOW}
                for number in range(FILLED):
                    request = traffic.campaign_request(f"{name} {number}")
                    ids.append(server.create({**request, **asked}))
            rate = _fill(server, ids, step, decisions // STEPS)
            progress.update(bar, completed=step * decisions // STEPS)
            server.kill()
        with running(folder, url) as server:
            ready = seconds_until_held(server, FILLED)
            total = figure(server, "bccb_take_over_seconds_sum")
            many = figure(server, "bccb_take_over_seconds_count")
        written = step * decisions // STEPS
        yield Long(written, rate, (database.bytes_of(name) - empty) / written, total / many, ready)


def _fill(server: Server, ids: list[str], step: int, decisions: int) -> float:
    """Write so many decisions, and wait until all their windows have passed; how many a second."""
    generator = Generator([server.port], {"fill": ids}, first=step * 10**9)
    requests = -(-decisions // LONGEST_LIST)
    began = time.perf_counter()
    try:
        order = Order("columns", "fill", LONGEST_LIST, CONNECTIONS, requests=requests)
        found = generator.run(order)
    finally:
        generator.close()
    if found.refused:
        raise RuntimeError(f"refused: {found.refusal}")
    while figure_of_all(server, "pending") > 0:
        time.sleep(0.5)
    # the last windows are waited for, and nothing is written in that time
    return decisions / max(time.perf_counter() - began - WINDOW, 1e-9)


def figure_of_all(server: Server, name: str) -> float:
    """A figure, summed over all campaigns."""
    _, listed = server.call("GET", "/v1/campaigns")
    return float(sum(campaign[name] for campaign in listed["campaigns"]))


def show(many: list[Many], long: list[Long], out: Console) -> None:
    """Print both tables."""
    if many:
        table = Table(box=box.SIMPLE_HEAD, title="campaigns on one replica")
        for column in (
            "campaigns",
            "held after s",
            "single/s",
            "p99 ms",
            "lists x 100, items/s",
            "p99 ms",
            "memory MB",
        ):
            table.add_column(column, justify="right")
        for one in many:
            table.add_row(
                f"{one.campaigns:,}",
                f"{one.taken_over:.1f}",
                f"{one.single:,.0f}",
                f"{one.single_p99 * 1e3:.1f}",
                f"{one.lists:,.0f}",
                f"{one.lists_p99 * 1e3:.1f}",
                f"{one.megabytes:,.0f}",
            )
        out.print(table)
    if long:
        table = Table(box=box.SIMPLE_HEAD, title=f"a long journal of {FILLED} campaigns")
        for column in ("decisions", "decisions/s", "bytes each", "take-over s", "all held after s"):
            table.add_column(column, justify="right")
        for each in long:
            table.add_row(
                f"{each.decisions:,}",
                f"{each.rate:,.0f}",
                f"{each.bytes_each:,.0f}",
                f"{each.take_over:.3f}",
                f"{each.ready:.1f}",
            )
        out.print(table)


def options_from(arguments: list[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.growth",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--campaigns", type=int, nargs="*", default=[10, 100, 1_000], help="how many at once")
    add("--decisions", type=int, default=10_000_000, help="in the journal (default: 10000000)")
    add("--out", type=Path, help="write the figures to this JSON file")
    add("--folder", type=Path, help="where the database is for the while")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Read the options, measure, report."""
    options = options_from(arguments)
    many: list[Many] = []
    long: list[Long] = []
    with (
        tempfile.TemporaryDirectory(dir=options.folder, ignore_cleanup_errors=True) as name,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        folder = Path(name)
        database = Database(folder / "postgresql")
        try:
            database.start()
            for campaigns in options.campaigns:
                many.append(many_campaigns(campaigns, folder, database, progress))
            if options.decisions:
                long += long_journal(options.decisions, folder, database, progress)
        finally:
            database.close()
    show(many, long, Console())
    if options.out is not None:
        found: dict[str, Any] = {"many": [asdict(one) for one in many]}
        found["long"] = [asdict(one) for one in long]
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
