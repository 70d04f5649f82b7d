"""Replicas on PostgreSQL under load: against one process on SQLite, and against plain inserts.

One, two and three replicas, each on a database of its own in one PostgreSQL, take the same requests
in turn, spread over all of them. Beside them plain psycopg inserts the rows of as many decisions,
with as many connections and transactions: what the service adds is the difference. Starts servers
of its own on this machine, and stops them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bccb.ledger.opening import open_ledger
from bench.service import traffic
from bench.service.database import Database
from bench.service.figures import LIST, MANY, ONE, what
from bench.service.generator import Generator, Order, Round
from bench.service.process import Server

EXAMPLES = """\
examples:
  python -m bench.scale                     all of it, about twelve minutes
  python -m bench.scale --quick             a few seconds: every row, rough figures
  python -m bench.scale --out scale.json    with every round in a file
"""
REPLICAS = (1, 2, 3)
CONNECTIONS = 24
WIDE = 126  # characters of the table, also where a terminal is not known
COLUMNS = (
    "campaign, sequence, at, kind, decision, number, action, money, price, probability, "
    "remaining, detail, seal"
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int = 9
    seconds: float = 2.0
    campaigns: int = 100


FULL, QUICK = Sizes(), Sizes(rounds=1, seconds=0.5, campaigns=5)


class Contestant:
    """Servers that share a ledger, or none: plain inserts."""

    def __init__(self, name: str, servers: Sequence[Server], database: Database | None) -> None:
        self.name, self.servers, self.database = name, servers, database
        self.generator: Generator | None = None

    def prepare(self, sizes: Sizes, progress: Progress) -> None:
        """Open campaigns, and make a generator for them."""
        bar = progress.add_task(f"campaigns: {self.name}", total=sizes.campaigns + 1)
        sets: dict[str, list[str]] = {ONE: [], MANY: []}
        for name, many in ((ONE, 1), (MANY, sizes.campaigns)):
            for number in range(many):
                request = traffic.campaign_request(f"{name} {number}")
                sets[name].append(self.servers[0].create(request))
                progress.advance(bar)
        self.generator = Generator([server.port for server in self.servers], sets)

    def run(self, order: Order) -> tuple[Round, float]:
        """A round, and the share of one CPU that the database took."""
        assert self.generator is not None
        before = self._cpu()
        found = self.generator.run(order)
        if found.refused:
            raise RuntimeError(f"{self.name}: {found.refused} refused, such as {found.refusal}")
        servers, database = (
            (after - earlier) / found.seconds
            for after, earlier in zip(self._cpu(), before, strict=True)
        )
        return replace(found, server=servers), database

    def _cpu(self) -> tuple[float, float]:
        servers = sum(server.cpu_seconds() for server in self.servers)
        return servers, 0.0 if self.database is None else self.database.cpu_seconds()


class Inserts:
    """Plain psycopg: the journal rows of decisions, a commit for each list, on many connections."""

    def __init__(self, url: str, database: Database) -> None:
        self.name = "psycopg alone"
        self.url, self.database = url, database
        ledger = open_ledger(url)
        ledger.upgrade()
        ledger.close()
        with psycopg.connect(url) as connection:
            connection.execute(
                "INSERT INTO campaigns SELECT n, 'c' || n, 'n' || n, 0, 0, 0, 0, 0, 0"
                " FROM generate_series(1, %s) AS n",
                (CONNECTIONS,),
            )
        self._next = [1] * CONNECTIONS  # the next event of each connection's campaign

    def run(self, order: Order) -> tuple[Round, float]:
        """A round, and the share of one CPU that the database took."""
        latencies: list[list[float]] = [[] for _ in range(order.connections)]
        start = threading.Barrier(order.connections + 1)
        threads = [
            threading.Thread(target=self._insert, args=(order, i, start, latencies[i]))
            for i in range(order.connections)
        ]
        for thread in threads:
            thread.start()
        start.wait()
        began, cpu, database = time.perf_counter(), time.process_time(), self.database.cpu_seconds()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
        every = sorted(each for some in latencies for each in some)
        found = Round(
            requests=len(every),
            items=len(every) * order.size,
            seconds=seconds,
            p50=every[len(every) // 2],
            p99=every[len(every) * 99 // 100],
            busy=(time.process_time() - cpu) / seconds,
            refused=0,
        )
        return found, (self.database.cpu_seconds() - database) / seconds

    def _insert(
        self, order: Order, number: int, start: threading.Barrier, latencies: list[float]
    ) -> None:
        rows = [self._row(number, i) for i in range(order.size)]
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            start.wait()
            until = time.perf_counter() + order.seconds
            while (began := time.perf_counter()) < until:
                first = self._next[number]
                self._next[number] += order.size
                with cursor.copy(f"COPY journal ({COLUMNS}) FROM STDIN") as copy:
                    for i, row in enumerate(rows, first):
                        copy.write_row((row[0], i, *row[2:4], f"{i:012d}", i, *row[6:]))
                connection.commit()
                latencies.append(time.perf_counter() - began)

    @staticmethod
    def _row(number: int, i: int) -> tuple[Any, ...]:
        """A decision of the load: its detail is as long as that of the default policy."""
        detail = os.urandom(8 * (1 + 2 + len(traffic.FEATURES) * 2))
        return (number + 1, i, 1, "decision", "", i, 1, 5 * 10**5, 0.5, 0.5, 10**12, detail, 1)


def orders(sizes: Sizes) -> list[Order]:
    """What is sent to one campaign and to many: single decisions, lists in rows, and in columns."""
    return [
        Order(kind, campaigns, size, CONNECTIONS, seconds=sizes.seconds)
        for campaigns in (ONE, MANY)
        for kind, size in (("decisions", 1), ("decisions", LIST), ("columns", LIST))
    ]


def _plain(order: Order) -> Order:
    """What plain inserts are measured with: the same rows, however they are asked for."""
    return replace(order, kind="decisions", campaigns=ONE)


Samples = dict[tuple[str, Order], list[tuple[Round, float]]]


def measure(sizes: Sizes, folder: Path, progress: Progress) -> Samples:
    """All contestants in turn, again and again."""
    with ExitStack() as stack:
        database = Database(folder / "postgresql")
        stack.callback(database.close)
        database.start()
        served = [_served(stack, "SQLite, one process", folder, "sqlite")]
        for many in REPLICAS:
            url = database.create(f"replicas_{many}")
            name = f"PostgreSQL, {many} replica{'s' if many > 1 else ''}"
            served.append(_served(stack, name, folder, f"replicas-{many}", database, url, many))
        for each in served:
            each.prepare(sizes, progress)
            assert each.generator is not None
            stack.callback(each.generator.close)
        contestants: list[Contestant | Inserts] = [
            Inserts(database.create("plain"), database),
            *served,
        ]
        samples: Samples = {}
        wanted = orders(sizes)
        bar = progress.add_task("load", total=sizes.rounds * len(wanted) * len(contestants))
        for order in wanted * sizes.rounds:
            for one in contestants:
                progress.update(bar, description=f"{one.name}, {what(order)}")
                if not isinstance(one, Inserts) or order == _plain(order):
                    samples.setdefault((one.name, order), []).append(one.run(order))
                progress.advance(bar)
    return samples


def _served(
    stack: ExitStack,
    name: str,
    folder: Path,
    place: str,
    database: Database | None = None,
    url: str | None = None,
    many: int = 1,
) -> Contestant:
    servers = []
    for i in range(many):
        log = folder / f"{place}-{i}.log"
        server = Server(url or folder / f"{place}.sqlite", log=log)
        stack.callback(server.stop)
        server.wait()
        servers.append(server)
    return Contestant(name, servers, database)


def show(samples: Samples, sizes: Sizes, out: Console) -> None:
    """Print rates, latencies and where the CPU goes."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=f"replicas under load, {os.cpu_count()} CPUs",
        caption=f"Medians of {sizes.rounds} alternating rounds of {sizes.seconds:g} s with "
        f"{CONNECTIONS} connections, spread over the replicas; every answer durable. The last "
        "columns are shares of one CPU: the clients, all replicas together, PostgreSQL.",
    )
    table.add_column("what", no_wrap=True)
    for column in (
        "sends",
        "camps",
        "items/s",
        "of psycopg",
        "p50 ms",
        "p99 ms",
        "clients",
        "replicas",
        "database",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for (name, order), rounds in samples.items():
        plain = samples.get(("psycopg alone", _plain(order)))
        table.add_row(name, what(order), *_cells(order, rounds, plain, sizes))
    out.print(table)


def _cells(order: Order, rounds: list[tuple[Round, float]], plain: Any, sizes: Sizes) -> list[str]:
    ratio = median(
        one.items / one.seconds / (other.items / other.seconds)
        for (one, _), (other, _) in zip(rounds, plain, strict=True)
    )
    return [
        f"{sizes.campaigns}" if order.campaigns == MANY else "1",
        f"{median([one.items / one.seconds for one, _ in rounds]):,.0f}",
        f"{ratio:.2f}",
        f"{median([one.p50 for one, _ in rounds]) * 1e3:.1f}",
        f"{median([one.p99 for one, _ in rounds]) * 1e3:.1f}",
        f"{median([one.busy for one, _ in rounds]):.0%}",
        f"{median([one.server for one, _ in rounds]):.0%}",
        f"{median([database for _, database in rounds]):.0%}",
    ]


def options_from(arguments: list[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
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
    sizes = QUICK if options.quick else FULL
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as name,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        samples = measure(sizes, Path(name), progress)
    console = Console()
    console.width = max(console.width, WIDE)
    show(samples, sizes, console)
    if options.out is not None:
        rounds = [
            {
                "what": name,
                **asdict(order),
                "rounds": [{**asdict(one), "database": share} for one, share in found],
            }
            for (name, order), found in samples.items()
        ]
        options.out.write_text(json.dumps(rounds, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
