"""``bccb ledger``: look after what the service keeps."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from bccb.cli.console import SETTINGS, notes, out
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Account, DamagedError, Reader, Snapshot
from bccb.serve.campaign import Campaign
from bccb.serve.code import Code
from bccb.serve.recovery import SnapshotError, check_seals, load, recover
from bccb.serve.refold import refold as fold_again

LedgerArgument = Annotated[
    str,
    typer.Argument(
        metavar="PLACE", help="The ledger: a file, or a URL that begins with postgresql://."
    ),
]

app = typer.Typer(help="Look after the ledger of the service.", **SETTINGS)


@app.callback()
def group() -> None:
    """Look after the ledger of the service."""


@app.command("backup")
def backup(
    file: LedgerArgument,
    to: Annotated[Path, typer.Argument(metavar="OUT", help="File to write.")],
) -> None:
    """Copy a ledger as it is now, also while a service runs on it.

    From PostgreSQL it runs `pg_dump`, and `pg_restore` reads the file into an empty database.

    **Examples**

    `bccb ledger backup bccb.sqlite backup.sqlite`

    `bccb ledger backup postgresql://bccb@db.example/bccb backup.dump`
    """
    with closing(open_ledger(file, read_only=True)) as ledger:
        ledger.back_up(to)
        campaigns = len(ledger.accounts())
    out.print(f"wrote {campaigns:,} campaigns to {to}", highlight=False, soft_wrap=True)


@app.command("verify")
def verify(file: LedgerArgument) -> None:
    """Fold all journals again, and compare with what recovery gives.

    Events that another version of bccb wrote cannot be computed again: their seals are checked.

    Beside a running service it may meet events that come in between: stop the service first, or
    verify a backup.

    **Example**

    `bccb ledger verify bccb.sqlite`
    """
    events = 0
    with (
        closing(open_ledger(file, read_only=True)) as ledger,
        Progress(console=notes, transient=True, disable=not notes.is_terminal) as progress,
    ):
        ledger.check_whole()
        accounts = ledger.accounts()
        for account in progress.track(accounts, description="folding"):
            note = _verify(ledger, account)
            if note:
                advice = f"bccb ledger refold PLACE {account.id}"
                line = f"{note}. To replace it, stop the service and run: {advice}"
                notes.print(line, highlight=False, markup=False, soft_wrap=True)
            events += account.sequence
    out.print(f"{len(accounts):,} campaigns, {events:,} events: whole", highlight=False)


def _verify(ledger: Reader, account: Account) -> str:
    """Fold what this version has written, and check the seals of what older ones have.

    What is to be said of its first snapshot, if that cannot be used.
    """
    start, last = ledger.origin(account.key), ledger.snapshot(account.key)
    if last is not None and not Code(last.version, last.fingerprint).is_this:
        start = last
    if start is not None:
        check_seals(ledger, account, start.sequence)
    loaded = load(ledger, account)
    folded, note = _folded(ledger, account, start, last)
    if folded is not None and loaded.to_bytes() != folded.to_bytes():
        reason = "the fold of its journal is not what its snapshot says"
        raise DamagedError(f"campaign {account.id} is damaged: {reason}")
    return note


def _folded(
    ledger: Reader, account: Account, start: Snapshot | None, last: Snapshot | None
) -> tuple[Campaign | None, str]:
    """The fold from the first snapshot, from event 1 where that cannot be used, or none.

    There is none where other code wrote the first events, and made something else of them. The
    newest snapshot, which can be used, is then all that there is to begin with.
    """
    try:
        recovered = recover(ledger, account, start)
    except SnapshotError as error:
        assert last is not None
        check_seals(ledger, account, last.sequence)
        how = f"the seals of its events up to {last.sequence} fit, and later ones were folded"
        return None, _note(account, str(error.__cause__), how)
    how = f"it was folded from event {recovered.begin}"
    unusable = "; ".join(recovered.reasons)
    return recovered.campaign, unusable and _note(account, unusable, how)


def _note(account: Account, unusable: str, how: str) -> str:
    return f"campaign {account.id}: {unusable}; its journal is whole ({how})"


@app.command("refold")
def refold(
    file: LedgerArgument,
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="The campaign's id.")],
) -> None:
    """Accept what this version makes of a campaign that another one wrote.

    For a campaign that is quarantined because other code wrote its last events. Stop the service
    first. The journal stays as it is, with all decisions and their money; the policy goes on with
    what this version learns from them. Make a backup before.

    **Example**

    `bccb ledger refold bccb.sqlite c0123456789`
    """
    open_ledger(file, read_only=True).close()  # to write would make one where there is none
    with closing(open_ledger(file)) as ledger, notes.status("folding"):
        ledger.own()
        ledger.check_whole()
        account, differences = fold_again(ledger, campaign)
    result = "all come out as recorded"
    if differences.events:
        fields = sorted(differences.fields.items())
        counts = ", ".join(f"{name} {count:,}" for name, count in fields)
        first = f"from event {differences.first:,} on"
        result = f"{differences.events:,} differ, {first} ({counts}); accepted"
    line = f"campaign {account.id}: {account.sequence:,} events, {result}"
    out.print(line, highlight=False, soft_wrap=True)
