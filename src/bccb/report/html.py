"""The report as one page: no script, no network, nothing beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from types import MappingProxyType
from typing import Any, TypeAlias

from bccb.errors import InputError
from bccb.experiments.paper import OURS
from bccb.report.rows import joined
from bccb.report.style import STYLE

Row: TypeAlias = Mapping[str, Any]

# Columns that say which row it is: shown as they are, and what published rows are found by.
IDENTITY = (
    *("n", "budget", "policy", "against", "parameter", "value"),
    *("estimator", "explorer", "pacer"),
)
WORDS = ("policy", "against", "parameter", "estimator", "explorer", "pacer")  # columns of text
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


def report(
    title: str, intro: Sequence[str], claims: Sequence[Row], sections: Sequence[Section]
) -> str:
    """The page. A claim has ``claim``, ``verdict`` and whatever else its row should show.

    A claim's ``section``, where it has one, is the name of the section that tells more.
    """
    named = [("claims", "Claims"), *((section.name, section.title) for section in sections)]
    links = "".join(f'<li><a href="#{escape(to)}">{escape(text)}</a></li>' for to, text in named)
    body = "\n".join(_section(section) for section in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header><h1>{escape(title)}</h1>{_paragraphs(intro)}</header>
<nav aria-label="Sections"><ol>{links}</ol></nav>
<main id="main">
{_claims(claims)}
{body}
</main>
</body>
</html>
"""


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


def _section(section: Section) -> str:
    name = escape(section.name)
    table = _results(section) if section.rows else ""
    figure = ""
    if section.figure_svg is not None:
        label = f"Figure: {section.title}"
        figure = f"<figure{_scrolling(label)}>{section.figure_svg}</figure>"
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{escape(section.title)}</h2>'
        f"{_paragraphs(section.text.splitlines())}{figure}{table}</section>"
    )


def _claims(claims: Sequence[Row]) -> str:
    """The claims with their verdicts, and how many of each there are."""
    found = [claim["verdict"] for claim in claims]
    counts = "".join(f"<span>{_badge(name)} {found.count(name)}</span>" for name in VERDICTS)
    names = [name for name in _headings(claims) if name not in ("claim", "verdict")]
    names = ["claim", "verdict", *names]
    table = _table("Claims", {"": names}, [[claim.get(name) for name in names] for claim in claims])
    return (
        '<section id="claims" aria-labelledby="claims-title"><h2 id="claims-title">Claims</h2>'
        f'<p class="counts">{counts}</p>{table}</section>'
    )


def _badge(verdict: str) -> str:
    if verdict not in VERDICTS:
        raise InputError("verdict", verdict, f"one of {', '.join(VERDICTS)}")
    kind, sign = VERDICTS[verdict]
    return f'<span class="badge {kind}"><span aria-hidden="true">{sign}</span> {verdict}</span>'


def _results(section: Section) -> str:
    """Ours and, in the same row where it is about the same thing, the published figures."""
    ours = [_compact(row, number) for row in section.rows]
    published = [_compact(row, exact) for row in section.published_rows or ()]
    keys = [name for name in _headings(ours) if name in IDENTITY]
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
    return _table(section.title, parts, lines, section.ours)


def _compact(row: Row, written: Callable[[float], str]) -> Row:
    """A row as text, but for its keys. What has an error of its own is a figure and no key."""
    keys = {name for name in row if name in IDENTITY and f"{name}_se" not in row}
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
        found: Row = next((other for other in left if _same(row, other, keys)), {})
        left = [other for other in left if other is not found]
        pairs.append((row, found))
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
) -> str:
    """A table whose columns stand in parts, with a heading over each part that has a name.

    Rows about the policy ``ours`` stand out.
    """
    columns = [
        (name, _kind(name, place)) for names in parts.values() for place, name in enumerate(names)
    ]
    over = "".join(
        f'<{tag} class="part" colspan="{len(names)}">{part}</{tag}>'
        for part, names in parts.items()
        for tag in ("th" if part else "td",)
    )
    heads = "".join(
        f'<th scope="col" class="{kind}">{escape(name.replace("_", " "))}</th>'
        for name, kind in columns
    )
    grouped = len({row[0] for row in rows}) < len(rows)
    lines = []
    for place, row in enumerate(rows):
        new = grouped and (place == 0 or rows[place - 1][0] != row[0])
        cells = "".join(
            f'<td class="{kind}">{_cell(name, value)}</td>'
            for (name, kind), value in zip(columns, row, strict=True)
        )
        kind = f"{'new' if new else ''} {'ours' if ours in row else ''}".strip()
        lines.append(f'<tr class="{kind}">{cells}</tr>\n')
    top = f"<tr>{over}</tr>" if parts.get("Published") else ""
    return (
        f"<div{_scrolling(f'Table: {title}')}><table><thead>{top}<tr>{heads}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _kind(name: str, place: int) -> str:
    """A column's classes: words stand left, and each part begins with a rule."""
    return f"{'words' if name in WORDS else 'figures'}{'' if place else ' first'}"


def _cell(name: str, value: Any) -> str:
    if value is None or value == "":
        return '<span class="none">–</span>'
    if name == "verdict":
        return _badge(value)
    told = _text(name, _plain(value), exact) if name in IDENTITY else _text(name, value, number)
    text = escape(told)
    return f'<a href="#{text}">{text}</a>' if name == "section" else text


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


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{escape(text.strip())}</p>" for text in texts if text.strip())


def _scrolling(label: str) -> str:
    """What is too wide for a phone scrolls by itself, with a finger or with the arrow keys."""
    return f' class="wide" role="region" tabindex="0" aria-label="{escape(label)}"'
