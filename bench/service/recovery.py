"""How long a killed server takes to be ready again, on a ledger with many events."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.service import traffic
from bench.service.generator import Generator, Order
from bench.service.process import Server, run_bccb

LIST = 1_000  # the longest list that the service takes
CAMPAIGNS = 10
TURN = 10  # requests between two looks at the progress


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds until ready: with an empty ledger, and after a kill; of the check, if there is one.

    ``verdict`` is the last line of the check.
    """

    events: int
    megabytes: float
    empty: float
    killed: float
    check: float | None
    verdict: str


def measure(folder: Path, events: int, step: Callable[[int], None]) -> Recovery:
    """Fill a ledger over HTTP, kill the server, start it again; fold the whole journal."""
    ledger = folder / "recovery.sqlite"
    server = Server(ledger)
    try:
        empty = server.wait()
        recorded = _fill(server, events, step)
    finally:
        server.kill()
    server = Server(ledger)
    try:
        killed = server.wait()
    finally:
        server.kill()
    megabytes = sum(part.stat().st_size for part in folder.glob("recovery.sqlite*")) / 1e6
    began = time.perf_counter()
    done = run_bccb("ledger", "verify", ledger)
    lasted = time.perf_counter() - began
    verdict = ((done.stdout + done.stderr).strip().splitlines() or ["nothing"])[-1]
    check = lasted if done.returncode == 0 else None
    return Recovery(recorded, megabytes, empty, killed, check, verdict)


def _fill(server: Server, events: int, step: Callable[[int], None]) -> int:
    """Record so many events, half of them decisions and half outcomes; how many they were."""
    ids = [server.create(traffic.campaign_request(f"fill {n}")) for n in range(CAMPAIGNS)]
    generator = Generator([server.port], {"fill": ids})
    size = min(LIST, max(events // (2 * TURN), 2))
    recorded = 0
    try:
        while recorded < events:
            for kind in ("decisions", "outcomes"):
                order = Order(kind, "fill", size=size, connections=2, requests=TURN)
                found = generator.run(order)
                if found.refused:
                    raise RuntimeError(f"a request was refused: {found.refusal}")
                recorded += found.items
                step(min(recorded, events))
    finally:
        generator.close()
    return recorded
