"""``bccb evaluate``: what the decisions of a log caused, and what other policies would have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from bccb.cli.columns import takes_columns, tell_of
from bccb.cli.compare import check_json, progress_bar, write_json
from bccb.cli.console import out
from bccb.data import Columns
from bccb.data.readers import read_finished
from bccb.errors import InputError
from bccb.evaluate.estimates import Estimate
from bccb.evaluate.evaluation import Evaluation, evaluate_log, evaluate_policies, unsuitable
from bccb.evaluate.outcome_model import outcome_rates
from bccb.money import budget_in_micros
from bccb.policies import POLICIES, spec_of
from bccb.types import Log

MOST_SEED = 2**32 - 1


@takes_columns
def command(
    file: Annotated[
        Path,
        typer.Argument(metavar="LOG", help="Log of decisions: .csv, .csv.gz, .ndjson or .parquet."),
    ],
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
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every figure here.")
    ] = None,
) -> None:
    """Tell the conversions that the decisions of a log caused, and what each of them cost.

    The log has a row for each decision in the order they were made: features, what was done, its
    probability, what it cost, and the outcome. Without a column of probabilities it is taken for a
    randomised trial. Other policies are driven over the log with the same money; they learn where
    the log did what they propose. Every figure has a 95 % interval.

    **Examples**

    `bccb evaluate decisions.parquet`

    `bccb evaluate mine.csv --treatment arm --control none --outcome sale --cost price
    --probability p --policy bccb --policy cheapest-first --budget 1000`
    """
    _check(policy or [], budget, seed, json_file)
    reading = read_finished(file, columns)
    tell_of(reading, columns)
    log = reading.log
    names = [name for name in policy or POLICIES if not unsuitable(name)]
    found = _evaluate(log, names, budget, seed)
    write_json(json_file, [one.figures() for one in found])
    out.print(_table(found, file.name))
    _print_notes(log, found, [unsuitable(name) for name in policy or POLICIES])


def _check(policies: list[str], budget: float | None, seed: int, json_file: Path | None) -> None:
    for name in policies:
        spec_of(name)
    if len(set(policies)) < len(policies):
        raise InputError("--policy", policies, "named once each")
    if budget is not None:
        budget_in_micros(budget, "--budget")
    if not 0 <= seed <= MOST_SEED:
        raise InputError("--seed", seed, f"from 0 to {MOST_SEED}")
    check_json(json_file)


def _evaluate(log: Log, names: list[str], budget: float | None, seed: int) -> list[Evaluation]:
    """The log's own evaluation, then the others', under a progress bar."""
    with progress_bar() as bar:
        task = bar.add_task("fitting the outcome model", total=len(names) + 1)
        rates = outcome_rates(log)
        found = [evaluate_log(log, rates)]
        bar.update(task, advance=1, description="other policies (compiling first)")
        money = found[0].spend if budget is None else budget
        if not money:
            raise InputError("what this log spent", money, "above 0, or --budget given")
        for other in evaluate_policies(log, rates, names, money, seed):
            found.append(other)
            bar.update(task, advance=1, description=other.policy)
    return found


def _table(found: list[Evaluation], name: str) -> Table:
    """A block of three lines for each policy, one for each method."""
    title = f"{name}: {found[0].users:,} users"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("policy, treated, spend", no_wrap=True)
    table.add_column("by", no_wrap=True)
    for heading in ("incremental (95 %)", "cost of each (95 %)"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found:
        learned = "" if one.learned is None else f", learned {_count(one.learned)}"
        about = [one.policy, f" {_count(one.treated)} for {one.spend:,.2f}"]
        about += [f" ESS {_count(one.effective_users)}{learned}"]
        if not one.estimates:
            table.add_row("\n".join(about), "", "not known", "not known")
        for text, line in zip(about, one.estimates, strict=False):
            table.add_row(text, line.method, _incremental(line), _cost(one, line))
        table.add_section()
    return table


def _incremental(line: Estimate) -> str:
    return f"{line.incremental:,.1f} ({line.low:,.1f} to {line.high:,.1f})"


def _cost(found: Evaluation, line: Estimate) -> str:
    each = found.cost_per_incremental(line)
    if each is not None:
        return f"{_money(each.value)} ({_money(each.low)} to {_money(each.high)})"
    least = f", above {_money(found.told_spend / line.high)}" if line.high > 0 else ""
    return f"not known{least}"


def _money(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number < 100_000 else f"{number / 1000:,.0f}k"


def _print_notes(log: Log, found: list[Evaluation], left_out: list[str]) -> None:
    own = found[0]
    out.print(
        f"{own.conversions:,.0f} of the {own.treated:,} treated users converted; incremental are "
        "those conversions that the treatments caused. ESS: how many users drawn at random the "
        "users compared with are worth. learned: users a policy could learn from, for whom the log "
        "did what it proposed."
    )
    if log.probabilities is None:
        shares = ", ".join(f"{share:.3f}" for share in log.shares.tolist())
        out.print(
            "The log has no probabilities, so it is taken for a randomised trial in which every "
            f"user had the same: {shares} (control first).",
            style="yellow",
        )
    for one in found:
        for said in one.warnings:
            out.print(f"{one.policy}: {said}", style="yellow")
    for said in filter(None, left_out):
        out.print(said, style="dim")
