"""``bccb keys``: API keys of the service."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer
from rich.table import Table

from bccb.cli.console import SETTINGS, notes, out
from bccb.cli.options import LEDGER, LedgerFile
from bccb.ledger.keys import make_key, revoke_key
from bccb.ledger.moment import as_time
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Scope

app = typer.Typer(help="Make, list and revoke API keys of the service.", **SETTINGS)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")],
    scope: Annotated[
        Scope,
        typer.Option(
            "--scope", help="admin: everything; decide: decisions and outcomes; read: look."
        ),
    ] = Scope.DECIDE,
    ledger: LedgerFile = LEDGER,
) -> None:
    """Make a key and print it: it is shown this once, and kept as a hash.

    **Example**

    `bccb keys create shop --scope decide`
    """
    with closing(open_ledger(ledger)) as file:
        key, text = make_key(file, name, scope)
    notes.print(
        f"key {key.id} for {name}, scope {key.scope.value}; keep it, it is not shown again:"
    )
    out.print(text, highlight=False, soft_wrap=True)


@app.command("list")
def list_keys(ledger: LedgerFile = LEDGER) -> None:
    """List the keys, without their secrets."""
    table = Table("id", "name", "scope", "made", "revoked", box=None)
    with closing(open_ledger(ledger, read_only=True)) as file:
        known = file.keys()
    for key in known:
        revoked = "" if key.revoked_at is None else as_time(key.revoked_at)[:19]
        table.add_row(key.id, key.name, key.scope.value, as_time(key.created_at)[:19], revoked)
    out.print(table)


@app.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="As `bccb keys list` shows it.")],
    ledger: LedgerFile = LEDGER,
) -> None:
    """Revoke a key; a running service notices within two seconds."""
    with closing(open_ledger(ledger)) as file:
        revoke_key(file, key)
    out.print(f"key {key} is revoked")
