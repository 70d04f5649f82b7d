"""From rounds to a table of figures, targets and verdicts."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.service.generator import Order, Round
from bench.service.recovery import Recovery

ONE, MANY = "one", "many"  # sets of campaigns
LIST = 100


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int = 15
    seconds: float = 1.0
    campaigns: int = 1_000
    events: int = 1_000_000


FULL = Sizes()
QUICK = Sizes(rounds=1, seconds=0.2, campaigns=5, events=2_000)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of the design: a rate over another, in one run.

    ``by_cpu`` is the same of requests for each second of the server's CPU: what other programs on
    the machine do changes it less, but it does not see the server wait for the disk.
    """

    what: str
    value: float
    target: float
    by_cpu: float

    @property
    def reached(self) -> bool:
        """Whether it is as high as it should be."""
        return self.value >= self.target


def contestants(sizes: Sizes) -> list[Order]:
    """What alternates: the empty endpoint first, outcomes after the decisions they are of."""
    found = [Order("empty", ONE, 0, many, seconds=sizes.seconds) for many in (16, 64)]
    for campaigns in (ONE, MANY):
        for kind in ("decisions", "columns", "outcomes"):
            for size, many in ((1, 16), (1, 64), (LIST, 16)):
                if kind == "columns" and size == 1:
                    continue
                found.append(Order(kind, campaigns, size, many, seconds=sizes.seconds))
    return found


COLUMNS = ("camps", "conns", "req/s", "items/s", "p50 ms", "p99 ms", "gen.", "server")
Samples = dict[Order, list[Round]]


def ratios(samples: Samples) -> Iterator[Ratio]:
    """The figures of the design; each is the median over the rounds of the ratio within one."""
    found = {
        (order.kind, order.campaigns, order.size, order.connections): rounds
        for order, rounds in samples.items()
    }
    for campaigns in (ONE, MANY):
        kind = "one campaign" if campaigns == ONE else "many"
        for many in (16, 64):
            single, empty = found["decisions", campaigns, 1, many], found["empty", ONE, 0, many]
            yield _ratio(f"single over empty, {many} conns: {kind}", single, empty, 0.55)
        best = max((found["decisions", campaigns, 1, many] for many in (16, 64)), key=_rate)
        for kind, name in (("decisions", "lists"), ("columns", "columns")):
            lists = found[kind, campaigns, LIST, 16]
            yield _ratio(f"in {name} over single: {kind}", lists, best, 20.0)


def _ratio(what: str, above: list[Round], below: list[Round], target: float) -> Ratio:
    pairs = list(zip(above, below, strict=True))
    times = max(above[0].items // max(above[0].requests, 1), 1)
    value = times * median(one.rate / other.rate for one, other in pairs)
    by_cpu = times * median(_cost(other) / _cost(one) for one, other in pairs)
    return Ratio(what, value, target, by_cpu)


def _rate(rounds: list[Round]) -> float:
    return median(one.rate for one in rounds)


def _cost(one: Round) -> float:
    """Seconds of the server's CPU for a request; next to none where that is not known."""
    return max(one.server, 1e-9) / one.rate


def show(samples: Samples, sizes: Sizes, sync: float, out: Console) -> None:
    """Print the rates, and the ratios with their verdicts."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=f"bccb serve under load, {os.cpu_count()} CPUs",
        caption=f"Medians of {sizes.rounds} alternating rounds of {sizes.seconds:g} s; every "
        f"request durable, ids new. To write 4 KB and sync takes {sync * 1e3:.2f} ms here. The "
        "last two columns are how busy the load generator and the server were, as shares of one "
        "CPU; camps, conns: campaigns in turn, and connections that each wait for their answer.",
    )
    table.add_column("what", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for order, rounds in samples.items():
        table.add_row(what(order), *_cells(order, rounds, sizes))
    out.print(table)
    verdicts = Table(
        title="decisions: figures of the design", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for column in ("ratio", "figure", "by CPU", "target", ""):
        verdicts.add_column(column)
    for ratio in ratios(samples):
        verdict = "reached" if ratio.reached else "missed"
        figures = f"{ratio.value:.2f}", f"{ratio.by_cpu:.2f}", f">= {ratio.target:g}"
        verdicts.add_row(ratio.what, *figures, verdict)
    out.print(verdicts)


def what(order: Order) -> str:
    """What a round sends, in words."""
    if order.kind == "empty":
        return "empty endpoint"
    return order.kind if order.size == 1 else f"{order.kind} x {order.size}"


def _cells(order: Order, rounds: list[Round], sizes: Sizes) -> Iterator[str]:
    def middle(figure: Callable[[Round], float]) -> float:
        return median(figure(one) for one in rounds)

    rate = _rate(rounds)
    many = f"{sizes.campaigns:,}" if order.campaigns == MANY else "1"
    yield many if order.size else ""
    yield str(order.connections)
    yield f"{rate:,.0f}"
    yield f"{rate * order.size:,.0f}" if order.size else ""
    yield f"{middle(lambda one: one.p50) * 1e3:.1f}"
    yield f"{middle(lambda one: one.p99) * 1e3:.1f}"
    yield f"{middle(lambda one: one.busy):.0%}"
    yield f"{middle(lambda one: one.server):.0%}"


def show_recovery(found: Recovery, out: Console) -> None:
    """Print how long it took to be ready again."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"after SIGKILL, with {found.events:,} events ({found.megabytes:,.0f} MB)",
    )
    table.add_column("what")
    table.add_column("seconds", justify="right")
    table.add_row("ready with a new ledger", f"{found.empty:.2f}")
    table.add_row("ready again after the kill", f"{found.killed:.2f}")
    check = found.verdict if found.check is None else f"{found.check:.2f}"
    table.add_row("bccb ledger verify: the whole journal folded", check)
    out.print(table)


def to_json(samples: Samples, sizes: Sizes, sync: float, found: Recovery) -> Any:
    """Everything that was measured, in seconds, and on what."""
    return {
        "rounds": [
            {**asdict(order), "rounds": [asdict(one) for one in rounds]}
            for order, rounds in samples.items()
        ],
        "ratios": [{**asdict(one), "reached": one.reached} for one in ratios(samples)],
        "recovery": asdict(found),
        "sizes": asdict(sizes),
        "seconds_to_sync": sync,
        "machine": {
            "cpus": os.cpu_count(),
            "architecture": platform.machine(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
    }
