"""How every figure is drawn: lines in a policy's style, legends, and the SVG text itself.

The same bytes for the same rows. Nothing here touches pyplot, whose figures are global. Text stays
text, so that it can be searched, copied and read aloud.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from bccb.errors import MissingExtraError
from bccb.report.looks import OURS, SETTINGS, look_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def line(
    axes: Axes,
    label: str,
    across: Sequence[float],
    up: Sequence[float],
    style: str | None = None,
    **look: Any,
) -> None:
    """A line in a policy's style; ours is thicker and in front. An empty one has no label."""
    name = style or label
    colour, _, dashes = look_of(name)
    ours = name == OURS
    usual = {"color": colour, "linestyle": dashes, "linewidth": 2.6 if ours else 1.7}
    if across:
        axes.plot(across, up, label=label, zorder=3 if ours else 2, **{**usual, **look})


def band(axes: Axes, name: str, across: list[float], spans: list[tuple[float, float]]) -> None:
    """One deviation either side of each mean, in a policy's colour."""
    low, high = ([mean + sign * reach for mean, reach in spans] for sign in (-1, 1))
    axes.fill_between(across, low, high, color=look_of(name)[0], alpha=0.12, linewidth=0)


def beside(
    axes: Axes, text: str, point: tuple[float, float], points: tuple[float, float], **look: Any
) -> None:
    """A number beside what it counts, so many points right and up."""
    axes.annotate(text, point, points, textcoords="offset points", **{"va": "center", **look})


def thousands(*dimensions: Any) -> None:
    """Numbers along these axes with thousands apart."""
    from matplotlib.ticker import FuncFormatter

    for dimension in dimensions:
        dimension.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def legend(axes: Axes) -> None:
    """Beside the axes, where it covers no data."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=3.4, labelspacing=0.7)


def svg(draw: Callable[[Figure], None], title: str, inches: tuple[float, float]) -> str:
    """Draw and write; no date, no random ids, and ids that stay unique on a page of figures."""
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "lab") from None
    nameless: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    text = io.StringIO()
    # The defaults first: a reader's own matplotlibrc changes nothing.
    settings: Any = {**matplotlib.rcParamsDefault, **SETTINGS, "svg.hashsalt": title}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=inches, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        figure.savefig(text, format="svg", metadata=nameless)
    svg = text.getvalue()
    prefix = re.sub(r"\W+", "-", title.lower())
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", svg[svg.index("<svg") :])
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
