"""From rounds to a table of figures, targets and verdicts."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.service.generator import Order, Round
from bench.service.recovery import Recovery

ONE, MANY = "one", "many"


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


def contestants(sizes: Sizes) -> dict[str, Order]:
    """What alternates: the empty endpoint first, outcomes after the decisions they are of."""
    found = {
        f"empty endpoint, {many} connections": Order("empty", ONE, 0, many, seconds=sizes.seconds)
        for many in (16, 64)
    }
    for name, told in ((ONE, "one campaign"), (MANY, f"{sizes.campaigns:,} campaigns")):
        for what, kind, size, many in (
            ("single decisions", "decisions", 1, 16),
            ("single decisions", "decisions", 1, 64),
            ("decisions in lists of 100", "decisions", 100, 16),
            ("single outcomes", "outcomes", 1, 16),
            ("single outcomes", "outcomes", 1, 64),
            ("outcomes in lists of 100", "outcomes", 100, 16),
        ):
            title = f"{told}: {what}, {many} connections"
            found[title] = Order(kind, name, size, many, seconds=sizes.seconds)
    return found


Samples = dict[str, list[Round]]


def ratios(samples: Samples, orders: dict[str, Order]) -> Iterator[Ratio]:
    """The figures of the design; each is the median over the rounds of the ratio within one."""
    rates = {_key(orders[name]): _rates(rounds) for name, rounds in samples.items()}
    for campaigns, told in ((ONE, "one campaign"), (MANY, "many campaigns")):
        for many in (16, 64):
            value = _over(rates["decisions", campaigns, 1, many], rates["empty", ONE, 0, many])
            yield Ratio(f"single decisions over empty, {told}, {many} connections", value, 0.5)
        single = max((rates["decisions", campaigns, 1, many] for many in (16, 64)), key=median)
        batch = [100 * rate for rate in rates["decisions", campaigns, 100, 16]]
        told = f"decisions in lists of 100 over single ones, {told}"
        yield Ratio(told, _over(batch, single), 20.0)


def _key(order: Order) -> tuple[str, str, int, int]:
    return order.kind, order.campaigns, order.size, order.connections


def _rates(rounds: list[Round]) -> list[float]:
    return [one.requests / one.seconds for one in rounds]


def _over(above: list[float], below: list[float]) -> float:
    return median(a / b for a, b in zip(above, below, strict=True))


def show(
    samples: Samples, orders: dict[str, Order], sizes: Sizes, sync: float, out: Console
) -> None:
    """Print the rates, and the ratios with their verdicts."""
    table = Table(
        title=f"bccb serve under load, {os.cpu_count()} CPUs",
        caption=f"Medians of {sizes.rounds} alternating rounds of {sizes.seconds:g} s; every "
        f"request durable, ids new. To write 4 KB and sync takes {sync * 1e3:.2f} ms here. "
        "Generator: its share of one CPU; well under 100 % it was not the limit.",
    )
    table.add_column("what")
    for column in ("requests/s", "items/s", "p50 ms", "p99 ms", "generator"):
        table.add_column(column, justify="right")
    for name, rounds in samples.items():
        table.add_row(name, *_cells(rounds, orders[name].size))
    out.print(table)
    verdicts = Table()
    for column in ("ratio", "figure", "target", ""):
        verdicts.add_column(column)
    for ratio in ratios(samples, orders):
        verdict = "reached" if ratio.reached else "missed"
        verdicts.add_row(ratio.what, f"{ratio.value:.2f}", f"at least {ratio.target:g}", verdict)
    out.print(verdicts)


def _cells(rounds: list[Round], size: int) -> Iterator[str]:
    def middle(figure: Callable[[Round], float]) -> float:
        return median(figure(one) for one in rounds)

    rate = median(_rates(rounds))
    yield f"{rate:,.0f}"
    yield f"{rate * size:,.0f}" if size else ""
    yield f"{middle(lambda one: one.p50) * 1e3:.2f}"
    yield f"{middle(lambda one: one.p99) * 1e3:.2f}"
    yield f"{middle(lambda one: one.busy):.0%}"


def show_recovery(found: Recovery, out: Console) -> None:
    """Print how long it took to be ready again."""
    table = Table(title=f"after SIGKILL, with {found.events:,} events ({found.megabytes:,.0f} MB)")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    table.add_row("ready with a new ledger", f"{found.empty:.2f}")
    table.add_row("ready again after the kill", f"{found.killed:.2f}")
    check = found.told if found.check is None else f"{found.check:.2f}"
    table.add_row("bccb ledger verify: the whole journal folded", check)
    out.print(table)


def to_json(
    samples: Samples, orders: dict[str, Order], sizes: Sizes, sync: float, found: Recovery
) -> Any:
    """Everything that was measured, in seconds, and on what."""
    return {
        "rounds": {name: [asdict(one) for one in rounds] for name, rounds in samples.items()},
        "ratios": [{**asdict(one), "reached": one.reached} for one in ratios(samples, orders)],
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
