"""The tables that commands print: every column is described, every row has every column."""

from __future__ import annotations

import pytest

from bccb.data import describe, simulate
from bccb.evaluate.compare import compare, summarise
from bccb.evaluate.estimates import Estimate
from bccb.evaluate.evaluation import Evaluation, evaluate_log
from bccb.evaluate.outcome_model import outcome_rates
from bccb.evaluate.trials import SimulatedTrials
from bccb.report.columns import column
from bccb.report.results import (
    arm_rows,
    balance_rows,
    evaluation_rows,
    headline_rows,
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
    own = evaluate_log(LOG, outcome_rates(LOG))
    check(headline_rows([own]))
    rows, policies = evaluation_rows([own])
    check(rows)
    assert [row["by"] for row in rows] == ["IPW", "SNIPS", "DR"]
    assert policies == ["this log"] * 3


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (5.0, 20.0, "10.00 (5.00 to 20.00)"),
        (-5.0, 20.0, "at least 5.00"),
        (-9.0, 0.0, "none caused"),
    ],
)
def test_what_a_conversion_cost_is_said_as_far_as_the_interval_says_it(
    low: float, high: float, said: str
) -> None:
    """Also where there are few conversions, if the interval excludes 0."""
    line = Estimate("DR", 10.0, 3.0, low, high)
    one = Evaluation("p", 900, 50, None, None, 100.0, (line,), 60.0, None, ("thin",))
    assert headline_rows([one])[0]["cost of each (95 %)"] == said


@pytest.mark.parametrize("budgets", [[5.0], [5.0, 9.0]])
def test_the_budget_is_a_column_where_there_are_several(budgets: list[float]) -> None:
    runs = list(compare(SimulatedTrials(200, 0), ["treat-all"], budgets, [1, 2]))
    for shared in (None, LOG):  # as if they were replays of a log
        rows = summary_rows(summarise(runs, shared))
        check(rows)
        assert ("budget" in rows[0]) == (len(budgets) > 1)
        assert ("incremental (95 %)" in rows[0]) == (shared is not None)
        assert ("±" in str(rows)) == (shared is None)
