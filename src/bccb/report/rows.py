"""Rows of a table as people read them: a figure with its error, an interval in one piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]  # of a table: cells by the names of the columns

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
