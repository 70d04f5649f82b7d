"""Calls over kept connections, each timed; and a probe of /healthz beside them."""

from __future__ import annotations

import http.client
import json
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

from bench.fuzzing.findings import Findings
from bench.service.wire import HOST

LONGEST = 1.0  # seconds that a call may take
PATIENCE = 180.0  # seconds after which the harness does not wait any longer
PROBE_EVERY = 0.04  # seconds
JSON = "application/json"
PROBLEM = "application/problem+json"
GONE = (OSError, http.client.HTTPException)


class Call(NamedTuple):
    """A request: a body that is not None goes out under ``content_type``."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str | None = JSON
    note: str = ""  # what it is about

    @property
    def about(self) -> str:
        """For messages."""
        body = "" if self.body is None else self.body[:100].decode("utf-8", "replace")
        return f"{self.method} {self.path} {self.note} {body}"


class Answer(NamedTuple):
    """What came back, and between which moments (microseconds since 1970) it was made."""

    status: int
    content_type: str
    raw: bytes
    began: int
    ended: int


def calling(method: str, path: str, body: Any = None, note: str = "") -> Call:
    """A call whose body is JSON."""
    return Call(method, path, None if body is None else json.dumps(body).encode(), note=note)


def now() -> int:
    """Microseconds since 1970, by the clock that the server has as well."""
    return time.time_ns() // 1_000


def held_up(process: int) -> float:
    """Seconds for which the machine itself has held up a process, or this thread, so far.

    It had no processor, or the disk was the bottleneck: where Linux tells. What others do beside
    us must not count as a stall of the service.
    """
    waited = 0.0
    for thread in ("/proc/thread-self/schedstat", *glob(f"/proc/{process}/task/*/schedstat")):
        with suppress(OSError, LookupError, ValueError):  # it may have ended
            waited += int(Path(thread).read_text().split()[1]) / 1e9
    with suppress(OSError, LookupError, ValueError):
        some = Path("/proc/pressure/io").read_text().splitlines()[0]
        waited += int(some.rpartition("total=")[2]) / 1e6
    return waited


class Stopwatch:
    """Seconds that calls take, without what the machine itself has held up."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._began = time.perf_counter()
        self._delay = held_up(process)

    def seconds(self) -> float:
        """Since it was made."""
        passed = time.perf_counter() - self._began
        return passed if passed <= LONGEST else passed - (held_up(self._process) - self._delay)


class Wire:
    """Connections to one server."""

    def __init__(self, port: int, process: int, findings: Findings) -> None:
        self.port, self.process, self.findings = port, process, findings
        self._connections: list[http.client.HTTPConnection] = []

    def ask(self, call: Call) -> Answer | None:
        """The answer to one call; None where it never came."""
        return self.ask_all([call])[0]

    def ask_all(
        self, calls: Sequence[Call], meanwhile: Callable[[], None] = lambda: None
    ) -> list[Answer | None]:
        """Send all, each on a connection of its own, then read all; None where no answer came."""
        while len(self._connections) < len(calls):
            self._connections.append(http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE))
        sent = []
        for connection, call in zip(self._connections, calls, strict=False):
            watch, began = Stopwatch(self.process), now()
            sent.append((connection, call, began, watch, _send(connection, call)))
        meanwhile()
        return [self._receive(*each) for each in sent]

    def _receive(
        self,
        connection: http.client.HTTPConnection,
        call: Call,
        began: int,
        watch: Stopwatch,
        sent: bool,
    ) -> Answer | None:
        try:
            if not sent:
                raise ConnectionResetError
            response = connection.getresponse()
            raw = response.read()
        except GONE:
            connection.close()
            return None
        seconds = watch.seconds()
        if seconds > LONGEST:
            self.findings.add("stalls", f"{seconds:.1f} s for {call.about}")
        kind = response.getheader("content-type", "").partition(";")[0]
        return Answer(response.status, kind, raw, began, now())

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()


def _send(connection: http.client.HTTPConnection, call: Call) -> bool:
    if connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
        connection.close()  # the server has closed it because it was idle: another is made
    headers = {}
    if call.body is not None and call.content_type is not None:
        headers["Content-Type"] = call.content_type
    try:
        connection.request(call.method, call.path, call.body, headers)
    except (BrokenPipeError, ConnectionResetError):
        return connection.sock is not None  # it may have answered before it closed
    except GONE:
        return False
    return True


class Probe:
    """Asks /healthz again and again from a thread of its own: is anybody held up?"""

    def __init__(self, port: int, process: int, findings: Findings) -> None:
        self._wire = Wire(port, process, findings)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        call = calling("GET", "/healthz")
        while not self._end.wait(PROBE_EVERY):
            answer = self._wire.ask(call)
            if answer is None:
                continue
            if (answer.status, answer.raw) != (200, b'{"status":"ok"}'):
                self._wire.findings.add("faults", f"/healthz is {answer.status} {answer.raw!r}")

    def stop(self) -> None:
        """End it."""
        self._end.set()
        self._thread.join()
        self._wire.close()
