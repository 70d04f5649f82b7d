"""The real service and a real browser, one of each for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from serve.page.browser import CHROMIUM, Service, Watched, serving


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Service]:
    """A service of one's own, to find empty or to stop."""
    with serving(tmp_path) as running:
        yield running


@pytest.fixture(scope="package")
def campaign(service: Service) -> str:
    campaign = service.create("spring")
    service.drive(campaign, 0, 400)
    return campaign


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


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
