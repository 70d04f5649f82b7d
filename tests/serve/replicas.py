"""Several real processes that share one ledger."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
from processes import until

from bccb.serve.places import weight
from bench.service.process import PROGRAM, Server


class Cluster:
    """Replicas on one ledger."""

    def __init__(self, folder: Path, place: str, many: int) -> None:
        self.folder, self.place = folder, place
        self.started = 0
        kept = httpx.Limits(max_keepalive_connections=0)  # servers come and go
        self.client = httpx.Client(timeout=30.0, limits=kept)
        self.servers = [self.start() for _ in range(many)]
        for server in self.servers:
            server.wait()

    def start(self, port: int = 0) -> Server:
        self.started += 1
        log = self.folder / f"replica-{self.started}.log"
        return Server(self.place, PROGRAM, port=port, log=log)

    def mend(self) -> None:
        """Start those again that have ended, and let those go on that were stopped."""
        for i, server in enumerate(self.servers):
            server.process.send_signal(signal.SIGCONT)
            if server.process.poll() is not None:
                self.servers[i] = self.start(server.port)
        for server in self.servers:
            server.wait()

    def settle(self) -> None:
        """Wait until all replicas see each other: each campaign has one holder."""
        until(
            lambda: (
                sum(self.figure(each, "bccb_campaigns_held") for each in self.servers)
                == self.campaigns()
            )
        )

    def campaigns(self) -> int:
        """How many are held: each cell of a campaign is."""
        return sum(each.get("cells", 1) for each in self.ask(0, "GET", "").json()["campaigns"])

    def figure(self, server: Server, name: str) -> float:
        _, text = server.raw("GET", "/metrics")
        return sum(
            float(line.split()[-1])
            for line in text.decode().splitlines()
            if line.startswith(name) and line[len(name)] in " {"
        )

    def holder(self, campaign: str) -> int:
        """The replica that holds a campaign, once all agree."""
        self.settle()
        addresses = [f"http://{server.host}:{server.port}" for server in self.servers]
        return max(range(len(addresses)), key=lambda i: weight(campaign, addresses[i]))

    def ask(self, i: int, method: str, path: str, body: Any = None) -> httpx.Response:
        server = self.servers[i]
        url = f"http://{server.host}:{server.port}/v1/campaigns/{path}".rstrip("/")
        return self.client.request(method, url, json=body)

    def done(self, i: int, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(i, method, path, body)
        assert answer.is_success, answer.text
        return answer.json()

    def close(self) -> None:
        self.client.close()
        for server in self.servers:
            server.kill()
