"""How figures look: a colour, a marker and dashes for each policy, and matplotlib's settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

Dashes: TypeAlias = str | tuple[int, tuple[float, ...]]

OURS, OFFLINE = "bccb", "offline-uplift"  # the two policies that the paper is about
INK, QUIET = "#222222", "#767676"
# Okabe and Ito's colours, grey in place of their yellow, which is too pale for a line on white,
# and darker ones for policies of a family.
STYLES: Mapping[str, tuple[str, str, Dashes]] = MappingProxyType(
    {  # policy: colour, marker, dashes
        OURS: ("#0072B2", "o", "-"),
        OFFLINE: ("#D55E00", "s", (0, (6, 2))),
        "offline-forecast": ("#A04000", "h", (0, (4, 1.5, 1, 1.5))),
        "offline-boosted": ("#8C2D04", ">", (0, (1, 1))),
        "hybrid": ("#00695C", "*", "-"),
        "pooled-bayes": ("#5E3C99", "d", "-"),
        "pooled-trees": ("#2D004B", "H", "-"),
        "pooled-no-reserve": ("#8073AC", "p", (0, (2, 1.5))),
        "cheapest-first": ("#000000", "^", (0, (6, 2, 1, 2))),
        "response-first": ("#454545", "8", (0, (3, 1, 1, 1))),
        "hte-greedy": ("#009E73", "D", (0, (3, 1.5))),
        "thompson": ("#CC79A7", "v", (0, (1, 1.5))),
        "budgeted-thompson": ("#E69F00", "P", (0, (8, 2, 1, 2, 1, 2))),
        "uplifting-bandit": ("#56B4E9", "X", "-"),
        "treat-all": ("#767676", "<", (0, (2, 3))),
    }
)
SPARE = (("#000000", "*", ":"), ("#D55E00", "h", "-."), ("#009E73", ">", "-"))
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "axes.axisbelow": True,
        "axes.edgecolor": QUIET,
        "axes.grid": True,
        "axes.labelsize": 12,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 12,
        "font.family": "sans-serif",
        "font.size": 11,
        "grid.color": "#E4E4E4",
        "legend.frameon": False,
        "svg.fonttype": "none",
        "text.parse_math": False,  # a $ is a dollar
    }
)


def look_of(name: str) -> tuple[str, str, Dashes]:
    """A policy's colour, marker and dashes: the same in every figure."""
    return STYLES.get(name) or SPARE[sum(name.encode()) % len(SPARE)]
