"""``bccb serve``: decisions over HTTP."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Annotated

import typer

from bccb.cli.console import notes, out
from bccb.cli.options import LEDGER, LedgerFile
from bccb.ledger.place import shown_place
from bccb.serve.access import Access, check_exposure
from bccb.serve.server import bind, joined, opened, serve
from bccb.serve.webhook import check_url


@contextmanager
def stopped_by_signal() -> Iterator[None]:
    """A signal stops the service without an error: everything is kept."""
    try:
        yield
    except KeyboardInterrupt:
        notes.print("stopped", highlight=False)


def command(
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; any but loopback needs API keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port; 0 picks a free one.")] = 8000,
    ledger: LedgerFile = LEDGER,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="URL",
            help="Where the other replicas on a PostgreSQL ledger reach this one.",
        ),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", metavar="URL", help="Where to POST alerts that come and go."),
    ] = None,
) -> None:
    """Decide over HTTP, from a durable ledger that cannot overspend.

    **Examples**

    `bccb serve` and then, in another terminal, `bccb drive`

    `bccb serve --host 0.0.0.0 --ledger campaigns.sqlite`, after `bccb keys create`

    `bccb serve --ledger postgresql://bccb@db.example/bccb`
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with stopped_by_signal(), ExitStack() as stack:
        webhook_url = None if webhook is None else check_url(webhook)
        check_exposure(ledger, host)
        listener = stack.enter_context(closing(bind(host, port)))
        with notes.status("reading the ledger") as status:
            reading = "reading the ledger: {}"
            books = stack.enter_context(opened(ledger, lambda n: status.update(reading.format(n))))
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        membership = stack.enter_context(joined(books, advertise or address))
        keys = membership or stack.enter_context(closing(books.ledger.reader()))
        access = Access(keys, host)
        out.print(f"serving on {address}", highlight=False, soft_wrap=True)
        hint = f"ledger {shown_place(ledger)} · API at /docs · Ctrl-C to stop"
        notes.print(hint, highlight=False, soft_wrap=True)
        # Until here a signal just ends the process, which is as safe as a crash: an exception could
        # be swallowed by a callback of the compiler.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        serve(books, access, listener, webhook_url, membership)
