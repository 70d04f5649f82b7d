"""``bccb drive``: traffic for a running service, to try it out."""

from __future__ import annotations

import math
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich import box
from rich.table import Table

from bccb.cli.columns import read_with_notes, takes_columns
from bccb.cli.console import notes, out, progress_bar
from bccb.cli.options import check_within
from bccb.cli.service import MOST_WINDOW, Key, Url, greet, page_of
from bccb.cli.traffic import (
    LAST_DELAYS,
    Drive,
    LoggedTraffic,
    Plan,
    SimulatedTraffic,
    Totals,
    Traffic,
)
from bccb.client import Campaign, Client, Figure, Report, UnreachableError
from bccb.data import Columns
from bccb.data.schema import quoted
from bccb.data.simulator import MOST_USERS, Outcome, load_model
from bccb.data.world import VARIATION, simulate_world, with_amounts
from bccb.errors import InputError
from bccb.outcome import Kind
from bccb.types import Log

USERS, BUDGET = 20_000, 1_000.0
FIT_SECONDS, TICK = 30.0, 0.1  # for the last fit at most, and between looks at it
SHOWN = 60.0  # seconds that it takes without --rate: long enough to watch
TREATMENT = "offer"  # of simulated users
LARGEST = 1_000.0  # of their amounts: hardly any is above it
MOST_CALLS, MOST_AT_ONCE = 100, 1_000  # at the same time, and users in one of them

Data = Annotated[
    Path | None,
    typer.Option("--data", help="Log of a randomised trial, to be played as a shadow campaign."),
]
CampaignId = Annotated[
    str | None,
    typer.Option("--campaign", metavar="ID", help="Drive this one, instead of a new one."),
]
Conversions = Annotated[
    bool,
    typer.Option("--conversions", help="Simulated users convert (0.2-0.3 %), not visit (4-5)."),
]
Amounts = Annotated[
    bool,
    typer.Option("--amounts", help="Conversions of simulated users bring amounts of money."),
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate", help="Users per second; 0: as fast as possible. [default: done in a minute]"
    ),
]
Delay = Annotated[
    float,
    typer.Option(
        metavar="MEAN", help="Seconds until a conversion is reported, on average; zeros never are."
    ),
]
Window = Annotated[
    int | None,
    typer.Option(
        metavar="SECONDS",
        help="Until a report is too late, of the new campaign. [default: 5 delays, or a week]",
    ),
]


