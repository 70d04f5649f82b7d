"""The load generator, in a process of its own: a line of JSON in for each round, one out.

Every connection sends its next request as soon as the last one is answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.service import traffic
from bench.service.process import ROOT
from bench.service.wire import HOST, Answers


@dataclass(frozen=True, slots=True)
class Order:
    """What one round sends: until the seconds are over, or that many requests are sent."""

    kind: str  # empty, decisions, columns, outcomes
    campaigns: str  # the name of the set of campaigns
    size: int = 1  # decisions or outcomes in a request
    connections: int = 1
    seconds: float = 3600.0
    requests: int = 10**12


@dataclass(frozen=True, slots=True)
class Round:
    """What came of it; latencies in seconds, ``busy`` is the generator's share of one CPU."""

    requests: int
    items: int
    seconds: float
    p50: float
    p99: float
    busy: float
    refused: int
    refusal: str = ""
    server: float = 0.0  # the server's share of one CPU, where that is known

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


class Loop(Answers):
    """One connection of a round."""

    def __init__(self, requests: Iterator[bytes], until: float) -> None:
        super().__init__()
        self.requests, self.until = requests, until
        self.latencies: list[float] = []
        self.refused: list[bytes] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent = 0.0

    def fire(self) -> None:
        """Send the next request, or end."""
        now = time.perf_counter()
        request = next(self.requests, None) if now < self.until else None
        if request is None:
            self.end()
        else:
            self._sent = now
            self.transport.write(request)

    def answered(self, status: int, whole: bytes) -> None:
        """Note the time, and go on."""
        self.latencies.append(time.perf_counter() - self._sent)
        if status != 200:
            self.refused.append(whole)
        self.fire()

    def connection_lost(self, error: Exception | None) -> None:
        """A server that hangs up has refused too."""
        if not self.ended.done():
            self.refused.append(b"the server hung up")
            self.end()

    def end(self) -> None:
        """Tell that this connection is through."""
        if not self.ended.done():
            self.ended.set_result(None)


async def send_round(ports: Sequence[int], requests: Iterator[bytes], order: Order) -> Round:
    """Send one round over fresh connections, to all ports in turn."""
    loop = asyncio.get_running_loop()
    until = time.perf_counter() + order.seconds
    left = _at_most(order.requests, requests)
    loops = [
        (await loop.create_connection(lambda: Loop(left, until), HOST, ports[i % len(ports)]))[1]
        for i in range(order.connections)
    ]
    began, cpu = time.perf_counter(), time.process_time()
    for connection in loops:
        connection.until = began + order.seconds
        connection.fire()
    await asyncio.gather(*(connection.ended for connection in loops))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    for connection in loops:
        connection.transport.close()
    latencies = sorted(one for connection in loops for one in connection.latencies)
    refused = [one for connection in loops for one in connection.refused]
    answered = len(latencies)
    return Round(
        requests=answered,
        items=answered * order.size,
        seconds=seconds,
        p50=latencies[answered // 2] if latencies else 0.0,
        p99=latencies[answered * 99 // 100] if latencies else 0.0,
        busy=cpu / seconds,
        refused=len(refused),
        refusal=refused[0].decode(errors="replace") if refused else "",
    )


def _at_most(limit: int, requests: Iterator[bytes]) -> Iterator[bytes]:
    for _ in range(limit):
        request = next(requests, None)
        if request is None:
            return
        yield request


class Generator:
    """The generator as its parent sees it."""

    def __init__(
        self, ports: Sequence[int], campaigns: dict[str, list[str]], first: int = 0
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.service.generator"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._tell({"ports": ports, "campaigns": campaigns, "first": first})

    def run(self, order: Order) -> Round:
        """Send a round and wait for its end."""
        self._tell(asdict(order))
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the load generator ended")
        return Round(**json.loads(line))

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        print(json.dumps(message), file=self.process.stdin, flush=True)


def main() -> None:
    """Answer orders until there are no more."""
    run: Any = asyncio.run
    if os.name == "posix":
        import uvloop

        run = uvloop.run
    begin = json.loads(sys.stdin.readline())
    sets = {
        name: traffic.Campaigns(ids, begin["first"]) for name, ids in begin["campaigns"].items()
    }
    for line in sys.stdin:
        order = Order(**json.loads(line))
        requests = _requests(order, sets)
        found = run(send_round(begin["ports"], requests, order))
        print(json.dumps(asdict(found)), flush=True)


def _requests(order: Order, sets: dict[str, traffic.Campaigns]) -> Iterator[bytes]:
    if order.kind == "empty":
        return traffic.empty()
    make = {
        "decisions": traffic.decisions,
        "columns": traffic.columns,
        "outcomes": traffic.outcomes,
    }[order.kind]
    return make(sets[order.campaigns], order.size)


if __name__ == "__main__":
    main()
