"""The results of ``bccb paper`` as a page of Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bccb.report.rows import joined

TITLES = {
    "online": "Online comparison (section 5.1)",
    "crossover": "Crossover (section 5.2)",
    "sensitivity": "Sensitivity (section 5.3)",
    "diagnostics": "Replay diagnostics (section 5.4)",
    "stability": "Stability (section 5.5)",
    "ablation": "Ours: every combination of components",
    "history": "Ours: what history is worth",
    "advantage": "Ours: how far one method is ahead of another after n rows of history",
    "incremental": "Ours: incremental conversions",
    "naive": "Ours: against cheapest-first, which looks at the cost alone",
}


def render(results: Mapping[str, Any]) -> str:
    """The page: what was run, the verdicts, and every table.

    ``results`` has ``data``, ``users``, ``seeds``, ``differences`` from the paper's set-up,
    ``claims`` and ``tables``, as plain types.
    """
    parts = [
        "# The paper, run again",
        f"`bccb paper` on {results['data']}: a stream of {results['users']:,} users for each of "
        f"the seeds {span(results['seeds'])}. Written by the command itself; do not edit.",
        *results["differences"],
    ]
    if results["claims"]:
        parts += ["## What held", table(results["claims"])]
    for name, rows in results["tables"].items():
        parts += [f"## {TITLES[name]}", table(rows)]
    return "\n\n".join(parts) + "\n"


def span(seeds: Sequence[int]) -> str:
    """Seeds in words.

    >>> span([1, 2, 3]), span([1, 7])
    ('1 to 3', '1, 7')
    """
    first, last = seeds[0], seeds[-1]
    whole = list(seeds) == list(range(first, last + 1))
    return f"{first} to {last}" if whole and last > first else ", ".join(map(str, seeds))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table.

    >>> print(table([{"n": 500, "p_value": 0.0431}, {"n": 1000, "p_value": None}]))
    | n | p value |
    |---|---|
    | 500 | 0.0431 |
    | 1,000 |  |
    """
    headings, texts = cells(rows)
    first, *rest = (f"| {' | '.join(line)} |" for line in (headings, *texts))
    return "\n".join([first, "|" + "---|" * len(headings), *rest])


def cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headings, and rows of text."""
    texts = [joined({key: cell(value) for key, value in row.items()}) for row in rows]
    headings = list(dict.fromkeys(key for row in texts for key in row))
    return (
        [heading.replace("_", " ") for heading in headings],
        [[row.get(heading, "") for heading in headings] for row in texts],
    )


def cell(value: object) -> str:
    """Three significant digits, thousands apart; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "/")
