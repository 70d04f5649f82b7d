"""``bccb open``: a campaign on a running service that begins with what a trial has taught."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from bccb.charge import TREATMENT, charge_code, share_in_millionths
from bccb.cli.columns import read_with_notes, takes_columns
from bccb.cli.console import notes, out, progress_bar
from bccb.cli.options import CORES, FORMATS, Jobs, check_policies, check_within
from bccb.cli.service import (
    MOST_WINDOW,
    Cells,
    Charge,
    CostCap,
    Currency,
    Key,
    Largest,
    Share,
    Url,
    greet,
    page_of,
)
from bccb.client import Campaign, Client, ServiceError
from bccb.data import Columns
from bccb.data.simulator import MOST_USERS
from bccb.encoding import plain
from bccb.errors import BccbError, InputError
from bccb.evaluate.advice import advise
from bccb.money import as_text, cap_in_micros
from bccb.outcome import check_largest
from bccb.policies import make
from bccb.policy import Policy
from bccb.report.wording import sentence
from bccb.types import Log
from bccb.wire import MOST_CELLS

UPLOAD = "upload"  # where the campaign's learning comes from
EXAMPLE = "first"  # the id of the decision that is shown


@takes_columns
def command(
    data: Annotated[
        Path, typer.Option("--data", metavar="TRIAL", help=f"Log of a randomised trial: {FORMATS}.")
    ],
    columns: Columns | None = None,
    budget: Annotated[float, typer.Option("--budget", help="Money you have.")] = ...,  # type: ignore[assignment]
    name: Annotated[str, typer.Option("--name", help="Of the campaign.")] = ...,  # type: ignore[assignment]
    users: Annotated[
        int | None, typer.Option("--users", help="Users you expect; the money is paced over them.")
    ] = None,
    ends_at: Annotated[
        str | None,
        typer.Option(
            "--ends-at", metavar="TIME", help="Pace the money by the clock, until this time."
        ),
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="[default: what bccb advise recommends]")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            "--window", metavar="SECONDS", help="Until a report is too late. [default: a week]"
        ),
    ] = None,
    charge: Charge = TREATMENT,
    cost_cap: CostCap = None,
    share: Share = None,
    largest: Largest = None,
    currency: Currency = None,
    cells: Cells = 1,
    jobs: Jobs = CORES,
    url: Url = None,
    key: Key = None,
) -> None:
    """Open a campaign that begins with what a trial has taught.

    The policy is the one that `bccb advise` recommends for your budget, your users and this trial,
    or the one you name. It learns the trial, its campaign is opened on a running service with the
    trial's features and treatments, and gets what was learned. To run the same command again is
    safe: it finds the campaign that it has opened, unless that was closed.

    Where the trial's outcomes are amounts of money, so are the campaign's, and --share 0.2 charges
    a fifth of each amount on conversion, at most the cost.

    **Examples**

    `bccb open --data mine.csv --treatment arm --control none --outcome sale --cost 0.5
    --budget 500 --users 20000 --name autumn`

    `bccb open --data mine.csv --treatment arm --control none --outcome sale --cost 0.5
    --budget 500 --ends-at 2030-01-31T18:00:00Z --policy hybrid --name autumn`

    `bccb open --data mine.csv --treatment arm --control none --outcome revenue --cost 10
    --charge conversion --share 0.2 --largest 500 --currency EUR --budget 500 --users 20000
    --name autumn`
    """
    ends = _moment(ends_at)
    paying = charge, cost_cap, share, largest, currency
    wanted = Wanted(name, budget, users, ends, policy, window, *paying, cells)
    greet(url, key)
    with Client(url, key) as client:
        _check_name(client, name)
        log = read_with_notes(data, columns)
        chosen = policy or _advised(log, wanted, jobs)
        learned = _taught(chosen, log, wanted)
        with progress_bar("opening the campaign"):
            campaign = _open(client, wanted, log, learned)
        notes.print(f"{chosen} has learned {log.users:,} rows of {data.name}", highlight=False)
        out.print(f"campaign: {campaign.id}", highlight=False)
        out.print(f"the page: {page_of(client, campaign)}", highlight=False, soft_wrap=True)
        out.print("a first decision:", highlight=False)
        out.print(_curl(client, campaign, log, with_key=key is not None), soft_wrap=True)
        out.print("and its outcome, without which the log stays open:", highlight=False)
        out.print(_outcome_curl(client, campaign, with_key=key is not None), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The campaign to open."""

    name: str
    budget: float
    users: int | None
    ends_at: datetime | None
    policy: str | None
    window: int | None  # seconds
    charge: str
    cost_cap: float | None
    share: float | None
    largest: float | None
    currency: str | None
    cells: int

    def __post_init__(self) -> None:
        if self.users is None and self.ends_at is None:
            raise InputError("--users", None, "given, or --ends-at")
        if self.users is None and self.policy is None:
            allowed = "given: advice is for a number of users; or name a --policy"
            raise InputError("--users", None, allowed)
        if self.users is not None:
            check_within("--users", self.users, 1, MOST_USERS)
        if self.window is not None:
            check_within("--window", self.window, 1, MOST_WINDOW)
        if self.policy is not None:
            check_policies([self.policy])
        charge_code(self.charge, "--charge")
        if self.cost_cap is not None:
            cap_in_micros(self.cost_cap, "--cost-cap")
        share_in_millionths(self.share, self.charge, "--share")
        if self.largest is not None:
            check_largest(self.largest, "--largest")
        check_within("--cells", self.cells, 1, MOST_CELLS)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        allowed = "a time with its zone, such as 2030-01-31T18:00:00Z"
        raise InputError("--ends-at", text, allowed)
    return moment


