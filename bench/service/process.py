"""``bccb`` in processes of its own: one harness for benchmarks and for tests."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PROGRAM = (sys.executable, "-m", "bccb")
ROOT = Path(__file__).parents[2]
START_SECONDS = 120.0  # the first start may have to compile
STOP_SECONDS = 30.0
POLL_SECONDS = 0.005
SERVING = re.compile(rb"serving on http://(\S+):(\d+)\n")


class ServerError(Exception):
    """The server did what it must not; the message says what."""


class Server:
    """``bccb serve`` on a ledger, on a free port unless one is given.

    Its standard error goes to ``log``, by default beside the ledger's file, and its standard output
    to a file with the same name that ends in ``.out``.
    """

    patience = START_SECONDS  # for the answer to one request

    def __init__(
        self,
        ledger: Path | str,
        program: Sequence[str] = PROGRAM,
        arguments: Sequence[object] = (),
        *,
        port: int = 0,
        log: Path | None = None,
    ) -> None:
        self.ledger = Path(ledger)
        self.log = log or self.ledger.with_suffix(".log")
        self.out = self.log.with_suffix(".out")
        self.began = time.perf_counter()
        self._address: tuple[str, int] | None = None
        given = ("serve", "--port", port, "--ledger", ledger, *arguments)
        with self.out.open("wb") as out, self.log.open("wb") as log_file:
            self.process = subprocess.Popen(
                [*program, *map(str, given)], stdout=out, stderr=log_file, env=environment()
            )

    # Where it is, and whether it is ready

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.process.pid

    @property
    def host(self) -> str:
        """The host that it printed."""
        return self._printed_address()[0]

    @property
    def port(self) -> int:
        """The port that it printed."""
        return self._printed_address()[1]

    def has_address(self) -> bool:
        """Whether it has printed its address; an error once it has ended by itself."""
        if self._address is None:
            ended = self.process.poll() is not None  # before the look at what it printed
            if found := SERVING.search(self.out.read_bytes()):
                self._address = found[1].decode().strip("[]"), int(found[2])
            elif ended:
                raise self._ended()
        return self._address is not None

    def is_ready(self) -> bool:
        """Whether it takes decisions; an error once it has ended by itself."""
        if self.process.poll() is not None:
            raise self._ended()
        if not self.has_address():
            return False
        try:
            return self.call("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait(self) -> float:
        """Seconds from the start of the process until it was ready."""
        return self._wait(self.is_ready)

    def wait_for_address(self) -> float:
        """Seconds from the start of the process until it had printed its address."""
        return self._wait(self.has_address)

    def _wait(self, reached: Callable[[], bool]) -> float:
        while not reached():
            if time.perf_counter() - self.began > START_SECONDS:
                raise ServerError(f"it has not started in {START_SECONDS:.0f} s:\n{self.stderr()}")
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - self.began

    def _printed_address(self) -> tuple[str, int]:
        if not self.has_address() or self._address is None:
            raise ServerError("it has not printed its address yet: wait for it first")
        return self._address

    def _ended(self) -> ServerError:
        return ServerError(f"the server ended ({self.process.returncode}):\n{self.stderr()}")

    def stderr(self) -> str:
        """What it has logged so far."""
        return self.log.read_text(errors="replace")

    def cpu_seconds(self) -> float:
        """Seconds of CPU that it took so far, as Linux counts them; 0 elsewhere."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # Requests where time does not matter

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request on a connection of its own: the status, and the body as JSON if it is."""
        status, raw = self.raw(method, path, body)
        return status, json.loads(raw) if raw[:1] in (b"{", b"[") else raw

    def raw(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """One request on a connection of its own: the status, and the body as it is."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.patience)
        try:
            text = None if body is None else json.dumps(body)
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def create(self, request: dict[str, Any]) -> str:
        """The id of a new campaign."""
        status, answer = self.call("POST", "/v1/campaigns", request)
        if status not in (200, 201):
            raise ServerError(f"the campaign was refused: {answer}")
        return str(answer["id"])

    # The end

    def kill(self) -> None:
        """End it at once. Unlike in a power cut, what it gave to the kernel is not lost."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_SECONDS)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, and end it if it does not; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        return int(self.process.returncode)


def environment() -> dict[str, str]:
    """That of this process, with this checkout's sources first and nothing held back in pipes."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONUNBUFFERED": "1",
    }


def hooked(code: str) -> tuple[str, ...]:
    """The command line as a program that runs ``code`` first."""
    return (sys.executable, "-c", f"{code}\nfrom bccb.cli import main; main()")


def run_bccb(
    *arguments: object, program: Sequence[str] = PROGRAM, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*program, *map(str, arguments)],
        env={**environment(), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
