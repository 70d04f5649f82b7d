"""What was learned, on the board of a campaign."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from serve.page.browser import Service, Watched, needs_chromium, overflow

pytestmark = [needs_chromium, pytest.mark.slow_first(2)]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_effect_by_segment_is_asked_for_and_drawn_when_opened(
    service: Service, campaign: str, tab: Watched, width: int
) -> None:
    page = tab.page
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{service.url}/#/campaigns/{campaign}")
    title = page.get_by_role("heading", name="What was learned")
    expect(title).to_be_visible()
    assert not any(url.endswith("/explanation") for url in tab.asked)
    title.click()
    expect(page.get_by_text("Average effect: ")).to_be_visible()
    panel = page.locator("#learned")
    expect(panel.get_by_role("heading")).to_have_count(2)
    expect(panel.get_by_role("heading", name="age")).to_be_visible()
    expect(panel.get_by_role("table", name="Effect by age").locator("tbody tr")).to_have_count(3)
    low, high = (float(part) for part in _ends(panel.locator(".interval").first.inner_text()))
    assert low < float(_plain(panel.locator(".rate").first.inner_text())) < high
    assert overflow(page) <= 0


def test_a_policy_that_cannot_tell_says_so(service: Service, tab: Watched) -> None:
    other = service.create("untold", policy={"name": "bccb"})
    page = tab.page
    tab.expect_refusals("409")
    page.goto(f"{service.url}/#/campaigns/{other}")
    page.get_by_role("heading", name="What was learned").click()
    expect(page.get_by_text("bccb cannot tell what it has learned")).to_be_visible()


def _ends(text: str) -> list[str]:
    return _plain(text).split(" to ")


def _plain(text: str) -> str:
    return text.replace("−", "-")