@takes_columns
def command(
    data: Data = None,
    columns: Columns | None = None,
    users: Annotated[
        int | None, typer.Option("--users", help="Users that come. [default: 20000, or all]")
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--budget", help="Of the new campaign. [default: 1000]")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="Of the new campaign. [default: the service's]")
    ] = None,
    campaign: CampaignId = None,
    conversions: Conversions = False,
    amounts: Amounts = False,
    rate: Rate = None,
    concurrency: Annotated[int, typer.Option(help="Calls at the same time.")] = 16,
    batch: Annotated[int, typer.Option(help="Users in one call.")] = 1,
    delay: Delay = 0.0,
    window: Window = None,
    seed: Annotated[int, typer.Option(help="Of simulated users and decisions.")] = 0,
    url: Url = None,
    key: Key = None,
) -> None:
    """Send users to a running service and report their outcomes, as a shop would.

    Users are simulated, so the outcome of every action is known, or come from the log of a
    randomised trial: then the campaign is a shadow one, and what the trial did is reported. Ctrl-C
    stops it; what was decided by then still gets its outcomes.

    With --delay conversions are reported after exponential delays, and nothing else is: the
    campaign learns from users without a report as they grow older. After the last user it goes on
    for 5 delays, then reports what is left. Users of a trial have their zeros reported, too.

    **Examples**

    `bccb serve` in one terminal and `bccb drive` in another; watch the page meanwhile

    `bccb drive --users 100000 --budget 5000 --rate 0 --batch 50 --policy bccb`

    `bccb drive --amounts` opens a campaign in money: watch its value and return on spend

    `bccb drive --users 6000 --delay 6` lasts a minute, and half of one until all is reported

    `bccb drive --data mine.csv --treatment arm --control none --outcome sale --cost 0.5`
    """
    log = _read(data, columns, conversions, amounts)
    count = _count(users, log)
    plan = Plan(count, count / SHOWN if rate is None else rate, concurrency, batch, delay, seed)
    _check(plan)
    seconds = _window(window, campaign, delay)
    wanted = Wanted(campaign, budget, policy, seed, conversions, amounts, seconds)
    totals, report, page = _play(url, key, wanted, log, plan)
    out.print(_table(totals, report))
    out.print(f"the page: {page}", highlight=False, soft_wrap=True)
    if totals.problem is not None:
        raise totals.problem


@dataclass(frozen=True, slots=True)
class Wanted:
    """The campaign to drive, and who comes if they are simulated."""

    campaign: str | None  # the id of one that exists; budget and policy are for a new one
    budget: float | None
    policy: str | None
    seed: int
    conversions: bool
    amounts: bool
    window: int | None  # seconds

    def __post_init__(self) -> None:
        given = (self.budget, self.policy, self.window)
        if self.campaign is not None and (
            any(value is not None for value in given) or self.amounts
        ):
            allowed = "given without --budget, --policy, --window and --amounts"
            raise InputError("--campaign", self.campaign, allowed)


def _check(plan: Plan) -> None:
    check_within("--rate", plan.rate, 0, 1e6)
    check_within("--concurrency", plan.concurrency, 1, MOST_CALLS)
    check_within("--batch", plan.batch, 1, MOST_AT_ONCE)
    check_within("--delay", plan.delay, 0, 1e6)


def _window(window: int | None, campaign: str | None, delay: float) -> int | None:
    """The seconds of a new campaign's window: where none is given, enough for most reports."""
    if window is not None:
        check_within("--window", window, 1, MOST_WINDOW)
    elif campaign is None and delay > 0:
        window = math.ceil(LAST_DELAYS * delay)
        notes.print(f"window: none given with --window, so {window:,} s, {LAST_DELAYS} delays")
    return window


def _read(
    data: Path | None, columns: Columns | None, conversions: bool, amounts: bool
) -> Log | None:
    """The log to be played, if it is one."""
    if data is None:
        if columns is not None:
            raise InputError("--data", None, "given, because options name columns of a file")
        return None
    for option, given in (("--conversions", conversions), ("--amounts", amounts)):
        if given:
            raise InputError(option, given, "used on simulated users, without --data")
    log = read_with_notes(data, columns)
    if log.probabilities is not None:
        allowed = "left out: a shadow campaign needs a randomised trial; bccb evaluate does not"
        raise InputError("the probabilities of the log", "given", allowed)
    return log


def _count(users: int | None, log: Log | None) -> int:
    most = MOST_USERS if log is None else log.users
    count = users if users is not None else USERS if log is None else log.users
    if not 1 <= count <= most:
        raise InputError("--users", count, f"from 1 to {most:,}")
    return count


def _play(
    url: str | None, key: str | None, wanted: Wanted, log: Log | None, plan: Plan
) -> tuple[Totals, Report, str]:
    """Drive the campaign under a progress bar; what came of it, and where to see it."""
    greet(url, key)
    with Client(url, key) as client:
        campaign = wanted.campaign and client.campaign(wanted.campaign)
        traffic = _traffic(campaign or None, wanted, log, plan.users)
        if not campaign:
            with progress_bar("opening a campaign"):
                campaign = _create(client, wanted, traffic, plan.users)
        page = page_of(client, campaign)
        where = f"driving campaign {campaign.id}: watch it at {page}"
        notes.print(where, highlight=False, soft_wrap=True)
        with progress_bar("deciding", at_first="") as show:

            def on_decided(decided: int) -> None:
                waiting = f"- reporting for up to {plan.ending:,.0f} s"
                last = decided == plan.users and plan.delay > 0
                show(decided, plan.users, waiting if last else "")

            totals = Drive(client, campaign, traffic, plan, on_decided).run()
        if isinstance(totals.problem, UnreachableError):
            raise totals.problem
        return totals, _last_report(client, campaign), page


def _last_report(client: Client, campaign: Campaign) -> Report:
    """What came of it, once the policy was fitted on it, if that is due."""
    report = client.report(campaign)
    if not report.campaign.fit_due:
        return report
    patience = time.monotonic() + FIT_SECONDS  # a fit that failed stays due
    with progress_bar("waiting for the last fit"):
        while report.campaign.fit_due and time.monotonic() < patience:
            time.sleep(TICK)
            report = client.report(campaign)
    return report


def _traffic(campaign: Campaign | None, wanted: Wanted, log: Log | None, users: int) -> Traffic:
    """The users, who must fit a campaign that exists."""
    traffic: Traffic
    if log is None:
        treatments = (TREATMENT,) if campaign is None else campaign.treatments
        outcome: Outcome = "conversion" if wanted.conversions else "visit"
        world = simulate_world(users, wanted.seed, outcome, len(treatments))
        if wanted.amounts or (campaign is not None and campaign.outcome.kind == "amount"):
            world = with_amounts(world, VARIATION, wanted.seed)
        traffic = SimulatedTraffic(world, load_model().names, treatments)
    else:
        traffic = LoggedTraffic(log)
    if campaign is not None:
        if campaign.mode != traffic.mode:
            allowed = f"a {traffic.mode} one: simulated users need a live one, --data a shadow one"
            raise InputError(f"the mode of campaign {campaign.id}", campaign.mode, allowed)
        if campaign.outcome.kind != traffic.kind:
            kind = f"the kind of outcomes of campaign {campaign.id}"
            raise InputError(kind, campaign.outcome.kind, f"{traffic.kind}, as those of the log")
        _check_names("features", campaign, campaign.features, traffic.encoding.names)
        _check_names("treatments", campaign, campaign.treatments, traffic.treatments)
    return traffic


def _check_names(
    field: str, campaign: Campaign, names: tuple[str, ...], given: tuple[str, ...]
) -> None:
    if set(names) != set(given):
        raise InputError(f"the {field} of campaign {campaign.id}", names, f"{quoted(given)}")


def _create(client: Client, wanted: Wanted, traffic: Traffic, users: int) -> Campaign:
    now = time.strftime("%Y%m%d-%H%M%S")
    return client.create_campaign(
        f"drive-{now}-{secrets.token_hex(2)}",
        budget=BUDGET if wanted.budget is None else wanted.budget,
        features=traffic.encoding.features,
        treatments=traffic.treatments,
        users=users,
        policy=wanted.policy,
        seed=wanted.seed,
        mode=traffic.mode,
        outcome_window_seconds=wanted.window,
        outcome="amount" if traffic.kind is Kind.AMOUNT else None,
        largest=LARGEST if wanted.amounts else None,
        negative=False if wanted.amounts else None,
    )


def _table(totals: Totals, report: Report) -> Table:
    campaign = report.campaign
    title = f"{campaign.name} ({campaign.mode})"
    table = Table(title=title, box=box.SIMPLE_HEAD, show_header=False, padding=0)
    table.add_column(no_wrap=True, min_width=20)
    table.add_column()
    for name, value in _lines(totals, report).items():
        table.add_row(name, value)
    return table


def _figure(figure: Figure | None, by: str) -> str:
    if figure is None:
        return "not known yet"
    return f"{figure.value:,.1f} (95 %: {figure.low:,.1f} to {figure.high:,.1f}), by {by}"


def _lines(totals: Totals, report: Report) -> dict[str, str]:
    campaign, caused = report.campaign, report.campaign.caused
    would = "" if campaign.mode == "live" else "would be "
    spent = campaign.spent + campaign.reserved
    lines = {
        "users": f"{totals.decided:,} in {totals.seconds:,.1f} s",
        f"{would}treated": f"{campaign.treated:,}",
        f"{would}spent": f"{spent:,.2f} of {campaign.budget:,.2f}",
        "conversions": f"{sum(arm.conversions for arm in report.arms):,.0f}",
    }
    if campaign.value is not None:
        lines["value"] = f"{campaign.value:,.2f}"
    if campaign.pending:
        lines["without a report"] = f"{campaign.pending:,}, whose window has not ended"
    if totals.interrupted:
        lines["users"] += ", then stopped"
    if caused is not None:
        lines["caused, estimated"] = _figure(caused.estimated, "the model")
        measured = f"random decisions among the first {caused.measured_users:,} users"
        reason = caused.not_measured or caused.too_few
        lines["caused, measured"] = reason or _figure(caused.measured, measured)
        if caused.return_on_spend is not None:
            lines["return on spend"] = _figure(caused.return_on_spend, "the estimate")
    if not math.isnan(totals.caused):
        lines["really caused"] = f"{totals.caused:,.1f}, known because the users are simulated"
    if totals.latencies:
        middle, late = np.percentile(totals.latencies, (50, 99)) * 1_000
        lines["decisions per second"] = f"{totals.decided / totals.seconds:,.0f}"
        lines["latency"] = f"{middle:.1f} ms at the median, {late:.1f} ms at 99 %"
    return lines
