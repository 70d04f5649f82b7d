"""The webhook: notices that are sent, tried again and lost."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from bccb.errors import InputError
from bccb.serve import webhook as module
from bccb.serve.metrics import Metrics
from bccb.serve.webhook import Webhook, check_url
from bccb.wire import Notice

NOTICE = Notice("c1", "spring", "money_gone", "raised", "Nothing is left.", datetime.now(UTC))


class Receiver(HTTPServer):
    """Answers with the statuses that it was given, then with 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[Any] = []
        self.statuses: list[int] = []
        self.url = f"http://127.0.0.1:{self.server_port}/secret"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(json.loads(body))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(module, "PAUSES", (0.01, 0.01))
    with Receiver() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def counted(metrics: Metrics, result: str) -> float:
    name = "bccb_webhook_notices_total"
    return metrics.registry.get_sample_value(name, {"result": result}) or 0.0


def wait_for(metrics: Metrics, result: str) -> None:
    deadline = time.monotonic() + 20
    while not counted(metrics, result):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_notice_is_sent_as_json(receiver: Receiver) -> None:
    metrics = Metrics()
    Webhook(check_url(receiver.url), metrics).tell(NOTICE)
    wait_for(metrics, "sent")
    (body,) = receiver.bodies
    assert set(body) == {"campaign_id", "campaign", "kind", "state", "text", "at"}
    assert (body["campaign"], body["kind"], body["state"]) == ("spring", "money_gone", "raised")


def test_a_notice_is_tried_again(receiver: Receiver) -> None:
    metrics = Metrics()
    receiver.statuses = [500, 307]  # what it redirects to is not asked
    Webhook(check_url(receiver.url), metrics).tell(NOTICE)
    wait_for(metrics, "sent")
    assert len(receiver.bodies) == 3
    assert counted(metrics, "lost") == 0


def test_after_the_last_try_a_notice_is_lost_and_the_next_one_sent(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    receiver.statuses = [500, 500, 500]
    webhook = Webhook(check_url(receiver.url), metrics)
    webhook.tell(NOTICE)
    webhook.tell(NOTICE)
    wait_for(metrics, "sent")
    assert (counted(metrics, "lost"), counted(metrics, "sent")) == (1, 1)
    assert "127.0.0.1 answered 500" in caplog.text
    assert "secret" not in caplog.text


def test_nobody_waits_for_an_address_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    monkeypatch.setattr(module, "PAUSES", (60.0,))
    metrics = Metrics()
    webhook = Webhook(check_url("http://127.0.0.1:1/"), metrics)
    begin = time.monotonic()
    for _ in range(100):
        webhook.tell(NOTICE)
    assert time.monotonic() - begin < 1.0
    assert 96 <= counted(metrics, "lost") <= 97  # one may be under way


@pytest.mark.parametrize(
    "url", ["ftp://a/b", "file:///etc/passwd", "example.org", "http://", "h\n"]
)
def test_only_web_addresses_are_taken(url: str) -> None:
    with pytest.raises(InputError, match="must be an http or https address"):
        check_url(url)
