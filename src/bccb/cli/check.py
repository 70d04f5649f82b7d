"""``bccb check``: a first look at any file, and the command to run next."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from bccb.cli.columns import FLAGS, OPTIONS, takes_columns
from bccb.cli.compare import USERS
from bccb.cli.console import out, write_json
from bccb.cli.options import FORMATS, JsonFile
from bccb.data import Check, Columns, check
from bccb.errors import InputError


@takes_columns
def command(
    file: Annotated[Path, typer.Argument(help=f"Any table: {FORMATS}.")],
    columns: Columns | None = None,
    json_file: JsonFile = None,
) -> None:
    """Look at a file: which column plays which part, what is wrong, and what to run next.

    It finds the arm, the control, the outcome, costs and features, and what must not be a feature:
    ids, columns measured after the treatment, and columns that tell the outcome. What it cannot
    tell it asks for: give the option that it names, and it takes that as it is. The exit status is
    0 if it can print the next command, and 2 if not.

    **Examples**

    `bccb check export.csv`

    `bccb check export.csv --treatment variant --control A`
    """
    checked = check(file, columns)
    _check_names(checked)
    following = next_command(file, checked, columns)
    write_json(json_file, {**asdict(checked), "command": following})
    _print(checked)
    _print_next(checked, following)
    if following is None:
        raise typer.Exit(2)


def _check_names(checked: Check) -> None:
    """Refuse a name that no list of names on the command line can hold."""
    for role in checked.roles:
        if "," in role.column or role.column != role.column.strip():
            allowed = "without commas, and without blanks at its ends: rename it"
            raise InputError("the name of a column", role.column, allowed)


def next_command(file: Path, checked: Check, given: Columns | None) -> str | None:
    """What to run next, as it is typed into a shell; None where something is open."""
    if checked.columns is None:
        return None
    named = checked.columns
    if checked.described:  # only what the file does not say
        named = replace(given or Columns(), closed=named.closed)
    options = options_of(named)
    if checked.columns.probability is not None:
        return shlex.join(["bccb", "evaluate", str(file), *options])
    users = ["--users", str(_stream(checked.users))]
    return shlex.join(["bccb", "compare", "--data", str(file), *options, *users])


def _stream(rows: int) -> int:
    """Half of the rows, a round number of them: the others are history for those that learn it.

    >>> _stream(42_613), _stream(64_000), _stream(5), _stream(1_000_000)
    (21000, 32000, 2, 100000)
    """
    half = max(min(rows // 2, USERS), 1)
    unit: int = 10 ** max(len(str(half)) - 2, 0)
    return half // unit * unit


def options_of(columns: Columns) -> list[str]:
    """The options that name these columns.

    >>> shlex.join(options_of(Columns("arm", "no mail", "sale", cost=(0.5, 1.2), impute=True)))
    "--treatment arm --control 'no mail' --outcome sale --cost 0.5,1.2 --impute"
    """
    words: list[str] = []
    for name, (option, *_) in OPTIONS.items():
        value = getattr(columns, name, None)
        if value and name != "cost":
            words += [option, ",".join(value) if isinstance(value, tuple) else value]
        elif value and not callable(value):
            words += [option, _cost_text(value)]
    return words + [option for name, (option, _) in FLAGS.items() if getattr(columns, name)]


def _cost_text(cost: Any) -> str:
    each = cost if isinstance(cost, tuple) else (cost,)
    return ",".join(one if isinstance(one, str) else f"{one:.15g}" for one in each)


def _print(checked: Check) -> None:
    part = (
        "" if checked.looked_at == checked.rows else f", of which {checked.looked_at:,} looked at"
    )
    title = f"{checked.name}: {checked.rows:,} rows{part}, {len(checked.roles)} columns"
    shown = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for heading in ("column", "part", "how sure"):
        shown.add_column(heading, no_wrap=True)
    shown.add_column("why", overflow="fold")
    for role in checked.roles:
        shown.add_row(role.column, role.part, role.confidence, role.reason)
    out.print(shown)
    out.print()
    if checked.control is not None:
        out.print(f"control: {checked.control} ({checked.control_reason})", highlight=False)
    if checked.cost is not None:
        cost = _cost_text(checked.cost)
        out.print(f"cost: {cost} ({checked.cost_reason})", highlight=False)
    for problem in checked.problems:
        style = "red" if problem.blocks else "yellow"
        mark = "to mend: " if problem.blocks else "- "
        out.print(f"{mark}{problem.text}", style=style, highlight=False)


def _print_next(checked: Check, following: str | None) -> None:
    for question in checked.questions:
        listed = ", ".join(question.candidates)
        out.print(
            f"cannot tell: {question.text}. Run it again with {question.option}"
            f"{f', one of: {listed}' if listed else ''}.",
            style="red",
            highlight=False,
        )
    if following is not None:
        out.print("\nnext:")
        out.print(following, style="bold", highlight=False, soft_wrap=True)
