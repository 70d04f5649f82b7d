"""Studies: every experiment is one record, and a report follows from its figures alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bccb import InputError, experiments
from bccb.data import simulate, write_log
from bccb.experiments.experiment import Study
from bccb.experiments.paper_study import PAPER
from bccb.experiments.report import Report
from bccb.experiments.trust_study import TRUST
from bccb.report.columns import column

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("study", [PAPER, TRUST])
def test_every_experiment_has_a_name_of_its_own_a_title_and_a_text(study: Study) -> None:
    assert len(set(study.names)) == len(study.names)
    for one in study.experiments:
        assert study[one.name] is one
        assert one.title
        assert one.text.endswith(".")


@pytest.mark.parametrize("study", [PAPER, TRUST])
def test_every_column_of_every_table_is_described(study: Study) -> None:
    figures = json.loads((DOCS / f"{study.name}.json").read_text(encoding="utf-8"))
    for name, rows in figures["tables"].items():
        for heading in rows[0]:
            sizes = name == "exponents" and heading.rstrip("kM").isdigit()  # numbers of users
            assert sizes or column(heading).about, (name, heading)


def test_published_figures_have_the_columns_of_the_table() -> None:
    tables = json.loads((DOCS / "paper.json").read_text(encoding="utf-8"))["tables"]
    for one in PAPER.experiments:
        for row in one.published or ():
            assert set(row) <= set(tables[one.name][0]), one.name


@pytest.mark.compiled
def test_a_study_runs_from_python_and_writes_its_report(tmp_path: Path) -> None:
    path, folder = tmp_path / "trial.parquet", tmp_path / "out"
    write_log(simulate(3_000, seed=1, outcome="visit"), path)
    heard: list[tuple[int, int, str]] = []
    report = experiments.run(
        "paper",
        path,
        only=["diagnostics"],
        seeds=[1, 2],
        folder=folder,
        progress=lambda *answer: heard.append(answer),
    )
    assert isinstance(report, Report)
    assert report.tables["diagnostics"][0]["policy"] == "thompson"
    assert report.claims == []  # two seeds are too few
    assert heard[-1] == (
        len(report.runs["diagnostics"]),
        len(report.runs["diagnostics"]),
        "replays",
    )
    assert "<svg" in report.html()
    report.write(folder)
    assert (folder / "paper.md").read_text(encoding="utf-8") == report.markdown()
    assert json.loads((folder / "diagnostics-table.json").read_text())


def test_an_unknown_study_is_refused() -> None:
    with pytest.raises(InputError, match="study is 'papers', but must be one of paper, trust"):
        experiments.run("papers")  # type: ignore[arg-type]
