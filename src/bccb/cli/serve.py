"""``bccb serve``: decisions over HTTP."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import Annotated

import typer

from bccb.cli.console import notes, out
from bccb.ledger.ledger import Ledger
from bccb.serve.access import Access
from bccb.serve.server import bind, opened, serve

LedgerFile = Annotated[
    Path,
    typer.Option(
        "--ledger", metavar="FILE", help="The SQLite file of the service.", envvar="BCCB_LEDGER"
    ),
]
DEFAULT_LEDGER = Path("bccb.sqlite")


def command(
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; any but loopback needs API keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port; 0 picks a free one.")] = 8000,
    ledger: LedgerFile = DEFAULT_LEDGER,
) -> None:
    """Decide over HTTP, from a durable ledger that cannot overspend.

    **Examples**

    `bccb serve` and then, in another terminal, `bccb drive`

    `bccb serve --host 0.0.0.0 --ledger campaigns.sqlite`, after `bccb keys create`
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    listener = bind(host, port)
    with notes.status("reading the ledger") as status:
        books_of = opened(ledger, lambda name: status.update(f"reading the ledger: {name}"))
        books = books_of.__enter__()
    keys = Ledger(ledger, read_only=True)
    try:
        access = Access(keys, host)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        out.print(f"serving on {address}", highlight=False, soft_wrap=True)
        told = f"ledger {ledger} · API at /docs · Ctrl-C to stop"
        notes.print(told, highlight=False, soft_wrap=True)
        serve(books, access, listener)
    except KeyboardInterrupt:  # a signal has ended it, and everything is kept
        notes.print("stopped", highlight=False)
    finally:
        keys.close()
        listener.close()
        books_of.__exit__(None, None, None)
