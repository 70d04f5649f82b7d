"""The list of campaigns."""

from __future__ import annotations

import shlex

import httpx
import pytest
from playwright.sync_api import expect

from serve.page.browser import Service, Watched, figure, focused, needs_chromium

pytestmark = [needs_chromium, pytest.mark.slow_first(2)]


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
    expect(figure(page, "estimated")).to_have_text("not known in shadow")
    assert page.locator("main img").count() == 0


def test_the_keyboard_alone_reaches_a_campaign_and_keeps_its_place(
    service: Service, campaign: str, tab: Watched
) -> None:
    page = tab.page
    tab.stop_the_clock()
    page.goto(service.url)
    page.get_by_role("link", name="spring").wait_for()
    for _ in range(60):
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
    for action in ("Pause", "Add money", "Close", "CSV", "Parquet"):
        page.keyboard.press("Tab")
        assert focused(page) == action
    page.keyboard.press("Tab")
    assert focused(page) == "The same as a table"  # of what was caused
    page.keyboard.press("Tab")
    assert focused(page) == "Close-up"
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Close-up").get_attribute("aria-pressed") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table").first.get_by_role("columnheader").first).to_have_text("Time")
    for _ in range(8):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Campaigns")).to_be_visible()
    assert focused(page) == "spring"  # back at the link one came from


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
