"""``bccb compare``: policies side by side on a log or on simulated users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bccb.charge import TREATMENT, Payment, payment_of
from bccb.cli.columns import print_notes, takes_columns
from bccb.cli.console import notes, out, progress_bar, table, write_html, write_json
from bccb.cli.options import (
    CORES,
    SEEDS,
    Charge,
    CostCap,
    DataFile,
    HtmlFile,
    Jobs,
    JsonFile,
    Seeds,
    Share,
    check_policies,
    parse_seeds,
    parse_span,
)
from bccb.data import Columns
from bccb.data.readers import read_finished
from bccb.data.worlds import ABOUT, make_world
from bccb.errors import InputError
from bccb.evaluate.charged import payment_for
from bccb.evaluate.compare import AnyRun, Summary, compare, paid_share, summarise, to_json
from bccb.evaluate.live import charged_on_conversion
from bccb.evaluate.live_comparison import Lateness, LiveSummary, compare_live, summarise_live
from bccb.evaluate.trials import LoggedTrials, SimulatedTrials, Trial, WorldTrials
from bccb.money import LEAST_COST, MICROS, budget_in_micros
from bccb.outcome import Kind
from bccb.policies import DEFAULT, POLICIES, takes
from bccb.report.paying import payment_lines
from bccb.report.result_page import comparison_page, comparison_segments
from bccb.report.results import live_rows, summary_rows
from bccb.report.wording import amounts_lines, replay_lines
from bccb.types import Log

BUDGET = 5_000.0
SHARE = 0.1  # of what a log spent: few enough to treat that it matters who is
USERS = 100_000
HISTORY = 50_000
WINDOWS = 5  # delays in a window: 99.3 % of conversions are reported by then
LATE_LOG = "used on simulated users, without --data: a log does not say when it was reported"


@takes_columns
def command(
    data: DataFile = None,
    columns: Columns | None = None,
    budget: Annotated[
        list[float] | None,
        typer.Option(
            "--budget",
            help="Money to spend; may be repeated. [default: 5000, or a tenth of what treating "
            "costs: in a log, or charged on conversion]",
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
    world: Annotated[
        str | None,
        typer.Option("--world", metavar="NAME", help=f"Users of another kind: {', '.join(ABOUT)}."),
    ] = None,
    amounts: Annotated[
        bool, typer.Option("--amounts", help="Simulated conversions bring amounts of money.")
    ] = False,
    delay: Annotated[
        str | None,
        typer.Option(
            "--delay",
            metavar="MEAN",
            help="Report conversions alone, so many users later on average: 5000, or 10% of all.",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="SPAN",
            help="So many users later a report is too late, likewise. [default: 5 times --delay]",
        ),
    ] = None,
    charge: Charge = TREATMENT,
    cost_cap: CostCap = None,
    share: Share = None,
    seeds: Seeds = SEEDS,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help="Policy to run; may be repeated. [default: all]"),
    ] = None,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
    html_file: HtmlFile = None,
) -> None:
    """Replay policies on a log, or on the built-in simulator, and print one table.

    With --world, --delay, --amounts or --charge conversion simulated users are decided on live.
    Then incremental is what is really caused, and share how much of what the oracle causes. With
    --delay conversions alone are reported, after exponential delays, and at once is the share if
    every outcome were known at once. With --data and an outcome of amounts of money, or with
    --amounts, all figures are in currency; --share charges a share of each amount on conversion.

    **Examples**

    `bccb compare`

    `bccb compare --policy bccb --policy cheapest-first --budget 1000 --budget 5000`

    `bccb compare --delay 10% --window 50%` and, the same, `bccb compare --delay 10000`

    `bccb compare --world bump --policy pooled-bayes --policy cheapest-first`

    `bccb compare --world linear --charge conversion --budget 1000`

    `bccb compare --world linear --cost-cap 12.5 --policy pooled-bayes --policy hybrid`

    `bccb compare --world linear --amounts --charge conversion --share 0.02 --budget 1000`

    `bccb compare --data criteo.parquet --preset criteo --json out.json`

    `bccb compare --data hillstrom.csv.gz --preset hillstrom --outcome spend --budget 500`

    `bccb compare --data mine.csv --treatment arm --control none --outcome sale --cost 0.5`
    """
    seed_list = parse_seeds(seeds)
    _check(policy or [], budget or [])
    if delay is not None and data is not None:
        raise InputError("--delay", delay, LATE_LOG)
    trials, title, known = _trials(data, columns, users, history, drift, world, amounts)
    lateness = _lateness(delay, window, trials)
    shared = trials.log if isinstance(trials, LoggedTrials) else None
    payment = _payment(shared, amounts, charge, cost_cap, share)
    if payment.on_conversion:
        known = _knows_rates(drift, data)
    budgets = _budgets(budget, trials, payment, seed_list[0])
    names = policy or [name for name, spec in POLICIES.items() if known or not spec.needs_effects]
    kind = (Kind.AMOUNT if amounts else Kind.CONVERSION) if shared is None else shared.kind
    asked, names = names, _that_take(names, kind)
    order = [(money, name) for money in budgets for name in names]
    title += f", {_count(len(seed_list), 'seed')}"
    title += f", budget {budgets[0]:,.{0 if budgets[0] >= 10 else 2}f}" if len(budgets) == 1 else ""
    is_live = world is not None or amounts or (data is None and payment.on_conversion)
    if lateness is None and not is_live:
        with progress_bar("replaying") as show:
            sizes = names, budgets, seed_list, jobs
            runs = compare(trials, *sizes, **payment._asdict(), progress=show)
            replays = _in_order(runs, order)
        summary = summarise(replays, shared)
        write_json(json_file, {**to_json(replays, summary), **payment._asdict()})
        assert isinstance(trials, LoggedTrials | SimulatedTrials)
        rows = None if shared is None else shared.users
        said = _print(
            title,
            summary_rows(summary),
            summary,
            [
                *payment_lines(payment, _spent(summary), kind),
                *amounts_lines(kind, asked),
                *replay_lines(trials.users, paid_share(replays), rows),
            ],
        )
        write_html(
            html_file,
            lambda: comparison_page(
                title, summary, said, comparison_segments(trials, summary, seed_list[0], payment)
            ),
        )
        return
    assert isinstance(trials, SimulatedTrials | WorldTrials)
    with progress_bar("deciding") as show:
        sizes = names, budgets, seed_list, jobs
        live_runs = compare_live(*(trials, lateness, *sizes), **payment._asdict(), progress=show)
        lives = _in_order(live_runs, order)
    figures = summarise_live(lives)
    write_json(json_file, {**to_json(lives, figures), **payment._asdict()})
    title += ", late outcomes" if lateness is not None else ""
    capped = cost_cap is not None
    lines = [*payment_lines(payment, _spent(figures), kind), *amounts_lines(kind, asked)]
    said = _print(title, live_rows(figures, capped), figures, lines)
    write_html(html_file, lambda: comparison_page(title, figures, said, capped=capped))


def _payment(
    log: Log | None, amounts: bool, charge: str, cost_cap: float | None, share: float | None
) -> Payment:
    """How treatments are paid for; checked: a share is one of an amount."""
    if log is not None:
        return payment_for(log, charge, cost_cap, share)
    if share is not None and not amounts:
        allowed = "given with --amounts, or with --data and an outcome of amounts of money"
        raise InputError("--share", share, allowed)
    return payment_of(charge, cost_cap, share)


def _that_take(names: list[str], kind: str) -> list[str]:
    """Those of the policies that can decide by outcomes of this kind."""
    kept = [name for name in names if takes(name, kind)]
    if not kept:
        raise InputError("--policy", names, f"one that takes amounts, such as {DEFAULT}")
    return kept


def _knows_rates(drift: bool, data: Path | None) -> bool:
    """Whether the oracle can say what is charged on conversion; of simulated users it can."""
    if drift:
        raise InputError("--drift", drift, "left out with --charge conversion")
    return data is None


def _spent(summary: Sequence[Summary | LiveSummary]) -> list[tuple[str, float, float]]:
    """The budget of each policy, and what it spent."""
    return [(line.policy, line.budget, line.spend) for line in summary]


def _in_order(runs: Iterable[AnyRun], order: Sequence[tuple[float, str]]) -> list[AnyRun]:
    """All runs, in this order of budgets and policies."""
    return sorted(runs, key=lambda run: (order.index((run.budget, run.policy)), run.seed))


def _print(
    title: str,
    rows: list[dict[str, str]],
    summary: Sequence[Summary] | Sequence[LiveSummary],
    lines: Sequence[str] = (),
) -> list[str]:
    """Print the table and what is to be said of it; the latter is returned."""
    out.print(table(rows, title, [line.budget for line in summary]))
    with out.remembering() as said:
        for line in summary:
            withheld = line.withheld if isinstance(line, Summary) else ""
            for said_of in filter(None, (line.note, withheld)):
                out.print(f"{line.policy} at {line.budget:,.0f}: {said_of}", style="yellow")
        for text in lines:
            out.print(text, style="dim", highlight=False)
    return said


def _lateness(
    delay: str | None, window: str | None, trials: Callable[[int], Trial]
) -> Lateness | None:
    """When conversions are reported, if that is not at once."""
    if delay is None:
        if window is not None:
            raise InputError("--window", window, "given together with --delay")
        return None
    assert isinstance(trials, SimulatedTrials | WorldTrials)
    if isinstance(trials, SimulatedTrials) and trials.drift:
        raise InputError("--drift", True, "left out with --delay")
    mean = parse_span("--delay", delay, trials.users)
    span = WINDOWS * mean if window is None else parse_span("--window", window, trials.users)
    where = f", {WINDOWS} times the delay: --window gives another" if window is None else ""
    notes.print(
        f"conversions are reported {mean:,.10g} users later on average, nothing else is; "
        f"window: {span:,.10g} users{where}",
        highlight=False,
        soft_wrap=True,
    )
    return Lateness(mean, span)


def _trials(
    data: Path | None,
    columns: Columns | None,
    users: int | None,
    history: int | None,
    drift: bool,
    world: str | None,
    amounts: bool,
) -> tuple[Callable[[int], Trial], str, bool]:
    """What each seed runs on, what to call it, and whether the true effects are known."""
    if data is not None and drift:
        raise InputError("--drift", drift, "used on simulated users, without --data")
    if amounts and (data is not None or drift):
        raise InputError("--amounts", amounts, "used on simulated users: no --data, no --drift")
    if world is not None and (data is not None or drift):
        raise InputError("--world", world, "given alone: without --data and --drift")
    if data is None:
        if columns is not None:
            raise InputError("--data", None, "given, because options name columns of a file")
        stream, kept = USERS if users is None else users, HISTORY if history is None else history
        for field, value, least in (("--users", stream, 1), ("--history", kept, 0)):
            if value < least:
                raise InputError(field, value, f"{least} or above")
        if world is not None:
            make_world(world, 1)  # refuse a name that is not known before the work
            title = f"world {world} ({ABOUT[world]}): {_count(stream, 'user')}"
            return WorldTrials(world, stream, kept, amounts), title, True
        title = f"simulator{' with drift' if drift else ''}: {_count(stream, 'user')}"
        return SimulatedTrials(stream, kept, drift, amounts=amounts), title, True
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


def _budgets(
    given: list[float] | None, trials: Callable[[int], Trial], payment: Payment, seed: int
) -> list[float]:
    """What to spend: in a log much less than it spent, or all policies would treat everybody."""
    if isinstance(trials, LoggedTrials):
        spend = trials.spend(payment)
        what, whom = "what the trial spent on as many users", "all matched users"
    elif payment.on_conversion:
        assert isinstance(trials, SimulatedTrials | WorldTrials)
        world = trials.world(seed)
        charged = charged_on_conversion(world, payment.share)
        spend = float((charged * world.rates[:, 1:]).mean(axis=1).sum())
        what, whom = "what treating everybody costs", "everybody"
    else:
        return given or [BUDGET]
    if not given:
        budget = max(float(f"{SHARE * spend:.2g}"), LEAST_COST / MICROS)
        notes.print(f"budget: none given with --budget, so {budget:,g}, a tenth of {what}")
        return [budget]
    for money in given:
        if money >= spend:
            notes.print(
                f"warning: a budget of {money:,g} limits nobody, because treating {whom} costs "
                f"about {spend:,.4g}: lower --budget",
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
