"""The paper's figures as SVG text, readable in grey and by the colour-blind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bccb.report.drawing import band, beside, legend, line, svg, thousands
from bccb.report.looks import INK, OFFLINE, OURS, look_of
from bccb.report.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def conversions_by_budget(
    rows: Sequence[Row],
    outcome: str = "Conversions",
    currency: str = "$",
    band_of: str = "mean ± 1 deviation",
) -> str:
    """Mean of each policy at each budget, with a band of one deviation either side."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for name in _last_highest(rows):
            own = sorted((row for row in rows if row["policy"] == name), key=_budget)
            budgets, means = [row["budget"] for row in own], [row["mean"] for row in own]
            band(axes, name, budgets, [(row["mean"], row["deviation"]) for row in own])
            line(axes, name, budgets, means, marker=look_of(name)[1])
        axes.set_xticks(sorted({row["budget"] for row in rows}))
        axes.set_xlabel(f"Budget ({currency})")
        axes.set_ylabel(f"{outcome} ({band_of})")
        axes.margins(x=0.02)
        if axes.get_ylim()[0] >= 0 or outcome == "Conversions":
            axes.set_ylim(bottom=0)  # a count is never negative, though a band may be
        thousands(axes.xaxis, axes.yaxis)
        legend(axes)

    return svg(draw, f"{outcome} against budget", (9, 5))


def crossover_curve(rows: Sequence[Row]) -> str:
    """Offline after n rows of history against ours after none; below, the fits that failed.

    The bars are the interval of the paired difference, drawn from the mean of ours: a bar that
    does not touch the line of ours is a difference beyond chance.
    """

    def draw(figure: Figure) -> None:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        sizes = [row["n"] for row in rows]
        offline, ours = ([row[f"{who}_mean"] for row in rows] for who in ("offline", "ours"))
        band(axes, OURS, sizes, [(row["ours_mean"], row["ours_deviation"]) for row in rows])
        line(axes, f"{OURS}, mean ± 1 deviation", sizes, ours, style=OURS)
        middle = [row["ours_mean"] + (row["low"] + row["high"]) / 2 for row in rows]
        reach = [(row["high"] - row["low"]) / 2 for row in rows]
        look = {"fmt": "none", "ecolor": look_of(OFFLINE)[0], "elinewidth": 1.4, "capsize": 5}
        axes.errorbar(sizes, middle, reach, label="interval of the difference", **look)
        line(axes, f"{OFFLINE}, mean", sizes, offline, style=OFFLINE)
        for failed, face in ((False, look_of(OFFLINE)[0]), (True, "white")):
            points = [row for row in rows if bool(row["failed_fits"]) is failed]
            label = "some fits failed" if failed else "every fit succeeded"
            means = [row["offline_mean"] for row in points]
            dots = {"linestyle": "", "marker": "s", "markersize": 8, "markerfacecolor": face}
            line(axes, label, [row["n"] for row in points], means, style=OFFLINE, **dots)
        axes.set_ylabel("Conversions")
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        thousands(axes.yaxis)
        legend(axes)
        _failures(below, rows)

    return svg(draw, "Conversions against rows of history", (9, 5.8))


def history_curves(rows: Sequence[Row]) -> str:
    """The mean of each method after n rows of history; flat for those that begin cold."""
    names = [key.removesuffix("_mean") for key in rows[0] if key.endswith("_mean")]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        sizes = [row["n"] for row in rows]
        for name in sorted(names, key=lambda name: -float(rows[-1][f"{name}_mean"])):
            means = [row[f"{name}_mean"] for row in rows]
            line(axes, name, sizes, means, marker=look_of(name)[1])
        axes.set_ylabel("Conversions (mean)")
        axes.set_ylim(bottom=0)
        thousands(axes.yaxis)
        _sizes(axes, sizes)
        legend(axes)

    return svg(draw, "Conversions of each method against rows of history", (9, 5))


