"""The tables that commands print: every column is described, every row has every column."""

from __future__ import annotations

import pytest

from bccb.data import describe, simulate
from bccb.evaluate.compare import compare, summarise
from bccb.evaluate.evaluation import evaluate_log
from bccb.evaluate.outcome_model import outcome_rates
from bccb.evaluate.trials import SimulatedTrials
from bccb.report.columns import column
from bccb.report.results import (
    arm_rows,
    balance_rows,
    evaluation_rows,
    policy_rows,
    summary_rows,
)

LOG = simulate(600, seed=1, outcome="visit")


def check(rows: list[dict[str, str]]) -> None:
    for row in rows:
        assert list(row) == list(rows[0])
    for heading in rows[0]:
        assert column(heading).about, heading


def test_policies_and_arms() -> None:
    check(policy_rows())
    check(arm_rows(describe(LOG)))


def test_features_are_compared_in_each_treatment() -> None:
    rows = balance_rows(describe(LOG).balance)
    assert [row["feature"] for row in rows] == list(LOG.feature_names)
    assert list(rows[0]) == ["feature", *LOG.treatment_names]


def test_the_log_has_a_row_for_each_method() -> None:
    rows, policies = evaluation_rows([evaluate_log(LOG, outcome_rates(LOG))])
    check(rows)
    assert [row["by"] for row in rows] == ["IPW", "SNIPS", "DR"]
    assert policies == ["this log"] * 3


@pytest.mark.parametrize("budgets", [[5.0], [5.0, 9.0]])
def test_the_budget_is_a_column_where_there_are_several(budgets: list[float]) -> None:
    runs = list(compare(SimulatedTrials(200, 0), ["treat-all"], budgets, [1, 2]))
    rows = summary_rows(summarise(runs))
    check(rows)
    assert ("budget" in rows[0]) == (len(budgets) > 1)
