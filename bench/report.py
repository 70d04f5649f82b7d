"""From samples to a table of figures, targets and verdicts."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.sizes import Sizes

Samples = dict[str, list[float]]
PACKAGES = ("bccb", "numba", "numpy", "vowpalwabbit", "river", "mabwiser", "scikit-learn")
UNITS = {"µs": 1e6, "s": 1.0, "x": 1.0, "MB": 1e-6}


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One figure: in seconds, bytes or times; its target, and whether that is an upper bound."""

    what: str
    value: float | None
    unit: str
    target: float | None = None
    at_most: bool = True
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached, where there are both."""
        if self.value is None or self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    def cells(self) -> tuple[str, str, str, str]:
        """What stands in the table."""
        scale = UNITS[self.unit]
        figure = self.note if self.value is None else f"{_short(self.value * scale)} {self.unit}"
        bound = "at most" if self.at_most else "at least"
        target = "" if self.target is None else f"{bound} {self.target * scale:g} {self.unit}"
        return self.what, figure, target, {True: "yes", False: "no", None: ""}[self.reached]


def _short(value: float) -> str:
    """Three digits, and whole numbers from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def rows_of(samples: Samples, missing: dict[str, str], sizes: Sizes) -> list[ReportRow]:
    """The figures of the design, and what stands beside them."""
    return [
        *_replays(samples, missing),
        *_growth(samples, sizes),
        *_rounds(samples, missing),
        *_processes(samples),
    ]


def _replays(samples: Samples, missing: dict[str, str]) -> Iterator[ReportRow]:
    own = min(samples["replay: bccb"])
    yield ReportRow("replay of bccb, a user", own, "µs", 0.2e-6)
    yield ReportRow("  rows in random order", min(samples["replay: bccb, shuffled"]), "µs")
    for name, peer, times in (
        ("replay: vowpalwabbit", "VW's Python loop", 100),
        ("replay: scikit-learn", "scikit-learn's partial_fit loop", 500),
    ):
        yield from _against(samples, missing, name, peer, own, times)
    yield ReportRow(
        "replay of pooled-bayes, a user", min(samples["replay: pooled-bayes"]), "µs", 0.6e-6
    )


def _growth(samples: Samples, sizes: Sizes) -> Iterator[ReportRow]:
    for note, order in (("", ""), (", random order", " and shuffled")):
        small = samples[f"replay: bccb{', shuffled' if note else ''}"]
        times = sizes.growth * min(samples[f"replay: bccb, grown{order}"]) / min(small)
        target = None if note else 1.1 * sizes.growth
        what = f"time for {sizes.users * sizes.growth:,} users over {sizes.users:,}{note}"
        yield ReportRow(what, times, "x", target)
    data = samples["memory: data"][0]
    yield ReportRow(f"size of {sizes.users * sizes.growth:,} users", data, "MB")
    yield ReportRow("  memory to replay them", samples["memory: replay"][0] / data, "x", 2.0)
    simulated = samples["memory: simulate and replay"][0] / data
    yield ReportRow("  memory to simulate and replay", simulated, "x")


def _rounds(samples: Samples, missing: dict[str, str]) -> Iterator[ReportRow]:
    own = min(samples["round: bccb"])
    yield ReportRow("one decide + observe", own, "µs", 5e-6)
    yield ReportRow("  of pooled-bayes", min(samples["round: pooled-bayes"]), "µs", 8e-6)
    between = min(samples["round: pooled-trees"])
    yield ReportRow("  of pooled-trees, between fits", between, "µs", 8e-6)
    yield ReportRow("  features from a list", min(samples["round: bccb, from a list"]), "µs")
    for name, peer, times in (
        ("round: vowpalwabbit", "VW's predict + learn", 3),
        ("round: river", "river's LinUCB", None),
        ("round: mabwiser", "MABWiser's LinUCB", None),
    ):
        yield from _against(samples, missing, name, peer, own, times)


def _against(
    samples: Samples,
    missing: dict[str, str],
    name: str,
    peer: str,
    own: float,
    times: float | None,
) -> Iterator[ReportRow]:
    if name in missing:
        yield ReportRow(peer, None, "µs", note=f"not installed: {missing[name]}")
        return
    theirs = min(samples[name])
    yield ReportRow(peer, theirs, "µs")
    yield ReportRow("  over bccb", theirs / own, "x", times, at_most=False)


def _processes(samples: Samples) -> Iterator[ReportRow]:
    yield ReportRow("import bccb", median(samples["import"]), "s", 0.5)
    yield ReportRow("first decision, fresh process", median(samples["first decision"]), "s", 2.0)
    cold = median(samples["first decision, nothing cached"])
    yield ReportRow("  with nothing compiled yet", cold, "s")


def to_json(rows: list[ReportRow], samples: Samples, missing: dict[str, str], sizes: Sizes) -> Any:
    """Everything that was measured, in seconds and bytes, and on what."""
    return {
        "rows": [{**asdict(row), "reached": row.reached} for row in rows],
        "samples": samples,
        "missing": missing,
        "sizes": asdict(sizes),
        "versions": {name: _version(name) for name in PACKAGES},
        "machine": {
            "cpus": os.cpu_count(),
            "architecture": platform.machine(),
            "system": platform.system(),
            "python": platform.python_version(),
        },
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def show(rows: list[ReportRow], sizes: Sizes, console: Console) -> None:
    """Print the table."""
    table = Table(
        title=f"bccb and its peers, {os.cpu_count()} CPUs",
        caption=f"Loops: the best of {sizes.repeats} (scikit-learn's: {sizes.slow_repeats}), "
        f"interleaved; start-up: the median of {sizes.processes} processes. "
        "Users are simulated, 12 features, $0.05 each.",
    )
    table.add_column("what")
    for column in ("figure", "target", "reached"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)
