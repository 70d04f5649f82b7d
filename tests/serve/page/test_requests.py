"""What the page asks the service, and what it does without an answer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from serve.page.browser import Service, Watched, check_figures, needs_chromium

pytestmark = [needs_chromium, pytest.mark.slow_first(2)]


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


def test_a_service_that_asks_for_a_key_gets_one_until_it_is_forgotten(
    fresh: Service, tab: Watched
) -> None:
    campaign = fresh.create("locked")
    fresh.stop()
    reads, decides = fresh.make_key("read"), fresh.make_key("decide")
    fresh.start()
    page = tab.page
    tab.expect_refusals("401", "403")
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


def test_a_lost_connection_is_said_and_mends_itself(fresh: Service, tab: Watched) -> None:
    campaign = fresh.create("winter")
    fresh.drive(campaign, 0, 100)
    page = tab.page
    tab.stop_the_clock()
    page.goto(f"{fresh.url}/#/campaigns/{campaign}")
    page.locator("#board").wait_for()
    tab.settle()
    tab.expect_refusals("net::ERR")
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


def test_the_reference_of_the_api_renders_without_the_internet(
    service: Service, tab: Watched
) -> None:
    tab.page.goto(f"{service.url}/docs")
    expect(tab.page.locator(".operation")).to_have_count(21)
    tab.page.locator("#decide_post summary").click()
    expect(tab.page.get_by_text("Decide on one user, or on a list")).to_be_visible()
