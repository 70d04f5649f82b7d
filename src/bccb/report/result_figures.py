"""The figures of ``bccb compare``, ``evaluate`` and ``advise`` as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bccb.outcome import Kind
from bccb.report.drawing import beside, svg, thousands
from bccb.report.looks import INK, QUIET, look_of
from bccb.report.segmented import Segmented, SegmentFigures
from bccb.types import Flags, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALE = "#B8C4CC"
MOST_FEATURES = 8  # in a figure: those that matter most
BINS = 40  # of probabilities


class Bar(NamedTuple):
    """A figure with its 95 % interval, or without one where it has none."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    beside: str = ""  # a short text at the right


def interval_bars(title: str, bars: Sequence[Bar], across: str) -> str:
    """One line for each name: the value as a dot, its interval as a bar; zero is marked."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        places = list(range(len(bars), 0, -1))
        ends = [end for bar in bars for end in (bar.value, bar.low, bar.high) if end is not None]
        for bar, place in zip(bars, places, strict=True):
            colour = look_of(bar.name)[0]
            if bar.low is not None and bar.high is not None:
                axes.hlines(place, bar.low, bar.high, color=colour, lw=5, alpha=0.35)
            axes.plot([bar.value], [place], look_of(bar.name)[1], color=colour, markersize=8)
            if bar.beside:
                right = max([*ends, 0.0])
                beside(axes, bar.beside, (right, place), (14, 0), fontsize=10, color=QUIET)
        axes.axvline(0.0, color=QUIET, lw=1, zorder=0)
        axes.set_yticks(places, [bar.name for bar in bars])
        axes.set_ylim(0.4, len(bars) + 0.6)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(across)
        thousands(axes.xaxis)

    return svg(draw, title, (9, 1.1 + 0.34 * len(bars)))


def segments(title: str, one: Segmented, kind: str = Kind.CONVERSION) -> str:
    """The effect in each segment with its interval; beside it the share that is treated."""
    scale, unit = (1.0, "value") if kind == Kind.AMOUNT else (100.0, "percentage points")
    shown = one.features[:MOST_FEATURES]
    lines: list[SegmentFigures | None] = []  # None: the name of a feature
    names: list[str] = []
    for feature in shown:
        lines += [None, *feature.segments]
        names += [feature.feature, *(segment.name for segment in feature.segments)]
    places = list(range(len(lines), 0, -1))

    def draw(figure: Figure) -> None:
        effect, treated = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        effect.axvline(scale * one.average.value, color=QUIET, lw=1, ls=(0, (4, 3)), zorder=0)
        effect.axvline(0.0, color=QUIET, lw=1, zorder=0)
        for line, place in zip(lines, places, strict=True):
            if line is not None:
                _segment(effect, treated, line, place, scale)
        effect.set_yticks(places, names)
        for label, line in zip(effect.get_yticklabels(), lines, strict=True):
            label.set_fontweight("bold" if line is None else "normal")
        for axes in (effect, treated):
            axes.grid(visible=False, axis="y")
            axes.tick_params(axis="y", length=0)
            axes.set_ylim(0.2, len(lines) + 0.8)
            axes.tick_params(axis="x", top=True, labeltop=True)  # it may be far to the bottom
        effect.set_title(f"Effect, in {unit} (95 %; dashed: average)", loc="left")
        treated.set_title("Treated, % of the segment", loc="left")
        most = max((100 * line.treated for line in lines if line is not None), default=0.0)
        treated.set_xlim(0.0, 1.3 * most or 1.0)

    return svg(draw, title, (9, 1.2 + 0.27 * len(lines)))


def _segment(effect: Axes, treated: Axes, line: SegmentFigures, place: int, scale: float) -> None:
    ends = line.effect.value, line.effect.low, line.effect.high
    value, low, high = (scale * end for end in ends)
    colour = look_of("bccb")[0]
    effect.hlines(place, low, high, color=colour, lw=5, alpha=0.35)
    effect.plot([value], [place], "o", color=colour, markersize=6)
    share = 100 * line.treated
    treated.barh(place, share, 0.62, color=PALE)
    beside(treated, f"{share:.3g}", (share, place), (4, 0), fontsize=9)


def overlap(title: str, alone: Floats, treated: Flags) -> str:
    """How likely users were to be left alone: those who were treated, and those who were not.

    Where both reach over the same range, they can be compared.
    """
    edges = np.linspace(0.0, 1.0, BINS + 1)

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, 1, sharex=True)
        for axes, own, name in zip(
            panels, (treated, ~treated), ("Treated", "Left alone"), strict=True
        ):
            shares = np.histogram(alone[own], edges)[0] / max(int(own.sum()), 1)
            look: dict[str, Any] = {"color": PALE, "edgecolor": INK, "linewidth": 0.6}
            axes.bar(edges[:-1], 100 * shares, 1.0 / BINS, align="edge", **look)
            axes.set_title(f"{name}: {int(own.sum()):,} users", loc="left")
            axes.set_ylabel("% of them")
        panels[1].set_xlabel("Probability of being left alone")
        panels[1].set_xlim(0.0, 1.0)

    return svg(draw, title, (9, 4.6))
