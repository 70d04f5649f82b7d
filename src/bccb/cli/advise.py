"""``bccb advise``: which policy to use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from bccb.cli.columns import takes_columns, tell_of
from bccb.cli.compare import check_json, parse_seeds, progress_bar, write_json
from bccb.cli.console import out
from bccb.data import Columns
from bccb.data.readers import read_finished
from bccb.data.simulator import Outcome
from bccb.errors import InputError
from bccb.evaluate.advice import Advice, advise
from bccb.evaluate.rivals import Run, rivals_of
from bccb.report.wording import code, remarks, sentence
from bccb.types import Log


@takes_columns
def command(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="TRIAL",
            help="Log of your own randomised trial: .csv, .csv.gz, .ndjson or .parquet.",
        ),
    ] = None,
    columns: Columns | None = None,
    budget: Annotated[float, typer.Option("--budget", help="Money you have.")] = ...,  # type: ignore[assignment]
    users: Annotated[int, typer.Option("--users", help="Users you expect.")] = ...,  # type: ignore[assignment]
    history: Annotated[
        int | None,
        typer.Option(
            "--history", help="Rows of a trial you have, where you give none. [default: 0]"
        ),
    ] = None,
    visits: Annotated[
        bool,
        typer.Option("--visits", help="Simulated users visit (4-5 %), not convert (0.2-0.3 %)."),
    ] = False,
    seeds: Annotated[str, typer.Option("--seeds", help="First:last+1, or a list.")] = "42:62",
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Seeds at the same time; default all cores.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every figure here.")
    ] = None,
) -> None:
    """Recommend a policy for your budget, your users and the history you have.

    Every policy that you could use is run: on simulated users or, if you give the log of a
    randomised trial, on its users. They are judged by the conversions that they cause.

    **Examples**

    `bccb advise --budget 5000 --users 100000`

    `bccb advise --budget 5000 --users 100000 --history 10000`

    `bccb advise mine.csv --treatment arm --control none --outcome sale --cost 0.5
    --budget 5000 --users 100000`
    """
    chosen = parse_seeds(seeds)
    check_json(json_file)
    past = _history(file, columns, history, visits)
    outcome: Outcome = "visit" if visits else "conversion"
    workers = jobs if jobs is not None else os.cpu_count() or 1
    with progress_bar() as bar:
        rivals = len(rivals_of(1 if isinstance(past, Log) else past))
        task = bar.add_task("running (compiling first)", total=rivals * len(chosen))

        def told(run: Run) -> None:
            bar.update(task, advance=1, description=f"running {run.policy}")

        advice = advise(budget, users, past, outcome=outcome, seeds=chosen, jobs=workers, told=told)
    words = {"sentence": sentence(advice), "code": code(advice)}
    write_json(json_file, {**words, **advice.figures()})
    _print(advice)


def _history(
    file: Path | None, columns: Columns | None, history: int | None, visits: bool
) -> Log | int:
    """The user's trial, or how many rows of one are simulated."""
    if file is None:
        if columns is not None:
            raise InputError("TRIAL", None, "given, because options name columns of a file")
        return history or 0
    if history is not None:
        raise InputError("--history", history, "left out: the rows of the trial are the history")
    if visits:
        raise InputError("--visits", visits, "used on simulated users, without a trial")
    reading = read_finished(file, columns)
    tell_of(reading, columns)
    return reading.log


def _print(advice: Advice) -> None:
    out.print(sentence(advice), style="bold", highlight=False)
    out.print()
    out.print(_table(advice))
    for remark in remarks(advice):
        out.print(remark, style="dim", highlight=False)
    out.print()
    for line in code(advice):
        out.print(line, soft_wrap=True)


def _table(advice: Advice) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("policy", no_wrap=True)
    for heading in ("incremental", f"{advice.recommended} ahead by (95 %)", "spend", "learned"):
        table.add_column(heading, justify="right", no_wrap=True)
    for rival in advice.rivals:
        low, high = rival.interval
        ahead = f"{rival.behind:,.1f} ({low:,.1f} to {high:,.1f})"
        table.add_row(
            rival.policy,
            f"{rival.incremental:,.1f} ± {rival.deviation:5,.1f}",
            "" if rival.policy == advice.recommended else ahead,
            f"{rival.spend:,.0f}",
            f"{rival.learned:,.0f}",
        )
    return table
