"""Clients of both kinds, connected to a small service that fails on purpose."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bccb.client import (
    Client,
)
from client.stand_in import Connect, Server, Service, Waiting, handler_of


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    with Server(("127.0.0.1", 0), handler_of(service)) as server:
        service.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield service
        service.stopped.set()
        server.shutdown()
        thread.join()


@pytest.fixture(params=[Client, Waiting])
def connect(request: pytest.FixtureRequest, service: Service) -> Iterator[Connect]:
    """Connect a client, of either kind, to the service."""
    clients: list[Any] = []

    def connect(**options: Any) -> Any:
        clients.append(request.param(**{"url": service.url} | options))
        return clients[-1]

    yield connect
    for client in clients:
        client.disconnect()
        if isinstance(client, Waiting):
            client.runner.close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short, and no setting of this machine gets in."""
    monkeypatch.setattr("bccb.client.tries.FIRST_PAUSE", 0.01)
    monkeypatch.delenv("BCCB_URL", raising=False)
    monkeypatch.delenv("BCCB_KEY", raising=False)
