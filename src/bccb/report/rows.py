"""Rows of a table as people read them: a figure with its error, an interval in one piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from bccb.outcome import Kind

Row: TypeAlias = Mapping[str, Any]  # of a table: cells by the names of the columns

WORST = "▾"  # beside the worst figure of a row: colour is never alone
PAIRS = (("mean", "deviation", "±"), ("low", "high", "to"), ("", "_se", "±"))


def joined(cells: Row) -> dict[str, Any]:
    """The cells of a row, those that belong together in one.

    >>> joined({"n": "500", "ours_mean": "44.1", "ours_deviation": "14.6"})
    {'n': '500', 'ours_mean ± deviation': '44.1 ± 14.6'}
    """
    result = dict(cells)
    for first, second, sign in PAIRS:
        partners = {
            name: partner
            for name in result
            if name.endswith(first) and (partner := name.removesuffix(first) + second) in result
        }
        result = {
            (f"{name} {sign} {second.strip('_')}" if name in partners else name): (
                f"{value} {sign} {result[partners[name]]}" if name in partners else value
            )
            for name, value in result.items()
            if name not in partners.values()
        }
    return result


def decimals(kind: str, *values: float) -> int:
    """How many decimals figures have: conversions one, money two, and none from 100 on.

    >>> decimals("conversion", 2.5), decimals("amount", 2.5), decimals("amount", -25_000.0)
    (1, 2, 0)
    """
    if kind != Kind.AMOUNT:
        return 1
    return 0 if max(map(abs, values)) >= 100.0 else 2


def split(rows: Sequence[Row], by: str) -> list[tuple[str, list[Row]]]:
    """The rows of each value of a column, without it, and what they have in common.

    >>> split([{"users": 9, "p": 1}, {"users": 5, "p": 2}, {"users": 9, "p": 3}], "users")
    [('users: 9', [{'p': 1}, {'p': 3}]), ('users: 5', [{'p': 2}])]
    """
    if not by:
        return [("", list(rows))]
    return [
        (
            f"{by}: {value:,}",
            [
                {name: cell for name, cell in row.items() if name != by}
                for row in rows
                if row[by] == value
            ],
        )
        for value in dict.fromkeys(row[by] for row in rows)
    ]


def extremes(row: Row, ranked: Sequence[str]) -> dict[str, str]:
    """Which of the ranked columns hold the best and the worst figure of a row.

    >>> extremes({"world": "bump", "a": 0.4, "b": 0.9, "c": 0.9}, ("a", "b", "c"))
    {'a': 'worst', 'b': 'best', 'c': 'best'}
    """
    figures = {name: row[name] for name in ranked if row.get(name) is not None}
    ends = {min(figures.values()): "worst", max(figures.values()): "best"} if figures else {}
    return {name: ends[figure] for name, figure in figures.items() if figure in ends}
