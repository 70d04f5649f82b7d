"""A server in a process of its own, on a free port of this machine alone."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.service.wire import HOST

PROGRAM = (sys.executable, "-m", "bccb")
ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds that a start may take
SERVING = re.compile(rb"serving on http://[^:\s]+:(\d+)")


class ServerError(Exception):
    """The server did what it must not; the message says what."""


class Server:
    """``bccb serve`` on a ledger; what it prints goes to a file beside the ledger."""

    def __init__(self, ledger: Path, program: Sequence[str] = PROGRAM) -> None:
        self.ledger = ledger
        self.printed = ledger.with_suffix(".log")
        self.began = time.perf_counter()
        self._port: int | None = None
        with self.printed.open("wb") as output:
            self.process = subprocess.Popen(
                [*program, "serve", "--port", "0", "--ledger", str(ledger)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(),
            )

    @property
    def port(self) -> int | None:
        """The port, once it is printed."""
        if self._port is None:
            found = SERVING.search(self.printed.read_bytes())
            self._port = int(found[1]) if found else None
        return self._port

    def is_ready(self) -> bool:
        """Whether it takes decisions; an error once it has ended by itself."""
        if self.process.poll() is not None:
            told = self.printed.read_text(errors="replace")
            raise ServerError(f"the server ended ({self.process.returncode}):\n{told}")
        if self.port is None:
            return False
        try:
            return self.call("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait(self) -> float:
        """Seconds from the start of the process until it was ready."""
        while not self.is_ready():
            if time.perf_counter() - self.began > PATIENCE:
                raise ServerError(f"not ready after {PATIENCE:.0f} s, see {self.printed}")
            time.sleep(0.005)
        return time.perf_counter() - self.began

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request on a connection of its own; where time does not matter."""
        status, raw = self.raw(method, path, body)
        return status, json.loads(raw) if raw[:1] in (b"{", b"[") else raw

    def raw(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """One request on a connection of its own: the status, and the body as it is."""
        assert self.port is not None
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE)
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

    def cpu_seconds(self) -> float:
        """Seconds of CPU that it took so far, where Linux tells; 0 elsewhere."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it at once. Unlike in a power cut, what it gave to the kernel is not lost."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ask it to end, and end it if it does not."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


def environment() -> dict[str, str]:
    """That of this process, with this checkout's sources first and nothing held back in pipes."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONUNBUFFERED": "1",
    }


def verify(ledger: Path, program: Sequence[str] = PROGRAM) -> subprocess.CompletedProcess[str]:
    """Fold the whole journal and compare: ``bccb ledger verify``."""
    return subprocess.run(
        [*program, "ledger", "verify", str(ledger)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
