"""``bccb evaluate``: what the decisions of a log caused, and what other policies would have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bccb.charge import TREATMENT
from bccb.cli.columns import print_notes, takes_columns
from bccb.cli.console import out, progress_bar, table, write_html, write_json
from bccb.cli.options import FORMATS, Charge, CostCap, HtmlFile, JsonFile, Share, check_policies
from bccb.data import Columns
from bccb.data.readers import read_finished
from bccb.errors import InputError
from bccb.evaluate.charged import payment_for
from bccb.evaluate.evaluation import Evaluation, evaluate_with_others, unsuitable
from bccb.evaluate.overlap import chance_warning
from bccb.money import budget_in_micros
from bccb.outcome import Kind
from bccb.policies import POLICIES, takes
from bccb.report.paying import payment_lines
from bccb.report.result_page import evaluation_page
from bccb.report.results import evaluation_rows, headline_rows
from bccb.report.wording import amounts_lines, caused_lines
from bccb.types import Log

ESTIMATED_CHARGE = (
    "What other policies would be charged is the doubly robust estimate, too, for the users that "
    "can be compared: a log does not say who else would have converted. It may be above the "
    "budget, which live is never exceeded. Intervals of costs allow for it; --all shows its own."
)
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
    charge: Charge = TREATMENT,
    cost_cap: CostCap = None,
    share: Share = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show every estimate, not only the doubly robust one."),
    ] = False,
    json_file: JsonFile = None,
    html_file: HtmlFile = None,
) -> None:
    """Estimate the conversions that the decisions of a log caused, and what each cost.

    The log has a row for each decision in the order they were made: features, what was done, its
    probability, what it cost, and the outcome. Without a column of probabilities it is taken for a
    randomised trial. Other policies are driven over the log with the same money; they learn where
    the log did what they propose. Every figure has a 95 % interval; where too few users were left
    to chance there is a reason instead. While a cost cap holds money back, hardly any user is: such
    a log tells what its own treatments caused, but hardly what other policies would have.

    With --charge conversion the log, too, paid only for treated users who converted. What another
    policy would be charged is then estimated, with an interval, as what it causes is. Where the
    outcome is an amount of money, figures are in currency: the value that was caused, and the
    return on what was spent. --share charges a share of each amount on conversion.

    **Examples**

    `bccb evaluate decisions.parquet`

    `bccb evaluate mine.csv --treatment arm --control none --outcome sale --cost price
    --probability p --policy bccb --policy cheapest-first --budget 1000`

    `bccb evaluate coupons.parquet --charge conversion --cost-cap 12.5`

    `bccb evaluate trial.csv --treatment coupon --control none --outcome revenue --cost 2,4
    --charge conversion --share 0.2`
    """
    check_policies(policy or [])
    if budget is not None:
        budget_in_micros(budget, "--budget")
    if not 0 <= seed <= MOST_SEED:
        raise InputError("--seed", seed, f"from 0 to {MOST_SEED}")
    reading = read_finished(file, columns)
    log = reading.log
    print_notes(reading, columns)
    asked = policy or list(POLICIES)
    names = [name for name in asked if not unsuitable(name) and takes(name, log.kind)]
    payment = payment_for(log, charge, cost_cap, share)
    with progress_bar("evaluating") as show:
        evaluations = evaluate_with_others(
            *(log, names, budget, seed), progress=show, **payment._asdict()
        )
    write_json(json_file, [one.figures() for one in evaluations])
    title = f"{file.name}: {log.users:,} users"
    if everything:
        rows, groups = evaluation_rows(evaluations)
        out.print(table(rows, title, groups))
    else:
        out.print(table(headline_rows(evaluations), title))
    with out.remembering() as said:
        _print_meaning(evaluations[0], everything)
        money = evaluations[0].spend if budget is None else budget
        spent = [(one.policy, money, one.spend) for one in evaluations[1:] if not one.withheld]
        blind = amounts_lines(log.kind, [name for name in asked if not unsuitable(name)])[1:]
        for line in (*payment_lines(payment, spent, log.kind), *blind):
            out.print(line, highlight=False)
        if payment.on_conversion:
            out.print(ESTIMATED_CHARGE, highlight=False)
        _print_notes(log, evaluations, [unsuitable(name) for name in asked])
    write_html(html_file, lambda: evaluation_page(title, log, evaluations, said, payment.charge))


def _print_meaning(own: Evaluation, everything: bool) -> None:
    """What the figures are, and what the log's treatments caused by other roads, where all is
    asked for or there is nothing else.
    """
    if own.kind == Kind.AMOUNT:
        out.print(
            f"The {own.treated:,} treated users brought {own.conversions:,.2f}; caused value is "
            "what of it the treatments caused, and return is the return on spend, that value for "
            "each unit of money."
        )
    else:
        out.print(
            f"{own.conversions:,.0f} of the {own.treated:,} treated users converted; incremental "
            "are those conversions that the treatments caused, and cost of each is the spend for "
            "one."
        )
    if everything:
        out.print(
            "Go by DR: as unbiased as IPW, and narrowed by a model of who converts anyway. ESS "
            "(effective sample size): how many users with equal chances would tell as much. "
            "learned: users a policy could learn from, for whom the log did what it proposed."
        )
    else:
        out.print(
            "The estimate is the doubly robust one (DR): unbiased if the probabilities are right, "
            "and narrowed by a model of who converts anyway. --all shows the others."
        )
    if own.caused is not None and (everything or own.withheld):
        for line in caused_lines(own.caused, own.kind):
            out.print(line, highlight=False)


def _print_notes(log: Log, evaluations: list[Evaluation], left_out: list[str]) -> None:
    if log.probabilities is None:
        shares = ", ".join(f"{share:.3f}" for share in log.shares.tolist())
        out.print(
            "The log has no probabilities, so it is taken for a randomised trial in which every "
            f"user had the same: {shares} (control first).",
            style="yellow",
        )
    for said in chance_warning(log):
        out.print(said, style="yellow")
    for one in evaluations:
        # where the estimates are withheld, it does not matter what else is wrong with them
        for said in (one.withheld,) if one.withheld else one.warnings:
            out.print(f"{one.policy}: {said}", style="yellow")
    for said in filter(None, left_out):
        out.print(said, style="dim")
