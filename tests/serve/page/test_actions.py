"""What the page does: opens, pauses, resumes and closes campaigns, adds money, gives the log."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import httpx
import polars
import pytest
from playwright.sync_api import Page, expect

from bccb.policies import DEFAULT
from serve.page.browser import Service, Watched, figure, needs_chromium, overflow

pytestmark = [needs_chromium, pytest.mark.slow_first(2)]


def fill_form(page: Page, name: str) -> None:
    page.get_by_label("Name", exact=True).first.fill(name)
    page.get_by_label("Budget").fill("250.00")
    page.get_by_label("Users", exact=True).fill("10000")
    page.get_by_label("Treatments").fill("coupon, call")
    page.get_by_role("group", name="Feature 1").get_by_label("Name").fill("age")


def campaign_of(service: Service, page: Page) -> dict[str, Any]:
    id_ = page.url.rpartition("/")[2]
    answer: dict[str, Any] = httpx.get(f"{service.url}/v1/campaigns/{id_}").json()
    return answer


def test_the_form_opens_a_campaign(service: Service, campaign: str, tab: Watched) -> None:
    page = tab.page
    page.goto(service.url)
    page.get_by_role("link", name="Open a campaign").click()
    expect(page.get_by_role("heading", name="Open a campaign")).to_be_focused()
    fill_form(page, "from the page")
    page.get_by_role("button", name="Add a feature").click()
    page.keyboard.type("visits")  # the focus is in the new row
    page.get_by_label("Outcome window", exact=True).fill("36")
    page.get_by_label("Unit of the outcome window").select_option("hours")
    page.get_by_role("button", name="Open the campaign").click()
    expect(page.get_by_role("heading", name="from the page")).to_be_focused()
    expect(page.locator("#campaign-status")).to_have_text("running")
    made = campaign_of(service, page)
    assert (made["budget"], made["horizon"]) == ("250.00", {"users": 10_000})
    assert (made["treatments"], made["features"]) == (["coupon", "call"], ["age", "visits"])
    assert (made["policy"]["name"], made["outcome_window_seconds"]) == (DEFAULT, 36 * 3_600)


def test_the_form_opens_a_campaign_in_money(service: Service, tab: Watched) -> None:
    page, amounts = tab.page, {"kind": "amount"}
    service.create("compiled", policy={"name": "treat-all"}, outcome=amounts)  # before it is timed
    tab.expect_refusals("422")
    page.goto(f"{service.url}/#/new")
    fill_form(page, "20 % off")
    page.get_by_label("Policy").select_option("treat-all")
    for hidden in ("Largest amount", "Share of the amount"):
        expect(page.get_by_label(hidden)).to_be_hidden()
    page.get_by_label("Outcome", exact=True).select_option("amount")
    page.get_by_label("Largest amount").fill("500")
    page.get_by_label("amounts may be below 0").uncheck()
    page.get_by_label("Currency").fill("EUR")
    expect(page.get_by_label("Share of the amount")).to_be_hidden()
    page.get_by_label("When a cost is due").select_option("conversion")
    page.get_by_label("Share of the amount").fill("20")
    page.get_by_role("button", name="Open the campaign").click()
    said = page.locator('[data-field="share"]').get_by_role("alert")
    expect(said).to_have_text("share is 20.0, but must be at least 0.000001 and at most 1")
    page.get_by_label("Share of the amount").fill("0.2")
    page.get_by_role("button", name="Open the campaign").click()
    expect(page.get_by_role("heading", name="20 % off")).to_be_focused()
    made = campaign_of(service, page)
    assert made["outcome"] == {"kind": "amount", "negative": False, "largest": "500.00"}
    assert (made["charge"], made["share"], made["currency"]) == ("conversion", 0.2, "EUR")


def test_the_page_says_why_nothing_is_measured_yet(service: Service, tab: Watched) -> None:
    page, id_ = tab.page, service.create("nobody yet")
    page.goto(f"{service.url}/#/campaigns/{id_}")
    expect(figure(page, "measured")).to_have_text("not known yet")
    expect(page.locator("#measured-note")).to_contain_text("Nobody counts yet")


def test_what_is_measured_of_few_users_is_not_shown(service: Service, tab: Watched) -> None:
    """It jumps from end to end with every outcome: 15, then -45."""
    page, id_ = tab.page, service.create("few", policy={"name": "pooled-bayes"}, budget="500")
    service.drive(id_, 0, 60)
    httpx.post(
        f"{service.url}/v1/campaigns/{id_}/outcomes",
        json=[{"decision_id": f"user-{i}", "value": 0} for i in range(0, 60, 5)],
    ).raise_for_status()
    caused = service.report(id_)["campaign"]["caused"]
    assert (caused["measured_users"], caused["not_measured"]) == (60, None)
    page.goto(f"{service.url}/#/campaigns/{id_}")
    expect(figure(page, "measured")).to_have_text("too few users yet")
    expect(page.locator("#measured-range")).to_be_hidden()
    expect(page.locator("#measured-note")).to_contain_text("until 1,050 were treated")
    assert page.locator("#measured-note").inner_text() == caused["too_few"]


def test_money_that_is_expected_to_return_is_not_ahead_of_the_plan(
    service: Service, tab: Watched
) -> None:
    terms = {"charge": "conversion", "policy": {"name": "pooled-bayes"}, "budget": "50"}
    page, id_ = tab.page, service.create("held", horizon={"users": 400}, **terms)
    service.drive(id_, 0, 100)
    report = service.report(id_)
    made, back = report["campaign"], float(report["to_return"])
    out = float(made["spent"]) + float(made["reserved"]) - back
    ahead = out - float(report["planned"])
    assert back > 0.0
    page.goto(f"{service.url}/#/campaigns/{id_}")
    words = f"{abs(ahead):.2f} {'ahead of' if ahead > 0 else 'behind'} the plan"
    expect(page.locator("#spend-note")).to_contain_text(words)
    expect(page.locator("#spend-note")).to_contain_text(
        f", without {back:.2f} that is expected to return."
    )


def test_a_loss_is_why_nothing_is_measured(service: Service, tab: Watched) -> None:
    page, outcome = tab.page, {"kind": "amount", "largest": "500"}
    id_ = service.create("losses", outcome=outcome)
    service.drive(id_, 0, 40)
    httpx.post(
        f"{service.url}/v1/campaigns/{id_}/outcomes",
        json=[{"decision_id": "user-0", "value": -3}],
    ).raise_for_status()
    page.goto(f"{service.url}/#/campaigns/{id_}")
    expect(figure(page, "measured")).to_have_text("no")
    expect(page.locator("#measured-note")).to_contain_text("some outcomes are below 0 (1)")


def test_a_campaign_in_money_shows_value_in_its_currency(service: Service, tab: Watched) -> None:
    page = tab.page
    outcome = {"kind": "amount"}
    id_ = service.create("revenue", outcome=outcome, currency="EUR", cost_cap="50")
    service.drive(id_, 0, 400)
    page.goto(f"{service.url}/#/campaigns/{id_}")
    expect(page.get_by_role("heading", name="Value that the money caused")).to_be_visible()
    made = campaign_of(service, page)
    expect(figure(page, "value")).to_have_text(f"{made['value']:.2f} EUR")
    expect(figure(page, "budget")).to_have_text("50.00 EUR")
    expect(figure(page, "estimated")).to_contain_text("EUR")
    expect(figure(page, "measured")).to_have_text("no")
    expect(page.locator("#measured-note")).to_contain_text('"largest": "500.00"')
    returned = made["caused"]["return_on_spend"]["value"]
    expect(figure(page, "return")).to_have_attribute("data-value", str(returned))
    expect(page.locator("#cap-words")).to_contain_text("50.00 EUR")
    expect(page.locator("#cap-words")).to_contain_text("one more EUR of value")
    expect(page.get_by_role("heading", name="Value per user")).to_be_visible()
    expect(page.locator("#arms .rate").first).to_contain_text("EUR")
    expect(page.locator("#price-unit")).to_have_text("caused value")
    assert overflow(page) <= 0
    other = service.create("conversions again")
    page.goto(f"{service.url}/#/campaigns/{other}")
    expect(page.get_by_role("heading", name="Conversions that the money caused")).to_be_visible()
    expect(page.locator("#return-line")).to_be_hidden()
    expect(figure(page, "budget")).to_have_text("50.00")


def test_the_form_declares_features_that_may_be_missing_and_other_levels(
    service: Service, tab: Watched
) -> None:
    page = tab.page
    tab.expect_refusals("422")
    page.goto(f"{service.url}/#/new")
    fill_form(page, "declared")
    first = page.get_by_role("group", name="Feature 1")
    first.get_by_label("Stands for a missing value").fill("41.5")
    for place, (name, kind) in enumerate([("plan", "category"), ("since", "date")], 2):
        page.get_by_role("button", name="Add a feature").click()
        row = page.get_by_role("group", name=f"Feature {place}")
        row.get_by_label("Name").fill(name)
        row.get_by_label("Kind").select_option(kind)
    plan = page.get_by_role("group", name="Feature 2")
    expect(plan.get_by_label("Stands for a missing value")).to_be_hidden()
    plan.get_by_label("Levels, separated by commas").fill("free, pro, (missing)")
    plan.get_by_label("All other levels").uncheck()
    since = page.get_by_role("group", name="Feature 3").get_by_label("Stands for a missing value")
    since.fill("long ago")
    page.get_by_role("button", name="Open the campaign").click()
    alert = page.get_by_role("group", name="Feature 3").get_by_role("alert")
    expect(alert).to_contain_text("features.2.fill")
    since.fill("1970-01-31")
    page.get_by_role("button", name="Open the campaign").click()
    expect(page.get_by_role("heading", name="declared")).to_be_focused()
    age, declared, date = campaign_of(service, page)["encoding"]
    assert (age["name"], age["fill"], date["fill"]) == ("age", 41.5, 30.0)
    assert (declared["levels"], declared["others"]) == (["free", "pro", "(missing)"], False)


def test_the_form_takes_a_charge_and_a_cost_cap(
    service: Service, campaign: str, tab: Watched
) -> None:
    page = tab.page
    page.goto(f"{service.url}/#/new")
    tab.expect_refusals("422")
    fill_form(page, "redeemed")
    page.get_by_label("When a cost is due").select_option("conversion")
    page.get_by_label("Cost cap").fill("0")
    page.get_by_role("button", name="Open the campaign").click()
    expect(page.locator("#cap-mistake")).to_contain_text("cost_cap is '0', but must be")
    page.get_by_label("Cost cap").fill("12.50")
    page.get_by_role("button", name="Open the campaign").click()
    expect(page.locator("#cap-words")).to_have_text(
        "Nothing is bought that is expected to cost more than 12.50 for one more conversion."
    )
    expect(page.locator("#charge-words")).to_be_visible()
    made = campaign_of(service, page)
    assert (made["charge"], made["cost_cap"]) == ("conversion", "12.50")


def test_every_policy_of_the_form_can_be_opened(service: Service, tab: Watched) -> None:
    tab.page.goto(f"{service.url}/#/new")
    options = tab.page.locator("#policy option")
    expect(options.first).to_have_attribute("value", DEFAULT)
    for name in options.evaluate_all("all => all.map((each) => each.value)"):
        service.create(f"with {name}", policy={"name": name})


def test_a_mistake_is_said_beside_its_field(service: Service, campaign: str, tab: Watched) -> None:
    page = tab.page
    tab.expect_refusals("422", "409")
    page.goto(f"{service.url}/#/new")
    fill_form(page, "spring")  # which is taken
    send = page.get_by_role("button", name="Open the campaign")
    for label, mistake, wrong, words, right in (
        ("Budget", "#budget-mistake", "much", "budget is 'much'", "250.00"),
        ("Users", "#users-mistake", "0", "horizon.users is 0", "10000"),
        ("Treatments", "#treatments-mistake", "coupon, coupon", "named once", "coupon"),
        ("Outcome window", "#window-mistake", "-1", "outcome_window_seconds is -86400", "7"),
        ("Name", "#name-mistake", "spring", "another campaign with the name", "not taken yet"),
    ):
        field = page.get_by_label(label, exact=True).first
        field.fill(wrong)
        send.click()
        expect(page.locator(mistake)).to_contain_text(words)
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
        assert page.locator(".mistake:visible").count() == 1
        field.fill(right)
    feature = page.get_by_role("group", name="Feature 1")
    feature.get_by_label("Name").fill("")
    send.click()
    expect(feature.get_by_role("alert")).to_contain_text("features.0")
    feature.get_by_role("button", name="Remove").click()
    page.get_by_label("until a time").check()
    send.click()
    expect(page.locator("#ends-mistake")).to_contain_text("horizon.ends_at")
    page.get_by_label("Ends").fill("2099-12-31T18:00")
    send.click()
    expect(page.get_by_role("heading", name="not taken yet")).to_be_visible()
    assert campaign_of(service, page)["horizon"]["ends_at"].startswith("2099-12-31")


def test_a_campaign_is_paused_resumed_and_closed(service: Service, tab: Watched) -> None:
    page = tab.page
    page.goto(f"{service.url}/#/campaigns/{service.create('to be closed')}")
    status = page.locator("#campaign-status")
    page.get_by_role("button", name="Pause").click()
    expect(status).to_have_text("paused")
    expect(page.locator("#announcement")).to_contain_text("Paused")
    page.get_by_role("button", name="Resume").click()
    expect(status).to_have_text("running")
    page.get_by_role("button", name="Close", exact=True).click()
    keep = page.get_by_role("button", name="Keep it")
    expect(keep).to_be_focused()
    keep.click()
    assert campaign_of(service, page)["status"] == "running"
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("button", name="Close for good").click()
    expect(status).to_have_text("closed")
    expect(page.get_by_role("button", name="Add money")).to_be_hidden()
    expect(page.get_by_role("button", name=re.compile("CSV"))).to_be_visible()


def test_money_is_added_once_however_often_it_is_pressed(service: Service, tab: Watched) -> None:
    page = tab.page
    tab.expect_refusals("422")
    page.goto(f"{service.url}/#/campaigns/{service.create('to be fed')}")
    page.get_by_role("button", name="Add money").click()
    amount = page.get_by_label("Amount", exact=True)
    expect(amount).to_be_focused()
    amount.fill("a lot")
    page.keyboard.press("Enter")
    expect(page.locator("#add-mistake")).to_contain_text("add is 'a lot'")
    amount.fill("12.50")
    page.get_by_role("button", name="Add", exact=True).dblclick()
    expect(page.locator("#add-dialog")).to_be_hidden()
    expect(figure(page, "budget")).to_have_text("62.50")
    assert campaign_of(service, page)["budget"] == "62.50"


def test_the_log_is_downloaded(
    service: Service, campaign: str, tab: Watched, tmp_path: Path
) -> None:
    page = tab.page
    page.goto(f"{service.url}/#/campaigns/{campaign}")
    for kind in ("csv", "parquet"):
        with page.expect_download() as download:
            page.locator(f"#log-{kind}").click()
        assert download.value.suggested_filename == f"{campaign}.{kind}"
        download.value.save_as(tmp_path / f"log.{kind}")
    with (tmp_path / "log.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    frame = polars.read_parquet(tmp_path / "log.parquet")
    assert [row["decision_id"] for row in rows] == frame["decision_id"].to_list()
    assert list(rows[0]) == frame.columns


def test_money_that_is_gone_is_said_in_the_list_and_on_the_board(
    service: Service, tab: Watched
) -> None:
    page = tab.page
    campaign = service.create("poor", budget="1.00", policy={"name": "treat-all"})
    service.drive(campaign, 0, 20)
    page.goto(service.url)
    row = page.locator(f'[data-campaign="{campaign}"]')
    expect(row.locator(".status")).to_have_text("money gone")
    row.get_by_role("link").click()
    expect(page.locator("#campaign-status")).to_have_text("money gone")
    expect(page.locator('[data-alert="money_gone"]')).to_contain_text("is treated without more")
    expect(figure(page, "money-ends-at")).to_have_text("gone")
    page.set_viewport_size({"width": 360, "height": 740})
    assert overflow(page) <= 0
    page.get_by_role("button", name="Add money").click()
    page.get_by_label("Amount", exact=True).fill("100")
    page.keyboard.press("Enter")
    expect(page.locator("#campaign-status")).to_have_text("running")
    expect(page.locator("#alerts")).to_be_hidden()


def test_a_key_that_may_only_read_is_offered_no_changes(fresh: Service, tab: Watched) -> None:
    campaign = fresh.create("locked")
    fresh.stop()
    reads, manages = fresh.make_key("read"), fresh.make_key("admin")
    fresh.start()
    page = tab.page
    tab.expect_refusals("401")
    changes = ("Pause", "Add money", "Close")
    for key, mine in ((reads, False), (manages, True)):
        page.goto(f"{fresh.url}/#/campaigns/{campaign}")
        page.get_by_label("Key", exact=True).fill(key)
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name=re.compile("CSV"))).to_be_visible()
        for name in changes:
            expect(page.get_by_role("button", name=name, exact=True)).to_be_visible(visible=mine)
        page.get_by_role("link", name="All campaigns").click()
        link = page.get_by_role("link", name="Open a campaign")
        expect(page.get_by_role("heading", name="Campaigns")).to_be_visible()
        expect(link).to_be_visible(visible=mine)
        page.goto(f"{fresh.url}/#/new")
        expect(page.get_by_role("heading", name="Open a campaign")).to_be_visible()
        expect(page.locator("#open-form")).to_be_visible(visible=mine)
        expect(page.locator("#open-refused")).to_be_visible(visible=not mine)
        page.get_by_role("button", name="Forget key").click()


def test_an_action_that_is_refused_says_why(service: Service, tab: Watched) -> None:
    page = tab.page
    tab.expect_refusals("409")
    campaign = service.create("closed elsewhere")
    tab.stop_the_clock()
    page.goto(f"{service.url}/#/campaigns/{campaign}")
    page.get_by_role("button", name="Pause").wait_for()
    assert httpx.post(f"{service.url}/v1/campaigns/{campaign}/close").is_success
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#actions-mistake")).to_contain_text("is closed, which is for good")


def test_the_form_fits_a_phone(service: Service, tab: Watched) -> None:
    page = tab.page
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{service.url}/#/new")
    page.get_by_label("Kind").select_option("category")
    expect(page.get_by_label("Levels, separated by commas")).to_be_visible()
    assert overflow(page) <= 0
