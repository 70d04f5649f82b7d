"""A campaign in cells, looked at as one."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from bccb import wire
from bccb.serve.cells import cells_of
from bccb.serve.merging import merged_campaign, merged_list, merged_report
from serve.service import Service, user

NOW = datetime(2027, 1, 1, tzinfo=UTC)
SUMS = ("decisions", "treated", "pending", "conversions", "too_late", "corrections", "fits")


@pytest.fixture
def hot(service: Service) -> str:
    """A campaign in three cells with a past."""
    id_: str = service.open(cells=3, policy={"name": "pooled-bayes"}, budget="200.00")["id"]
    for i in range(120):
        service.decide(id_, f"u{i}", age=i / 120)
        if i % 3:
            service.outcome(id_, f"u{i}", i % 2)
        service.clock.advance(0.5)
    service.done(f"{id_}/decisions/u1/correct", {"value": 0})
    service.post(f"{id_}/decisions/u0/cancel")
    return id_


def cells(service: Service, whole: str, path: str = "") -> list[dict[str, Any]]:
    return [service.get(f"{cell}{path}").json() for cell in cells_of(whole)]


def views(service: Service, whole: str) -> list[wire.Campaign]:
    decode = wire.decoder(wire.Campaign).decode
    return [decode(service.get(cell).content) for cell in cells_of(whole)]


def reports(service: Service, whole: str) -> list[wire.Report]:
    decode = wire.decoder(wire.Report).decode
    return [decode(service.get(f"{cell}/report").content) for cell in cells_of(whole)]


def test_money_and_counts_add_up(service: Service, hot: str) -> None:
    whole, parts = service.campaign(hot), cells(service, hot)
    for name in SUMS:
        assert whole[name] == sum(part[name] for part in parts), name
    for name in ("budget", "spent", "reserved", "remaining"):
        assert Decimal(whole[name]) == sum(Decimal(part[name]) for part in parts), name
    assert (whole["decisions"], whole["corrections"], whole["budget"]) == (120, 1, "200.00")
    assert (whole["id"], whole["status"], whole["cells"]) == (hot, "running", 3)


def test_what_was_caused_is_the_sum_with_an_interval_as_of_independent_cells(
    service: Service, hot: str
) -> None:
    whole, parts = service.campaign(hot)["caused"], [part["caused"] for part in cells(service, hot)]
    for name in ("estimated", "measured"):
        figures, total = [part[name] for part in parts], whole[name]
        assert total["value"] == pytest.approx(sum(each["value"] for each in figures))
        below = math.sqrt(sum((each["value"] - each["low"]) ** 2 for each in figures))
        above = math.sqrt(sum((each["high"] - each["value"]) ** 2 for each in figures))
        assert total["low"] == pytest.approx(total["value"] - below)
        assert total["high"] == pytest.approx(total["value"] + above)
    assert whole["measured_users"] == sum(part["measured_users"] for part in parts)


def test_the_reason_of_the_cell_that_is_not_measured_is_told(service: Service, hot: str) -> None:
    parts = views(service, hot)
    measured = parts[0].caused
    assert measured is not None
    reason = "Nobody counts yet."
    unmeasured = structs.replace(measured, measured=None, not_measured=reason)
    parts[1] = structs.replace(parts[1], caused=unmeasured)
    merged = merged_campaign(parts, []).caused
    assert merged is not None
    assert (measured.not_measured, merged.measured, merged.not_measured) == (None, None, reason)


def test_a_return_is_of_the_money_of_all_cells(service: Service) -> None:
    hot = service.open(
        cells=2, policy={"name": "pooled-bayes"}, outcome={"kind": "amount", "largest": "50"}
    )["id"]
    for i in range(40):
        service.decide(hot, f"u{i}")
        service.outcome(hot, f"u{i}", 10.0 * (i % 3 == 0))
    whole = service.campaign(hot)
    out = float(whole["spent"]) + float(whole["reserved"])
    returned, estimated = whole["caused"]["return_on_spend"], whole["caused"]["estimated"]
    for end in ("value", "low", "high"):
        assert returned[end] == pytest.approx(estimated[end] / out)
    assert whole["value"] == pytest.approx(10.0 * 14)


def test_arms_have_the_users_of_all_cells(service: Service, hot: str) -> None:
    service.clock.advance(120)
    service.sweep()
    whole, parts = service.get(f"{hot}/report").json(), cells(service, hot, "/report")
    for arm, figures in enumerate(whole["arms"]):
        same = [part["arms"][arm] for part in parts]
        for name in ("decisions", "outcomes", "conversions"):
            assert figures[name] == sum(each[name] for each in same)
    treated = whole["arms"][1]
    rate = treated["rate"]
    assert rate["value"] == pytest.approx(treated["conversions"] / treated["outcomes"])
    assert 0.0 <= rate["low"] < rate["value"] < rate["high"] <= 1.0
    widths = [part["arms"][1]["rate"] for part in parts]
    assert rate["high"] - rate["low"] < min(each["high"] - each["low"] for each in widths)


def test_points_over_time_add_up(service: Service, hot: str) -> None:
    whole = service.get(f"{hot}/report").json()
    series = whole["series"]
    assert series["at"] == sorted(series["at"])
    assert series["decisions"] == sorted(series["decisions"])
    assert series["decisions"][-1] == 120
    money = whole["campaign"]
    out = float(money["spent"]) + float(money["reserved"])
    assert series["spent"][-1] == pytest.approx(out)
    assert series["planned"][-1] == pytest.approx(float(whole["planned"]), abs=1e-5)
    assert len({len(column) for column in series.values()}) == 1


def test_points_are_few_however_many_cells_there_are(service: Service) -> None:
    hot = service.open(cells=8, horizon={"users": 2_000})["id"]
    for turn in range(10):
        users = [user(f"{turn}-{i}") for i in range(200)]
        service.done(f"{hot}/decisions", users)
        service.clock.advance(1)
    series = service.get(f"{hot}/report").json()["series"]
    assert len(series["at"]) <= 400
    assert series["decisions"][-1] == 2_000


def test_what_was_caused_over_time_begins_when_all_cells_know(service: Service, hot: str) -> None:
    parts = reports(service, hot)
    figure = wire.Figure(1.0, 0.0, 2.0)
    times = ((1.0, 4.0), (2.0,), (3.0, 5.0))
    one, two, three = (
        wire.CausedSeries(at, (figure,) * len(at), (None,) * len(at)) for at in times
    )
    given = [
        wire.decoder(wire.Report).decode(wire.encode(_with(part, series)))
        for part, series in zip(parts, (one, two, three), strict=True)
    ]
    merged = merged_report(given, []).caused_series
    assert merged.at == (3.0, 4.0, 5.0)
    assert [each and each.value for each in merged.estimated] == [3.0, 3.0, 3.0]
    assert merged.measured == (None, None, None)


def _with(report: wire.Report, series: wire.CausedSeries) -> wire.Report:
    return structs.replace(report, caused_series=series)


def test_the_money_of_all_cells_ends_together(service: Service, hot: str) -> None:
    first, second, third = reports(service, hot)

    def cell(report: wire.Report, remaining: str, seconds: float | None) -> wire.Report:
        ends = None if seconds is None else NOW + timedelta(seconds=seconds)
        campaign = structs.replace(report.campaign, remaining=Decimal(remaining))
        return structs.replace(report, now=NOW, money_ends_at=ends, campaign=campaign)

    # 30 left at 2 a second, and 10 at 1 a second: 40 at 3 a second
    ends = merged_report(
        [cell(first, "30", 15), cell(second, "10", 10), cell(third, "0", None)], []
    )
    assert ends.money_ends_at is not None
    assert (ends.money_ends_at - NOW).total_seconds() == pytest.approx(40 / 3)
    unknown = merged_report(
        [cell(first, "30", 15), cell(second, "10", None), cell(third, "0", 1)], []
    )
    assert unknown.money_ends_at is None


def test_alerts_name_their_cell(service: Service) -> None:
    hot = service.open(cells=2, budget="4.00")["id"]
    ids = [f"u{i}" for i in range(200)]
    for id_ in ids[:40]:
        service.decide(hot, id_)
    told = service.look()
    assert {notice.campaign_id for notice in told} <= set(cells_of(hot))
    alerts = service.campaign(hot)["alerts"]
    assert {alert["text"][:8] for alert in alerts} == {"Cell 0: ", "Cell 1: "}
    assert {alert["kind"] for alert in alerts} == {"money_gone"}


def test_a_list_has_one_entry_for_all_cells(service: Service, hot: str) -> None:
    plain = service.open(name="plain")["id"]
    listed = service.get("").json()["campaigns"]
    assert [each["id"] for each in listed] == [plain, hot]
    alone = service.campaign(hot)
    alone["caused"] = None  # as in any list
    assert listed[1] == alone


def test_a_list_keeps_cells_of_which_some_are_missing() -> None:
    some = {"c1x2.0": b"{}", "c2": b"[]"}
    assert merged_list(some, {}) == [b"{}", b"[]"]


def test_a_campaign_runs_while_one_of_its_cells_does(service: Service, hot: str) -> None:
    replica = {"bccb-forwarded": "another replica"}  # which asks for one cell
    service.ask("POST", f"{hot}.1/pause", headers=replica)
    assert service.campaign(hot)["status"] == "running"
    service.done(f"{hot}/pause")
    service.ask("POST", f"{hot}.2/close", headers=replica)
    assert service.campaign(hot)["status"] == "paused"
    service.done(f"{hot}/close")
    assert service.campaign(hot)["status"] == "closed"


def test_the_terms_of_a_quarantined_cell_are_taken_from_another(service: Service, hot: str) -> None:
    service.books.quarantine(f"{hot}.0", "damaged")
    whole = service.campaign(hot)
    assert (whole["status"], whole["id"]) == ("quarantined", hot)
    assert whole["reason"] == f"cell {hot}.0 is, while the others go on: damaged"
    assert whole["budget"] == "200.00"
    report = service.get(f"{hot}/report").json()
    assert [arm["treatment"] for arm in report["arms"]] == [None, "email"]
    assert service.get("").json()["campaigns"][0]["status"] == "quarantined"


def test_one_campaign_is_itself(service: Service, hot: str) -> None:
    (first, *_) = views(service, hot)
    assert merged_campaign([first], []) is first
