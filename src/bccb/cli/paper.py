"""``bccb paper``: the paper's experiments, on its data or on others."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from bccb.cli.columns import PresetOption, takes_columns
from bccb.cli.compare import parse_seeds, progress_bar
from bccb.cli.console import notes, out
from bccb.data import Columns, read_log
from bccb.errors import InputError
from bccb.evaluate.statistics import crossover
from bccb.evaluate.trials import FileTrials, SimulatedTrials, Trial
from bccb.experiments.claims import claims
from bccb.experiments.paper import EXPERIMENTS, OFFLINE, Setup, at
from bccb.experiments.plan import Run, file_digest, world_of
from bccb.experiments.runner import Engine, execute
from bccb.experiments.store import Store
from bccb.experiments.tables import TABLES
from bccb.files import written_whole
from bccb.report import markdown
from bccb.report.paper import draw, page

QUICK_SEEDS = 3


@takes_columns
def command(
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Log of a trial: .csv, .csv.gz, .ndjson or .parquet."),
    ] = None,
    preset_name: PresetOption = None,
    columns: Columns | None = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help=f"One of {', '.join(EXPERIMENTS)}; may be repeated."),
    ] = None,
    seeds: Annotated[str, typer.Option("--seeds", help="First:last+1, or a list.")] = "42:62",
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Processes; default all cores.")
    ] = None,
    engine: Annotated[Engine, typer.Option("--engine", help="Where the runs are made.")] = "local",
    folder: Annotated[Path, typer.Option("--out", help="Folder for results.")] = Path("paper"),
    quick: Annotated[
        bool, typer.Option("--quick", help=f"{QUICK_SEEDS} seeds alone, to try it out.")
    ] = False,
) -> None:
    """Run the paper's experiments and print its tables; what is stored is not run again.

    **Examples**

    `bccb paper --quick`

    `bccb paper --data criteo.parquet --preset criteo --out results`

    `bccb paper --only crossover --jobs 2`
    """
    names = only or list(EXPERIMENTS)
    for name in names:
        if name not in EXPERIMENTS:
            raise InputError("--only", name, f"one of {', '.join(EXPERIMENTS)}")
    if jobs is not None and jobs < 1:
        raise InputError("--jobs", jobs, "1 or above")
    chosen = parse_seeds(seeds)
    if len(chosen) < 2:
        raise InputError("--seeds", seeds, "at least 2, to be compared in pairs")
    setup = _setup(data, columns, preset_name, tuple(chosen[:QUICK_SEEDS] if quick else chosen))
    trials, world = _trials(data, columns, setup)
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(folder / "runs.jsonl")
    _run(names, setup, trials, world, store, jobs or os.cpu_count() or 1, engine)
    find = _finder(store, world)
    tables = {name: TABLES[name](setup, find) for name in names}
    for name, rows in tables.items():
        _write(folder, name, rows, [find(run) for run in EXPERIMENTS[name](setup)])
        out.print(_table(name, rows))
    judged = claims(setup, tables, _crossover(setup, find) if "crossover" in tables else None)
    if judged:
        out.print(_table("the paper's claims", [asdict(claim) for claim in judged]))
    told = {
        "data": "simulated users" if data is None else data.name,
        "users": setup.users,
        "seeds": list(setup.seeds),
        "differences": _differences(data, columns, preset_name),
        "claims": [asdict(claim) for claim in judged],
        "tables": tables,
    }
    _write_text(folder / "paper.json", json.dumps(told, indent=1) + "\n")
    _write_text(folder / "paper.md", markdown.render(told))
    shown = [at(setup, name, setup.middle, setup.seeds[0]) for name in setup.policies]
    paths = [find(run) for run in shown] if {"online", "diagnostics"} & set(names) else []
    as_published = preset_name == "criteo" or data is None
    drawn = draw(tables, paths)
    for name, figure in drawn.items():
        _write_text(folder / f"{name}.svg", figure + "\n")
    _write_text(folder / "report.html", page(told, drawn, as_published=as_published))
    notes.print(f"wrote {folder / 'report.html'} and the tables and runs beside it")


def _setup(
    data: Path | None, columns: Columns | None, preset_name: str | None, seeds: tuple[int, ...]
) -> Setup:
    """The paper's sizes on its own trial and on simulated users; scaled on any other."""
    setup = Setup(seeds=seeds)
    if data is not None:
        rows = read_log(data, columns).users
        if preset_name != "criteo":
            return Setup.scaled(rows, seeds)
        setup.check(rows)
    return setup


