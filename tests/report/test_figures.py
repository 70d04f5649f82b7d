from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest

from bccb.errors import MissingExtraError
from bccb.report import figures

pytest.importorskip("matplotlib")

POLICIES = ("bccb", "offline-uplift", "treat-all", "one-that-is-new")
ONLINE: list[dict[str, Any]] = [
    {"budget": budget, "policy": name, "mean": budget / 100 + place, "deviation": 2.0 + place}
    for budget in (1_000.0, 8_000.0)
    for place, name in enumerate(POLICIES)
]
CROSSOVER: list[dict[str, Any]] = [
    {
        "n": n,
        "offline_mean": 8.0,
        "offline_deviation": 36.0,
        "ours_mean": 44.0,
        "ours_deviation": 14.0,
        "difference": -36.0,
        "low": -49.0,
        "high": -15.0,
        "failed_fits": failed,
    }
    for n, failed in ((500, 17), (1_000, 16), (50_000, 0))
]
HISTORY: list[dict[str, Any]] = [
    {"n": n}
    | {f"{name}_mean": n / 100 + place for place, name in enumerate(POLICIES)}
    | {f"{name}_deviation": 9.0 for name in POLICIES}
    for n in (500, 50_000)
]
PATHS: list[dict[str, Any]] = [
    {"policy": name, "trajectory": [[500.0, 9.0, price, 0.0], [1_000.0, 20.0, price / 2, 1.0]]}
    for name, price in zip(POLICIES, (0.001, 0.002, 0.0, 3.0), strict=True)
]
SWEEPS: list[dict[str, Any]] = [
    {"parameter": name, "value": value, "mean": 40.0 + value, "cv": cv}
    for name, cv in (("eta", 0.57), ("warm_up", 0.11), ("least_pace", None))
    for value in (0.0, 0.005)
]
SIZES: list[dict[str, Any]] = [
    {"policy": name, "mean": 26_058.7 - place, "deviation": 90.0, "share": 0.2}
    for place, name in enumerate(POLICIES)
]
DRAWINGS: dict[str, tuple[Callable[[list[dict[str, Any]]], str], list[dict[str, Any]]]] = {
    "online": (figures.conversions_by_budget, ONLINE),
    "crossover": (figures.crossover_curve, CROSSOVER),
    "history": (figures.history_curves, HISTORY),
    "paths": (figures.paths, PATHS),
    "sensitivity": (figures.sensitivity_curves, SWEEPS),
    "sizes": (figures.sample_sizes, SIZES),
}


every_figure = pytest.mark.parametrize("name", DRAWINGS)


@cache
def drawn(name: str) -> str:
    """A figure, drawn once for all tests."""
    draw, rows = DRAWINGS[name]
    return draw(rows)


def texts(svg: str) -> list[str]:
    return ["".join(result.itertext()).strip() for result in tree(svg).iter() if is_text(result)]


def is_text(element: ElementTree.Element) -> bool:
    return element.tag.endswith("}text")


def tree(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # our own text


@every_figure
def test_same_rows_give_the_same_bytes(name: str) -> None:
    draw, rows = DRAWINGS[name]
    assert draw(rows) == drawn(name)


@every_figure
def test_a_figure_is_one_labelled_svg_element(name: str) -> None:
    root = tree(drawn(name))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("role") == "img"
    assert root.get("aria-label")


@every_figure
def test_a_figure_refers_to_nothing_outside(name: str) -> None:
    without_namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"', "", drawn(name))
    assert not re.search(r"https?://|<image|@import|\bsrc=", without_namespaces)


def test_ids_are_unique_on_a_page_of_all_figures_and_references_are_met() -> None:
    page = "".join(map(drawn, DRAWINGS))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(ids) >= set(re.findall(r'(?:url\(|href=")#([^")]+)', page))


@pytest.mark.parametrize("name", ["online", "history", "paths", "sizes"])
def test_every_policy_is_named(name: str) -> None:
    assert set(texts(drawn(name))) >= set(POLICIES)


def test_every_parameter_has_a_panel_with_its_values_and_its_variation() -> None:
    result = texts(drawn("sensitivity"))
    assert {"eta", "warm up", "least pace", "variation 57%", "variation 11%", "0.005"} <= set(
        result
    )


def test_methods_stand_in_the_legend_in_the_order_of_their_last_means() -> None:
    results = [text for text in texts(drawn("history")) if text in POLICIES]
    assert results == list(reversed(POLICIES))


def test_failed_fits_are_counted_and_marked() -> None:
    result = texts(drawn("crossover"))
    assert {"17", "16", "some fits failed", "every fit succeeded"} <= set(result)


def test_without_failed_fits_none_is_marked() -> None:
    result = texts(figures.crossover_curve([{**row, "failed_fits": 0} for row in CROSSOVER]))
    assert "some fits failed" not in result


def test_policies_without_a_price_are_distinguished() -> None:
    result = texts(drawn("paths"))
    assert result.count("treat-all") == 2  # in the legend and in the list
    assert result.count("bccb") == 1


def test_paths_are_drawn_when_no_policy_has_a_price() -> None:
    result = texts(figures.paths([PATHS[2]]))
    assert result.count("treat-all") == 2


def test_large_numbers_have_separators() -> None:
    assert "26,059" in texts(drawn("sizes"))
    assert "8,000" in texts(drawn("online"))
    assert "50,000" in texts(drawn("crossover"))


def test_axes_name_the_outcome_and_the_currency() -> None:
    result = texts(figures.conversions_by_budget(ONLINE, "Incremental conversions", "€"))
    assert {"Budget (€)", "Incremental conversions (mean ± 1 deviation)"} <= set(result)


def test_a_readers_own_settings_change_nothing() -> None:
    import matplotlib

    before = drawn("sizes")
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9}):
        assert figures.sample_sizes(SIZES) == before
        assert matplotlib.rcParams["font.size"] == 30


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'bccb[lab]'")):
        figures.sample_sizes(SIZES)
