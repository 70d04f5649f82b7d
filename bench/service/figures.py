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

    rounds: int = 5
    seconds: float = 3.0
    campaigns: int = 1_000
    events: int = 1_000_000


FULL = Sizes()
QUICK = Sizes(rounds=1, seconds=0.2, campaigns=5, events=2_000)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of the design: a rate over another, in one run."""

    what: str
    value: float
    target: float

    @property
    def reached(self) -> bool:
        """Whether it is as high as it should be."""
        return self.value >= self.target


def contestants(sizes: Sizes) -> list[Order]:
    """What alternates: the empty endpoint first, outcomes after the decisions they are of."""
    found = [Order("empty", ONE, 0, many, seconds=sizes.seconds) for many in (16, 64)]
    for campaigns in (ONE, MANY):
        for kind in ("decisions", "outcomes"):
            for size, many in ((1, 16), (1, 64), (LIST, 16)):
                found.append(Order(kind, campaigns, size, many, seconds=sizes.seconds))
    return found


COLUMNS = ("camps", "conns", "req/s", "items/s", "p50 ms", "p99 ms", "gen.", "server")
Samples = dict[Order, list[Round]]


def ratios(samples: Samples) -> Iterator[Ratio]:
    """The figures of the design; each is the median over the rounds of the ratio within one."""
    rates = {
        (order.kind, order.campaigns, order.size, order.connections): _rates(rounds)
        for order, rounds in samples.items()
    }
    for campaigns in (ONE, MANY):
        told = "1 campaign" if campaigns == ONE else "many"
        for many in (16, 64):
            value = _over(rates["decisions", campaigns, 1, many], rates["empty", ONE, 0, many])
            yield Ratio(f"single decisions over empty, {many} conns: {told}", value, 0.5)
        single = max((rates["decisions", campaigns, 1, many] for many in (16, 64)), key=median)
        batch = [LIST * rate for rate in rates["decisions", campaigns, LIST, 16]]
        yield Ratio(f"decisions in lists over single ones: {told}", _over(batch, single), 20.0)


def _rates(rounds: list[Round]) -> list[float]:
    return [one.requests / one.seconds for one in rounds]


def _over(above: list[float], below: list[float]) -> float:
    return median(a / b for a, b in zip(above, below, strict=True))


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
    verdicts = Table(title="figures of the design", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("ratio", "figure", "target", ""):
        verdicts.add_column(column)
    for ratio in ratios(samples):
        verdict = "reached" if ratio.reached else "missed"
        verdicts.add_row(ratio.what, f"{ratio.value:.2f}", f">= {ratio.target:g}", verdict)
    out.print(verdicts)


def what(order: Order) -> str:
    """What a round sends, in words."""
    if order.kind == "empty":
        return "empty endpoint"
    return order.kind if order.size == 1 else f"{order.kind} x {order.size}"


def _cells(order: Order, rounds: list[Round], sizes: Sizes) -> Iterator[str]:
    def middle(figure: Callable[[Round], float]) -> float:
        return median(figure(one) for one in rounds)

    rate = median(_rates(rounds))
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
    check = found.told if found.check is None else f"{found.check:.2f}"
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
