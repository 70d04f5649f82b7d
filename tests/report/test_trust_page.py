"""The committed page is what the committed figures say; figures and page show every row."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from bccb.data.worlds import ABOUT
from bccb.experiments.report import Report
from bccb.experiments.trust_caused import CELLS
from bccb.experiments.trust_late import CASES, LEARNERS
from bccb.experiments.trust_study import TRUST
from bccb.experiments.trust_tables import NAMES
from bccb.experiments.trust_worlds import NAMES as WORLD_NAMES

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = json.loads((DOCS / "trust.json").read_text(encoding="utf-8"))
REPORT = Report(TRUST, FIGURES)


def draw() -> dict[str, str]:
    return {part.name: part.figure_svg for part in REPORT.sections() if part.figure_svg}


def test_the_page_is_rendered_from_the_figures_beside_it() -> None:
    assert (DOCS / "trust.md").read_text(encoding="utf-8") == REPORT.markdown()


def test_the_page_has_every_table_policy_and_claim() -> None:
    assert list(FIGURES["tables"]) == TRUST.names
    assert [row["policy"] for row in FIGURES["tables"]["values"]] == list(NAMES)
    worlds = [row["world"] for row in FIGURES["tables"]["worlds"]]
    assert worlds == 2 * list(ABOUT)
    late = [(row["outcome"], row["policy"]) for row in FIGURES["tables"]["late"]]
    assert late == [(what, name) for what in ("conversion", "visit") for name in LEARNERS]
    delays = [(row["outcome"], row["delays"]) for row in FIGURES["tables"]["delays"]]
    assert delays == [(what, name) for what in ("conversion", "visit") for name in CASES]
    caused = FIGURES["tables"]["caused"]
    assert [(row["outcome"], row["treatments"], row["reports"]) for row in caused] == list(CELLS)
    for name in ("charged", "capped", "amounts"):
        assert all(row["seeds"] >= 5 for row in FIGURES["tables"][name])  # enough for a verdict
    answer = REPORT.markdown()
    for claim in FIGURES["claims"]:
        assert f"| {claim['text']} | {claim['verdict']} | {claim['figure']} |" in answer


def test_figures_name_what_they_show() -> None:
    drawn = draw()
    assert drawn == draw()
    texts = {
        name: " ".join(filter(None, ElementTree.fromstring(figure).itertext()))
        for name, figure in drawn.items()
    }
    for name in NAMES[1:]:
        assert name in texts["curves"]
    assert "paired bootstrap, pooled-trees, incremental" in texts["twins"]
    assert "a fixed target, DR" in texts["estimators"]
    for name in LEARNERS:
        assert name in texts["late"]
    for name in (*WORLD_NAMES, *ABOUT, "20,000 users"):
        assert name in texts["worlds"]
    assert "visits, K = 2, at once" in texts["caused"]


def test_the_report_holds_claims_figures_and_tables() -> None:
    drawn = draw()
    whole = REPORT.html()
    assert whole.count("<svg") == len(drawn) == 6
    for title in (one.title for one in TRUST.experiments):
        assert f">{title}</h2>" in whole
    assert "`" not in whole
