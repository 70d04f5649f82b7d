"""The committed page is what the committed figures say, and these are what the runs give."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bccb.data import preset
from bccb.evaluate.trials import FileTrials
from bccb.experiments.paper import Setup
from bccb.experiments.paper_study import PAPER
from bccb.experiments.plan import Run
from bccb.experiments.report import Report
from bccb.experiments.runner import execute
from bccb.experiments.store import Store
from bccb.policies import POLICIES
from bccb.report.html import Section
from bccb.report.markdown import tables

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = json.loads((DOCS / "paper.json").read_text(encoding="utf-8"))
FOLDER = os.environ.get("BCCB_DATA")
# Fitted by scikit-learn, whose results differ a little between processors
FITTED = "offline-uplift"
RUN_AGAIN = (
    "hte-greedy",
    "uplifting-bandit",
    "bccb",
    "offline-uplift",
    "cheapest-first",
    "pooled-bayes",
)


def test_the_page_is_rendered_from_the_figures_beside_it() -> None:
    assert (DOCS / "paper.md").read_text(encoding="utf-8") == Report(PAPER, FIGURES).markdown()


def test_the_page_has_every_experiment_and_claim() -> None:
    assert list(FIGURES["tables"]) == PAPER.names
    assert len(FIGURES["claims"]) == 9
    page = Report(PAPER, FIGURES).markdown()
    for claim in FIGURES["claims"]:
        assert f"| {claim['text']} | {claim['verdict']} |" in page


def test_a_table_for_each_size_marks_the_best_and_the_worst_of_a_row() -> None:
    rows = [
        {"users": 900, "world": "bump", "bccb": 0.25, "hybrid": 0.75, "error": 9.0},
        {"users": 100, "world": "bump", "bccb": 0.5, "hybrid": -0.5, "error": 9.0},
    ]
    section = Section("a", "A", "", rows, split_by="users", ranked=("bccb", "hybrid"))
    assert tables(section).splitlines() == [
        "### users: 900",
        "",
        "| world | bccb | hybrid | error |",
        "|---|---|---|---|",
        "| bump | 0.25 ▾ | **0.75** | 9 |",
        "",
        "### users: 100",
        "",
        "| world | bccb | hybrid | error |",
        "|---|---|---|---|",
        "| bump | **0.5** | -0.5 ▾ | 9 |",
    ]


@pytest.mark.data
@pytest.mark.compiled
@pytest.mark.slow_first
@pytest.mark.skipif(FOLDER is None, reason="BCCB_DATA does not name the folder of the trials")
def test_the_figures_are_those_that_the_runs_give_today(tmp_path: Path) -> None:
    """Some of the replay diagnostics stand for all: every seed, at the middle budget."""
    assert FOLDER is not None
    setup = Setup(policies=RUN_AGAIN)
    path = str(Path(FOLDER) / "criteo_uplift_200k.parquet")
    trials = FileTrials(path, preset("criteo"), setup.users, max(setup.sizes))
    store = Store(tmp_path / "runs.jsonl")
    for _ in execute(PAPER["diagnostics"].plan(setup), trials, "today", store):
        pass

    def find(run: Run) -> dict[str, Any]:
        result = store.get(run.key("today"))
        assert result is not None
        return result

    committed = {row["policy"]: row for row in FIGURES["tables"]["diagnostics"]}
    rows = [dict(row) for row in PAPER["diagnostics"].table(setup, find)]
    assert [row["policy"] for row in rows] == list(RUN_AGAIN)
    for row in rows:
        name = row.pop("policy")
        wanted = {column: value for column, value in committed[name].items() if column != "policy"}
        assert row == (pytest.approx(wanted, rel=0.01) if name == FITTED else wanted)


def test_the_policies_that_are_run_again_use_every_component_but_trees() -> None:
    """Those take long to fit; the tests of their estimators compare them with scikit-learn."""
    used, all_ = (
        {part.name for name in names for part in POLICIES[name].composition.components}
        for names in (RUN_AGAIN, Setup().policies)
    )
    assert used == all_ - {"boosted", "pooled-trees"}
