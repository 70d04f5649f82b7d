"""``bccb simulate``: the log of a trial with known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bccb.cli.console import notes, out
from bccb.data import simulate, write_log
from bccb.data.schema import Columns, columns_of
from bccb.data.world import trial_with_amounts
from bccb.errors import InputError


def command(
    file: Annotated[Path, typer.Argument(metavar="OUT", help="File to write: .parquet or .csv.")],
    users: Annotated[int, typer.Option("--users", help="Rows to draw.")] = 200_000,
    seed: Annotated[int, typer.Option("--seed", help="Other seeds draw other users.")] = 0,
    outcome: Annotated[str, typer.Option("--outcome", help="conversion or visit.")] = "conversion",
    treatments: Annotated[int, typer.Option("--treatments", help="Number of treatments.")] = 1,
    drift: Annotated[
        bool, typer.Option("--drift", help="Others respond in the second half of the rows.")
    ] = False,
    amounts: Annotated[
        bool,
        typer.Option("--amounts", help="Conversions bring amounts of money: a column 'revenue'."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Draw the log of a trial whose true effects are known, like the Criteo trial.

    **Examples**

    `bccb simulate trial.parquet --users 50000` and then `bccb compare --data trial.parquet`

    `bccb simulate shop.csv --users 50000 --outcome visit --amounts` is a trial in money

    A Parquet file says what its columns mean; for a CSV file the options to read it are printed.

    `bccb compare` streams the rows of a file in random order, which undoes a drift: use its own.
    """
    if file.exists() and not force:
        raise InputError(
            "the file to write", str(file), "a new one, or --force given to replace it"
        )
    log = simulate(users, seed, outcome, treatments, drift)  # type: ignore[arg-type]
    log = trial_with_amounts(log, seed) if amounts else log
    write_log(log, file)
    out.print(f"wrote {users:,} users to {file}")
    if file.suffix.lower() == ".csv":
        notes.print(f"read it with {_options(columns_of(log))}", soft_wrap=True)


def _options(columns: Columns) -> str:
    """The options that name these columns of a file that cannot name them itself."""
    return (
        f"--treatment {columns.treatment} --control {columns.control} --outcome {columns.outcome} "
        f"--cost {','.join(columns.cost_columns)} --features {','.join(columns.features)}"
    )
