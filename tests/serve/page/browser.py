"""A service in a process of its own, a tab that is watched, and the figures in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect
from processes import Server, bccb

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH"
)


SHOWING = 20_000  # milliseconds for the page
COMPILING = 300  # seconds, for the first use of a policy


MONEY = ("budget", "spent", "reserved", "remaining")


COUNTS = ("decisions", "treated", "pending", "conversions", "too_late")


class Service:
    """`bccb serve` in a process of its own, on a ledger that outlives it."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.url = ""
        self.server: Server | None = None

    def start(self) -> None:
        """Begin to serve, on the same port as before if there was one."""
        self.server = Server(self.ledger, port=int(self.url.rpartition(":")[2] or 0))
        self.url = self.server.address

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    def make_key(self, scope: str) -> str:
        """A new API key, made while nothing is served: it is then needed from the start."""
        done = bccb("keys", "create", scope, "--scope", scope, "--ledger", self.ledger)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def create(self, name: str, **other: Any) -> str:
        """A new campaign's id."""
        body = {
            "name": name,
            "budget": "50.00",
            "horizon": {"users": 2_000},
            "features": ["age", "visits"],
            "treatments": ["coupon"],
            "seed": 7,
            **other,
        }
        answer = httpx.post(f"{self.url}/v1/campaigns", json=body, timeout=COMPILING)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def drive(self, campaign: str, first: int, last: int) -> None:
        """Decide on these users, and tell the outcomes of all but each fifth."""
        users = [
            {
                "decision_id": f"user-{number}",
                "features": {"age": (number % 50) / 50, "visits": float(number % 7)},
                "costs": {"coupon": f"0.{10 + number % 40}"},
            }
            for number in range(first, last)
        ]
        base = f"{self.url}/v1/campaigns/{campaign}"
        answers = httpx.post(f"{base}/decisions", json=users, timeout=60)
        assert answers.status_code == 200, answers.text
        outcomes = [
            {
                "decision_id": answer["decision_id"],
                "value": int(number % (3 if answer["treatment"] else 6) == 0),
            }
            for number, answer in enumerate(answers.json())
            if number % 5
        ]
        assert httpx.post(f"{base}/outcomes", json=outcomes, timeout=60).status_code == 200

    def report(self, campaign: str) -> dict[str, Any]:
        answer = httpx.get(f"{self.url}/v1/campaigns/{campaign}/report", timeout=60)
        assert answer.status_code == 200, answer.text
        report: dict[str, Any] = answer.json()
        return report


@contextmanager
def serving(folder: Path) -> Iterator[Service]:
    service = Service(folder / "ledger.sqlite")
    service.start()
    try:
        yield service
    finally:
        service.stop()


class Watched:
    """A tab, with all that it asked for and complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._expected: tuple[str, ...] = ()
        self.asked: list[str] = []
        self.under_way = self.most_under_way = 0
        page.on("console", lambda line: self._hear(line.type, line.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._begin(request.url))
        page.on("requestfinished", lambda request: self._end(request.url))
        page.on("requestfailed", lambda request: self._end(request.url))
        page.set_default_timeout(SHOWING)

    def expect_refusals(self, *reasons: str) -> None:
        """The browser reports each request that fails; these are what the test is about.

        Said beforehand: a report may come after the last line of the test.
        """
        self._expected = reasons

    def _hear(self, kind: str, text: str) -> None:
        refused = text.startswith("Failed to load resource")
        if refused and any(reason in text for reason in self._expected):
            return
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _begin(self, url: str) -> None:
        self.asked.append(url)
        if "/v1/" in url:
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)

    def _end(self, url: str) -> None:
        self.under_way -= "/v1/" in url

    def polls(self) -> int:
        return sum("/v1/" in url for url in self.asked)

    def stop_the_clock(self) -> None:
        """From now on timers of the page run only in :meth:`pass_time`. Call it before the page."""
        self.page.clock.install()
        self.page.clock.pause_at(datetime.now() + timedelta(seconds=1))

    def pass_time(self, seconds: float) -> None:
        """Let timers run that are due, and whatever they ask for be answered."""
        self.page.clock.run_for(round(1_000 * seconds))
        self.settle()

    def settle(self) -> None:
        """Until nothing that was asked is unanswered, and the page has shown the answers."""
        self.page.wait_for_timeout(50)
        while self.under_way:
            self.page.wait_for_timeout(10)
        self.page.wait_for_timeout(50)


def figure(page: Page, name: str) -> Locator:
    return page.locator(f'[data-figure="{name}"]')


def raw(page: Page, name: str) -> str:
    value = figure(page, name).get_attribute("data-value")
    assert value is not None
    return value


def check_figures(page: Page, report: dict[str, Any]) -> None:
    """All that does not change while nothing is decided is what the report says."""
    campaign = report["campaign"]
    expect(figure(page, "decisions")).to_have_attribute(
        "data-value", str(campaign["decisions"]), timeout=SHOWING
    )
    expect(figure(page, "pending")).to_have_attribute(
        "data-value", str(campaign["pending"]), timeout=SHOWING
    )
    for name in MONEY:
        assert raw(page, name) == campaign[name], name
    for name in COUNTS:
        assert float(raw(page, name)) == campaign[name], name
    assert raw(page, "planned") == report["planned"]
    assert figure(page, "decisions").inner_text() == f"{campaign['decisions']:,}"
    assert figure(page, "spent").inner_text() == f"{float(campaign['spent']):,.2f}"
    assert page.locator("#arms tr").count() == len(report["arms"])
    for number, arm in enumerate(report["arms"]):
        check_interval(page, f"rate-{number}", arm["rate"])
        for name in ("decisions", "outcomes", "conversions"):
            assert float(raw(page, f"{name}-{number}")) == arm[name]
    caused = campaign["caused"] or {"estimated": None, "measured": None}
    for name in ("estimated", "measured"):
        check_interval(page, name, caused[name])
        if caused[name] is None:
            assert figure(page, name).inner_text() == "not known yet"


def check_interval(page: Page, name: str, interval: dict[str, float] | None) -> None:
    for figure_name, key in ((name, "value"), (f"{name}-low", "low"), (f"{name}-high", "high")):
        answer = raw(page, figure_name)
        assert (float(answer) if answer else None) == (interval and interval[key]), figure_name


def overflow(page: Page) -> int:
    width: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return width


def focused(page: Page) -> str:
    text: str = page.evaluate("document.activeElement.textContent.trim()")
    return text
