"""The log of the service is read with no further options, whatever is not known in it yet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest
from tables import assert_same

from bccb.cli import main
from bccb.data.readers import read_complete_rows, read_finished, read_log
from bccb.data.schema import Columns
from bccb.errors import InputError

ARMS = ["control", "email", "control", "email", "control", "email"]
ROWS: dict[str, list[Any]] = {
    "decision_id": [f"user-{row}" for row in range(6)],
    "number": [1, 2, 3, 4, 5, 6],
    "at": ["2030-01-01T00:00:00Z"] * 6,
    "age": [30.0, 41.5, 22.0, 19.0, 65.0, 50.0],
    "cost": [0.5] * 6,
    "treatment": ARMS,
    "probability": [0.75, 0.25] * 3,
    "price": [0.1] * 6,
    "outcome": [0.0, 1.0, 0.0, 0.0, None, None],
    "status": ["observed", "observed", "expired", "observed", "cancelled", "cancelled"],
}
COLUMNS = Columns(
    treatment="treatment",
    control="control",
    outcome="outcome",
    features=("age",),
    treatments=("email",),
    cost=("cost",),
    excluded=("decision_id", "number", "at", "price"),
    probability="probability",
    status="status",
)
Save: TypeAlias = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def save(columns: Columns = COLUMNS, times: int = 1, **changes: list[Any]) -> Path:
        path = tmp_path / "log.parquet"
        frame = pl.concat([pl.DataFrame(ROWS | changes)] * times)
        frame.write_parquet(path, metadata=columns.metadata())
        return path

    return save


def test_decisions_without_an_outcome_are_left_out_and_counted(save: Save) -> None:
    read = read_finished(save())
    log, unfinished = read.log, read.unfinished
    assert unfinished == {"cancelled": 2}
    assert log.outcomes.tolist() == [0, 1, 0, 0]
    assert log.actions.tolist() == [0, 1, 0, 1]
    assert log.features[:, 0].tolist() == ROWS["age"][:4]
    assert log.feature_names == ("age",)
    assert log.treatment_names == ("email",)
    assert log.probabilities is not None
    assert log.probabilities.tolist() == [0.75, 0.25] * 2
    assert read_log(save()).users == 4


def test_without_a_status_a_missing_outcome_is_refused(save: Save) -> None:
    with pytest.raises(InputError, match="values in column 'outcome' is 2, but must be 0"):
        read_log(save(replace(COLUMNS, status=None, excluded=(*COLUMNS.excluded, "status"))))


def test_other_missing_values_are_refused_in_finished_rows_alone(save: Save) -> None:
    assert read_log(save(age=[30.0, 41.5, 22.0, 19.0, None, 50.0])).users == 4
    with pytest.raises(InputError, match="values in column 'age' is 1, but must be 0"):
        read_log(save(age=[30.0, None, 22.0, 19.0, 65.0, 50.0]))


def test_a_log_in_which_nothing_is_known_yet_is_refused(save: Save) -> None:
    with pytest.raises(InputError, match="whose outcome is known is 0, but must be at least 1"):
        read_log(save(outcome=[None] * 6))


def test_columns_that_are_named_again_keep_what_is_stored(save: Save) -> None:
    given = Columns("treatment", "control", "outcome", cost=0.5)
    read = read_finished(save(), given)
    log, unfinished = read.log, read.unfinished
    assert log.feature_names == ("age",)
    assert log.probabilities is not None
    assert unfinished == {"cancelled": 2}


@pytest.mark.parametrize("missing", ["email", "call", "control"])
def test_an_action_that_was_not_taken_yet_keeps_its_place(save: Save, missing: str) -> None:
    arms = [name for name in ("email", "call", "control") if name != missing]
    columns = replace(COLUMNS, treatments=("email", "call"), cost=("cost", "price"))
    columns = replace(columns, excluded=("decision_id", "number", "at"))
    log = read_log(save(columns, treatment=arms * 3))
    assert log.treatment_names == ("email", "call")
    numbers = {"control": 0, "email": 1, "call": 2}
    assert log.actions.tolist() == [numbers[name] for name in arms * 2]


def test_a_treatment_without_a_row_is_refused_where_no_probability_speaks_for_it(
    save: Save,
) -> None:
    columns = replace(COLUMNS, treatments=("email", "call"), cost=("cost", "price"))
    columns = replace(columns, probability=None, excluded=("decision_id", "number", "at"))
    with pytest.raises(InputError, match="treatment is 'call', but must be a value of 'treatment'"):
        read_log(save(columns))


@pytest.mark.parametrize("change", [{"control": "contrl"}, {"treatments": ("emial",)}])
def test_a_misspelt_action_is_not_taken_for_one_without_rows(
    save: Save, change: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="but must be a value of 'treatment', one of .*mean"):
        read_log(save(replace(COLUMNS, **change)))


def test_a_log_is_described_without_what_is_not_known(save: Save) -> None:
    read = read_complete_rows(save())
    log, missing, incomplete = read.log, read.missing, read.incomplete
    assert (log.users, missing["outcome"], incomplete) == (4, 2, 2)


@pytest.fixture
def ran(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str]]:
    def command(*arguments: object) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["bccb", *map(str, arguments)])
        with pytest.raises(SystemExit):
            main()
        printed = capsys.readouterr()
        return " ".join(printed.out.split()), " ".join(printed.err.split())

    return command


NOTE = "left out, because their outcome is not known: 200 cancelled."


def test_evaluate_and_compare_read_it_and_tell_what_they_left_out(
    save: Save, ran: Callable[..., tuple[str, str]]
) -> None:
    path = save(times=100)
    out, notes = ran("evaluate", path, "--policy", "treat-all")
    assert NOTE in notes
    assert "log.parquet: 400 users" in out
    out, notes = ran("compare", "--data", path, "--policy", "treat-all", "--seeds", "1:3")
    assert NOTE in notes
    assert "log.parquet: 400 users, 2 seeds" in out


OPEN = ["expired", "cancelled", "observed", "open", "observed", "open"]
LATE = [0.0, None, 1.0, None, 1.0, None]


def test_open_decisions_are_refused_because_what_is_known_converts_too_often(save: Save) -> None:
    path = save(status=OPEN, outcome=LATE)
    message = (
        "number of open decisions is 2, but must be 0: conversions are known sooner than .*"
        "Read the log again when no decision is open, or read only the 3 of 6 decisions before .*"
        "with --closed, or Columns.closed=True"
    )
    for read in (read_log, read_complete_rows):
        with pytest.raises(InputError, match=message):
            read(path)


def test_the_decisions_before_the_oldest_open_one_are_read_if_asked_for(save: Save) -> None:
    path = save(status=OPEN, outcome=LATE)
    read = read_finished(path, Columns(closed=True))
    assert read.log.outcomes.tolist() == [0.0, 1.0]
    assert read.unfinished == {"cancelled": 1}
    assert read.notes == ("left out: 3 of 6 decisions, from the oldest open one on",)
    assert read_complete_rows(path, Columns(closed=True)).incomplete == 1


def test_closed_changes_nothing_where_no_decision_is_open(save: Save) -> None:
    assert read_finished(save(), Columns(closed=True)).notes == ()


def test_a_log_whose_oldest_decision_is_open_can_only_be_read_later(save: Save) -> None:
    path = save(status=["open", *OPEN[1:]], outcome=[None, *LATE[1:]])
    with pytest.raises(InputError, match="Read the log again when no decision is open$"):
        read_log(path, Columns(closed=True))


def test_a_log_that_does_not_tell_what_is_open_cannot_be_read_up_to_there(save: Save) -> None:
    path = save(replace(COLUMNS, status=None, excluded=(*COLUMNS.excluded, "status")))
    with pytest.raises(InputError, match="closed is True, but must be left out, because the log"):
        read_log(path, Columns(closed=True))


def test_commands_refuse_open_decisions_and_offer_the_closed_ones(
    save: Save, ran: Callable[..., tuple[str, str]]
) -> None:
    path = save(times=100, status=["observed"] * 6, outcome=[0.0, 1.0] * 3)
    end = pl.DataFrame(ROWS | {"status": OPEN, "outcome": LATE})
    late = pl.concat([pl.read_parquet(path), end])
    late.write_parquet(path, metadata=COLUMNS.metadata())
    for command in (["evaluate", path], ["compare", "--data", path], ["data", "describe", path]):
        _, notes = ran(*command)
        assert "error: the number of open decisions is 2, but must be 0: conversions are" in notes
        assert "only the 603 of 606 decisions" in notes
    out, notes = ran("evaluate", path, "--closed", "--policy", "treat-all")
    assert "log.parquet: 602 users" in out
    assert "left out: 3 of 606 decisions, from the oldest open one on" in notes


@pytest.mark.parametrize("suffix", [".ndjson", ".csv"])
@pytest.mark.parametrize("treatments", [("email",), ("email", "call")])
def test_lines_of_the_service_tell_their_columns(
    tmp_path: Path, suffix: str, treatments: tuple[str, ...]
) -> None:
    rows = dict(ROWS)
    if len(treatments) > 1:
        prices = {"cost:email": [0.5] * 6, "cost:call": [2.0] * 6}
        rows = {name: rows[name] for name in ("decision_id", "number", "at", "age")} | prices | rows
        del rows["cost"]
    path = tmp_path / f"log{suffix}"
    frame = pl.DataFrame(rows)
    frame.write_csv(path) if suffix == ".csv" else frame.write_ndjson(path)
    log = read_log(path)
    assert log.feature_names == ("age",)
    assert log.treatment_names == treatments
    assert log.costs.tolist() == [[0.5, 2.0][: len(treatments)]] * 4
    assert log.probabilities is not None
    assert_same(read_log(frame), log)


def test_in_a_shadow_campaign_somebody_else_decided(tmp_path: Path) -> None:
    shadow = {"proposed": ARMS, "proposed_probability": [0.75, 0.25] * 3}
    log = read_log(pl.DataFrame(ROWS | {"probability": [None] * 6} | shadow))
    assert log.probabilities is None
    assert log.feature_names == ("age",)


def test_a_policys_log_is_described_given_its_probabilities(
    save: Save, ran: Callable[..., tuple[str, str]]
) -> None:
    out, _ = ran("data", "describe", save(times=20))
    assert "given the probabilities of the log" in out


def test_a_log_of_several_treatments_with_probabilities_is_for_evaluate(
    save: Save, ran: Callable[..., tuple[str, str]]
) -> None:
    columns = replace(COLUMNS, treatments=("email", "call"), cost=("cost", "price"))
    columns = replace(columns, excluded=("decision_id", "number", "at"))
    path = save(columns, times=20, treatment=["control", "email", "call"] * 2)
    _, notes = ran("compare", "--data", path, "--policy", "treat-all", "--seeds", "1")
    assert "must be 1 where the log has probabilities: use bccb evaluate" in notes


def test_a_log_that_treated_nobody_needs_a_budget_to_be_evaluated(
    save: Save, ran: Callable[..., tuple[str, str]]
) -> None:
    path = save(times=10, treatment=["control"] * 6)
    _, notes = ran("evaluate", path, "--policy", "treat-all")
    assert "error: what this log spent is 0.0, but must be above 0, or --budget given" in notes
    out, _ = ran("evaluate", path, "--policy", "treat-all", "--budget", 1)
    assert "this log: This log cannot tell what these treatments cause" in out
