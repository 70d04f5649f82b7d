"""``bccb advise``: which policy to use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bccb.charge import TREATMENT
from bccb.cli.columns import read_with_notes, takes_columns
from bccb.cli.console import out, progress_bar, table, write_html, write_json
from bccb.cli.options import (
    CORES,
    FORMATS,
    SEEDS,
    Charge,
    CostCap,
    HtmlFile,
    Jobs,
    JsonFile,
    Seeds,
    Share,
    parse_seeds,
)
from bccb.data import Columns
from bccb.data.simulator import Outcome
from bccb.errors import InputError
from bccb.evaluate.advice import Advice, advise
from bccb.report.result_page import advice_page
from bccb.report.results import rival_rows
from bccb.report.wording import code, remarks, sentence, worth_lines
from bccb.types import Log


@takes_columns
def command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="TRIAL", help=f"Log of your own randomised trial: {FORMATS}."),
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
    charge: Charge = TREATMENT,
    cost_cap: CostCap = None,
    share: Share = None,
    seeds: Seeds = SEEDS,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
    html_file: HtmlFile = None,
) -> None:
    """Recommend a policy for your budget, your users and the history you have.

    Every policy that you could use is run: on simulated users or, if you give the log of a
    randomised trial, on its users. They are judged by the conversions that they cause. It also
    says whether learning effects pays: against cheapest-first, which looks at the cost alone, and
    response-first, which ranks by the predicted response per cost. Where the outcome of the trial
    is an amount of money, they are judged by the value that they cause.

    **Examples**

    `bccb advise --budget 5000 --users 100000`

    `bccb advise --budget 5000 --users 100000 --history 10000`

    `bccb advise --budget 100 --users 100000 --charge conversion --cost-cap 10`

    `bccb advise mine.csv --treatment arm --control none --outcome sale --cost 0.5
    --budget 5000 --users 100000`
    """
    chosen = parse_seeds(seeds)
    past = _history(file, columns, history, visits)
    outcome: Outcome = "visit" if visits else "conversion"
    with progress_bar("running") as show:
        advice = advise(
            *(budget, users, past),
            outcome=outcome,
            charge=charge,
            cost_cap=cost_cap,
            share=share,
            seeds=chosen,
            jobs=jobs,
            progress=show,
        )
    words = {"sentence": sentence(advice), "effects": worth_lines(advice), "code": code(advice)}
    write_json(json_file, {**words, **advice.figures()})
    with out.remembering() as said:
        _print(advice)
    for line in code(advice):
        out.print(line, soft_wrap=True)
    write_html(html_file, lambda: advice_page(advice, past, said))


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
    return read_with_notes(file, columns)


def _print(advice: Advice) -> None:
    out.print(sentence(advice), style="bold", highlight=False)
    for line in worth_lines(advice):
        out.print(line, highlight=False)
    out.print()
    out.print(table(rival_rows(advice)))
    for remark in remarks(advice):
        out.print(remark, style="dim", highlight=False)
    out.print()