def _differences(data: Path | None, columns: Columns | None, preset_name: str | None) -> list[str]:
    """What a reader must know who compares these figures with the paper's."""
    if data is None:
        return ["The users are simulated, like those of the Criteo trial but not they themselves."]
    if preset_name != "criteo":
        return ["This is another trial than the paper's, with budgets in proportion to its users."]
    rows = read_log(data, columns).users
    return [
        f"Differences from the paper's set-up: {rows:,} rows of the trial instead of 1,397,959; "
        "costs and streams drawn with our own seeds; features standardised by the users seen so "
        "far; open points read as docs/decisions says."
    ]


def _crossover(setup: Setup, find: Callable[[Run], dict[str, Any]]) -> int | None:
    offline: dict[int, list[float]] = {n: [] for n in setup.sizes}
    ours: list[float] = []
    for run in EXPERIMENTS["crossover"](setup):
        found = find(run)["conversions"]
        (offline[run.history] if run.policy == OFFLINE else ours).append(found)
    return crossover(offline, ours)


def _trials(
    data: Path | None, columns: Columns | None, setup: Setup
) -> tuple[Callable[[int], Trial], str]:
    """What each seed runs on, and the world that its results hold in."""
    largest = max(setup.sizes)
    if data is None:
        if columns is not None:
            raise InputError("--data", None, "given, because options name columns of a file")
        simulated = SimulatedTrials(setup.users, largest)
        return simulated, world_of(simulated)
    trials = FileTrials(str(data.resolve()), columns, setup.users, largest)
    return trials, world_of((file_digest(data), replace(trials, path="")))


def _run(
    names: list[str],
    setup: Setup,
    trials: Callable[[int], Trial],
    world: str,
    store: Store,
    jobs: int,
    engine: Engine,
) -> None:
    runs = dict.fromkeys(run for name in names for run in EXPERIMENTS[name](setup))
    with progress_bar() as bar:
        stored = sum(store.get(run.key(world)) is not None for run in runs)
        task = bar.add_task("running (compiling first)", total=len(runs), completed=stored)
        for made in execute(runs, trials, world, store, jobs, engine):
            bar.update(task, advance=made, description="running")


def _finder(store: Store, world: str) -> Callable[[Run], dict[str, Any]]:
    def find(run: Run) -> dict[str, Any]:
        found = store.get(run.key(world))
        assert found is not None, run
        return found

    return find


def _write(folder: Path, name: str, rows: list[dict[str, Any]], runs: list[dict[str, Any]]) -> None:
    """The table and every single run behind it, as CSV and JSON."""
    plain = [{key: value for key, value in run.items() if key != "trajectory"} for run in runs]
    for stem, content in ((f"{name}-table", rows), (f"{name}-runs", plain)):
        _write_text(folder / f"{stem}.json", json.dumps(content, indent=1) + "\n")
        text = io.StringIO()
        headings = list(dict.fromkeys(key for row in content for key in row))
        writer = csv.DictWriter(text, headings, lineterminator="\n")
        writer.writeheader()
        writer.writerows(content)
        _write_text(folder / f"{stem}.csv", text.getvalue())


def _write_text(path: Path, text: str) -> None:
    with written_whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"\n{name}", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    headings, lines = markdown.cells(rows)
    for heading in headings:
        table.add_column(heading, justify="right")
    for line in lines:
        table.add_row(*line)
    return table
