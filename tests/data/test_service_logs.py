"""The log of the service is read with no further options, whatever is not known in it yet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest

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
    "status": ["observed", "observed", "expired", "observed", "open", "cancelled"],
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
    assert unfinished == {"cancelled": 1, "open": 1}
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
    assert unfinished == {"cancelled": 1, "open": 1}


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


NOTE = "left out, because their outcome is not known: 100 cancelled, 100 open."


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


def test_a_log_that_treated_nobody_needs_a_budget_to_be_evaluated(
    save: Save, ran: Callable[..., tuple[str, str]]
) -> None:
    path = save(times=10, treatment=["control"] * 6)
    _, notes = ran("evaluate", path, "--policy", "treat-all")
    assert "error: what this log spent is 0.0, but must be above 0, or --budget given" in notes
    out, _ = ran("evaluate", path, "--policy", "treat-all", "--budget", 1)
    assert "this log: This log cannot tell what these treatments cause" in out
