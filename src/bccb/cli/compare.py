"""``bccb compare``: policies side by side on a log or on simulated users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bccb.cli.columns import print_notes, takes_columns
from bccb.cli.console import notes, out, progress_bar, table, write_json
from bccb.cli.options import (
    CORES,
    SEEDS,
    DataFile,
    Jobs,
    JsonFile,
    Seeds,
    check_policies,
    parse_seeds,
)
from bccb.data import Columns
from bccb.data.readers import read_finished
from bccb.errors import InputError
from bccb.evaluate.compare import compare, summarise, to_json
from bccb.evaluate.trials import LoggedTrials, SimulatedTrials, Trial
from bccb.money import LEAST_COST, MICROS, budget_in_micros
from bccb.policies import POLICIES
from bccb.report.results import summary_rows

BUDGET = 5_000.0
SHARE = 0.1  # of what a log spent: few enough to treat that it matters who is
USERS = 100_000
HISTORY = 50_000


@takes_columns
def command(
    data: DataFile = None,
    columns: Columns | None = None,
    budget: Annotated[
        list[float] | None,
        typer.Option(
            "--budget",
            help="Money to spend; may be repeated. [default: 5000, or a tenth of the log's spend]",
        ),
    ] = None,
    users: Annotated[
        int | None, typer.Option("--users", help="Users in the stream. [default: 100000, or all]")
    ] = None,
    history: Annotated[
        int | None,
        typer.Option(
            "--history",
            help="Rows outside the stream, for policies that learn from them. [default: 50000]",
        ),
    ] = None,
    drift: Annotated[
        bool,
        typer.Option("--drift", help="Other simulated users respond from mid-stream on."),
    ] = False,
    seeds: Seeds = SEEDS,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help="Policy to run; may be repeated. [default: all]"),
    ] = None,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
) -> None:
    """Replay policies on a log, or on the built-in simulator, and print one table.

    **Examples**

    `bccb compare`

    `bccb compare --policy bccb --policy cheapest-first --budget 1000 --budget 5000`

    `bccb compare --data criteo.parquet --preset criteo --json out.json`

    `bccb compare --data mine.csv --treatment arm --control none --outcome sale --cost 0.5`
    """
    seed_list = parse_seeds(seeds)
    _check(policy or [], budget or [])
    trials, title, known = _trials(data, columns, users, history, drift)
    budgets = _budgets(budget, trials)
    names = policy or [name for name, spec in POLICIES.items() if known or not spec.needs_effects]
    runs = []
    with progress_bar("replaying") as show:
        for run in compare(trials, names, budgets, seed_list, jobs):
            runs.append(run)
            show(len(runs), len(names) * len(budgets) * len(seed_list), run.policy)
    runs.sort(key=lambda run: (budgets.index(run.budget), names.index(run.policy), run.seed))
    summary = summarise(runs)
    write_json(json_file, to_json(runs, summary))
    title += f", {_count(len(seed_list), 'seed')}"
    title += f", budget {budgets[0]:,.0f}" if len(budgets) == 1 else ""
    out.print(table(summary_rows(summary), title, [line.budget for line in summary]))
    for line in summary:
        if line.note:
            out.print(f"{line.policy} at {line.budget:,.0f}: {line.note}", style="yellow")


def _trials(
    data: Path | None, columns: Columns | None, users: int | None, history: int | None, drift: bool
) -> tuple[Callable[[int], Trial], str, bool]:
    """What each seed runs on, what to call it, and whether the true effects are known."""
    if data is not None and drift:
        raise InputError("--drift", drift, "used on simulated users, without --data")
    if data is None:
        if columns is not None:
            raise InputError("--data", None, "given, because options name columns of a file")
        stream, kept = USERS if users is None else users, HISTORY if history is None else history
        for field, value, least in (("--users", stream, 1), ("--history", kept, 0)):
            if value < least:
                raise InputError(field, value, f"{least} or above")
        title = f"simulator{' with drift' if drift else ''}: {_count(stream, 'user')}"
        return SimulatedTrials(stream, kept, drift), title, True
    reading = read_finished(data, columns)
    log = reading.log
    stream = min(USERS, log.users) if users is None else users
    if not 1 <= stream <= log.users:
        raise InputError("--users", stream, f"from 1 to {log.users}, the rows of the log")
    left = log.users - stream
    kept = min(HISTORY, left) if history is None else history
    if not 0 <= kept <= left:
        raise InputError(
            "--history", kept, f"from 0 to {left}, the rows outside the stream: lower --users"
        )
    print_notes(reading, columns)
    outcome = f"{columns.outcome}, " if columns is not None else ""
    title = f"{data.name}: {outcome}{_count(stream, 'user')}"
    return LoggedTrials(log, stream, kept), title, log.effects is not None


def _budgets(given: list[float] | None, trials: Callable[[int], Trial]) -> list[float]:
    """What to spend: in a log much less than it spent, or all policies would treat everybody."""
    if not isinstance(trials, LoggedTrials):
        return given or [BUDGET]
    spend = trials.spend
    if not given:
        budget = max(float(f"{SHARE * spend:.2g}"), LEAST_COST / MICROS)
        notes.print(
            f"budget: none given with --budget, so {budget:,g}, a tenth of what the trial spent on "
            "as many users"
        )
        return [budget]
    for money in given:
        if money >= spend:
            notes.print(
                f"warning: a budget of {money:,g} limits nobody, because treating all matched "
                f"users costs about {spend:,.4g}: lower --budget",
                style="yellow",
            )
    return given


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def _check(policies: list[str], budgets: list[float]) -> None:
    """Refuse what can be refused before the work, not after it."""
    check_policies(policies)
    if len(set(budgets)) < len(budgets):
        raise InputError("--budget", budgets, "named once each")
    for money in budgets:
        budget_in_micros(money, "--budget")
