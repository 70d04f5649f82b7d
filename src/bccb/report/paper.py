"""The page of ``bccb paper``: verdicts, figures, and each table beside the published one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bccb.experiments.published import PUBLISHED
from bccb.report import figures
from bccb.report.html import Section, report
from bccb.report.markdown import TITLES, span

TEXTS = {
    "online": (
        "Treated conversions, mean ± standard deviation over seeds; p is that of the paired t-test "
        "of bccb against each, then with Holm's correction over the table."
    ),
    "crossover": (
        "The offline pipeline after n rows of history against bccb after none, on the same "
        "streams. Bars in the figure are 95 % intervals of the difference, drawn from bccb's mean; "
        "they may reach below zero. Fits that failed treat nobody and are counted."
    ),
    "sensitivity": (
        "One parameter of bccb at a time; cv is the coefficient of variation of the means."
    ),
    "diagnostics": "How many decisions survived matching, and the shares of treatment.",
    "stability": "Standard deviations over seeds, and their ratio.",
    "ablation": (
        "Every sensible estimator x explorer x pacer at the middle budget, so that each "
        "component's worth is a number; the best by incremental conversions first."
    ),
    "history": (
        "Treated conversions after n rows of history, mean ± standard deviation over seeds, on the "
        "same streams. bccb and pooled-bayes begin cold, whatever n is."
    ),
    "advantage": (
        "The mean difference in treated conversions of one method to another on the same streams, "
        "with its bootstrap interval; p is that of the paired t-test, then with Holm's correction "
        "over the table."
    ),
    "incremental": (
        "Conversions that the treatments caused, with bootstrap intervals over seeds, and the "
        "ranks of the methods by treated and by incremental conversions."
    ),
    "naive": "The difference in treated conversions to a policy that looks at the cost alone.",
}
PATHS = (
    "Spend and price over time, for the first seed at the middle budget. The price of "
    "cheapest-first is on a scale of its own, because its effect is a constant."
)


def draw(
    tables: Mapping[str, Sequence[Mapping[str, Any]]], paths: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """The figures, as SVG: of every table that has one, and of one run for each policy."""
    drawn = {name: figure for name, rows in tables.items() if (figure := _figure(name, rows))}
    if paths:
        drawn["paths"] = figures.paths([dict(run) for run in paths])
    return drawn


def page(results: Mapping[str, Any], drawn: Mapping[str, str], *, as_published: bool) -> str:
    """The report of ``results``, as ``markdown.render`` takes them, with what ``draw`` drew."""
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = results["tables"]
    intro = [
        f"bccb paper on {results['data']}: {results['users']:,} users in each stream, seeds "
        f"{span(results['seeds'])}.",
        *results["differences"],
    ]
    claims = [
        {"claim": claim["text"], "verdict": claim["verdict"], "figure": claim["figure"]}
        for claim in results["claims"]
    ]
    sections = [
        Section(
            name,
            TITLES[name],
            TEXTS[name],
            list(rows),
            PUBLISHED.get(name) if as_published else None,
            drawn.get(name),
        )
        for name, rows in tables.items()
    ]
    if "paths" in drawn:
        title = "Spend and price over time"
        sections.append(Section("paths", title, PATHS, [], None, drawn["paths"]))
    return report("The paper, run again", intro, claims, sections)


def _figure(name: str, rows: Sequence[Mapping[str, Any]]) -> str | None:
    plain = [dict(row) for row in rows]
    if name == "incremental":
        return figures.conversions_by_budget(plain, outcome="Incremental conversions")
    drawn = {
        "online": figures.conversions_by_budget,
        "crossover": figures.crossover_curve,
        "history": figures.history_curves,
        "sensitivity": figures.sensitivity_curves,
        "diagnostics": figures.sample_sizes,
    }
    return drawn[name](plain) if name in drawn else None
