"""The log of a campaign, as it is downloaded."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars
import pytest

from bccb.data import Columns, read_log
from bccb.data.schema import METADATA_KEY
from bccb.errors import InputError
from bccb.evaluate.charged import payment_for
from bccb.serve import log
from serve.service import Service, refused, user


def lines(service: Service, campaign: str) -> list[dict[str, Any]]:
    response = service.get(f"{campaign}/log")
    assert response.headers["content-type"].startswith("application/x-ndjson")
    assert f"{campaign}.ndjson" in response.headers["content-disposition"]
    return [json.loads(line) for line in response.text.splitlines()]


def parquet(service: Service, campaign: str) -> polars.DataFrame:
    response = service.get(f"{campaign}/log", format="parquet")
    assert response.status_code == 200, response.text
    return polars.read_parquet(io.BytesIO(response.content))


def test_a_log_tells_how_each_decision_ended(service: Service) -> None:
    campaign = service.open(budget="4.00")["id"]
    service.decide(campaign, "early", cost="1.00", age=1.5)
    service.clock.advance(61)
    service.sweep()
    for id_, cost in (("seen", "1.00"), ("undone", "2.00"), ("poor", "3.00"), ("open", "1.00")):
        service.decide(campaign, id_, cost=cost)
    service.outcome(campaign, "seen", 0.25)
    service.done(f"{campaign}/decisions/undone/cancel")
    result = lines(service, campaign)
    assert [
        (row["decision_id"], row["treatment"], row["outcome"], row["status"]) for row in result
    ] == [
        ("early", "email", 0.0, "expired"),
        ("seen", "email", 0.25, "observed"),
        ("undone", "email", None, "cancelled"),
        ("poor", "control", None, "open"),
        ("open", "control", None, "open"),
    ]
    assert result[0] == {
        "decision_id": "early",
        "number": 1,
        "at": "2027-01-15T08:00:00Z",
        "age": 1.5,
        "cost": 1.0,
        "treatment": "email",
        "probability": 1.0,
        "price": 0.0,
        "outcome": 0.0,
        "status": "expired",
    }


def test_a_shadows_log_tells_what_was_done_and_what_was_proposed(service: Service) -> None:
    campaign = service.open(mode="shadow", treatments=["email", "call"])["id"]
    costs = {"email": "1.00", "call": "2.50"}
    service.done(f"{campaign}/decisions", [{**user(id_), "costs": costs} for id_ in "abc"])
    service.outcome(campaign, "a", 1, action="call")
    service.outcome(campaign, "b", 0, action=None)
    result = lines(service, campaign)
    assert [
        (row["treatment"], row["proposed"], row["outcome"], row["probability"]) for row in result
    ] == [
        ("call", "email", 1.0, None),
        ("control", "email", 0.0, None),
        (None, "email", None, None),
    ]
    assert [row["proposed_probability"] for row in result] == [1.0] * 3
    assert (result[0]["cost:email"], result[0]["cost:call"]) == (1.0, 2.5)
    assert parquet(service, campaign).drop("at").to_dicts() == [
        {key: value for key, value in row.items() if key != "at"} for row in result
    ]


def test_times_are_reported_to_the_microsecond(service: Service) -> None:
    campaign = service.open()["id"]
    begin = datetime(2027, 1, 15, 8, tzinfo=UTC)
    for i in range(3):  # a whole second stands beside fractions of one
        service.decide(campaign, f"d{i}")
        service.clock.advance(0.5)
    assert parquet(service, campaign)["at"].to_list() == [
        begin + timedelta(seconds=i / 2) for i in range(3)
    ]


def test_a_log_without_decisions_is_empty_but_can_be_read(service: Service) -> None:
    campaign = service.open(features=["age", "größe"])["id"]
    assert lines(service, campaign) == []
    frame = parquet(service, campaign)
    assert frame.height == 0
    assert frame.columns[3:6] == ["age", "größe", "cost"]


def test_a_parquet_log_tells_which_column_plays_which_part(service: Service) -> None:
    campaign = service.open(treatments=["email", "call"])["id"]
    response = service.get(f"{campaign}/log", format="parquet")
    stored = polars.read_parquet_metadata(io.BytesIO(response.content))[METADATA_KEY]
    answer = json.loads(stored)
    assert answer["treatments"] == ["email", "call"]
    assert answer["cost"] == ["cost:email", "cost:call"]
    assert answer["probability"] == "probability"


def test_a_long_log_is_read_page_by_page(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "PAGE", 7)
    campaign = service.open()["id"]
    service.done(f"{campaign}/decisions", [user(f"d{i}") for i in range(50)])
    assert [row["number"] for row in lines(service, campaign)] == list(range(1, 51))
    assert parquet(service, campaign).height == 50


def test_a_log_as_csv_has_the_columns_and_values_of_the_others(service: Service) -> None:
    campaign = service.open(features=["age", 'said "so", twice'], budget="5.00")["id"]
    for number in range(3):
        features = {"age": 0.25, 'said "so", twice': float(number)}
        service.done(f"{campaign}/decisions", user(f"u{number}") | {"features": features})
    service.outcome(campaign, "u1", 1)
    response = service.get(f"{campaign}/log", format="csv")
    assert response.headers["content-type"].startswith("text/csv")
    assert f"{campaign}.csv" in response.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(response.text, newline="")))
    assert list(rows[0]) == parquet(service, campaign).columns
    told = [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in lines(service, campaign)
    ]
    assert rows == told


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_a_log_tells_how_it_was_charged_and_nothing_else_is_taken(
    service: Service, tmp_path: Path, form: str
) -> None:
    """Otherwise its costs, which are what was reserved, would pass for what was paid."""
    given = {"outcome": {"kind": "amount"}, "charge": "conversion", "share": 0.2}
    campaign = service.open(**given, treatments=["email", "call"])["id"]
    costs = {"email": "5.00", "call": "5.00"}
    for number in range(40):
        service.done(f"{campaign}/decisions", user(f"u{number}") | {"costs": costs})
        service.outcome(campaign, f"u{number}", 10.0 * (number % 3))
    path = tmp_path / f"log.{form}"
    path.write_bytes(service.get(f"{campaign}/log", format=form).content)
    log = read_log(path)
    assert log.charge == "conversion, share 0.2"
    assert payment_for(log, "conversion", share=0.2).text == log.charge
    assert payment_for(log, "treatment").text == log.charge  # the default: the log tells
    for charge, share in (("conversion", None), ("conversion", 0.3)):
        with pytest.raises(InputError, match="as in this log: --charge conversion --share 0.2"):
            payment_for(log, charge, share=share)
    with pytest.raises(InputError, match="the treatments of this log were charged by that"):
        read_log(path, Columns(outcome="price"))


@pytest.mark.parametrize(
    ("first", "rest", "message"),
    [
        (
            "conversion",
            "treatment",
            "'conversion, treatment', but must be the same in all rows: evaluate",
        ),
        ("conversion, share x", "conversion, share x", 'but must be "treatment", "conversion" or'),
        ("conversion, share 2", "conversion, share 2", 'but must be "treatment", "conversion" or'),
    ],
)
def test_a_log_that_does_not_tell_how_it_was_charged_is_refused(
    service: Service, tmp_path: Path, first: str, rest: str, message: str
) -> None:
    campaign = service.open(charge="conversion", treatments=["email", "call"])["id"]
    for number in range(40):
        costs = {"email": "5.00", "call": "5.00"}
        service.done(f"{campaign}/decisions", user(f"u{number}") | {"costs": costs})
        service.outcome(campaign, f"u{number}", float(number % 2))
    rows = lines(service, campaign)
    for row in rows:
        row["charged_on"] = first if row is rows[0] else rest
    path = tmp_path / "log.ndjson"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    with pytest.raises(InputError, match=f"column 'charged_on' is .*{message}"):
        read_log(path)


def test_another_format_is_refused(service: Service) -> None:
    campaign = service.open()["id"]
    assert "xlsx" in refused(service.get(f"{campaign}/log", format="xlsx"), 422, "format")
