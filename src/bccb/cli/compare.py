"""``bccb compare``: policies side by side on a log or on simulated users."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from bccb.cli.columns import takes_columns, tell_of
from bccb.cli.console import notes, out
from bccb.data import Columns
from bccb.data.readers import read_finished
from bccb.errors import InputError
from bccb.evaluate.compare import (
    Row,
    Summary,
    compare,
    summarise,
    to_json,
)
from bccb.evaluate.trials import LoggedTrials, SimulatedTrials, Trial
from bccb.files import written_whole
from bccb.money import budget_in_micros
from bccb.policies import POLICIES, spec_of

USERS = 100_000
HISTORY = 50_000
MOST_SEEDS = 10_000


@takes_columns
def command(
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Log of a trial: .csv, .csv.gz, .ndjson or .parquet."),
    ] = None,
    columns: Columns | None = None,
    budget: Annotated[
        list[float] | None,
        typer.Option("--budget", help="Money to spend; may be repeated. [default: 5000]"),
    ] = None,
    users: Annotated[
        int | None, typer.Option("--users", help="Users in the stream. [default: 100000, or all]")
    ] = None,
    history: Annotated[
        int | None,
        typer.Option(
            "--history",
            help="Rows outside the stream, for policies that learn from them. [default: 50000]",
        ),
    ] = None,
    drift: Annotated[
        bool,
        typer.Option("--drift", help="Other simulated users respond from mid-stream on."),
    ] = False,
    seeds: Annotated[str, typer.Option("--seeds", help="First:last+1, or a list.")] = "42:62",
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help="Policy to run; may be repeated. [default: all]"),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Runs at the same time; default all cores.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every run and the summary here.")
    ] = None,
) -> None:
    """Replay policies on a log, or on the built-in simulator, and print one table.

    **Examples**

    `bccb compare`

    `bccb compare --policy bccb --policy cheapest-first --budget 1000 --budget 5000`

    `bccb compare --data criteo.parquet --preset criteo --json out.json`

    `bccb compare --data mine.csv --treatment arm --control none --outcome sale --cost 0.5`
    """
    seed_list, budgets = parse_seeds(seeds), budget or [5_000.0]
    _check(policy or [], budgets, jobs, json_file)
    trials, title, known = _trials(data, columns, users, history, drift)
    names = policy or [name for name, spec in POLICIES.items() if known or not spec.needs_effects]
    found = compare(trials, names, budgets, seed_list, jobs or os.cpu_count() or 1)
    rows = _with_progress(found, len(names) * len(budgets) * len(seed_list))
    rows.sort(key=lambda row: (budgets.index(row.budget), names.index(row.policy), row.seed))
    summary = summarise(rows)
    write_json(json_file, to_json(rows, summary))
    out.print(_table(summary, f"{title}, {_count(len(seed_list), 'seed')}"))
    for line in summary:
        if line.note:
            out.print(f"{line.policy} at {line.budget:,.0f}: {line.note}", style="yellow")


def _trials(
    data: Path | None, columns: Columns | None, users: int | None, history: int | None, drift: bool
) -> tuple[Callable[[int], Trial], str, bool]:
    """What each seed runs on, what to call it, and whether the true effects are known."""
    if data is not None and drift:
        raise InputError("--drift", drift, "used on simulated users, without --data")
    if data is None:
        if columns is not None:
            raise InputError("--data", None, "given, because options name columns of a file")
        stream, kept = USERS if users is None else users, HISTORY if history is None else history
        for field, value, least in (("--users", stream, 1), ("--history", kept, 0)):
            if value < least:
                raise InputError(field, value, f"{least} or above")
        title = f"simulator{' with drift' if drift else ''}: {_count(stream, 'user')}"
        return SimulatedTrials(stream, kept, drift), title, True
    reading = read_finished(data, columns)
    log = reading.log
    stream = min(USERS, log.users) if users is None else users
    if not 1 <= stream <= log.users:
        raise InputError("--users", stream, f"from 1 to {log.users}, the rows of the log")
    left = log.users - stream
    kept = min(HISTORY, left) if history is None else history
    if not 0 <= kept <= left:
        raise InputError(
            "--history", kept, f"from 0 to {left}, the rows outside the stream: lower --users"
        )
    tell_of(reading, columns)
    outcome = f"{columns.outcome}, " if columns is not None else ""
    title = f"{data.name}: {outcome}{_count(stream, 'user')}"
    return LoggedTrials(log, stream, kept), title, log.effects is not None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def _check(
    policies: list[str], budgets: list[float], jobs: int | None, json_file: Path | None
) -> None:
    """Refuse what can be refused before the work, not after it."""
    for name in policies:
        spec_of(name)
    for field, values in (("--policy", policies), ("--budget", budgets)):
        if len(set(values)) < len(values):
            raise InputError(field, values, "named once each")
    for money in budgets:
        budget_in_micros(money, "--budget")
    check_jobs(jobs)
    check_json(json_file)


def check_jobs(jobs: int | None) -> None:
    """Refuse a number of processes that cannot be, before the work."""
    if jobs is not None and jobs < 1:
        raise InputError("--jobs", jobs, "1 or above")


def check_json(path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work."""
    if path is not None:
        folder = path.parent
        if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise InputError("--json", str(path), "a file in a folder that can be written to")


def write_json(path: Path | None, figures: object) -> None:
    """Write figures where they are wanted."""
    if path is not None:
        with written_whole(path) as draft:
            draft.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        notes.print(f"wrote {path}")


def parse_seeds(text: str) -> list[int]:
    """``42:62`` is 42 to 61, as in Python; ``1,5,9`` is these three."""
    allowed = "first:last+1, such as 42:62, or a list, such as 42,43"
    try:
        if ":" in text:
            first, last = (int(part) for part in text.split(":"))
            seeds = list(range(first, min(last, first + MOST_SEEDS + 1)))
        else:
            seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError("--seeds", text, allowed) from None
    if not 1 <= len(seeds) <= MOST_SEEDS or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        allowed += f"; from 1 to {MOST_SEEDS:,} of them, none below 0, none twice"
        raise InputError("--seeds", text, allowed)
    return seeds


def progress_bar() -> Progress:
    """A bar with the time left, on standard error, which vanishes when done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=notes,
        transient=True,
    )


def _with_progress(found: Iterator[Row], total: int) -> list[Row]:
    """Collect the rows under a progress bar; the first run of a policy also compiles it."""
    rows = []
    with progress_bar() as bar:
        task = bar.add_task("replaying (compiling first)", total=total)
        for row in found:
            rows.append(row)
            bar.update(task, advance=1, description=f"replaying {row.policy}")
    return rows


def _table(summary: list[Summary], title: str) -> Table:
    budgets = {line.budget for line in summary}
    if len(budgets) == 1:
        title = f"{title}, budget {summary[0].budget:,.0f}"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    if len(budgets) > 1:
        table.add_column("budget", justify="right", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for heading in ("conversions", "incremental", "spend", "matched", "proposed", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line, after in zip(summary, [*summary[1:], None], strict=True):
        first = [f"{line.budget:,.0f}"] if len(budgets) > 1 else []
        table.add_row(
            *first,
            line.policy,
            _spread(line.conversions, line.conversions_deviation),
            _spread(line.incremental, line.incremental_deviation),
            f"{line.spend:,.0f}",
            f"{line.matched:,.0f}",
            f"{line.proposed:.3f}",
            f"{line.seconds:.3f}",
            end_section=after is not None and after.budget != line.budget,
        )
    return table


def _spread(mean: float, deviation: float | None) -> str:
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:4.1f}"
