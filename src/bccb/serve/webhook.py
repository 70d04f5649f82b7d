"""The webhook: tells another service when an alert comes or goes.

A thread of its own sends one notice after the other, so that nothing waits for it. One that cannot
be sent is tried again some times, then it is lost, logged and counted.
"""

from __future__ import annotations

import logging
import queue
import threading
import time

import httpx

from bccb.errors import InputError
from bccb.serve.metrics import Metrics
from bccb.wire import Notice, encode

MOST_WAITING = 1_000  # notices; those beyond are lost
PAUSES = (1.0, 5.0, 30.0, 120.0)  # seconds between tries
PATIENCE = 10.0  # seconds for an answer
HEADERS = {"Content-Type": "application/json"}

logger = logging.getLogger("bccb.serve")


def check_url(url: str) -> httpx.URL:
    """The address, if notices can be sent to it.

    >>> check_url("ftp://example.org/")
    Traceback (most recent call last):
    bccb.errors.InputError: webhook is 'ftp://example.org/', but must be an http or https address
    """
    try:
        checked = httpx.URL(url)
    except httpx.InvalidURL:
        checked = httpx.URL()
    if checked.scheme not in ("http", "https") or not checked.host:
        raise InputError("webhook", url, "an http or https address")
    return checked


class Webhook:
    """Sends notices to one address."""

    def __init__(self, url: httpx.URL, metrics: Metrics) -> None:
        self._url, self._notices = url, metrics.notices
        self._queue: queue.Queue[Notice] = queue.Queue(MOST_WAITING)
        # it ends with the process: alerts that still stand are sent again after the next start
        threading.Thread(target=self._run, name="bccb-webhook", daemon=True).start()

    def tell(self, notice: Notice) -> None:
        """Send a notice soon; this never waits."""
        try:
            self._queue.put_nowait(notice)
        except queue.Full:
            self._lose(notice, "too many others wait")

    def _run(self) -> None:
        with httpx.Client(timeout=PATIENCE, headers=HEADERS) as client:
            while True:
                self._send(client, self._queue.get())

    def _send(self, client: httpx.Client, notice: Notice) -> None:
        fault: str | None = None
        for pause in (0.0, *PAUSES):
            time.sleep(pause)
            fault = self._try(client, notice)
            if fault is None:
                self._notices.labels("sent").inc()
                return
        self._lose(notice, fault or "")

    def _try(self, client: httpx.Client, notice: Notice) -> str | None:
        """What went wrong. Only the host is named: the rest of an address is often a secret."""
        try:
            answer = client.post(self._url, content=encode(notice))
        except Exception as error:  # whatever it was, the next notice has its turn
            return f"{self._url.host}: {type(error).__name__}"
        return None if answer.is_success else f"{self._url.host} answered {answer.status_code}"

    def _lose(self, notice: Notice, why: str) -> None:
        self._notices.labels("lost").inc()
        what = notice.campaign_id, notice.kind, notice.state
        logger.error("the webhook got no notice that in campaign %s %s was %s: %s", *what, why)
