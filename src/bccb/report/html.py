"""The report as one page: no script, no network, nothing beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple

from bccb.errors import InputError
from bccb.report.columns import column, is_key, is_text
from bccb.report.looks import OURS
from bccb.report.rows import WORST, Row, extremes, joined, split
from bccb.report.templating import rendered

VERDICTS = MappingProxyType(
    {  # verdict: its class and its sign, so that colour is never alone
        "holds": ("holds", "✓"),
        "does not hold": ("fails", "✗"),
        "cannot tell": ("open", "?"),
    }
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report: an experiment's prose, figure and table."""

    name: str
    title: str
    text: str  # each line is a paragraph
    rows: Sequence[Row]
    published_rows: Sequence[Row] | None = None
    figure_svg: str | None = None
    ours: str = OURS  # the policy that stands out
    split_by: str = ""  # a column: each of its values has a table of its own
    ranked: Sequence[str] = ()  # columns of which each row's best and worst are marked


class Heading(NamedTuple):
    """The head of a column."""

    name: str
    kind: str  # its classes
    about: str


class Line(NamedTuple):
    """A row of text."""

    kind: str  # its classes
    cells: list[str]
    marks: list[str]  # classes of the cells


class Table(NamedTuple):
    """A table as text. Its columns may stand in parts, each with a heading over it."""

    title: str
    parts: list[tuple[str, int]]  # headings, and how many columns each is over
    headings: list[Heading]
    lines: list[Line]


def page(
    title: str,
    intro: Sequence[str],
    claims: Sequence[Row],
    sections: Sequence[Section],
    code: Sequence[str] = (),
) -> str:
    """The page. A claim has ``claim``, ``verdict`` and whatever else its row should show.

    ``code`` are lines of Python to copy, below the text at the top.

    A claim's ``section``, where it has one, is the name of the section with the details.
    """
    given = [claim["verdict"] for claim in claims]
    for verdict in given:
        if verdict not in VERDICTS:
            raise InputError("verdict", verdict, f"one of {', '.join(VERDICTS)}")
    return rendered(
        "page.html",
        title=title,
        intro=[text.strip() for text in intro if text.strip()],
        code="\n".join(code),
        verdicts=VERDICTS,
        counts={name: given.count(name) for name in VERDICTS},
        claims=_claims(claims),
        sections=[(section, _tables(section)) for section in sections],
    )


def number(value: float) -> str:
    """Three significant digits or all whole ones, with thousands separators.

    >>> number(26058.7), number(44.1), number(4.2), number(0.0773), number(-0.00000123)
    ('26,059', '44.1', '4.20', '0.0773', '−1.23e-06')
    """
    whole = isinstance(value, int) or abs(value) >= 99.95 or value == 0
    text = f"{value:,.0f}" if whole else f"{value:#.3g}"
    return text.replace("-", "−", 1) if value < 0 else text


def exact(value: float) -> str:
    """A setting, such as a budget or a parameter: no digit added.

    >>> exact(5000.0), exact(0.001), exact(50_000)
    ('5,000', '0.001', '50,000')
    """
    return f"{value:,.10g}".replace("-", "−", 1) if value < 0 else f"{value:,.10g}"


def probability(p: float) -> str:
    """A p-value as one writes it in a sentence.

    >>> probability(1e-7), probability(0.9999), probability(0.0430107)
    ('p < 0.001', 'p > 0.999', 'p = 0.043')
    """
    if p < 0.001:
        return "p < 0.001"
    return "p > 0.999" if p > 0.999 else f"p = {p:.3f}"


def _claims(claims: Sequence[Row]) -> Table:
    """The claims, what each is about first."""
    names = [name for name in _headings(claims) if name not in ("claim", "verdict")]
    names = ["claim", "verdict", *names]
    return _table("Claims", {"": names}, [[claim.get(name) for name in names] for claim in claims])


def _tables(section: Section) -> list[tuple[str, Table]]:
    """The tables of a section, each with its heading where there are several."""
    if not section.rows:
        return []
    parts = split(section.rows, section.split_by)
    return [(heading, _results(replace(section, rows=rows))) for heading, rows in parts]


