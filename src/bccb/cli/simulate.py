"""``bccb simulate``: the log of a trial with known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bccb.cli.console import out
from bccb.data import simulate, write_log


def command(
    file: Annotated[Path, typer.Argument(metavar="OUT.parquet", help="File to write.")],
    users: Annotated[int, typer.Option("--users", help="Rows to draw.")] = 200_000,
    seed: Annotated[int, typer.Option("--seed", help="Other seeds draw other users.")] = 0,
    outcome: Annotated[str, typer.Option("--outcome", help="conversion or visit.")] = "conversion",
    treatments: Annotated[int, typer.Option("--treatments", help="Number of treatments.")] = 1,
) -> None:
    """Draw the log of a trial whose true effects are known, like the Criteo trial.

    **Example**

    `bccb simulate trial.parquet --users 50000` and then `bccb compare --data trial.parquet`
    """
    log = simulate(users, seed=seed, outcome=outcome, treatments=treatments)  # type: ignore[arg-type]
    write_log(log, file)
    out.print(f"wrote {users:,} users to {file}")
