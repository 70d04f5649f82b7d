"""The board of one campaign."""

from __future__ import annotations

import time

import httpx
import pytest
from pasts import damage
from playwright.sync_api import expect

from serve.page.browser import Service, Watched, check_figures, figure, needs_chromium, overflow

POLICY = "default-src 'self'"  # nothing inline, nothing from elsewhere

pytestmark = [needs_chromium, pytest.mark.slow_first(2)]


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
    assert page.locator("#caused-plot canvas").count() == 1
    assert "plan" in (page.locator("#spend-plot").get_attribute("aria-label") or "")


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
    tab.expect_refusals("404")
    page.goto(f"{service.url}/#/campaigns/nobody")
    expect(page.get_by_role("heading", name="No such campaign")).to_be_visible()


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
    cells = page.locator("#arms td:not(.picture)")
    assert cells.count() == 10
    for cell in cells.all():  # none covers the next one
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth"), cell.inner_text()


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


def report_late(service: Service, campaign: str) -> None:
    """Let conversions of a window of two seconds come after one, and one of them after four."""
    users = [
        {
            "decision_id": f"late-{number}",
            "features": {"age": 0.5, "visits": float(number % 7)},
            "costs": {"coupon": "0.10"},
        }
        for number in range(60)
    ]
    base = f"{service.url}/v1/campaigns/{campaign}"
    assert httpx.post(f"{base}/decisions", json=users).status_code == 200
    time.sleep(1.0)
    items = [{"decision_id": f"late-{number}", "value": 1} for number in range(20)]
    assert httpx.post(f"{base}/outcomes", json=items).status_code == 200
    time.sleep(2.0)
    late = httpx.post(f"{base}/outcomes", json=[{"decision_id": "late-30", "value": 1}])
    assert late.json()[0]["status"] == "too_late"


def test_late_outcomes_are_counted_and_their_delays_drawn(service: Service, tab: Watched) -> None:
    page = tab.page
    campaign = service.create("late", outcome_window_seconds=2)
    page.goto(f"{service.url}/#/campaigns/{campaign}")
    expect(page.locator("#delay-note")).to_contain_text("Not enough reports yet")
    expect(page.locator("#delay-plot")).to_be_hidden()
    expect(figure(page, "median-delay")).to_have_text("too few to tell how late they come")

    report_late(service, campaign)
    expect(figure(page, "pending")).to_have_text("0")
    expect(figure(page, "known")).to_have_text("60")
    expect(figure(page, "conversions")).to_have_text("20")
    expect(figure(page, "too_late")).to_have_text("1")
    expect(figure(page, "median-delay")).to_have_text("half of them within 1 s")
    expect(page.locator("#delay-note")).to_contain_text("learned from 20 conversions")
    expect(page.locator("#delay-plot canvas")).to_be_visible()
    page.locator("#delay-details summary").click()
    rows = page.locator("#delay-details tbody tr").all_inner_texts()
    assert rows[0].split("\t") == ["after 0 s", "0\u202f%", "0\u202f%"]
    assert "100\u202f%" in rows[-1]
    check_figures(page, service.report(campaign))


def test_a_rate_of_conversions_alone_is_not_told(service: Service, tab: Watched) -> None:
    campaign = service.create("three conversions")
    users = [
        {"decision_id": f"u{i}", "features": {"age": 0, "visits": i}, "costs": {"coupon": "0.1"}}
        for i in range(9)
    ]
    base = f"{service.url}/v1/campaigns/{campaign}"
    answers = httpx.post(f"{base}/decisions", json=users).json()
    treated = [each["decision_id"] for each in answers if each["treatment"]][:3]
    assert treated
    for id_ in treated:
        httpx.put(f"{base}/decisions/{id_}/outcome", json={"value": 1})
    tab.page.goto(f"{service.url}/#/campaigns/{campaign}")
    expect(figure(tab.page, "rate-0")).to_have_text("no outcome yet")
    expect(figure(tab.page, "rate-1")).to_have_text("too early to tell")
    expect(tab.page.locator("#arms-note")).to_contain_text("only conversions are known")
