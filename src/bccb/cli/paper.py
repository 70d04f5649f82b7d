"""``bccb paper``: the paper's experiments, on its data or on others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bccb.cli.columns import PresetOption, takes_columns
from bccb.cli.compare import check_jobs, parse_seeds
from bccb.cli.studies import show, with_progress
from bccb.data import Columns
from bccb.evaluate.parallel import Engine
from bccb.experiments import run_paper
from bccb.experiments.paper_study import PAPER

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
        typer.Option("--only", help=f"One of {', '.join(PAPER.names)}; may be repeated."),
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
    check_jobs(jobs)
    chosen = parse_seeds(seeds)
    report = with_progress(
        lambda progress: run_paper(
            data,
            columns=columns,
            only=only,
            seeds=chosen[:QUICK_SEEDS] if quick else chosen,
            jobs=jobs or os.cpu_count() or 1,
            engine=engine,
            folder=folder,
            progress=progress,
        )
    )
    show(report, folder)
