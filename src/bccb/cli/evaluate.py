"""``bccb evaluate``: what the decisions of a log caused, and what other policies would have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bccb.cli.columns import print_notes, takes_columns
from bccb.cli.console import out, progress_bar, table, write_json
from bccb.cli.options import FORMATS, JsonFile, check_policies
from bccb.data import Columns
from bccb.data.readers import read_finished
from bccb.errors import InputError
from bccb.evaluate.evaluation import Evaluation, evaluate_with_others, unsuitable
from bccb.money import budget_in_micros
from bccb.policies import POLICIES
from bccb.report.results import evaluation_rows
from bccb.report.wording import caused_lines
from bccb.types import Log

MOST_SEED = 2**32 - 1


@takes_columns
def command(
    file: Annotated[Path, typer.Argument(metavar="LOG", help=f"Log of decisions: {FORMATS}.")],
    columns: Columns | None = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help="Other policy to evaluate; may be repeated. [default: all]"),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option("--budget", help="Money of the other policies. [default: the log's spend]"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the other policies' own draws.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """Estimate the conversions that the decisions of a log caused, and what each cost.

    The log has a row for each decision in the order they were made: features, what was done, its
    probability, what it cost, and the outcome. Without a column of probabilities it is taken for a
    randomised trial. Other policies are driven over the log with the same money; they learn where
    the log did what they propose. Every figure has a 95 % interval.

    **Examples**

    `bccb evaluate decisions.parquet`

    `bccb evaluate mine.csv --treatment arm --control none --outcome sale --cost price
    --probability p --policy bccb --policy cheapest-first --budget 1000`
    """
    check_policies(policy or [])
    if budget is not None:
        budget_in_micros(budget, "--budget")
    if not 0 <= seed <= MOST_SEED:
        raise InputError("--seed", seed, f"from 0 to {MOST_SEED}")
    reading = read_finished(file, columns)
    log = reading.log
    print_notes(reading, columns)
    names = [name for name in policy or POLICIES if not unsuitable(name)]
    with progress_bar("evaluating") as show:
        evaluations = evaluate_with_others(log, names, budget, seed, progress=show)
    write_json(json_file, [one.figures() for one in evaluations])
    rows, groups = evaluation_rows(evaluations)
    out.print(table(rows, f"{file.name}: {log.users:,} users", groups))
    _print_notes(log, evaluations, [unsuitable(name) for name in policy or POLICIES])


def _print_notes(log: Log, evaluations: list[Evaluation], left_out: list[str]) -> None:
    own = evaluations[0]
    out.print(
        f"{own.conversions:,.0f} of the {own.treated:,} treated users converted; incremental are "
        "those conversions that the treatments caused. ESS (effective sample size): how many "
        "users with equal chances would tell as much. learned: users a policy could learn from, "
        "for whom the log did what it proposed."
    )
    if own.caused is not None:
        for line in caused_lines(own.caused):
            out.print(line, highlight=False)
    if log.probabilities is None:
        shares = ", ".join(f"{share:.3f}" for share in log.shares.tolist())
        out.print(
            "The log has no probabilities, so it is taken for a randomised trial in which every "
            f"user had the same: {shares} (control first).",
            style="yellow",
        )
    for one in evaluations:
        for said in one.warnings:
            out.print(f"{one.policy}: {said}", style="yellow")
    for said in filter(None, left_out):
        out.print(said, style="dim")
