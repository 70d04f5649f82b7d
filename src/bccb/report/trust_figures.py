"""The figures of ``bccb trust`` as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bccb.policies import DEFAULT
from bccb.report.drawing import legend, line, svg, thousands
from bccb.report.looks import INK, QUIET, look_of
from bccb.report.rows import WORST, Row, extremes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRUTH = "#D55E00"
LEGIBLE = 0.5  # shares beyond this are on dark colours


def regret_curves(rows: Sequence[Row]) -> str:
    """Regret of each policy against the number of users, both on log scales; below, its share of
    what the oracle causes.
    """
    ends = {str(row["policy"]): float(row["regret"]) for row in rows}

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for name in sorted(ends, key=lambda name: -ends[name]):
            own = [row for row in rows if row["policy"] == name]
            users, marker = [row["users"] for row in own], look_of(name)[1]
            shown = [row for row in own if row["regret"] > 0]  # others have no log
            lost = [row["regret"] for row in shown]
            line(above, name, [row["users"] for row in shown], lost, marker=marker)
            line(below, name, users, [row["share"] for row in own], marker=marker)
        above.set_xscale("log")
        above.set_yscale("log")
        above.set_ylabel("Regret (conversions, mean)")
        below.set_ylim(0, 1)
        below.set_ylabel("Share of the oracle's")
        below.set_xlabel("Users T")
        thousands(above.yaxis, below.xaxis)
        legend(above)

    return svg(draw, "Regret against the number of users", (9, 7))


WAYS = {  # to learn where outcomes are late: words, marker, whether it is filled
    "at_once": ("all known at once (the limit)", "|", True),
    "earlier": ("zeros when the window ends (earlier)", "o", False),
    "ageing": ("evidence that ages (now)", "o", True),
}


def late_shares(rows: Sequence[Row]) -> str:
    """What each learner causes with each way of learning, a panel for each outcome."""
    outcomes = list(dict.fromkeys(str(row["outcome"]) for row in rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(outcomes), sharey=True, squeeze=False)[0]
        for axes, outcome in zip(panels, outcomes, strict=True):
            own = [row for row in rows if row["outcome"] == outcome]
            places = list(range(len(own), 0, -1))
            for row, place in zip(own, places, strict=True):
                ends = [row["earlier"], row["ageing"]]
                axes.plot(ends, [place, place], color=look_of(row["policy"])[0], lw=2, zorder=1)
            for way, (words, marker, filled) in WAYS.items():
                look: dict[str, Any] = {"color": INK} if filled else {"ec": INK, "fc": "white"}
                size = 200 if marker == "|" else 55
                shares = [row[way] for row in own]
                axes.scatter(shares, places, size, marker=marker, label=words, lw=1.5, **look)
            axes.set_yticks(places, [str(row["policy"]) for row in own])
            axes.set_xlim(0, 1)
            axes.set_title(f"{outcome}s")
            axes.grid(visible=False, axis="y")
            axes.set_xlabel("Share of the oracle's value")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)

    return svg(draw, "Late outcomes", (9, 1.8 + 0.36 * len(rows) / len(outcomes)))


def world_shares(rows: Sequence[Row]) -> str:
    """What every policy causes in every world, a panel for each size: a colour and its figure."""
    from matplotlib.colors import TwoSlopeNorm

    sizes = list(dict.fromkeys(int(row["users"]) for row in rows))
    names = [name for name in rows[0] if name not in ("users", "world", "error")]

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(sizes), 1, sharex=True, squeeze=False)[:, 0]
        for axes, users in zip(panels, sizes, strict=True):
            own = [row for row in rows if row["users"] == users]
            figures = [[float(row[name]) for name in names] for row in own]
            axes.pcolormesh(figures, cmap="PuOr", norm=TwoSlopeNorm(0.0, -1.0, 1.0))
            for place, row in enumerate(own):
                ends = extremes(row, names)
                for across, name in enumerate(names):
                    _share(axes, (across + 0.5, place + 0.5), float(row[name]), ends.get(name, ""))
            axes.set_yticks([i + 0.5 for i in range(len(own))], [str(row["world"]) for row in own])
            axes.set_xticks([i + 0.5 for i in range(len(names))], names, rotation=40, ha="right")
            axes.invert_yaxis()
            axes.grid(visible=False)
            axes.tick_params(length=0)
            axes.set_title(f"{users:,} users", loc="left")
            above = axes.secondary_xaxis("top")  # so that nobody scrolls to read a column's name
            above.set_xticks([i + 0.5 for i in range(len(names))], names, rotation=40, ha="left")
            above.tick_params(length=0)
            above.spines["top"].set_visible(False)

    return svg(draw, "Shares of the oracle's value in every world", (9, 1.2 + 0.3 * len(rows)))


def _share(axes: Axes, point: tuple[float, float], share: float, mark: str) -> None:
    """A share in its cell: the best of a row bold, the worst with a sign."""
    look: dict[str, Any] = {
        "color": "white" if abs(share) > LEGIBLE else INK,
        "ha": "center",
        "va": "center",
    }
    text = f"{round(share, 2) + 0.0:.2f}"  # -0.00 becomes 0.00
    text += f" {WORST}" if mark == "worst" else ""
    weight = "bold" if mark == "best" else "normal"
    axes.text(*point, text, fontsize=9, fontweight=weight, **look)


def caused_intervals(rows: Sequence[Row]) -> str:
    """The mean ends of what is estimated and of what is measured around the truth, in each row."""
    names = [f"{row['outcome']}s, K = {row['treatments']}, {row['reports']}" for row in rows]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        places = list(range(len(rows), 0, -1))
        middles = [row["truth"] + row["bias"] for row in rows]
        reach = [0.5 * row["width"] for row in rows]
        low, high = ([row[f"measured_{end}"] for row in rows] for end in ("low", "high"))
        axes.hlines(places, low, high, color=QUIET, lw=2, label="measured")
        low, high = ([m + s * r for m, r in zip(middles, reach, strict=True)] for s in (-1, 1))
        axes.hlines(places, low, high, color=look_of(DEFAULT)[0], lw=8, label="estimated")
        truth = [row["truth"] for row in rows]
        axes.scatter(truth, places, 420, marker="|", color="white", lw=5, zorder=3)  # on dark bars
        axes.scatter(truth, places, 420, marker="|", color=TRUTH, lw=2.5, label="truth", zorder=4)
        axes.axvline(0.0, color=QUIET, lw=0.8, zorder=0)
        axes.set_yticks(places, names)
        axes.set_ylim(0.4, len(rows) + 0.6)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("Caused (means over worlds; 95 % intervals)")
        thousands(axes.xaxis)
        figure.legend(loc="outside upper center", ncols=3)

    return svg(draw, "What was caused, estimated and measured", (9, 1.6 + 0.4 * len(rows)))


def share_intervals(rows: Sequence[Row], share: str, allowed: tuple[float, float]) -> str:
    """A share with its interval in each row, over the band in which it should lie."""
    title = {"covered": "Share of intervals that hold the truth", "differ": "Share that differ"}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        places = range(len(rows), 0, -1)
        names = [
            ", ".join(str(value) for value in row.values() if isinstance(value, str))
            for row in rows
        ]
        reach = [
            [row[share] - row["low"] for row in rows],
            [row["high"] - row[share] for row in rows],
        ]
        axes.axvspan(*allowed, color="#B8C4CC", alpha=0.5, lw=0)
        look: dict[str, Any] = {"fmt": "o", "color": INK, "elinewidth": 1.4, "capsize": 4}
        axes.errorbar([row[share] for row in rows], list(places), xerr=reach, **look)
        axes.set_yticks(list(places), names)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(f"{title[share]} (95 % interval; grey: as it should be)")

    return svg(draw, title[share], (9, 1.0 + 0.36 * len(rows)))
