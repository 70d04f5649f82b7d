"""``bccb data describe``: what a log looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bccb.cli.columns import leak_note, outcome_note, takes_columns
from bccb.cli.console import SETTINGS, out, table
from bccb.cli.options import FORMATS
from bccb.data import Columns, Description, describe_file
from bccb.report.results import arm_rows, balance_rows

app = typer.Typer(help="Look at the logs of trials.", **SETTINGS)


@app.callback()
def group() -> None:
    """Look at the logs of trials."""


@app.command("describe")
@takes_columns
def describe(
    file: Annotated[Path, typer.Argument(help=f"Log of a trial: {FORMATS}.")],
    columns: Columns | None = None,
) -> None:
    """Print arms, rates, missing values and balance, and say whether the log looks randomised.

    **Example**

    `bccb data describe hillstrom.csv.gz --preset hillstrom`
    """
    _print(describe_file(file, columns))


def _print(description: Description) -> None:
    out.print(table(arm_rows(description), f"{description.users:,} users"))
    if differences := balance_rows(description.balance):
        out.print(table(differences, "\nstandardised differences"))
    missing = {name: count for name, count in description.missing.items() if count}
    listed = ", ".join(f"{name} {count:,}" for name, count in missing.items())
    left_out = f"{listed}; {description.incomplete:,} rows left out above"
    out.print(f"\nmissing values: {left_out if missing else 'none'}")
    for note in description.notes:
        out.print(note, highlight=False, soft_wrap=True)
    if description.outcome_values:
        out.print(outcome_note(description.outcome_values))
    colour = "green" if description.balance.looks_randomised else "red"
    out.print(description.balance.verdict, highlight=False, style=colour)
    for leak in description.leaks:
        out.print(leak_note(leak), highlight=False, style="yellow")
