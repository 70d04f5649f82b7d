"""The live page in a real browser, against the real service."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pasts import damage
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from processes import Server, bccb

PAGE = Path(__file__).parents[2] / "src" / "bccb" / "serve" / "page"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH"
)
SHOWING = 20_000  # milliseconds for the page
POLICY = "default-src 'self'"  # nothing inline, nothing from elsewhere
MONEY = ("budget", "spent", "reserved", "remaining")
COUNTS = ("decisions", "treated", "open")


pytestmark = pytest.mark.slow_first


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
        answer = httpx.post(f"{self.url}/v1/campaigns", json=body)
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
        answer = httpx.get(f"{self.url}/v1/campaigns/{campaign}/report")
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


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Service]:
    """A service of one's own, to find empty or to stop."""
    with serving(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def campaign(service: Service) -> str:
    campaign = service.create("spring")
    service.drive(campaign, 0, 400)
    return campaign


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


class Watched:
    """A tab, with all that it asked for and complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.under_way = self.most_under_way = 0
        page.on("console", lambda line: self._hear(line.type, line.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._begin(request.url))
        page.on("requestfinished", lambda request: self._end(request.url))
        page.on("requestfailed", lambda request: self._end(request.url))
        page.set_default_timeout(SHOWING)

    def _hear(self, kind: str, text: str) -> None:
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


@pytest.fixture
def tab(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, reduced_motion="reduce", color_scheme="light"
    )
    tab = Watched(context.new_page())
    yield tab
    context.close()
    assert tab.complaints == []
    hosts = {url.split("/")[2] for url in tab.asked}
    assert len(hosts) == 1, f"requests to other hosts: {hosts}"


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
    expect(figure(page, "open")).to_have_attribute(
        "data-value", str(campaign["open"]), timeout=SHOWING
    )
    for name in (*MONEY, *COUNTS):
        assert raw(page, name) == str(campaign[name]), name
    assert raw(page, "planned") == report["planned"]
    assert figure(page, "decisions").inner_text() == f"{campaign['decisions']:,}"
    assert figure(page, "spent").inner_text() == f"{float(campaign['spent']):,.2f}"
    assert page.locator("#arms tr").count() == len(report["arms"])
    for number, arm in enumerate(report["arms"]):
        check_interval(page, f"rate-{number}", arm["rate"])
        for name in ("decisions", "outcomes", "conversions"):
            assert float(raw(page, f"{name}-{number}")) == arm[name]
    check_interval(page, "incremental", report["incremental"])
    if report["incremental"] is None:
        assert figure(page, "incremental").inner_text() == "cannot be told yet"


def check_interval(page: Page, name: str, interval: dict[str, float] | None) -> None:
    for figure_name, key in ((name, "value"), (f"{name}-low", "low"), (f"{name}-high", "high")):
        told = raw(page, figure_name)
        assert (float(told) if told else None) == (interval and interval[key]), figure_name


def overflow(page: Page) -> int:
    width: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return width


def focused(page: Page) -> str:
    text: str = page.evaluate("document.activeElement.textContent.trim()")
    return text


@needs_chromium
def test_figures_are_those_of_the_report_and_change_without_reload(
    service: Service, tab: Watched
) -> None:
    campaign = service.create("autumn")
    service.drive(campaign, 0, 400)
    page = tab.page
    answer = page.goto(service.url)
    assert answer is not None
    # Under this policy the browser complains of anything inline or from elsewhere.
    assert POLICY in answer.headers["content-security-policy"]
    page.get_by_role("link", name="autumn").click()
    expect(page.get_by_role("heading", name="autumn")).to_be_visible()
    check_figures(page, service.report(campaign))
    page.evaluate("window.stillTheSame = true")
    pages = sum(url.endswith("page.js") for url in tab.asked)

    service.drive(campaign, 400, 1_000)
    check_figures(page, service.report(campaign))
    assert page.evaluate("window.stillTheSame") is True
    assert sum(url.endswith("page.js") for url in tab.asked) == pages == 1
    assert page.locator("#spend-plot canvas").count() == 1
    assert page.locator("#price-plot canvas").count() == 1
    assert "plan" in (page.get_by_role("img").nth(0).get_attribute("aria-label") or "")


@needs_chromium
def test_the_list_shows_money_counts_status_and_mode(
    service: Service, campaign: str, tab: Watched
) -> None:
    shadow = service.create("<img src=x> & shadow", mode="shadow")
    page = tab.page
    page.goto(service.url)
    row = page.locator(f'[data-campaign="{campaign}"]')
    shown = service.report(campaign)["campaign"]
    for name in ("spent", "reserved", "budget", "decisions"):
        cell = row.locator(f'[data-figure="campaign-{name}"]')
        assert cell.get_attribute("data-value") == str(shown[name])
    assert "running" in row.inner_text()
    other = page.locator(f'[data-campaign="{shadow}"]')
    assert "shadow" in other.locator(".badges").inner_text()
    # A name is text and never markup.
    assert other.get_by_role("link").inner_text() == "<img src=x> & shadow"
    other.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("<img src=x> & shadow")
    expect(page.locator("#shadow-note")).to_be_visible()
    expect(figure(page, "incremental")).to_have_text("cannot be told in shadow")
    assert page.locator("main img").count() == 0


@needs_chromium
def test_a_campaign_has_an_address_of_its_own(
    service: Service, campaign: str, tab: Watched
) -> None:
    page = tab.page
    page.goto(f"{service.url}/#/campaigns/{campaign}")
    expect(page.get_by_role("heading", name="spring")).to_be_visible()
    expect(page).to_have_title("spring · bccb")
    page.get_by_role("link", name="All campaigns").click()
    expect(page.get_by_role("heading", name="Campaigns")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="spring")).to_be_visible()
    page.goto(f"{service.url}/#/campaigns/nobody")
    expect(page.get_by_role("heading", name="No such campaign")).to_be_visible()
    tab.complaints.clear()  # the browser reports the 404


@needs_chromium
def test_nothing_overflows_at_360_pixels(service: Service, campaign: str, tab: Watched) -> None:
    page = tab.page
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(service.url)
    page.get_by_role("link", name="spring").wait_for()
    assert overflow(page) <= 0
    page.get_by_role("link", name="spring").click()
    page.locator("#spend-plot canvas").wait_for()
    page.get_by_text("The same as a table").first.click()
    assert overflow(page) <= 0


@needs_chromium
def test_the_keyboard_alone_reaches_a_campaign_and_keeps_its_place(
    service: Service, campaign: str, tab: Watched
) -> None:
    page = tab.page
    tab.stop_the_clock()
    page.goto(service.url)
    page.get_by_role("link", name="spring").wait_for()
    for _ in range(20):
        page.keyboard.press("Tab")
        if focused(page) == "spring":
            break
    before = tab.polls()
    for _ in range(2):
        tab.pass_time(1)
    assert tab.polls() == before + 2
    assert focused(page) == "spring"  # the list was shown anew, and the focus stayed
    outline = "getComputedStyle(document.activeElement, '::after').outlineStyle"
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("Enter")
    page.locator("#board").wait_for()
    assert focused(page) == "spring"  # now the heading
    assert page.evaluate("document.activeElement.tagName") == "H1"
    page.keyboard.press("Tab")
    assert focused(page) == "Close-up"
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Close-up").get_attribute("aria-pressed") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table").first.get_by_role("columnheader").first).to_have_text("Time")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Campaigns")).to_be_visible()
    assert focused(page) == "spring"  # back at the link one came from


@needs_chromium
def test_a_change_to_dark_recolours_the_page_and_its_charts(
    service: Service, campaign: str, tab: Watched
) -> None:
    page = tab.page
    page.goto(f"{service.url}/#/campaigns/{campaign}")
    page.locator("#price-plot canvas").wait_for()

    def look() -> tuple[int, tuple[int, ...]]:
        """The ground's brightness, and the colour of the price's line: the canvas's most vivid."""
        red = page.evaluate("+getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
        line = page.evaluate(
            """() => {
              const canvas = document.querySelector("#price-plot canvas");
              const pencil = canvas.getContext("2d");
              const { data } = pencil.getImageData(0, 0, canvas.width, canvas.height);
              let best = [0, 0, 0], most = -1;
              for (let at = 0; at < data.length; at += 4) {
                const [red, green, blue, alpha] = data.slice(at, at + 4);
                const vivid = Math.max(red, green, blue) - Math.min(red, green, blue);
                if (alpha === 255 && vivid > most) [best, most] = [[red, green, blue], vivid];
              }
              return best;
            }"""
        )
        return red, tuple(line)

    page.wait_for_timeout(300)
    light = look()
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(300)
    dark = look()
    assert light[0] > 200 > 60 > dark[0]
    assert sum(dark[1]) > sum(light[1]) + 100  # a line for a dark ground is brighter


@needs_chromium
def test_requests_never_overlap_and_rest_while_the_tab_is_hidden(
    service: Service, campaign: str, tab: Watched
) -> None:
    page = tab.page
    tab.stop_the_clock()
    page.goto(f"{service.url}/#/campaigns/{campaign}")
    page.locator("#board").wait_for()
    tab.settle()
    before = tab.polls()
    for _ in range(3):
        tab.pass_time(0.9)
        assert tab.polls() == before
        tab.pass_time(0.1)
        before += 1
        assert tab.polls() == before
    assert tab.most_under_way == 1
    hide = """(hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    tab.settle()
    before = tab.polls()
    for _ in range(5):
        tab.pass_time(1)
    assert tab.polls() <= before + 1  # the timer that ran when the tab was hidden
    before = tab.polls()
    tab.pass_time(60)
    assert tab.polls() == before
    page.evaluate(hide, False)
    tab.settle()
    assert tab.polls() == before + 1


@needs_chromium
def test_a_service_that_asks_for_a_key_gets_one_until_it_is_forgotten(
    fresh: Service, tab: Watched
) -> None:
    campaign = fresh.create("locked")
    fresh.stop()
    reads, decides = fresh.make_key("read"), fresh.make_key("decide")
    fresh.start()
    page = tab.page
    page.goto(f"{fresh.url}/#/campaigns/{campaign}")
    field = page.get_by_label("Key", exact=True)
    expect(field).to_be_focused()
    for wrong, words in (
        ("unknown", "does not know this key"),
        (decides, "may not read"),
        ("ключ", "plain letters"),
    ):
        field.fill(wrong)
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text(words)
    field.fill(reads)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="locked")).to_be_visible()
    page.reload()  # the tab keeps it
    expect(page.get_by_role("heading", name="locked")).to_be_visible()
    page.get_by_role("button", name="Forget key").click()
    expect(field).to_be_focused()
    assert page.evaluate("sessionStorage.length") == 0
    tab.complaints.clear()  # the browser reports each 401 and 403


@needs_chromium
def test_an_empty_service_shows_a_command_that_creates_a_campaign(
    fresh: Service, tab: Watched
) -> None:
    page = tab.page
    page.goto(fresh.url)
    expect(page.get_by_role("heading", name="No campaigns yet")).to_be_visible()
    assert page.locator("#drive-command").inner_text().startswith("bccb drive")
    words = shlex.split(page.locator("#create-command").inner_text().replace("\\\n", " "))
    assert words[0] == "curl"
    header = words[words.index("-H") + 1].split(": ")
    body = words[words.index("-d") + 1]
    answer = httpx.post(words[1], content=body, headers={header[0]: header[1]})
    assert answer.status_code == 201, answer.text
    expect(page.get_by_role("link", name=answer.json()["name"])).to_be_visible()


@needs_chromium
def test_a_lost_connection_is_said_and_mends_itself(fresh: Service, tab: Watched) -> None:
    campaign = fresh.create("winter")
    fresh.drive(campaign, 0, 100)
    page = tab.page
    tab.stop_the_clock()
    page.goto(f"{fresh.url}/#/campaigns/{campaign}")
    page.locator("#board").wait_for()
    tab.settle()
    fresh.stop()
    for _ in range(3):
        tab.pass_time(1)
    expect(page.locator("#lost")).to_contain_text(re.compile(r"Connection lost.*last seen [2-3] s"))
    expect(page.get_by_role("heading", name="winter")).to_be_visible()  # what was known stays
    before = tab.polls()
    for _ in range(6):
        tab.pass_time(1)
    assert 1 <= tab.polls() - before <= 3  # it backs off
    fresh.start()
    page.get_by_role("button", name="Try now").click()
    expect(page.locator("#lost")).to_be_hidden()
    check_figures(page, fresh.report(campaign))
    tab.complaints.clear()  # the browser reports each request that failed


@needs_chromium
def test_the_reference_of_the_api_renders_without_the_internet(
    service: Service, tab: Watched
) -> None:
    tab.page.goto(f"{service.url}/docs")
    expect(tab.page.locator(".opblock")).to_have_count(18)
    tab.page.get_by_text("/v1/campaigns/{campaign_id}/decisions", exact=True).first.click()
    expect(tab.page.get_by_text("Decide on one user, or on a list")).to_be_visible()


@needs_chromium
def test_a_quarantined_campaign_says_why_and_shows_no_figures(fresh: Service, tab: Watched) -> None:
    bad, good = fresh.create("bad"), fresh.create("good")
    for campaign in (bad, good):
        fresh.drive(campaign, 0, 10)
    fresh.stop()
    damage(fresh.ledger, "UPDATE campaigns SET budget = budget + 1 WHERE name = 'bad'")
    fresh.start()
    page, reason = tab.page, f"campaign {bad} is damaged: in its row budget is "
    page.goto(fresh.url)
    row = page.locator(f'[data-campaign="{bad}"]')
    expect(row.locator(".status")).to_have_text("quarantined")
    expect(row.locator(".reason")).to_contain_text(reason)
    expect(row.locator(".count")).to_be_hidden()
    expect(page.locator(f'[data-campaign="{good}"] .reason')).to_be_hidden()
    row.get_by_role("link").click()
    expect(page.locator("#quarantine-note")).to_contain_text(reason)
    expect(page.locator("#board")).to_be_hidden()
    page.goto(f"{fresh.url}#/campaigns/{good}")
    expect(figure(page, "decisions")).to_have_text("10")
    expect(page.locator("#quarantine-note")).to_be_hidden()
    assert overflow(page) <= 0


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", html)
    for path in PAGE.glob("*.*"):
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"^\s*//.*|\s// .*", "", text, flags=re.MULTILINE), path.name
    for address in re.findall(r'(?:src|href)="(/page/[^"]+)"', html):
        assert (PAGE / address.removeprefix("/page/")).is_file(), address


def test_the_page_writes_text_and_never_markup() -> None:
    for path in PAGE.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", text)


def test_what_others_wrote_has_its_licence_and_version() -> None:
    vendor = PAGE / "vendor"
    version = re.search(r"uPlot (\S+)", (vendor / "VERSION").read_text(encoding="utf-8"))
    assert version is not None
    assert f"(v{version[1]})" in (vendor / "uPlot.iife.min.js").read_text(encoding="utf-8")
    assert "MIT License" in (vendor / "LICENSE").read_text(encoding="utf-8")
