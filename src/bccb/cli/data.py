"""``bccb data describe``: what a log looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from bccb.cli.columns import leak_note, outcome_note, takes_columns
from bccb.cli.console import SETTINGS, out
from bccb.data import Columns, Description, describe_file
from bccb.intervals import Interval

app = typer.Typer(help="Look at the logs of trials.", **SETTINGS)


@app.callback()
def group() -> None:
    """Look at the logs of trials."""


@app.command("describe")
@takes_columns
def describe(
    file: Annotated[
        Path, typer.Argument(help="Log of a trial: .csv, .csv.gz, .ndjson or .parquet.")
    ],
    columns: Columns | None = None,
) -> None:
    """Print arms, rates, missing values and balance, and say whether the log looks randomised.

    **Example**

    `bccb data describe hillstrom.csv.gz --preset hillstrom`
    """
    _print_description(describe_file(file, columns))


def _print_description(found: Description) -> None:
    table = Table(title=f"{found.users:,} users", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in ("arm", "users", "share", "rate, 95 % interval", "effect, 95 % interval"):
        table.add_column(heading, justify="left" if heading == "arm" else "right", no_wrap=True)
    for arm in found.arms:
        table.add_row(
            arm.name,
            f"{arm.users:,}",
            f"{arm.share:.4f}",
            _percent(arm.rate, ""),
            "" if arm.effect is None else _percent(arm.effect, "+"),
        )
    out.print(table)
    balance = Table(
        title="\nstandardised differences",
        box=box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )
    balance.add_column("feature")
    for treatment in found.balance.differences:
        balance.add_column(treatment, justify="right")
    for feature in next(iter(found.balance.differences.values())):
        values = [by_name[feature] for by_name in found.balance.differences.values()]
        balance.add_row(feature, *(f"{value:+.3f}" for value in values))
    out.print(balance)
    missing = {name: count for name, count in found.missing.items() if count}
    listed = ", ".join(f"{name} {count:,}" for name, count in missing.items())
    if missing:
        out.print(f"\nmissing values: {listed}; {found.incomplete:,} rows left out above")
    else:
        out.print("\nmissing values: none")
    if found.outcome_values:
        out.print(outcome_note(found.outcome_values))
    colour = "green" if found.balance.looks_randomised else "red"
    out.print(found.balance.verdict, highlight=False, style=colour)
    for leak in found.leaks:
        out.print(leak_note(leak), highlight=False, style="yellow")


def _percent(estimate: Interval, sign: str) -> str:
    ends = f"[{100 * estimate.low:{sign}.3f}, {100 * estimate.high:{sign}.3f}]"
    return f"{100 * estimate.value:{sign}.3f} % {ends}"