def paths(runs: Sequence[Row], currency: str = "$") -> str:
    """Spend and price against time, a line for each run; a dot where its budget or stream ends."""

    def draw(figure: Figure) -> None:
        spend, price = figure.subplots(2, 1, sharex=True)
        priceless: list[str] = []
        for run in runs:
            name, marker = str(run["policy"]), look_of(str(run["policy"]))[1]
            users, spent, prices, *_ = zip(*run["trajectory"], strict=True)
            line(spend, name, users, spent, marker=marker, markevery=[-1], clip_on=False)
            times = [time for time, value in zip(users, prices, strict=True) if value > 0]
            shown = [value for value in prices if value > 0]
            line(price, name, times, shown, marker=marker, markevery=[-1])
            if not shown:
                priceless.append(name)
        spend.set_ylabel(f"Spend ({currency})")
        spend.set_ylim(bottom=0)
        price.set_ylabel(f"Price (least effect per {currency})")
        price.set_yscale("log")
        price.set_xlabel("Users so far")
        price.set_xlim(left=0)
        thousands(spend.yaxis, price.xaxis, price.yaxis)
        legend(spend)
        if priceless:
            note = "\n".join(["Without a price:", *priceless])
            price.annotate(note, (1.02, 1), xycoords="axes fraction", va="top", linespacing=1.5)

    return svg(draw, "Spend and price against users", (9, 6.5))


def sensitivity_curves(rows: Sequence[Row]) -> str:
    """The mean at each value of each parameter, a panel for each, on one scale."""
    parameters = list(dict.fromkeys(str(row["parameter"]) for row in rows))

    def draw(figure: Figure) -> None:
        columns = min(3, len(parameters))
        lines = -(-len(parameters) // columns)
        panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
        for panel, parameter in zip(panels, parameters, strict=False):
            own = [row for row in rows if row["parameter"] == parameter]
            places = list(range(len(own)))  # evenly spaced: a sweep may hold 0, which has no log
            line(panel, "", places, [row["mean"] for row in own], style=OURS, marker="o")
            panel.set_xticks(places, [f"{row['value']:g}" for row in own], fontsize=10)
            panel.set_title(parameter.replace("_", " "), loc="left", fontweight="bold")
            if own[0]["cv"] is not None:
                panel.set_title(f"variation {own[0]['cv']:.0%}", loc="right")
            panel.margins(x=0.08)
        for panel in panels[len(parameters) :]:
            panel.remove()
        panels[0].set_ylim(0, 1.1 * max(row["mean"] for row in rows) or 1)
        figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.08)
        figure.supylabel("Conversions (mean)", fontsize=12)
        figure.supxlabel("Value of the parameter", fontsize=12)

    return svg(draw, "Conversions against each parameter", (9, 5.4))


def sample_sizes(rows: Sequence[Row]) -> str:
    """The effective sample size of each policy, with one deviation either side."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        ordered = sorted(rows, key=lambda row: float(row["mean"]))
        names = [str(row["policy"]) for row in ordered]
        colours = [look_of(OURS)[0] if name == OURS else "#B8C4CC" for name in names]
        axes.barh(
            names,
            [row["mean"] for row in ordered],
            xerr=[row["deviation"] for row in ordered],
            color=colours,
            error_kw={"ecolor": INK, "elinewidth": 1.2, "capsize": 4},
        )
        for place, row in enumerate(ordered):
            beside(axes, f"{row['mean']:,.0f}", (row["mean"] + row["deviation"], place), (8, 0))
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.12)
        axes.set_xlim(left=0)
        axes.set_xlabel("Effective sample size (matched users, mean ± 1 deviation)")
        thousands(axes.xaxis)

    return svg(draw, "Effective sample size of each policy", (9, 0.8 + 0.42 * len(rows)))


def _failures(axes: Axes, rows: Sequence[Row]) -> None:
    """How many fits failed at each size, with its number; the axis of sizes stands below."""
    sizes = [row["n"] for row in rows]
    failed = [row["failed_fits"] for row in rows]
    # Widths grow with n, which makes them equal on a log axis.
    axes.bar(sizes, failed, [0.12 * n for n in sizes], color="#B8C4CC", edgecolor=INK, lw=0.6)
    for n, count in zip(sizes, failed, strict=True):
        beside(axes, f"{count}", (n, count), (0, 7), ha="center", fontsize=10)
    axes.set_ylim(0, 1.4 * max(failed) or 1)
    axes.set_yticks([])
    axes.set_ylabel("Failed\nfits")
    _sizes(axes, sizes)


def _sizes(axes: Axes, sizes: Sequence[int]) -> None:
    """An axis of sizes of history."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xticks(sizes)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("Rows of history n (log scale)")
    thousands(axes.xaxis)
    axes.tick_params(axis="x", labelrotation=35)


def _budget(row: Row) -> float:
    return float(row["budget"])


def _last_highest(rows: Sequence[Row]) -> list[str]:
    """Policies, the best at the largest budget first: a legend in the order of the lines' ends."""
    ends = {str(row["policy"]): float(row["mean"]) for row in sorted(rows, key=_budget)}
    return sorted(ends, key=lambda name: -ends[name])
