"""``bccb paper``: the paper's experiments, on its data or on others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bccb.cli.columns import takes_columns
from bccb.cli.console import progress_bar
from bccb.cli.options import CORES, SEEDS, DataFile, Jobs, ResultsFolder, Seeds, parse_seeds
from bccb.cli.studies import show_report
from bccb.data import Columns
from bccb.evaluate.parallel import Engine
from bccb.experiments import run_paper
from bccb.experiments.paper_study import PAPER

QUICK_SEEDS = 3


@takes_columns
def command(
    data: DataFile = None,
    columns: Columns | None = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help=f"One of {', '.join(PAPER.names)}; may be repeated."),
    ] = None,
    seeds: Seeds = SEEDS,
    jobs: Jobs = CORES,
    engine: Annotated[Engine, typer.Option("--engine", help="Where the runs are made.")] = "local",
    folder: ResultsFolder = Path("paper"),
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
    chosen = parse_seeds(seeds)[: QUICK_SEEDS if quick else None]
    with progress_bar("running") as show:
        report = run_paper(
            data,
            columns=columns,
            only=only,
            seeds=chosen,
            jobs=jobs,
            engine=engine,
            folder=folder,
            progress=show,
        )
    show_report(report, folder)