def _results(section: Section) -> Table:
    """Ours and, in the same row where it is about the same thing, the published figures."""
    ours = [_compact(row, number) for row in section.rows]
    published = [_compact(row, exact) for row in section.published_rows or ()]
    keys = [name for name in _headings(ours) if is_key(name)]
    parts = {"": keys}
    for part, rows in (("Ours", ours), ("Published", published)):
        parts[part] = [name for name in _headings(rows) if name not in keys]
    lines = [
        [
            *(own.get(key, other.get(key)) for key in keys),
            *(own.get(name) for name in parts["Ours"]),
            *(other.get(name) for name in parts["Published"]),
        ]
        for own, other in _paired(ours, published, keys)
    ]
    table = _table(section.title, parts, lines, section.ours)
    if not section.ranked:
        return table
    pairs = zip(table.lines, section.rows, strict=True)
    return table._replace(lines=[_ranked(line, row, table, section) for line, row in pairs])


def _ranked(line: Line, row: Row, table: Table, section: Section) -> Line:
    """A line with its best and worst figures marked."""
    ends = extremes(row, section.ranked)
    marks = [ends.get(head.name, "") for head in table.headings]
    cells = [
        f"{cell} {WORST}" if mark == "worst" else cell
        for cell, mark in zip(line.cells, marks, strict=True)
    ]
    return Line(line.kind, cells, marks)


def _compact(row: Row, written: Callable[[float], str]) -> Row:
    """A row as text, except its keys. What has an error of its own is a figure and no key."""
    keys = {name for name in row if is_key(name) and f"{name}_se" not in row}
    return joined(
        {
            name: value if name in keys or value is None else _text(name, value, written)
            for name, value in row.items()
        }
    )


def _paired(
    rows: Sequence[Row], published: Sequence[Row], keys: Sequence[str]
) -> list[tuple[Row, Row]]:
    """Each row with its published counterpart; what has none stands beside an empty row."""
    left = list(published)
    pairs: list[tuple[Row, Row]] = []
    for row in rows:
        match: Row = next((other for other in left if _same(row, other, keys)), {})
        left = [other for other in left if other is not match]
        pairs.append((row, match))
    return [*pairs, *(({}, other) for other in left)]


def _same(row: Row, other: Row, keys: Sequence[str]) -> bool:
    """About the same thing; published keys may come as the text that they were printed as."""
    return all(_plain(row.get(key)) == _plain(other.get(key)) for key in keys)


def _plain(value: Any) -> Any:
    """A number, where the value is one or reads as one."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _table(
    title: str, parts: Mapping[str, list[str]], rows: Sequence[Sequence[Any]], ours: str = ""
) -> Table:
    """A table whose columns stand in parts; the heads of parts show where one is published.

    Rows about the policy ``ours`` stand out.
    """
    headings = [
        Heading(name, _kind(name, place), column(name).about)
        for names in parts.values()
        for place, name in enumerate(names)
    ]
    grouped = len({row[0] for row in rows}) < len(rows)
    lines = []
    for place, row in enumerate(rows):
        new = grouped and (place == 0 or rows[place - 1][0] != row[0])
        kind = f"{'new' if new else ''} {'ours' if ours in row else ''}".strip()
        cells = [_cell(head.name, value) for head, value in zip(headings, row, strict=True)]
        lines.append(Line(kind, cells, [""] * len(cells)))
    over = [(part, len(names)) for part, names in parts.items()] if parts.get("Published") else []
    return Table(title, over, headings, lines)


def _kind(name: str, place: int) -> str:
    """A column's classes: words stand left, and each part begins with a rule."""
    return f"{'words' if is_text(name) else 'figures'}{'' if place else ' first'}"


def _cell(name: str, value: Any) -> str:
    if value is None or value == "":
        return ""
    return _text(name, _plain(value), exact) if is_key(name) else _text(name, value, number)


def _text(name: str, value: Any, written: Callable[[float], str]) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = str(value)
        return text.replace("-", "−", 1) if isinstance(_plain(text), float) else text
    if not isfinite(value):
        return "–"
    if name == "p" or name.startswith("p_"):
        return probability(value).removeprefix("p ").removeprefix("= ")
    return written(value)


def _headings(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))
