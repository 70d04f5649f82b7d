"""The server: one process that owns a ledger and answers over HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import httpx
import uvicorn

from bccb.errors import BccbError, InputError
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Ledger
from bccb.policies import make
from bccb.serve.access import Access
from bccb.serve.alerts import ignore
from bccb.serve.app import create_app
from bccb.serve.books import Books
from bccb.serve.code import this_code
from bccb.serve.connection import MOST_CONNECTIONS, RESERVED, Connection, connections_within
from bccb.serve.engine import Engine
from bccb.serve.forwarding import Forwarder
from bccb.serve.membership import Membership
from bccb.serve.metrics import Metrics
from bccb.serve.peer import check_address
from bccb.serve.terms import Terms
from bccb.serve.webhook import Webhook

COLLECT = (50_000, 50, 100)  # objects, young and middle-aged collections between collections
SHUTDOWN_SECONDS = 10  # for requests under way
MOST_WARMED = 1_000  # campaigns, the newest, for whose kernels a replica looks before it joins
HAND_OVER_SECONDS = 2.0  # in which proxies notice, and requests go on to the next holders

logger = logging.getLogger("bccb.serve")


def raise_descriptors(most: int) -> int:
    """Let this process open so many files, or as many as are allowed; how many that is."""
    try:
        import resource
    except ImportError:  # Windows, where sockets are not files
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # some systems allow less than they say
        return soft
    return most


def most_connections(shared: bool) -> int:
    """How many connections there may be; on a shared ledger each may need one to a replica."""
    each = 2 if shared else 1
    return connections_within(raise_descriptors(each * MOST_CONNECTIONS + RESERVED), each)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(
            "address", f"{host}:{port}", f"free: choose another port ({error})"
        ) from None
    return listener


@contextmanager
def opened(
    place: str | os.PathLike[str], report: Callable[[str], None] = lambda _: None
) -> Iterator[Books]:
    """The books of a ledger that this process owns, with all campaigns loaded."""
    ledger = open_ledger(place)
    try:
        if not ledger.shared:
            ledger.own()
        ledger.check_whole()
        books = Books(ledger)
        report("compiling")
        make(budget=1, horizon=1, features=1, window=1.0).warm()
        if ledger.shared:  # campaigns are loaded when this process is to hold them
            ledger.upgrade()
            _warm(ledger, report)
        else:
            _load(books, report)
        ledger.probe()
        yield books
    finally:
        ledger.close()


def _load(books: Books, report: Callable[[str], None]) -> None:
    warmed: set[object] = set()
    for campaign in books.open():
        report(campaign.terms.name)
        if (kernels := _kernels_of(campaign.terms)) not in warmed:
            # later there may be no file descriptor left to read the compiled kernels with
            campaign.machine.warm()
            warmed.add(kernels)


def _warm(ledger: Ledger, report: Callable[[str], None]) -> None:
    """Compile what campaigns need before other replicas know this process.

    Otherwise the first take-over would compile it, while all campaigns wait.
    """
    warmed: set[object] = set()
    for account in ledger.accounts()[-MOST_WARMED:]:
        first = ledger.first(account.key)
        try:
            terms = Terms.from_json((first and first.detail) or b"")
            if (kernels := _kernels_of(terms)) not in warmed:
                report(terms.name)
                terms.machine().warm()
                warmed.add(kernels)
        except (BccbError, LookupError, TypeError, ValueError) as error:
            # whoever takes it over says what is wrong with it
            logger.warning("nothing was compiled for campaign %s: %s", account.id, error)


def _kernels_of(terms: Terms) -> object:
    """What decides which kernels a campaign needs: all other terms are values that they read."""
    return terms.policy, terms.outcome


@contextmanager
def joined(books: Books, address: str) -> Iterator[Membership | None]:
    """Join the replicas that share a ledger; nothing where it is not shared."""
    if not books.ledger.shared:
        yield None
        return
    membership = Membership(books.ledger.replicas(), check_address(address), this_code().version)
    membership.start()
    try:
        yield membership
    finally:
        membership.stop()


def serve(
    books: Books,
    access: Access,
    listener: socket.socket,
    webhook: httpx.URL | None = None,
    membership: Membership | None = None,
) -> None:
    """Answer until a signal ends it, and tell a webhook of alerts."""
    Connection.most = most_connections(shared=membership is not None)
    metrics = Metrics()
    tell = ignore if webhook is None else Webhook(webhook, metrics).tell
    if membership is None:
        engine = Engine(books, metrics, tell=tell)
    else:
        forwarder = Forwarder(membership.places, metrics)
        engine = Engine(books, metrics, membership.clock, tell, forwarder)
    config = uvicorn.Config(
        create_app(engine, access),
        http=Connection,
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        server_header=False,
        proxy_headers=False,
    )
    # What exists now stays, and later objects are rarely part of a cycle. Frequent collections
    # would only hold up requests
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    Server(config, membership).run(sockets=[listener])


class Server(uvicorn.Server):
    """A server that hands its campaigns over before it stops."""

    def __init__(self, config: uvicorn.Config, membership: Membership | None) -> None:
        super().__init__(config)
        self._membership = membership

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at once where there is nobody to hand over to, or when asked twice."""
        membership = self._membership
        if membership is None or membership.places.leaving or not membership.places.others():
            super().handle_exit(sig, frame)
            return
        membership.leave()
        stop = partial(super().handle_exit, sig, frame)
        asyncio.get_running_loop().call_later(HAND_OVER_SECONDS, stop)
