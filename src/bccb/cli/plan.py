"""``bccb plan``: what a campaign may cause, and how well that will be known."""

from __future__ import annotations

from typing import Annotated

import typer

from bccb.charge import TREATMENT
from bccb.cli.columns import read_with_notes, takes_columns
from bccb.cli.console import out, progress_bar, table, write_json
from bccb.cli.options import (
    CORES,
    Charge,
    CostCap,
    DataFile,
    Jobs,
    JsonFile,
    Seeds,
    Share,
    parse_seeds,
)
from bccb.data import Columns
from bccb.errors import InputError
from bccb.evaluate.assumptions import Target
from bccb.evaluate.planning import plan
from bccb.report.planned import outlook_rows, plan_lines, plan_remarks


@takes_columns
def command(
    budget: Annotated[float, typer.Option("--budget", help="Money you have.")] = ...,  # type: ignore[assignment]
    users: Annotated[int, typer.Option("--users", help="Users you expect.")] = ...,  # type: ignore[assignment]
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Share of users who convert without treatment, such as 0.05."),
    ] = None,
    effect: Annotated[
        float | None,
        typer.Option("--effect", help="What treating everybody would add to it, such as 0.01."),
    ] = None,
    amount: Annotated[
        float | None,
        typer.Option(
            "--amount",
            metavar="MONEY",
            help="What a conversion brings on average, to plan in money without a trial.",
        ),
    ] = None,
    data: DataFile = None,
    columns: Columns | None = None,
    charge: Charge = TREATMENT,
    cost_cap: CostCap = None,
    share: Share = None,
    largest: Annotated[
        float | None,
        typer.Option(
            "--largest",
            metavar="MONEY",
            help="The largest amount that counts in what is measured. [default: what 99 % of "
            "conversions stay below]",
        ),
    ] = None,
    seeds: Seeds = "42:50",
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
) -> None:
    """Say what a campaign may be expected to cause, before it begins.

    Campaigns of the default policy are simulated to their end, with several shares of decisions
    made at random (reserve). For each, the table shows what is caused, how wide the model's
    interval is, and how wide the interval that trusts no model. Without --rate and --effect, or a
    trial, users are like those of the Criteo trial. Where the outcome of the trial is an amount of
    money, or --amount says what a conversion brings, the figures are the value that is caused and
    the return on spend. Without --data, --cost 10 is the cost of treating any user.

    **Examples**

    `bccb plan --budget 5000 --users 100000`

    `bccb plan --budget 1000 --users 20000 --rate 0.05 --effect 0.01`

    `bccb plan --budget 200 --users 20000 --rate 0.05 --effect 0.01 --charge conversion
    --cost-cap 12.5`

    `bccb plan --budget 1000 --users 20000 --rate 0.05 --effect 0.01 --amount 60 --cost 10
    --charge conversion --share 0.2`

    `bccb plan --budget 1000 --users 20000 --data trial.csv --treatment arm --control none
    --outcome sale --cost 0.5`
    """
    if (rate is None) != (effect is None):
        raise InputError("--rate and --effect", (rate, effect), "given together, or neither")
    target = None if rate is None or effect is None else Target(rate, effect)
    cost = _cost(columns) if data is None else None
    trial = None if data is None else read_with_notes(data, columns)
    chosen = parse_seeds(seeds)
    with progress_bar("simulating") as show:
        made = plan(
            *(budget, users, target, trial),
            amount=amount,
            cost=cost,
            charge=charge,
            cost_cap=cost_cap,
            share=share,
            largest=largest,
            seeds=chosen,
            jobs=jobs,
            progress=show,
        )
    write_json(json_file, made.figures())
    for line in plan_lines(made):
        out.print(line, style="bold", highlight=False)
    out.print()
    out.print(table(outlook_rows(made)))
    for remark in plan_remarks(made):
        out.print(remark, style="dim", highlight=False)


def _cost(columns: Columns | None) -> float | None:
    """What treating a simulated user costs; other options name columns, which need a file."""
    if columns is None:
        return None
    if not isinstance(columns.cost, float):
        raise InputError("--data", None, "given, because options name columns of a file")
    if columns != Columns(cost=columns.cost):
        allowed = "given, because options other than --cost name columns of a file"
        raise InputError("--data", None, allowed)
    return columns.cost
