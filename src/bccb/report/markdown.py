"""Tables and whole reports in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from bccb.report.columns import column
from bccb.report.html import Section
from bccb.report.rows import WORST, Row, extremes, joined, split
from bccb.report.templating import rendered


def page(
    title: str,
    intro: Sequence[str],
    rules: str,
    claims: Sequence[Row],
    sections: Sequence[Section],
) -> str:
    """One document: what was run, the verdicts and their rules, and every table."""
    return rendered(
        "page.md",
        title=title,
        intro=intro,
        rules=rules,
        claims=table(claims) if claims else "",
        sections=[(section, tables(section), legend(section.rows)) for section in sections],
    )


def legend(rows: Sequence[Row]) -> str:
    """What the columns mean, in one line.

    >>> legend([{"n": 500, "mean": 44.1, "deviation": 14.6}])
    'n: rows of history; mean ± deviation: mean over seeds ± standard deviation over seeds.'
    """
    headings: dict[str, list[str]] = {}
    for heading in cells(rows)[0]:
        headings.setdefault(column(heading).about, []).append(heading)
    return "; ".join(f"{', '.join(of)}: {about}" for about, of in headings.items() if about) + "."


def span(seeds: Sequence[int]) -> str:
    """Seeds in words.

    >>> span([1, 2, 3]), span([1, 7])
    ('1 to 3', '1, 7')
    """
    first, last = seeds[0], seeds[-1]
    whole = list(seeds) == list(range(first, last + 1))
    return f"{first} to {last}" if whole and last > first else ", ".join(map(str, seeds))


def tables(section: Section) -> str:
    """The table of a section, or one for each value of the column that splits it."""
    parts = []
    for heading, rows in split(section.rows, section.split_by):
        parts += [f"### {heading}"] if heading else []
        parts.append(table(rows, section.ranked))
    return "\n\n".join(parts)


def table(rows: Sequence[Row], ranked: Sequence[str] = ()) -> str:
    """Rows as a Markdown table; the best of the ranked figures of a row is bold, the worst has a
    sign.

    >>> print(table([{"n": 500, "p_value": 0.0431}, {"n": 1000, "p_value": None}]))
    | n | p value |
    |---|---|
    | 500 | 0.0431 |
    | 1,000 |  |
    """
    if ranked:
        marks = [extremes(row, ranked) for row in rows]
        rows = [
            {name: _marked(cell(value), own.get(name, "")) for name, value in row.items()}
            for row, own in zip(rows, marks, strict=True)
        ]
    headings, texts = cells(rows)
    first, *rest = (f"| {' | '.join(line)} |" for line in (headings, *texts))
    return "\n".join([first, "|" + "---|" * len(headings), *rest])


def _marked(text: str, mark: str) -> str:
    return {"best": f"**{text}**", "worst": f"{text} {WORST}"}.get(mark, text)


def cells(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
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