def _check_name(client: Client, name: str) -> None:
    """Refuse a name that is taken before the long work; our own campaign is found again later."""
    for campaign in client.campaigns():
        if campaign.name == name and campaign.learned_from != UPLOAD:
            raise _taken(name)
        if campaign.name == name and campaign.status == "closed":
            raise BccbError(f"campaign {name!r} is closed, which is final: choose another --name")


def _taken(name: str) -> BccbError:
    return BccbError(f"there is another campaign with the name {name!r}: choose another --name")


def _advised(log: Log, wanted: Wanted, jobs: int) -> str:
    """The policy that is recommended for these users, with the reason on a line."""
    assert wanted.users is not None
    with progress_bar("choosing a policy") as show:
        advice = advise(
            *(wanted.budget, wanted.users, log),
            charge=wanted.charge,
            cost_cap=wanted.cost_cap,
            share=wanted.share,
            jobs=jobs,
            progress=show,
        )
    notes.print(sentence(advice), highlight=False)
    if advice.recommended is None:
        raise BccbError("nothing was opened, because no policy is recommended: see the line above")
    return advice.recommended


def _taught(name: str, log: Log, wanted: Wanted) -> Policy:
    """The policy after it has learned the trial."""
    policy = make(
        name,
        budget=wanted.budget,
        horizon=wanted.users or 1,
        features=log.features.shape[1],
        treatments=log.treatments,
        cost_cap=wanted.cost_cap,
        charge=wanted.charge,
        share=wanted.share,
        outcome=log.kind,
        largest=wanted.largest,
    )
    with progress_bar(f"{name} learns the trial"):
        policy.learn(log)
    return policy


def _open(client: Client, wanted: Wanted, log: Log, learned: Policy) -> Campaign:
    """The campaign, with what was learned."""
    encoding = log.encoding or plain(log.feature_names)
    by_time = wanted.ends_at is not None
    try:
        campaign = client.create_campaign(
            wanted.name,
            budget=wanted.budget,
            features=encoding.features,
            treatments=log.treatment_names,
            users=None if by_time else wanted.users,
            ends_at=wanted.ends_at,
            expected_users=wanted.users if by_time else None,
            policy=learned.name,
            outcome_window_seconds=wanted.window,
            learned_from=UPLOAD,
            charge="conversion" if learned.charges_on_conversion else "treatment",
            cost_cap=wanted.cost_cap,
            outcome="amount" if log.amounts else None,
            largest=wanted.largest,
            share=wanted.share,
            currency=wanted.currency,
            cells=None if wanted.cells == 1 else wanted.cells,  # older services do not know it
        )
    except ServiceError as error:
        if error.type.endswith(":name-taken"):
            raise _taken(wanted.name) from None
        raise
    return client.upload_learning(campaign, learned)


def _curl(client: Client, campaign: Campaign, log: Log, with_key: bool) -> str:
    """A call that decides on the first user of the trial."""
    encoding = log.encoding or plain(log.feature_names)
    costs = zip(log.treatment_names, log.micros[0].tolist(), strict=True)
    body = {
        "decision_id": EXAMPLE,
        "features": encoding.values(log.features[0].tolist()),
        "costs": {name: as_text(micros) for name, micros in costs},
    }
    where = f"{client.url}/v1/campaigns/{campaign.id}/decisions"
    data = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f"curl -s {where} {_headers(with_key)} -d {data}"


def _outcome_curl(client: Client, campaign: Campaign, with_key: bool) -> str:
    """A call that reports that this user did not convert."""
    where = f"{client.url}/v1/campaigns/{campaign.id}/decisions/{EXAMPLE}/outcome"
    return f"curl -s -X PUT {where} {_headers(with_key)} -d '{{\"value\": 0}}'"


def _headers(with_key: bool) -> str:
    key = ' -H "authorization: Bearer $BCCB_KEY"' if with_key else ""
    return f"-H 'content-type: application/json'{key}"
