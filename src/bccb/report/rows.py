"""Rows of a table as people read them: a figure with its error, an interval in one piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAIRS = (("mean", "deviation", "±"), ("low", "high", "to"), ("", "_se", "±"))


def joined(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a row, those that belong together in one.

    >>> joined({"n": "500", "ours_mean": "44.1", "ours_deviation": "14.6"})
    {'n': '500', 'ours_mean ± deviation': '44.1 ± 14.6'}
    """
    found = dict(cells)
    for first, second, sign in PAIRS:
        partners = {
            name: partner
            for name in found
            if name.endswith(first) and (partner := name.removesuffix(first) + second) in found
        }
        found = {
            (f"{name} {sign} {second.strip('_')}" if name in partners else name): (
                f"{value} {sign} {found[partners[name]]}" if name in partners else value
            )
            for name, value in found.items()
            if name not in partners.values()
        }
    return found
