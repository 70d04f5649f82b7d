"""The same requests on every engine of the ledger: the same answers and rows, to the bit."""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from postgresql import server

from bccb.ledger.event import Event
from bccb.ledger.opening import open_ledger
from serve.service import Service

OPENINGS: list[dict[str, Any]] = [
    {"policy": {"name": "budgeted-thompson"}, "budget": "30"},
    {
        "policy": {"name": "pooled-bayes"},
        "outcome": {"kind": "amount", "negative": True, "largest": "50"},
        "charge": "conversion",
        "share": 0.2,
        "features": ["größe \"'\\ 中"],
    },
    {"mode": "shadow", "policy": {"name": "cheapest-first"}},
]


class Told:
    """A service, what it was asked in an order that a seed determines, and what it answered."""

    def __init__(self, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
        numbers: dict[int, count[int]] = defaultdict(lambda: count(1))
        monkeypatch.setattr("secrets.token_hex", lambda size: f"{next(numbers[size]):0{size}}")
        self.random = random.Random(4)
        self.answers: list[tuple[int, str]] = []
        self.service = Service(place)

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = self.service.ask(method, path, body)
        self.answers.append((answer.status_code, answer.text))
        return answer

    def live(self) -> None:
        """Open campaigns, decide, report, correct, settle, cancel, let windows pass, restart."""
        opened = [self._open(number, terms) for number, terms in enumerate(OPENINGS)]
        for i in range(40):
            self.service.clock.advance(self.random.uniform(0.1, 4.0))
            campaign = self.random.choice(opened)
            feature = campaign["features"][0]
            users: list[dict[str, Any]] = [
                {
                    "decision_id": f"u{i}-{j}",
                    "features": {feature: self.random.choice((-0.0, 0.0, 5e-324, 1e99, 0.1))},
                    "costs": {"email": f"{self.random.uniform(0.1, 2):.7f}"},
                }
                for j in range(self.random.choice((1, 3, 8)))
            ]
            self.ask("POST", f"{campaign['id']}/decisions", users)
            for each in users[::2]:
                self._follow(campaign["id"], each["decision_id"])
            if i % 10 == 9:
                self.service.sweep()
                self.ask("POST", f"{campaign['id']}/budget", {"add": "1.5"})
            if i == 20:
                self.service.restart()
        for campaign in opened:
            self.ask("POST", f"{campaign['id']}/decisions/no%00body/cancel")
            self.ask("GET", campaign["id"])
            self.ask("GET", f"{campaign['id']}/log")
        self.service.stop()

    def _open(self, number: int, terms: dict[str, Any]) -> Any:
        body = {
            "name": f"größe \U0001f600 '; -- %s {number}",
            "budget": "100",
            "horizon": {"users": 200},
            "features": ["age"],
            "treatments": ["email"],
            "outcome_window_seconds": 60,
            "seed": number,
            **terms,
        }
        return self.ask("POST", "", body).json()

    def _follow(self, campaign: str, decision: str) -> None:
        value = self.random.choice((0.0, 1.0, -0.0))
        shadow = {"action": "email"} if self.service.campaign(campaign)["mode"] == "shadow" else {}
        reports = [{"decision_id": decision, "value": value, **shadow}]
        act, one = self.random.randrange(5), f"{campaign}/decisions/{decision}"
        if act < 3:
            self.ask("POST", f"{campaign}/outcomes", reports)
        if act == 1:
            self.ask("POST", f"{one}/correct", {"value": self.random.choice((0.0, 1.0))})
        if act == 2:
            self.ask("POST", f"{one}/settle", {"cost": "0.05"})
        if act == 3:
            self.ask("POST", f"{one}/cancel")


def bits(value: object) -> object:
    """A value that is equal only to the same bits: 0.0 == -0.0."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def kept(place: str) -> list[Any]:
    """All that a ledger has: accounts, all columns of all events, snapshots."""
    with closing(open_ledger(place, read_only=True)) as ledger:
        rows: list[Any] = list(ledger.accounts())
        for account in ledger.accounts():
            events: list[Event] = list(ledger.events(account.key))
            rows += [[bits(value) for value in event] for event in events]
            rows += [ledger.snapshot(account.key), ledger.origin(account.key)]
    return rows


def test_the_same_requests_give_the_same_answers_and_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for place in (str(tmp_path / "ledger.sqlite"), server().new_place()):
        told = Told(place, monkeypatch)
        told.live()
        results.append((told.answers, kept(place)))
    (answers, rows), (other_answers, other_rows) = results
    assert len(rows) > 200
    assert sum(status == 200 for status, _ in answers) > 100
    kinds = {row[3] for row in rows if isinstance(row, list)}
    assert kinds >= {"outcome", "expiry", "cancellation", "settlement", "correction", "budget"}
    assert other_answers == answers
    assert other_rows == rows
